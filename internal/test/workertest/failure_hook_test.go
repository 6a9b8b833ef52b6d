package workertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// hookCalls are the calls of OnRunFailed of several workers: "worker run".
type hookCalls struct {
	mu   sync.Mutex
	list []string
}

func (c *hookCalls) add(worker, run string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, worker+" "+run)
}

// of returns the runs for which there were calls, and the workers that made them.
func (c *hookCalls) of() (runs, workers []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.list {
		worker, run, _ := strings.Cut(call, " ")
		runs, workers = append(runs, run), append(workers, worker)
	}
	slices.Sort(runs)
	slices.Sort(workers)
	return runs, slices.Compact(workers)
}

// await waits for calls for all of these runs, and no others.
func (c *hookCalls) await(t *testing.T, want ...string) {
	t.Helper()
	c.awaitThat(t, want, func(runs []string) []string { return runs })
}

// awaitEach waits for at least one call for each of these runs, and none for others: the next worker repeats the calls
// that a worker had not stored when it stopped.
func (c *hookCalls) awaitEach(t *testing.T, want ...string) {
	t.Helper()
	c.awaitThat(t, want, slices.Compact[[]string])
}

func (c *hookCalls) awaitThat(t *testing.T, want []string, view func([]string) []string) {
	t.Helper()
	slices.Sort(want)
	enginetest.Eventually(t, func() string {
		if runs, _ := c.of(); !slices.Equal(view(runs), want) {
			return fmt.Sprintf("calls for %v", runs)
		}
		return ""
	})
}

// hookBench has a flow that fails for each input but "good", and workers whose OnRunFailed records its calls.
type hookBench struct {
	*enginetest.Bench
	calls *hookCalls
	buy   *activity.Activity[string, int]
	def   *flow.Definition[string, int]
	hold  time.Duration
}

func newHookBench(t *testing.T, b *enginetest.Bench) *hookBench {
	t.Helper()
	buy := activity.New("buy", func(_ context.Context, what string) (int, error) {
		if what == "good" {
			return 1, nil
		}
		return 0, &fixture.OutOfStock{Item: what, Left: 3}
	}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
	b.Keeper(t)
	return &hookBench{Bench: b, calls: &hookCalls{}, buy: buy, def: fixture.OneNode(t, "shop", buy), hold: time.Second}
}

func (b *hookBench) config(worker string, hook func(context.Context, *runtime.RunError) error) runtime.WorkerConfig {
	return runtime.WorkerConfig{
		OnRunFailed: func(ctx context.Context, failure *runtime.RunError) error {
			b.calls.add(worker, failure.Run)
			if hook != nil {
				return hook(ctx, failure)
			}
			return nil
		},
	}
}

func (b *hookBench) start(t *testing.T, runs ...string) {
	t.Helper()
	for _, id := range runs {
		run, err := runtime.Start(enginetest.Context(t), b.Client, b.def, id, runtime.WithID(id))
		require.NoError(t, err)
		_, _ = run.Result(enginetest.Context(t))
	}
}

// held waits until one of the workers holds the hook and has stored where the feed begins.
func (b *hookBench) held(t *testing.T) {
	t.Helper()
	conn := engine.ConnOf(b.Engine.Internal())
	key := conn.Keys().FfxFailureHook(keyspace.Partition{Family: keyspace.FlowFamily}, "default", "worker")
	enginetest.Eventually(t, func() string {
		cursor, _ := conn.Client().Do(t.Context(), conn.Client().B().Hget().Key(key).Field("cursor").Build()).ToString()
		if cursor == "" {
			return "no worker has opened the feed"
		}
		return ""
	})
}

// One of the workers of a name calls the function, for each run that fails or expires, and another one follows it.
func TestOneWorkerCallsOnRunFailed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, bench *enginetest.Bench) {
		b := newHookBench(t, bench)
		b.hold = 5 * time.Second // which no worker fails to renew
		b.Worker(t, []activity.Handler{b.buy})
		running := make(map[string]*enginetest.Running)
		details := make(chan error, 1)
		for _, name := range []string{"a", "b", "c"} {
			running[name] = b.FailureWorker(t, b.hold, []activity.Handler{b.buy}, b.config(name, func(_ context.Context, failure *runtime.RunError) error {
				if failure.Run == "cup" {
					details <- failure
				}
				return nil
			}))
		}
		b.held(t)
		late := flow.New[string, int]("late", flow.Deadline(time.Millisecond))
		flow.Return(late, flow.Node(late, "wait", activity.Declare[string, int]("nobody"), late.Input()))
		lateDef, err := late.Build()
		require.NoError(t, err)
		_, err = runtime.Start(enginetest.Context(t), b.Client, lateDef, "late", runtime.WithID("late"))
		require.NoError(t, err)
		b.start(t, "good", "cup", "plate")
		b.calls.await(t, "cup", "late", "plate")
		_, workers := b.calls.of()
		require.Len(t, workers, 1)
		var stock *fixture.OutOfStock
		require.ErrorAs(t, <-details, &stock)
		require.Equal(t, "cup", stock.Item)

		require.NoError(t, running[workers[0]].Stop())
		b.start(t, "pot")
		b.calls.awaitEach(t, "cup", "late", "plate", "pot")
		_, workers = b.calls.of()
		require.Len(t, workers, 2)
		b.Settle(t)
	})
}

