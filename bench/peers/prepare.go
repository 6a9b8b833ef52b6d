package main

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver/download"
)

// prepare fetches and builds the servers that the systems need. remove removes the files that only this command uses.
func prepare(ctx context.Context, s *settings) (remove func() error, err error) {
	needs := func(family string) bool {
		return slices.ContainsFunc(s.only, func(name string) bool { return isOf(name, family) })
	}
	err = download.Servers()
	if needs("river") {
		err = errors.Join(err, download.PostgreSQL())
	}
	if err != nil {
		return nil, err
	}
	if !needs("temporal") {
		return func() error { return nil }, nil
	}
	return buildTemporal(ctx, s)
}

// isOf reports whether a system is one of the variants of a family.
func isOf(name, family string) bool { return name == family || strings.HasPrefix(name, family+"-") }

// module is a module that this program was built with, and its version.
func module(path string) string {
	name := path[strings.LastIndex(path, "/")+1:]
	if path == "go.temporal.io/sdk" {
		name = "Temporal's SDK"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return name
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			return name + " " + strings.TrimPrefix(dep.Version, "v")
		}
	}
	return name
}
