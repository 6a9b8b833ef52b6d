package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// TestBinary runs the built program from another directory. It is not parallel, nor are the parts that measure time or
// keep the machine busy.
func TestBinary(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "dag-pipeline")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(output))
	b := built{binary}

	t.Run("explain", b.testExplain)
	t.Run("bad command lines", b.testBadCommandLines)
	t.Run("help", b.testHelp)
	t.Run("small tree", func(t *testing.T) { b.testSmallTree(t) })
	t.Run("without a directory", b.testNoDirectory)
	t.Run("small tree in contract mode", func(t *testing.T) { b.testSmallTree(t, "-engine", "embedded:?contract=15") })
	t.Run("interrupted in memory", b.testInterruptedInMemory)
	t.Run("killed embedded", func(t *testing.T) {
		b.testKilled(t, "embedded:"+t.TempDir(), time.Hour) // opening the directory ends leases
	})
	for _, kind := range testserver.Servers(t) {
		t.Run("killed "+string(kind), func(t *testing.T) {
			// All losses here come from the kill: with a short lease, a busy machine would lose workers as well.
			b.testKilled(t, testserver.Start(t, testserver.Options{Kind: kind}).URL(), defaultLease)
		})
		t.Run("interrupted "+string(kind), func(t *testing.T) {
			b.testInterrupted(t, testserver.Start(t, testserver.Options{Kind: kind}).URL())
		})
	}
}

// built is the program as a file.
type built struct{ path string }

// process is the running program, with its output so far.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	begun  time.Time
	lines  chan string // closed at the end of standard output
	seen   []string
	stderr bytes.Buffer
}

// start runs the program in a directory.
func (b built) start(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), b.path, args...), lines: make(chan string, 10_000)}
	p.cmd.Dir = dir
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "FLOWFABRIC_URL=") })
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.begun = time.Now()
	require.NoError(t, p.cmd.Start())
	go p.read(stdout)
	return p
}

func (p *process) read(stdout io.Reader) {
	defer close(p.lines)
	scanner := bufio.NewScanner(stdout)
	for scanner.Scan() {
		p.lines <- scanner.Text()
	}
}

// until returns the time from the start to the line that satisfies enough.
func (p *process) until(what string, enough func(line string) bool) time.Duration {
	p.t.Helper()
	patience := time.After(10 * time.Minute)
	for {
		select {
		case line, more := <-p.lines:
			if !more {
				_ = p.cmd.Wait()
				p.t.Fatalf("ended before it printed %s:\n%s\n%s", what, strings.Join(p.seen, "\n"), &p.stderr)
			}
			p.seen = append(p.seen, line)
			if enough(line) {
				return time.Since(p.begun)
			}
		case <-patience:
			p.t.Fatalf("did not print %s:\n%s", what, strings.Join(p.seen, "\n"))
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

func (p *process) printed() string { return strings.Join(p.seen, "\n") + "\n" }

// capture runs the program to its end.
func (b built) capture(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := b.start(t, t.TempDir(), args...)
	code = p.end()
	return code, p.printed(), p.stderr.String()
}

func (b built) testExplain(t *testing.T) {
	t.Parallel()
	tree := fixture(t)
	code, stdout, stderr := b.capture(t, "-explain", "-shards", "2", "-run", "mine", tree)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "measure-01  census.measure  <- input, cut\n")
	require.Contains(t, stdout, "Run mine, "+tree+"\n")

	// Without a tree it is the standard library's.
	code, stdout, stderr = b.capture(t, "-explain")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "Run src-")
}

func (b built) testBadCommandLines(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		args   []string
		code   int
		stderr []string
	}{
		{[]string{"-shards", "0"}, exitUsage, []string{`-shards "0": must be a whole number from 1 to 256`}},
		{[]string{"-shards=many", "-workers=-1"}, exitUsage, []string{`-shards "many": must be`, `-workers "-1": must be a whole number from 1 to 1024`}},
		{[]string{"-lease", "1ms"}, exitUsage, []string{`-lease "1ms": must be a duration of 300ms to 1h`}},
		{[]string{"-run", strings.Repeat("x", 257)}, exitUsage, []string{"-run: has 257 bytes, must have at most 256"}},
		{[]string{"-out", ""}, exitUsage, []string{`-out "": must name a directory`}},
		{[]string{"-speed", "11"}, exitUsage, []string{"not defined: -speed", "-help"}},
		{[]string{missing}, exitUsage, []string{fmt.Sprintf("tree %q: there is no such directory", missing)}},
		{[]string{b.path}, exitUsage, []string{fmt.Sprintf("tree %q: must be a directory, it is a file", b.path)}},
		{[]string{"a", "b"}, exitUsage, []string{`arguments ["a" "b"]: must be one tree at most`}},
		{[]string{"-engine", "gopher://hole", "."}, exitFailure, []string{"-engine: ", `scheme "gopher": must be embedded, redis`}},
		{[]string{"-engine", "redis://127.0.0.1:1", "."}, exitFailure, []string{"-engine: ", "not reachable"}},
		{[]string{"-out", filepath.Join(b.path, "below"), "."}, exitFailure, []string{"-out: ", "not a directory"}},
	} {
		code, stdout, stderr := b.capture(t, c.args...)
		require.Equal(t, c.code, code, c.args)
		require.Equal(t, "\n", stdout, c.args)
		for _, part := range c.stderr {
			require.Contains(t, stderr, part, c.args)
		}
	}
}

