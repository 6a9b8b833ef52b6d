package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// step is one call of go test.
type step struct {
	says     string   // the subject of its tests, for people
	dir      string   // the module's folder; empty for the library's
	engines  string   // FLOWFABRIC_TEST_ENGINES
	race     bool     // with the race detector
	packages []string // patterns
	flags    []string // of go test
}

// lane is a list of steps, one after the other.
type lane []step

// raceFlags exclude the interpreter of Lua from race detection: each engine in the process has its own interpreter, so
// the detector would find nothing, and tests would be many times slower.
var raceFlags = []string{"-race", "-gcflags=github.com/yuin/gopher-lua/...=-race=false"}

// String describes the step.
func (s step) String() string {
	text := s.says + ", on " + s.engines
	if s.race {
		text += ", with the race detector"
	}
	return text
}

// listPackages returns the packages of the library's module.
func listPackages(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", module+"/...")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return strings.Fields(string(text)), nil
}

// execute runs all lanes at the same time. The error names the steps that failed; the others run nevertheless.
func execute(ctx context.Context, lanes []lane, env []string, out io.Writer) error {
	r := runner{env: env, out: out, begun: time.Now(), steps: len(slices.Concat(lanes...))}
	var running sync.WaitGroup
	for _, l := range lanes {
		running.Go(func() {
			for _, s := range l {
				if ctx.Err() == nil {
					r.run(ctx, s)
				}
			}
		})
	}
	running.Wait()
	r.say("%s of processors", r.used.Round(time.Second))
	if len(r.failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(r.failed, "; "))
	}
	return ctx.Err()
}

// runner runs steps and prints their output.
type runner struct {
	env   []string
	begun time.Time
	steps int

	mu     sync.Mutex // of all below
	out    io.Writer
	done   int
	used   time.Duration // time of processors
	failed []string
}

func (r *runner) say(format string, args ...any) {
	fmt.Fprintf(r.out, "== %s %s\n", time.Since(r.begun).Round(time.Second), fmt.Sprintf(format, args...))
}

func (r *runner) run(ctx context.Context, s step) {
	r.mu.Lock()
	r.say("%s", s)
	r.mu.Unlock()
	cmd := exec.CommandContext(ctx, "go", s.args()...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	cmd.Dir = s.dir
	cmd.Env = append(slices.Clone(r.env), "FLOWFABRIC_TEST_ENGINES="+s.engines, "GOWORK="+s.workspace())
	output := &grouped{runner: r}
	cmd.Stdout, cmd.Stderr = output, output
	begun, err := time.Now(), cmd.Run()
	output.flush()

	r.mu.Lock()
	defer r.mu.Unlock()
	var used time.Duration
	if state := cmd.ProcessState; state != nil {
		used = state.UserTime() + state.SystemTime()
	}
	r.used += used
	r.done++
	verdict := "passed"
	if err != nil {
		verdict = "FAILED"
		r.failed = append(r.failed, s.String())
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			verdict += ": " + err.Error()
		}
	}
	r.say("%s: %s in %s, %s of processors; step %d of %d", s, verdict, time.Since(begun).Round(time.Second),
		used.Round(time.Second), r.done, r.steps)
}

// args are the arguments of the go command.
func (s step) args() []string {
	args := append([]string{"test"}, s.flags...)
	if s.race {
		args = append(args, raceFlags...)
	}
	return append(args, s.packages...)
}

// workspace is the value of GOWORK. The library and the modules apart are tested without one, as users compile them.
func (s step) workspace() string {
	if !slices.Contains(modules, s.dir) {
		return "off"
	}
	root, err := os.Getwd()
	if err != nil {
		return "off"
	}
	return filepath.Join(root, "go.work")
}

// grouped forwards the output of go test package by package, so that the outputs of several lanes do not mix.
type grouped struct {
	runner *runner
	rest   []byte // a line that is not complete
	lines  bytes.Buffer
}

// Write implements io.Writer.
func (g *grouped) Write(text []byte) (int, error) {
	g.rest = append(g.rest, text...)
	for {
		line, rest, complete := bytes.Cut(g.rest, []byte("\n"))
		if !complete {
			return len(text), nil
		}
		g.rest = rest
		g.lines.Write(append(line, '\n'))
		if endsPackage(line) {
			g.flush()
		}
	}
}

// endsPackage reports whether a line is the last one of a package.
func endsPackage(line []byte) bool {
	for _, mark := range []string{"ok  \t", "FAIL\t", "?   \t", "\t"} {
		if bytes.HasPrefix(line, []byte(mark)) {
			return true
		}
	}
	return false
}

// flush writes the collected lines, without the packages that have no tests.
func (g *grouped) flush() {
	g.lines.Write(g.rest)
	g.rest = nil
	g.runner.mu.Lock()
	defer g.runner.mu.Unlock()
	lines := bufio.NewScanner(&g.lines)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte("[no test files]")) {
			fmt.Fprintf(g.runner.out, "%s\n", lines.Bytes())
		}
	}
	g.lines.Reset()
}