// A failure is handed to the function again when it returned an error or panicked, and to the function of another
// worker when the worker stopped before it returned.
func TestOnRunFailedIsCalledUntilItReturns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, bench *enginetest.Bench) {
		b := newHookBench(t, bench)
		b.hold = 5 * time.Second // which no worker fails to renew
		b.Worker(t, []activity.Handler{b.buy})
		times, begun := 0, make(chan struct{})
		first := b.FailureWorker(t, b.hold, []activity.Handler{b.buy}, b.config("first", func(ctx context.Context, failure *runtime.RunError) error {
			times++
			switch {
			case failure.Run == "hang":
				close(begun)
				<-ctx.Done()
				return nil // too late: the engine does not learn of it
			case times == 1:
				return errors.New("not yet")
			case times == 2:
				panic("nor now")
			}
			return nil
		}))
		b.held(t)
		b.start(t, "cup")
		b.calls.await(t, "cup", "cup", "cup")
		b.start(t, "hang") // later: failures of different partitions have no order
		<-begun
		require.NoError(t, first.Stop())
		b.calls.await(t, "cup", "cup", "cup", "hang")
		require.Contains(t, b.Log(), "worker.failure_hook_failed")
		b.FailureWorker(t, b.hold, []activity.Handler{b.buy}, b.config("second", nil))
		b.calls.await(t, "cup", "cup", "cup", "hang", "hang")
		b.Settle(t)
	})
}

// A worker takes over from a lost one, and reads failures that the feed has dropped in the meantime from the list of
// runs.
func TestOnRunFailedCatchesUp(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, bench *enginetest.Bench) {
		b := newHookBench(t, bench)
		b.Worker(t, []activity.Handler{b.buy})
		first := b.FailureWorker(t, b.hold, []activity.Handler{b.buy}, b.config("first", nil))
		b.held(t)
		require.NoError(t, first.Stop())
		b.start(t, "cup", "good", "plate")
		conn := engine.ConnOf(b.Engine.Internal())
		key := conn.Keys().FfxRunFeed(keyspace.Partition{Family: keyspace.FlowFamily}, "default")
		require.NoError(t, conn.Client().Do(t.Context(), conn.Client().B().Xtrim().Key(key).Maxlen().Threshold("1").Build()).Error())
		held, err := conn.HoldFailureHook(t.Context(), enginerpc.HoldFailureHookCall{
			Partition: keyspace.Partition{Family: keyspace.FlowFamily}, Namespace: "default", Hook: "worker",
			Holder: "lost", HoldMs: 1000,
		})
		require.NoError(t, err)
		require.True(t, held.Held)
		b.FailureWorker(t, b.hold, []activity.Handler{b.buy}, b.config("second", nil))
		enginetest.Eventually(t, func() string {
			runs, _ := b.calls.of()
			if !slices.Contains(runs, "cup") || !slices.Contains(runs, "plate") || slices.Contains(runs, "good") {
				return fmt.Sprintf("calls for %v", runs)
			}
			return ""
		})
		b.Settle(t)
	})
}

func TestOnRunFailedNeedsTheLibrary(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		if !b.Contract() {
			return
		}
		_, err := runtime.NewWorker(b.Engine, runtime.WorkerConfig{
			OnRunFailed: func(context.Context, *runtime.RunError) error { return nil },
		})
		require.ErrorIs(t, err, runtime.ErrNotInContract)
	})
}

// A cleanup that fails after a cancel is a failure, for the function and for feeds; another cancelled run is none, be
// it that a node has failed before.
func TestFailureHookOfACleanup(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, bench *enginetest.Bench) {
		b := newHookBench(t, bench)
		ctx := enginetest.Context(t)
		fail := activity.New("fail", func(_ context.Context, bad bool) (string, error) {
			if bad {
				return "", errors.New("no such table")
			}
			return "", nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		failures := make(chan *runtime.RunError, 10)
		b.FailureWorker(t, b.hold, []activity.Handler{fail}, b.config("a", func(_ context.Context, failure *runtime.RunError) error {
			failures <- failure
			return nil
		}))
		b.held(t)
		feed, err := b.Client.Feed(ctx, runtime.FeedFilter{}, "")
		require.NoError(t, err)
		defer feed.Close()
		f := flow.New[bool, string]("tidy")
		flow.Node(f, "drop", fail, f.Input(), flow.Finally(0))
		flow.Node(f, "early", fail, flow.Const(true))
		flow.Return(f, flow.Node(f, "wait", activity.Declare[bool, string]("nobody"), f.Input()))
		def := fixture.Build(t, f)
		for _, bad := range []bool{false, true} {
			run, err := runtime.Start(ctx, b.Client, def, bad, runtime.WithID(fmt.Sprint(bad)))
			require.NoError(t, err)
			enginetest.Eventually(t, func() string {
				d, err := run.Describe(ctx)
				require.NoError(t, err)
				if state := fixture.Node(t, d, "early").State; state != fabrictype.NodeFailed {
					return string(state)
				}
				return ""
			})
			require.NoError(t, run.Cancel(ctx, "enough"))
			_, err = run.Result(ctx)
			require.ErrorIs(t, err, runtime.ErrRunCancelled)
		}
		b.calls.await(t, "true")
		failure := <-failures
		require.Equal(t, fabrictype.OutcomeCancelled, failure.Outcome)
		require.True(t, slices.ContainsFunc(failure.Failures, func(n runtime.NodeFailure) bool {
			return n.Node == "drop" && n.Reason == "no such table"
		}), "%+v", failure)
		for failure, err := range feed.Failures(ctx) {
			require.NoError(t, err)
			require.Equal(t, "true", failure.Run)
			break
		}
	})
}
