package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
)

// config says what to run how often.
type config struct {
	packages []string
	runs     int
	load     int
	race     bool
	dir      string
	only     string
	engines  string
	timeout  time.Duration
}

var (
	errUsage  = errors.New("usage")
	errFailed = errors.New("tests failed")
)

// subject is a package with tests, and its test binary.
type subject struct {
	path, dir string
	binary    string
	build     string // identifies the binary, the engines and the tests chosen
}

// shake runs each package until the results hold as many runs as asked for.
func shake(ctx context.Context, c config, out io.Writer) error {
	if len(c.packages) == 0 || c.runs < 1 {
		return fmt.Errorf("%w: shake [-n RUNS] PACKAGE…, at least one of each", errUsage)
	}
	subjects, err := list(ctx, c.packages)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "flowfabric-shake-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	defer keepBusy(c.load)()
	var failed []string
	for _, s := range subjects {
		ok, err := s.shake(ctx, c, folder, out)
		if err != nil {
			return err
		}
		if !ok {
			failed = append(failed, s.path)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%w: %s", errFailed, strings.Join(failed, ", "))
	}
	return nil
}

// list finds the packages with tests.
func list(ctx context.Context, patterns []string) ([]*subject, error) {
	args := append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Dir}}{{end}}"}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var found []*subject
	for line := range strings.Lines(string(text)) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			found = append(found, &subject{path: path, dir: dir})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: no tests in %s", errUsage, strings.Join(patterns, " "))
	}
	return found, nil
}

// keepBusy loads the given number of processors until the returned function is called.
func keepBusy(n int) (stop func()) {
	done := make(chan struct{})
	var busy sync.WaitGroup
	for range n {
		busy.Go(func() {
			runtime.LockOSThread()
			for spins := 0; ; spins++ {
				if spins%(1<<20) != 0 {
					continue
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	return func() {
		close(done)
		busy.Wait()
	}
}

// shake builds the tests of the package and runs them as often as is missing. It reports whether all recorded runs
// passed.
func (s *subject) shake(ctx context.Context, c config, folder string, out io.Writer) (ok bool, err error) {
	if err := s.compile(ctx, c, folder); err != nil {
		return false, err
	}
	results := resultFile{filepath.Join(c.dir, strings.ReplaceAll(s.path, "/", "_")+".txt")}
	past, err := results.read(s.build)
	if err != nil {
		return false, err
	}
	if len(past) > 0 {
		fmt.Fprintf(out, "%s: %d runs of this build are in %s\n", s.path, len(past), results.path)
	}
	for n := len(past); n < c.runs; n++ {
		r, output, err := s.once(ctx, c)
		if err != nil {
			return false, err
		}
		if err := results.add(r, output, n); err != nil {
			return false, err
		}
		fmt.Fprintf(out, "%s: %d of %d: %s\n", s.path, n+1, c.runs, r)
		past = append(past, r)
	}
	for _, r := range past {
		if !r.passed {
			return false, nil
		}
	}
	return true, nil
}

// compile builds the test binary, which is the same for the same sources.
func (s *subject) compile(ctx context.Context, c config, folder string) error {
	s.binary = filepath.Join(folder, strings.ReplaceAll(s.path, "/", "_")+".test")
	args := []string{"test", "-c", "-o", s.binary}
	if c.race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, s.path)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the tests of %s: %w", s.path, err)
	}
	binary, err := os.ReadFile(s.binary)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(fmt.Appendf(binary, "\n%s\n%s", c.engines, c.only))
	s.build = hex.EncodeToString(sum[:6])
	return nil
}

// once runs the test binary. An error is one of this command, not of the tests.
func (s *subject) once(ctx context.Context, c config) (result, []byte, error) {
	args := []string{"-test.count=1", "-test.timeout=" + c.timeout.String()}
	if c.only != "" {
		args = append(args, "-test.run="+c.only)
	}
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir = s.dir
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	begun := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return result{}, nil, ctx.Err() // a run that was stopped counts for nothing
	case err != nil && !errors.As(err, &exit):
		return result{}, nil, fmt.Errorf("run the tests of %s: %w", s.path, err)
	}
	r := result{at: begun, took: time.Since(begun), build: s.build, passed: err == nil, load: c.load}
	if !r.passed {
		r.failures = failures(output.Bytes())
	}
	return r, output.Bytes(), nil
}

var failureLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: test timed out)|(WARNING: DATA RACE)|(found unexpected goroutines)`)

// failures names the tests that failed, the most precise names only.
func failures(output []byte) []string {
	var names []string
	for _, m := range failureLine.FindAllSubmatch(output, -1) {
		name := strings.ReplaceAll(string(bytes.Join(m[1:], nil)), " ", "-")
		if n := len(names); n > 0 && strings.HasPrefix(name, names[n-1]+"/") {
			names[n-1] = name
			continue
		}
		names = append(names, name)
	}
	return names
}
