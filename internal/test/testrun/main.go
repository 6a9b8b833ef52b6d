package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver/download"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	packages, err := listPackages(ctx)
	if err != nil {
		return err
	}
	var lanes []lane
	switch args[0] {
	case "unit":
		lanes = unit(packages)
	case "test":
		lanes = test(packages)
	case "all":
		lanes = all(packages)
	default:
		return errUsage
	}
	env, err := prepare(lanes)
	if err != nil {
		return err
	}
	return execute(ctx, lanes, env, os.Stdout)
}

// prepare fetches the servers and tools that the steps need and this machine lacks, and returns the environment that
// leads to them.
func prepare(lanes []lane) ([]string, error) {
	steps := slices.Concat(lanes...)
	env := os.Environ()
	if slices.ContainsFunc(steps, func(s step) bool { return s.engines != embedded }) {
		if err := download.Servers(); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(steps, func(s step) bool { return s.dir == browser }) {
		if _, err := download.Browser(); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(steps, func(s step) bool { return s.race }) {
		compiler, err := download.Compiler()
		if err != nil {
			return nil, err
		}
		env = append(env, "CGO_ENABLED=1", "CC="+compiler)
	}
	return env, nil
}
