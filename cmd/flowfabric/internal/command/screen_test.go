//go:build linux

package command

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// newPTY returns both ends of a terminal of the system: the program's and the person's.
func newPTY(t *testing.T, columns, rows uint16) (program *os.File, person *viewer) {
	t.Helper()
	file, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("the system has no terminals: %v", err)
	}
	t.Cleanup(func() { _ = file.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(file.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = program.Close() })
	require.NoError(t, unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
	return program, &viewer{File: file}
}

// viewer reads the output of a program in a terminal.
type viewer struct {
	*os.File
	unread string
}

// until returns the output up to a text. The output after it is for the next call: a busy machine may deliver both at
// once.
func (v *viewer) until(t *testing.T, text string) string {
	t.Helper()
	buffer := make([]byte, 4096)
	for {
		if before, after, found := strings.Cut(v.unread, text); found {
			v.unread = after
			return before + text
		}
		n, err := v.Read(buffer)
		require.NoError(t, err, "%q", v.unread)
		v.unread += string(buffer[:n])
	}
}

// onTerminal runs a command in a terminal; the channel has its exit code.
func (x terminal) onTerminal(program *os.File, args ...string) <-chan int {
	ended := make(chan int, 1)
	a := shell.App{Stdin: program, Stdout: program, Stderr: program, Env: x.environment, Open: x.open}
	ctx := enginetest.Context(x.t)
	go func() { ended <- Run(ctx, a, args) }()
	return ended
}

// On a terminal, a run is drawn in place until it is over, in the width of the terminal.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	b := embeddedBench(t)
	x := onEngine(t, b)
	act := activity.New("say", func(_ context.Context, s string) (string, error) { return s, nil })
	f := flow.New[string, string]("ask")
	gate := flow.Waitpoint[string](f, "gate", activity.Title("Go on?"))
	flow.Return(f, flow.Node(f, "a-node-whose-name-is-far-too-long-for-a-terminal-that-is-as-narrow-as-this-one", act, gate))
	def, err := f.Build()
	require.NoError(t, err)
	b.Keeper(t)
	b.Worker(t, []activity.Handler{act})
	_, err = runtime.Start(enginetest.Context(t), b.Client, def, "in", runtime.WithID("r"))
	require.NoError(t, err)
	enginetest.Eventually(t, func() string {
		if len(x.lines("inbox")) == 0 {
			return "the wait is not open"
		}
		return ""
	})
	program, person := newPTY(t, 60, 10)
	ended := x.onTerminal(program, "run", "watch", "ask/r")
	first := person.until(t, "…")
	require.Contains(t, first, "r of ask: running, 2 of 2 nodes open")
	require.Contains(t, first, "\x1b[33m⏸\x1b[0m gate", "its state has a colour")
	for line := range strings.SplitSeq(strings.NewReplacer("\x1b[J", "", "\x1b[33m", "", "\x1b[0m", "").Replace(first), "\r\n") {
		require.LessOrEqual(t, len([]rune(line)), 59+len("\x1b[2A\r"), "%q", line)
	}
	require.Equal(t, "resumed\n", x.ok("answer", "ask/r", "--payload", `"yes"`))
	rest := person.until(t, "succeeded, 0 of 2 nodes open")
	require.Contains(t, rest, "\x1b[3A\r\x1b[J", "the three lines are drawn over")
	require.Zero(t, <-ended)
}

// A map has items; a sub-flow has a child run, with nodes.
func TestWatchNamesChildRuns(t *testing.T) {
	t.Parallel()
	b := embeddedBench(t)
	x := onEngine(t, b)
	inner := flow.New[string, string]("pay")
	flow.Return(inner, flow.Waitpoint[string](inner, "paid"))
	pay, err := inner.Build()
	require.NoError(t, err)
	act := activity.New("say", func(ctx context.Context, s string) (string, error) {
		<-ctx.Done()
		return s, ctx.Err()
	})
	f := flow.New[[]string, string]("order")
	flow.Map(f, "parts", act, f.Input())
	flow.Return(f, flow.Sub(f, "payment", pay, flow.Const("in")))
	def, err := f.Build()
	require.NoError(t, err)
	b.Keeper(t)
	b.Worker(t, def.Handlers())
	_, err = runtime.Start(enginetest.Context(t), b.Client, def, []string{"a", "b"}, runtime.WithID("r"))
	require.NoError(t, err)
	program, person := newPTY(t, 100, 10)
	ended := x.onTerminal(program, "run", "watch", "order/r")
	require.Contains(t, person.until(t, "child run: 0 of 1 node"), "0 of 2 items")
	x.ok("run", "cancel", "order", "r", "--reason", "enough", "--yes")
	require.Equal(t, shell.ExitRunFailed, <-ended)
}

func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	b := embeddedBench(t)
	x := onEngine(t, b)
	program, person := newPTY(t, 100, 30)
	ended := x.onTerminal(program, "top", "--interval", "100ms", "--count", "2")
	text := person.until(t, "WORKER")
	require.Contains(t, text, "0 running")
	require.Contains(t, person.until(t, "WORKER"), "\x1b[", "it is drawn in place")
	require.Zero(t, <-ended)
}

// On a terminal, destructive commands ask for confirmation first.
func TestDestructiveCommandAsksOnTerminal(t *testing.T) {
	t.Parallel()
	b := embeddedBench(t)
	x := onEngine(t, b)
	f := flow.New[string, string]("ask")
	flow.Return(f, flow.Waitpoint[string](f, "gate"))
	def, err := f.Build()
	require.NoError(t, err)
	require.NoError(t, b.Client.Publish(enginetest.Context(t), runtime.Publication{Flow: def}))
	x.ok("start", "ask", "--id", "r", "--input", `"in"`)
	for answer, want := range map[string]struct {
		code int
		text string
	}{"no\n": {shell.ExitFailed, "nothing was changed"}, "y\n": {shell.ExitDone, "cancelled"}} {
		program, person := newPTY(t, 80, 24)
		ended := x.onTerminal(program, "run", "cancel", "ask/r")
		person.until(t, "Really cancel run r of flow ask? [y/N] ")
		_, err := person.WriteString(answer)
		require.NoError(t, err)
		person.until(t, want.text)
		require.Equal(t, want.code, <-ended)
	}
}
