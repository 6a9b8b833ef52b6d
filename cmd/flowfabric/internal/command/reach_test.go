package command

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A command without a URL reaches the local server. Another program there, and a token without a server, are errors.
func TestLocalServer(t *testing.T) {
	t.Parallel()
	x := onServer(t, embeddedBench(t))
	x.local, x.where.URL = x.where.URL, ""
	require.Contains(t, x.ok("run", "list"), "FLOW")
	require.Equal(t, "list logs\n:4\n", strings.ReplaceAll(lines(x.ok("__complete", "run", "l")), "\t", ""))
	version := x.ok("version")
	require.Contains(t, version, "flowfabric version")
	require.Contains(t, version, lualib.Build())
	require.Contains(t, version, "server    "+x.local+", version")
	require.Contains(t, x.fails(shell.ExitUsage, "lane", "list", "--prefix", "x"), "--prefix and --namespace are for engines")

	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	x.local = other.URL
	require.Contains(t, x.fails(shell.ExitUsage, "run", "list"), "another program answers there")
	require.NotContains(t, x.ok("version"), "server ")
	x.local = unused
	require.NotContains(t, x.ok("version"), "server ")
}

// lines are the words that a completion offers, without their descriptions.
func lines(text string) string {
	var list []string
	all := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range all[:len(all)-1] {
		word, _, _ := strings.Cut(line, "\t")
		list = append(list, word)
	}
	return strings.Join(list, " ") + "\n" + all[len(all)-1] + "\n"
}

// A command that reads gives up when no reply comes; one that waits or changes something does not.
func TestHangingServer(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ctx.Done():
		}
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(stop)
	x := terminal{t: t, patience: time.Millisecond}
	x.where.URL = hanging.URL
	for _, args := range [][]string{{"run", "list"}, {"lane", "list"}, {"run", "show", "a/b"}, {"inbox"}, {"info"}} {
		require.Contains(t, x.fails(5, args...), "there was no reply for 1ms: the engine or its server hangs", args)
	}
	for _, args := range [][]string{{"run", "result", "a/b", "--wait"}, {"lane", "pause", "a"}, {"run", "list"}} {
		require.Contains(t, x.fails(5, append(args, "--timeout", "20ms")...), "deadline", args)
	}
}

// The command alone, and a group of commands, print their help, and succeed.
func TestHelp(t *testing.T) {
	t.Parallel()
	x := nowhere(t)
	for _, args := range [][]string{nil, {"run"}, {"token"}} {
		code, stdout, stderr := x.run(args...)
		require.Zero(t, code)
		require.Contains(t, stdout, "Usage:")
		require.Empty(t, stderr)
	}
}

// Failed runs show their error; a stack shows the frames of the user's program, and all of them on request.
func TestFailuresOfRuns(t *testing.T) {
	t.Parallel()
	b := embeddedBench(t)
	x := onEngine(t, b)
	burst := activity.New("burst", func(_ context.Context, n int) (int, error) {
		var list []int
		return list[n], nil
	}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
	f := flow.New[int, int]("charge")
	flow.Return(f, flow.Node(f, "after", activity.New("add", func(_ context.Context, n int) (int, error) { return n, nil }),
		flow.Node(f, "take", burst, f.Input())))
	def, err := f.Build()
	require.NoError(t, err)
	b.Keeper(t)
	b.Worker(t, def.Handlers(), runtime.WorkerConfig{Name: "worker"})
	run, err := runtime.Start(enginetest.Context(t), b.Client, def, 3, runtime.WithID("r"))
	require.NoError(t, err)
	_, err = run.Result(enginetest.Context(t))
	require.Error(t, err)
	x.untilClosed("charge/r")
	list := x.ok("run", "list", "--state", "failed", "--since", "yesterday", "--until", "today")
	require.Contains(t, list, "ERROR")
	require.Contains(t, list, "index out of range [3] with length 0")
	require.Regexp(t, `TOOK +OPEN`, list)
	require.NotContains(t, x.ok("run", "list", "--until", "yesterday"), "charge")
	require.NotContains(t, x.ok("run", "why", "charge/r"), "skipped")
	short := x.ok("run", "show", "charge/r", "--attempts")
	require.Contains(t, short, "TestFailuresOfRuns.func1")
	require.Contains(t, short, "        ")
	require.NotContains(t, short, `\t`)
	require.NotContains(t, short, "internal/worker")
	require.Contains(t, short, "-o wide shows the frames")
	require.Contains(t, x.ok("run", "show", "charge/r", "--attempts", "-o", "wide"), "internal/worker")
	require.Contains(t, x.ok("run", "list", "--color", "always"), "\x1b[31mfailed\x1b[0m")
	require.NotContains(t, x.ok("run", "list"), "\x1b")
	require.Equal(t, "The job would rerun failed 1 run of flow charge, in state failed:\n",
		strings.SplitAfter(x.ok("bulk", "preview", "rerun", "--flow", "charge", "--state", "failed"), "\n")[0])
	require.Equal(t, "There are no runs with tag a.b=c.\n", x.ok("bulk", "preview", "cancel", "--tag", "a.b=c"))
	require.NotContains(t, x.ok("run", "count"), "HOUR")
	require.Contains(t, x.ok("run", "count", "--hours", "2"), "HOUR")
}
