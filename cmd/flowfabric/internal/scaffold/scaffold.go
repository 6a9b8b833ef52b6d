// Package scaffold writes the module of flowfabric new: a flow with its test, a worker, a client and a compose file.
package scaffold

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// ErrInvalid matches errors about the arguments.
var ErrInvalid = errors.New("invalid project")

// library is the path of the module that a project needs, and goVersion the version of Go that this needs.
const (
	library   = "github.com/flowfabric/flowfabric-go"
	goVersion = "1.26.0"
)

//go:embed project.txt
var project string

// Config describes a project.
type Config struct {
	// Dir is the directory of the project, which is empty or does not exist.
	Dir string
	// Module is the path of its module. Defaults to the name of the directory.
	Module string
	// Version is the version of this program. A project needs the library in this version, if it is a release.
	Version string
	// Checkout is the directory with the sources of the library, which the project uses instead of a release. For a
	// Version that was not released, it defaults to the sources that this program was built from, or to the clone that
	// has the working directory.
	Checkout string
}

// Write writes a project and returns the path of its module.
func Write(ctx context.Context, c Config) (string, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return "", err
	}
	if c.Module == "" {
		c.Module = filepath.Base(dir)
	}
	if err := module.CheckImportPath(c.Module); err != nil || strings.HasPrefix(c.Module, library) {
		return "", fmt.Errorf("%w: --module %q: must be the path of a module, such as example.com/shop", ErrInvalid, c.Module)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%w: directory %s is not empty: it has %s", ErrInvalid, dir, entries[0].Name())
	}
	goMod, goSum, err := c.requirements()
	if err != nil {
		return "", err
	}
	files := map[string]string{"go.mod": goMod}
	if goSum != "" {
		files["go.sum"] = goSum
	}
	for name, text := range parts(project) {
		files[name] = strings.ReplaceAll(text, "{{module}}", c.Module)
	}
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return c.Module, tidy(ctx, dir)
}

// parts splits a text into its files, each of which begins with a line such as "-- name --".
func parts(text string) map[string]string {
	found := map[string]string{}
	name := ""
	for line := range strings.Lines(text) {
		if head, ok := strings.CutPrefix(line, "-- "); ok {
			name = strings.TrimSuffix(head, " --\n")
			continue
		}
		found[name] += line
	}
	return found
}

// requirements returns the files go.mod and go.sum of a project.
func (c *Config) requirements() (goMod, goSum string, err error) {
	var f modfile.File
	if err := errors.Join(f.AddModuleStmt(c.Module), f.AddGoStmt(goVersion)); err != nil {
		return "", "", err
	}
	version := "v0.0.0"
	released := semver.IsValid(c.Version) && !module.IsPseudoVersion(c.Version) && semver.Build(c.Version) == ""
	if c.Checkout == "" && released {
		version = c.Version
	} else {
		if c.Checkout, err = c.findCheckout(); err != nil {
			return "", "", err
		}
		sums, err := os.ReadFile(filepath.Join(c.Checkout, "go.sum"))
		if err != nil {
			return "", "", err
		}
		goSum = string(sums) // so that modules in the cache need no network
		if err := f.AddReplace(library, "", c.Checkout, ""); err != nil {
			return "", "", err
		}
	}
	if err := f.AddRequire(library, version); err != nil {
		return "", "", err
	}
	f.Cleanup()
	text, err := f.Format()
	return string(text), goSum, err
}

// findCheckout returns the absolute path of the sources of the library.
func (c *Config) findCheckout() (string, error) {
	if c.Checkout != "" {
		dir, err := filepath.Abs(c.Checkout)
		if err == nil && !isCheckout(dir) {
			err = fmt.Errorf("%w: --replace %s: has no go.mod of %s", ErrInvalid, c.Checkout, library)
		}
		return dir, err
	}
	var candidates []string
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) { // unless built with -trimpath
		candidates = append(candidates, file)
	}
	if here, err := os.Getwd(); err == nil {
		candidates = append(candidates, filepath.Join(here, "x"))
	}
	for _, at := range candidates {
		for dir := filepath.Dir(at); ; dir = filepath.Dir(dir) {
			if isCheckout(dir) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", fmt.Errorf("%w: this build of flowfabric (%s) is not a release: name the directory of the sources of FlowFabric "+
		"by --replace, or run the command in it", ErrInvalid, c.Version)
}

// isCheckout reports whether a directory has the module of the library.
func isCheckout(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && modfile.ModulePath(text) == library
}

// tidy has the go command complete go.mod and go.sum.
func tidy(ctx context.Context, dir string) error {
	command := exec.CommandContext(ctx, "go", "mod", "tidy")
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("the files are in %s, but go mod tidy failed there: %w\n%s", path.Base(filepath.ToSlash(dir)), err,
			bytes.TrimSpace(out))
	}
	return nil
}
