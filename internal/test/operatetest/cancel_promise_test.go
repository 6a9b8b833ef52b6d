package operatetest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A cancel reaches running functions, on several workers, by messages. The log shows how long it takes: 100 ms on an
// idle machine. The test does not run in parallel with others.
func TestCancelIsPrompt(t *testing.T) {
	enginetest.EachAlone(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const width, rounds = 12, 5
		begun, ends := make(chan struct{}, width), make(chan fixture.Ended, width)
		var started atomic.Int64
		wait := fixture.WaitForEnd(begun, ends, &started)
		f := flow.New[int, int]("prompt")
		refs := make([]flow.Ref[int], width)
		for i := range refs {
			refs[i] = flow.Node(f, fmt.Sprintf("n%d", i), wait, f.Input())
		}
		flow.Return(f, refs[0])
		def, err := f.Build()
		require.NoError(t, err)
		for range 3 {
			b.MessageWorker(t, []activity.Handler{wait}, runtime.WorkerConfig{Concurrency: width / 3})
		}
		var took []time.Duration
		for i := range rounds {
			run, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
			for range width {
				<-begun
			}
			at := time.Now()
			require.NoError(t, run.Cancel(ctx, "now"))
			for range width {
				e := <-ends
				require.ErrorIs(t, e.Cause, runtime.ErrCancelled)
				took = append(took, e.At.Sub(at))
			}
			_, err = run.Result(ctx)
			require.ErrorIs(t, err, runtime.ErrRunCancelled)
		}
		slices.Sort(took)
		t.Logf("from the call of Cancel to the end of a function's context: median %s, worst of %d %s", took[len(took)/2], len(took), took[len(took)-1])
		b.Settle(t)
	})
}

// longestCall is the most that a call may take on an idle machine.
const longestCall = 5 * time.Millisecond

// A flow of many members, 10,000 with FLOWFABRIC_SOAK, is cancelled in the middle of its work: in many short calls,
// after which nothing starts. The calls are timed, so the test does not run in parallel with others.
func TestCancel_ManyMembersInShortCalls(t *testing.T) {
	width := 1200
	if os.Getenv("FLOWFABRIC_SOAK") != "" {
		width = 10_000 - 2
	}
	testserver.InTurn(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		ctx, cancel := context.WithTimeout(t.Context(), 5*enginetest.Patience)
		defer cancel()
		var started atomic.Int64
		begun := make(chan struct{}, width)
		a := activity.New("add", func(ctx context.Context, n int) (int, error) {
			if started.Add(1) == 1 {
				return n, nil // the root
			}
			begun <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		sum := fixture.Adder()
		b.Keeper(t)
		b.Worker(t, []activity.Handler{a, sum}, runtime.WorkerConfig{Concurrency: 8})
		run, err := runtime.Start(ctx, b.Client, fixture.Wide(t, a, sum, width), 1)
		require.NoError(t, err)
		for range 8 {
			<-begun
		}
		server.Command(t, "CONFIG", "RESETSTAT")
		spent := busyTime(t, server)
		server.Command(t, "CONFIG", "SET", "slowlog-log-slower-than", strconv.FormatInt(longestCall.Microseconds(), 10))
		at := time.Now()
		require.NoError(t, run.Cancel(ctx, "enough"))
		acknowledged := time.Since(at)
		enginetest.Eventually(t, func() string {
			d, err := b.Client.Run("wide", run.ID()).Describe(ctx)
			require.NoError(t, err)
			if d.ClosedAt.IsZero() {
				return fmt.Sprintf("%d nodes are open", d.OpenNodes)
			}
			return ""
		})
		closed := time.Since(at)
		slow := server.Command(t, "SLOWLOG", "LEN")
		calls := callsOf(t, server)
		each := (busyTime(t, server) - spent) / time.Duration(calls)
		t.Logf("%d members: acknowledged in %s, all ended in %s; %d calls of %s processor time on average, %s beyond %s on the clock",
			width+2, acknowledged, closed, calls, each, slow, longestCall)
		require.GreaterOrEqual(t, calls, width/64, "no call ends more than a bounded number of members")
		require.EqualValues(t, 9, started.Load(), "nothing starts after the cancel")
		if width < 5000 {
			b.Settle(t)
		}
	})
}

// callsOf returns how many functions a server has called since its statistics were reset.
func callsOf(t *testing.T, server *testserver.Server) int {
	t.Helper()
	_, rest, _ := strings.Cut(server.Command(t, "INFO", "commandstats"), "cmdstat_fcall:calls=")
	text, _, _ := strings.Cut(rest, ",")
	calls, err := strconv.Atoi(text)
	require.NoError(t, err)
	return calls
}

// busyTime is the processor time of the thread that runs a server's commands: other programs on the machine do not
// change it.
func busyTime(t *testing.T, server *testserver.Server) time.Duration {
	t.Helper()
	var sum float64
	for line := range strings.Lines(server.Command(t, "INFO", "cpu")) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user_main_thread" || name == "used_cpu_sys_main_thread" {
			seconds, err := strconv.ParseFloat(text, 64)
			require.NoError(t, err)
			sum += seconds
		}
	}
	return time.Duration(sum * float64(time.Second))
}