func (b built) testHelp(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := b.capture(t, "-help")
	require.Zero(t, code)
	require.Contains(t, stdout, "-shards")
	require.Empty(t, stderr)
}

func (b built) testSmallTree(t *testing.T, args ...string) {
	t.Parallel()
	tree, dir := fixture(t), t.TempDir()
	p := b.start(t, dir, append(args, "-out", "census-report", tree)...)
	require.Zero(t, p.end(), &p.stderr)
	require.Contains(t, p.printed(), "100 %  publish        finished after ")
	require.Contains(t, p.printed(), "5 packages, 8 files")
	report := readFile(t, dir, "census-report/report.md")
	require.Contains(t, report, "| Go files | 8 |")
	require.Contains(t, report, "| measure-15 | completed | 1 | 0 | 0 |")
	for _, name := range []string{"chart.svg", "flow.mmd", "flow.dot"} {
		require.NotEmpty(t, readFile(t, dir, "census-report/"+name))
	}
}

// Without -out, the program writes nothing where it runs, and prints where the report is.
func (b built) testNoDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := b.start(t, dir, fixture(t))
	require.Zero(t, p.end(), &p.stderr)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	report := regexp.MustCompile(`(?m)^  (/.*census-report-.*)/report\.md$`).FindStringSubmatch(p.printed())
	require.NotNil(t, report, p.printed())
	require.NotEmpty(t, readFile(t, report[1], "report.md"))
	require.NoError(t, os.RemoveAll(report[1]))
}

// Four packages of long in six shards: each has a separate shard, and two shards are empty. Every package has enough
// files that measuring it does not end before the test has seen that it runs.
const (
	longPackages = 4
	longFiles    = 1000
	longShards   = 6
)

