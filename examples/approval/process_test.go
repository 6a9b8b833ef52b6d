package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// built is the program as a file.
type built string

func buildProgram(t *testing.T) built {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "approval")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(output))
	return built(binary)
}

// process is the running program, with its output.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // closed at the end of standard output
	seen   []string
	stderr strings.Builder
}

// start runs the program in a separate directory.
func (b built) start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), string(b), args...), lines: make(chan string, 10_000)}
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "FLOWFABRIC_URL=") })
	p.cmd.Stderr = &p.stderr
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	return p
}

// patience bounds every wait: the program compiles and runs tests of its own.
const patience = 10 * time.Minute

// until waits for a line that contains a text, and returns the rest of the line.
func (p *process) until(text string) string {
	p.t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, more := <-p.lines:
			if !more {
				_ = p.cmd.Wait()
				require.FailNow(p.t, "it ended before it printed "+text, p.printed()+p.stderr.String())
			}
			p.seen = append(p.seen, line)
			if _, rest, found := strings.Cut(line, text); found {
				return rest
			}
		case <-late:
			require.FailNow(p.t, "it did not print "+text, p.printed())
		}
	}
}

// end waits for the end and returns the exit code.
func (p *process) end() int {
	for line := range p.lines {
		p.seen = append(p.seen, line)
	}
	_ = p.cmd.Wait() // the exit code has the reason
	return p.cmd.ProcessState.ExitCode()
}

// succeeds waits for the end, which must be a good one.
func (p *process) succeeds() {
	p.t.Helper()
	require.Zero(p.t, p.end(), p.printed()+p.stderr.String())
}

// fails waits for the end, which must be a failure, and returns the error output.
func (p *process) fails() string {
	p.t.Helper()
	require.Equal(p.t, exitFailure, p.end(), p.printed()+p.stderr.String())
	return p.stderr.String()
}

func (p *process) printed() string { return strings.Join(p.seen, "\n") + "\n" }

// bench is a site, and the program that deploys to it.
type bench struct {
	built
	t    *testing.T
	site Site
	args []string // of every command
}

func (b built) bench(t *testing.T, args ...string) *bench {
	t.Helper()
	site := filepath.Join(t.TempDir(), "site")
	return &bench{built: b, t: t, site: Site(site), args: append([]string{"-dir", site}, args...)}
}

// do starts a command.
func (b *bench) do(command string, args ...string) *process {
	b.t.Helper()
	return b.start(b.t, slices.Concat([]string{command}, b.args, args)...)
}

// The command runs to its end, which must be a good one; its output is returned.
func (b *bench) says(command string, args ...string) string {
	b.t.Helper()
	p := b.do(command, args...)
	p.succeeds()
	return p.printed()
}

// agree lets people approve a version that waits.
func (b *bench) agree(version string, people ...string) {
	b.t.Helper()
	for _, who := range people {
		require.Contains(b.t, b.says(approve, version, "-by", who), "is recorded")
	}
}

// live requires that a version is live.
func (b *bench) live(version string) {
	b.t.Helper()
	live, err := b.site.Live()
	require.NoError(b.t, err)
	require.Equal(b.t, version, live)
}

// deployed deploys a version.
func (b *bench) deployed(version string) {
	b.t.Helper()
	run := b.do("run", version)
	run.until("waits for 2 people")
	b.agree(version, "ann", "bob")
	run.succeeds()
	require.Contains(b.t, run.printed(), version+" is live, approved by ann and bob.\n")
	b.live(version)
}
