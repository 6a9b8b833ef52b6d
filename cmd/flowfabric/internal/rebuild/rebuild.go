// Package rebuild runs a Go program, and builds and runs it again when its sources change.
package rebuild

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Loop describes the program.
type Loop struct {
	// Package is the path of the program's package, such as ./cmd/worker, for the go command in the directory Dir,
	// which defaults to the working directory.
	Package, Dir string
	// Env are variables of the program's environment, which has the variables of this process as well.
	Env []string
	// Stdout and Stderr receive the output of the program.
	Stdout, Stderr io.Writer
	// Say prints a line for a person: the program runs, ended, or does not build.
	Say func(format string, args ...any)
	// Every is the time between two readings of the sources' times. Defaults to 500 ms.
	Every time.Duration
	// Grace is how long a program may take to end after SIGTERM. Defaults to 15 s.
	Grace time.Duration

	builds int
}

// Run builds and runs the program until the context ends, and returns after the end of the program. It prints a fault
// of the sources and continues: the program of before, if there is one, runs until the sources build again.
func (l *Loop) Run(ctx context.Context) error {
	root, err := l.module(ctx)
	if err != nil {
		return err
	}
	bin, err := os.MkdirTemp("", "flowfabric-dev-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	var p *program
	defer func() { p.stop() }()
	var seen map[string]stamp
	ticks := time.NewTicker(cmp.Or(l.Every, 500*time.Millisecond))
	defer ticks.Stop()
	for {
		if now := sources(root); !maps.Equal(now, seen) {
			seen = now
			p = l.renew(ctx, bin, p)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-p.over():
			l.Say("watch: %s ended: %s; it runs again when a file changes", l.Package, cmp.Or(errorText(err), "exit status 0"))
			p.stop()
			p = nil
		case <-ticks.C:
		}
	}
}

// module returns the directory of the module that has the package.
func (l *Loop) module(ctx context.Context) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Name}} {{.Module.Dir}}", l.Package)
	list.Dir = l.Dir
	var faults bytes.Buffer
	list.Stderr = &faults
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("--watch %s: %w\n%s", l.Package, err, bytes.TrimSpace(faults.Bytes()))
	}
	name, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if name != "main" {
		return "", fmt.Errorf("--watch %s: must be a program, it is package %s", l.Package, name)
	}
	return dir, nil
}

// renew builds the program, and replaces the running one unless the build fails.
func (l *Loop) renew(ctx context.Context, bin string, old *program) *program {
	l.builds++
	file := filepath.Join(bin, fmt.Sprintf("program-%d", l.builds))
	build := exec.CommandContext(ctx, "go", "build", "-o", file, l.Package)
	build.Dir = l.Dir
	if out, err := build.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return old
		}
		state := "the program is stopped"
		if old != nil {
			state = "the program of before keeps running"
		}
		l.Say("watch: %s does not build, %s:\n%s", l.Package, state, bytes.TrimSpace(out))
		return old
	}
	old.stop()
	p, err := l.start(ctx, file)
	if err != nil {
		l.Say("watch: %s does not start: %v", l.Package, err)
		return nil
	}
	l.Say("watch: %s runs", l.Package)
	return p
}

// program is a running program.
type program struct {
	cancel context.CancelFunc
	ended  chan error
	file   string
}

// start starts a program that has been built.
func (l *Loop) start(ctx context.Context, file string) (*program, error) {
	ctx, cancel := context.WithCancel(ctx)
	command := exec.CommandContext(ctx, file)
	command.Dir, command.Stdout, command.Stderr = l.Dir, l.Stdout, l.Stderr
	command.Env = append(os.Environ(), l.Env...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = cmp.Or(l.Grace, 15*time.Second)
	if err := command.Start(); err != nil {
		cancel()
		return nil, err
	}
	p := &program{cancel, make(chan error, 1), file}
	go func() {
		p.ended <- command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// over receives the end of the program.
func (p *program) over() <-chan error {
	if p == nil {
		return nil
	}
	return p.ended
}

// stop ends the program and waits for its end.
func (p *program) stop() {
	if p == nil {
		return
	}
	p.cancel()
	for range p.ended {
	}
	_ = os.Remove(p.file) // the directory is removed at the end
}

// errorText is the text of an error; empty for none.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// stamp identifies a state of a file.
type stamp struct {
	size int64
	at   time.Time
}

// sources returns the states of the files of a module that a build can read.
func sources(root string) map[string]stamp {
	found := map[string]stamp{}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it was removed just now
		case err != nil:
			return err
		case d.IsDir():
			name := d.Name()
			if path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".mod" && ext != ".sum" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		if info, err := d.Info(); err == nil {
			found[path] = stamp{info.Size(), info.ModTime()}
		}
		return nil
	})
	return found
}
