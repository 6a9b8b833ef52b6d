package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
)

// The module that is deployed. Its files end in .txt here, so that they do not belong to this program.
//
//go:embed module
var module embed.FS

// Change is the input of a run.
type Change struct {
	// Site is the absolute path of the site's directory.
	Site string `json:"site"`
	// Version names the release.
	Version string `json:"version"`
	// Defect breaks the change on purpose, to show the effect: "test" or "verify". Usually empty.
	Defect string `json:"defect,omitempty"`
}

// Release is a built change, not yet live.
type Release struct {
	Site    string `json:"site"`
	Version string `json:"version"`
	// Source is the directory with the module that it was built from.
	Source string `json:"source"`
}

// Build unpacks the module into a separate directory, compiles it and lets it write the pages of the release.
func Build(ctx context.Context, c Change) (Release, error) {
	site := Site(c.Site)
	source, err := site.newSource(c.Version)
	if err != nil {
		return Release{}, err
	}
	if err := unpack(source, c.Defect); err != nil {
		return Release{}, fmt.Errorf("unpack the module: %w", err)
	}
	if err := activity.Progress(ctx, 20, "compiles"); err != nil {
		return Release{}, err
	}
	linked := c.Version
	if c.Defect == defectVerify {
		linked = "v0-oops"
	}
	program := filepath.Join(source, "site.program")
	if _, err := goCommand(ctx, source, "build", "-trimpath", "-ldflags=-X main.version="+linked, "-o", program,
		"."); err != nil {
		return Release{}, err
	}
	if err := activity.Progress(ctx, 80, "writes the pages"); err != nil {
		return Release{}, err
	}
	err = site.publish(c.Version, func(pages string) error {
		_, err := execute(ctx, source, program, pages)
		return err
	})
	return Release{Site: c.Site, Version: c.Version, Source: source}, err
}

// Defects that a change can have.
const (
	defectTest   = "test"
	defectVerify = "verify"
)

// unpack writes the module into a directory.
func unpack(dir, defect string) error {
	return fs.WalkDir(module, "module", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel("module", strings.TrimSuffix(path, ".txt")) // both are relative
		target := filepath.Join(dir, name)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		content, err := module.ReadFile(path)
		if err != nil {
			return err
		}
		if defect == defectTest && name == filepath.Join("greeting", "greeting.go") {
			content = bytes.Replace(content, []byte("Hello, "), []byte("Hullo, "), 1)
		}
		return os.WriteFile(target, content, 0o644)
	})
}

// TestInput defines the tests and their options.
type TestInput struct {
	Release Release  `json:"release"`
	Args    []string `json:"args"`
}

// Test runs one row of the matrix and returns the last lines that it printed.
func Test(ctx context.Context, in TestInput) (string, error) {
	return goCommand(ctx, in.Release.Source, in.Args...)
}

// Clean removes the temporary files of a deployment.
func Clean(_ context.Context, c Change) (struct{}, error) {
	return struct{}{}, Site(c.Site).removeSources(c.Version)
}

// goCommand runs the go command in a module, without the network. A fault of the code is there the next time, too.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	output, err := execute(ctx, dir, "go", args...)
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", activity.NonRetryable(fmt.Errorf("this machine has no go command: %w", err))
	case errors.As(err, &exit) && exit.Exited():
		return "", activity.NonRetryable(err)
	}
	return output, err
}

// outputTail is the number of bytes of a command's output that are kept.
const outputTail = 2000

// execute runs a program until it or ctx ends, and returns the end of its output.
func execute(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	// The flags of this machine stay, so that the compiler's cache is used.
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -buildvcs=false")
	cmd.Env = append(os.Environ(), "GOFLAGS="+flags, "GOWORK=off", "GOPROXY=off", "GOTOOLCHAIN=local")
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	text := strings.TrimSpace(string(output[max(0, len(output)-outputTail):]))
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, text)
	}
	return text, nil
}