// longTree is a tree that takes many seconds. Its files are links to one, so it takes no space.
func longTree(t *testing.T) string {
	t.Helper()
	var source bytes.Buffer
	source.WriteString("package long\n")
	for i := range 10_000 {
		fmt.Fprintf(&source, "\n// F%d adds.\nfunc F%[1]d(a, b int) int {\n\treturn a + b\n}\n", i)
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	write(t, filepath.Join(root, "README"), source.String())
	for p := range longPackages {
		dir := filepath.Join(root, fmt.Sprintf("p%d", p))
		require.NoError(t, os.Mkdir(dir, 0o755))
		for f := range longFiles {
			require.NoError(t, os.Link(filepath.Join(root, "README"), filepath.Join(dir, fmt.Sprintf("%03d.go", f))))
		}
	}
	return root
}

// shorten removes most files of a longTree.
func shorten(t *testing.T, tree string) {
	t.Helper()
	for p := range longPackages {
		for f := 1; f < longFiles; f++ {
			require.NoError(t, os.Remove(filepath.Join(tree, fmt.Sprintf("p%d", p), fmt.Sprintf("%03d.go", f))))
		}
	}
}

// inTheMiddle returns when the empty shards are finished and all others run.
func inTheMiddle(p *process) {
	p.t.Helper()
	running, finished := make(map[string]bool), make(map[string]bool)
	p.until("that it is in the middle", func(line string) bool {
		if m := change.FindStringSubmatch(line); m != nil {
			running[m[1]] = strings.HasPrefix(m[2], "runs")
			finished[m[1]] = strings.HasPrefix(m[2], "finished")
		}
		return count(running) == longPackages && count(finished) == 2+longShards-longPackages
	})
}

// change is a line of the display: a node and its state.
var change = regexp.MustCompile(`^ *[0-9.]+s +[0-9]+ %  ([a-z0-9-]+) +(.*)$`)

func count(set map[string]bool) int {
	n := 0
	for _, in := range set {
		if in {
			n++
		}
	}
	return n
}

// testKilled kills the program with SIGKILL while four nodes run, and starts it again with the same command.
func (b built) testKilled(t *testing.T, engine string, lease time.Duration) {
	tree, dir := longTree(t), t.TempDir()
	args := []string{"-engine", engine, "-lease", lease.String(), "-shards", fmt.Sprint(longShards), "-workers", "8", "-out", "census-report", tree}
	first := b.start(t, dir, args...)
	inTheMiddle(first)
	require.NoError(t, first.cmd.Process.Kill())
	require.NotZero(t, first.end())
	shorten(t, tree)

	second := b.start(t, dir, args...)
	var finished []string
	second.until("what is finished", func(line string) bool {
		_, list, found := strings.Cut(line, "4 of 13 nodes are finished and do not run again: ")
		finished = strings.Fields(list)
		return found
	})
	second.until("what was lost", func(line string) bool {
		return line == "Begun, but not finished, by a process that is gone or still runs: measure-00 measure-01 measure-03 measure-04"
	})
	require.Equal(t, []string{"scan", "cut", "measure-02", "measure-05"}, finished)
	waited := second.until("that it continues", func(line string) bool {
		m := change.FindStringSubmatch(line)
		return m != nil && !slices.Contains(finished, m[1])
	})
	t.Logf("continues %s after it was started again", waited.Round(time.Millisecond))
	require.Zero(t, second.end(), &second.stderr)
	b.checkRecord(t, dir, finished)

	// Once more: nothing is left to do, and the report is there again.
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "census-report")))
	third := b.start(t, dir, args...)
	require.Zero(t, third.end(), &third.stderr)
	require.Contains(t, third.printed(), "succeeded. Its 13 nodes do not run again")
	b.checkRecord(t, dir, finished)
}

// checkRecord reads in the report that the finished nodes ran once and the others were taken over.
func (b built) checkRecord(t *testing.T, dir string, finished []string) {
	t.Helper()
	_, record, found := strings.Cut(readFile(t, dir, "census-report/report.md"), "## How the census ran")
	require.True(t, found)
	require.Contains(t, record, "| scan | completed | 1 | 0 | 0 |")
	for i := range longShards {
		node := fmt.Sprintf("measure-%02d", i)
		if slices.Contains(finished, node) {
			require.Contains(t, record, "| "+node+" | completed | 1 | 0 | 0 |")
			continue
		}
		// A machine so busy that the program cannot renew a lease in time makes it more.
		require.Regexp(t, `\| `+node+` \| completed \| [2-9] \| 0 \| [1-9] \|`, record)
	}
}

// testInterrupted stops the program with SIGINT. It gives its work back, so the next start need not wait for a lease.
func (b built) testInterrupted(t *testing.T, engine string) {
	tree, dir := longTree(t), t.TempDir()
	args := []string{"-engine", engine, "-lease", "1h", "-shards", fmt.Sprint(longShards), "-workers", "8", "-out", "census-report", tree}
	first := b.start(t, dir, args...)
	inTheMiddle(first)
	require.NoError(t, first.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitInterrupted, first.end(), &first.stderr)
	require.Contains(t, first.printed(), "Interrupted. 4 of 13 nodes are finished, what was running is released.")
	require.Contains(t, first.printed(), "The same command goes on with run ")
	shorten(t, tree)

	second := b.start(t, dir, args...)
	require.Zero(t, second.end(), &second.stderr)
	require.Contains(t, second.printed(), "4 of 13 nodes are finished and do not run again: scan cut measure-02 measure-05\n")
	require.NotContains(t, second.printed(), "Begun, but not finished")
}

func (b built) testInterruptedInMemory(t *testing.T) {
	p := b.start(t, t.TempDir(), "-shards", fmt.Sprint(longShards), "-workers", "8", longTree(t))
	inTheMiddle(p)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitInterrupted, p.end(), &p.stderr)
	require.Contains(t, p.printed(), "The run was in memory only and is gone")
}
