package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// later is when delayed runs start and retries are due: long enough that they are pending when the engine stops.
const later = 4 * time.Second

// Workload is runs of several flows. Its functions may be called for one engine after the other.
type Workload struct {
	// Each is how many runs there are in each state.
	Each int

	add, ask, flaky, pages       *activity.Activity[int, int]
	limited                      *activity.Activity[int, int]
	list                         *activity.Activity[int, []int]
	sum                          *activity.Activity[[]int, int]
	chain, approval, asking      *flow.Definition[int, int]
	retried, mapped, budgeted    *flow.Definition[int, int]
	throttled, broken, scheduled *flow.Definition[int, int]

	// failing makes attempts of flaky fail.
	failing atomic.Bool
	// tokens are the tokens of open waits, as text, by their runs.
	tokens map[string]string
}

const tenantLimit = 1_000_000

// New declares the flows.
func New(tb testing.TB, each int) *Workload {
	tb.Helper()
	w := &Workload{Each: each, tokens: make(map[string]string)}
	w.failing.Store(true)
	w.add = activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	w.ask = activity.New("ask", func(ctx context.Context, n int) (int, error) {
		more, err := activity.Await[int](ctx, "more", activity.Signals("more"))
		return n + more, err
	})
	w.flaky = activity.New("flaky", func(_ context.Context, n int) (int, error) {
		if w.failing.Load() {
			return 0, errors.New("not yet")
		}
		return n + 7, nil
	}, activity.Retry(activity.RetryPolicy{First: later, Attempts: 50, Factor: 1}))
	w.pages = activity.New("pages", func(ctx context.Context, n int) (int, error) {
		return n, activity.ReportUsage(ctx, "pages", 3)
	})
	w.limited = activity.New("limited", func(_ context.Context, n int) (int, error) { return -n, nil },
		activity.Limit("api", activity.LimitConfig{AtOnce: 2}))
	w.list = activity.New("list", func(_ context.Context, n int) ([]int, error) { return []int{n, n + 1, n + 2}, nil })
	w.sum = activity.New("sum", func(_ context.Context, items []int) (total int, err error) {
		for _, n := range items {
			total += n
		}
		return total, nil
	})
	broken := activity.New("broken", func(context.Context, int) (int, error) {
		return 0, activity.NonRetryable(errors.New("broken"))
	})
	w.chain = define(tb, "chain", func(f *flow.Builder[int, int]) flow.Ref[int] {
		return flow.Node(f, "b", w.add, flow.Node(f, "a", w.add, f.Input()))
	}, flow.Tag("team.name", "census"))
	w.approval = define(tb, "approval", func(f *flow.Builder[int, int]) flow.Ref[int] {
		return flow.Node(f, "b", w.add, flow.Waitpoint[int](f, "approve", activity.Signals("approve")))
	})
	w.asking = define(tb, "asking", one("ask", w.ask))
	w.retried = define(tb, "retried", one("try", w.flaky))
	w.mapped = define(tb, "mapped", func(f *flow.Builder[int, int]) flow.Ref[int] {
		return flow.Node(f, "sum", w.sum, flow.Map(f, "each", w.add, flow.Node(f, "list", w.list, f.Input())))
	})
	w.budgeted = define(tb, "budgeted", one("pages", w.pages),
		flow.Budget("plan", flow.BudgetConfig{Hard: map[string]int64{"pages": tenantLimit}, PerFlow: true}))
	w.throttled = define(tb, "throttled", one("limited", w.limited))
	w.broken = define(tb, "broken", one("broken", broken))
	w.scheduled = define(tb, "scheduled", one("a", w.add))
	return w
}

// one builds a flow of one node.
func one(node string, a *activity.Activity[int, int]) func(*flow.Builder[int, int]) flow.Ref[int] {
	return func(f *flow.Builder[int, int]) flow.Ref[int] { return flow.Node(f, node, a, f.Input()) }
}

func define(
	tb testing.TB, name string, build func(*flow.Builder[int, int]) flow.Ref[int], opts ...flow.Option,
) *flow.Definition[int, int] {
	tb.Helper()
	f := flow.New[int, int](name, opts...)
	flow.Return(f, build(f))
	def, err := f.Build()
	require.NoError(tb, err)
	return def
}

// Handlers are the activities of a worker.
func (w *Workload) Handlers() (all []activity.Handler) {
	seen := make(map[activity.Handler]bool)
	for _, def := range []*flow.Definition[int, int]{
		w.chain, w.approval, w.asking, w.retried, w.mapped, w.budgeted, w.throttled, w.broken, w.scheduled,
	} {
		for _, h := range def.Handlers() {
			if !seen[h] {
				seen[h] = true
				all = append(all, h)
			}
		}
	}
	return all
}

// Runs is the number of runs that Start makes, without the runs of map items.
func (w *Workload) Runs() int { return 13*w.Each + 1 }

// start starts runs with ids of a name.
func (w *Workload) start(
	tb testing.TB, c *runtime.Client, def *flow.Definition[int, int], name string, opts ...runtime.StartOption,
) {
	tb.Helper()
	for from := 0; from < w.Each; from += 500 {
		var runs []runtime.NewRun[int]
		for i := from; i < min(w.Each, from+500); i++ {
			runs = append(runs, runtime.NewRun[int]{
				Input: i, Options: append([]runtime.StartOption{runtime.WithID(name + "-" + strconv.Itoa(i))}, opts...),
			})
		}
		started, err := runtime.StartMany(enginetest.Context(tb), c, def, runs)
		require.NoError(tb, err)
		for _, s := range started {
			require.NoError(tb, s.Err)
		}
	}
}

// Start puts the runs into an engine. No worker runs when it returns.
func (w *Workload) Start(tb testing.TB, b *enginetest.Bench) {
	tb.Helper()
	ctx, c := enginetest.Context(tb), b.Client
	for name, def := range map[string]*flow.Definition[int, int]{
		"finished": w.chain, "asking": w.asking, "retried": w.retried, "map-finished": w.mapped, "spent": w.budgeted,
		"limited-finished": w.throttled, "broken": w.broken,
	} {
		w.start(tb, c, def, name)
	}
	worker := b.KeepingWorker(tb, w.Handlers())
	for name, def := range map[string]*flow.Definition[int, int]{
		"finished": w.chain, "map-finished": w.mapped, "spent": w.budgeted, "limited-finished": w.throttled,
	} {
		for i := range w.Each {
			w.result(tb, c, def, name, i)
		}
	}
	w.untilNodes(tb, c, "asking", "ask", fabrictype.NodeSuspended)
	w.untilNodes(tb, c, "retried", "try", fabrictype.NodeDelayed)
	w.fails(tb, c)
	require.NoError(tb, worker.Stop())

	w.start(tb, c, w.chain, "waiting")
	w.start(tb, c, w.approval, "approval")
	w.start(tb, c, w.chain, "delayed", runtime.StartAt(time.Now().Add(later)))
	w.start(tb, c, w.mapped, "map-waiting")
	w.start(tb, c, w.throttled, "limited")
	w.start(tb, c, w.chain, "paused")
	for i := range w.Each {
		require.NoError(tb, c.Run("chain", "paused-"+strconv.Itoa(i)).Pause(ctx, "for a while"))
	}
	for _, name := range []string{"approval", "asking"} {
		for i := range w.Each {
			id := name + "-" + strconv.Itoa(i)
			open, err := c.Run(name, id).Waitpoints(ctx)
			require.NoError(tb, err)
			require.Len(tb, open, 1, id)
			w.tokens[id] = open[0].Token.Reveal()
		}
	}
	_, err := runtime.Schedule(ctx, c, "hourly", w.scheduled, 41, runtime.ScheduleConfig{Every: time.Hour})
	require.NoError(tb, err)
	require.NoError(tb, c.Lane("elsewhere").Pause(ctx, "a release"))
}

// untilNodes waits until a node of all runs of a flow is in a state.
func (w *Workload) untilNodes(tb testing.TB, c *runtime.Client, name, node string, state fabrictype.NodeState) {
	tb.Helper()
	for i := range w.Each {
		enginetest.Eventually(tb, func() string {
			n, err := c.Run(name, name+"-"+strconv.Itoa(i)).DescribeNode(enginetest.Context(tb), node)
			if err != nil || n.State != state {
				return fmt.Sprint(name, "-", i, ": ", n, err)
			}
			return ""
		})
	}
}

func (w *Workload) result(tb testing.TB, c *runtime.Client, def *flow.Definition[int, int], name string, i int) {
	tb.Helper()
	want := map[string]int{
		"finished": i + 2, "map-finished": 3*i + 6, "spent": i, "limited-finished": -i, "waiting": i + 2,
		"approval": 1001, "delayed": i + 2, "map-waiting": 3*i + 6, "limited": -i, "paused": i + 2, "asking": i + 1000, "retried": i + 7,
	}[name]
	id := name + "-" + strconv.Itoa(i)
	run, err := runtime.Attach(c.Run(def.Name(), id), def)
	require.NoError(tb, err, id)
	got, err := run.Result(enginetest.Context(tb))
	require.NoError(tb, err, id)
	require.Equal(tb, want, got, id)
}

func (w *Workload) fails(tb testing.TB, c *runtime.Client) {
	tb.Helper()
	for i := range w.Each {
		run, err := runtime.Attach(c.Run("broken", "broken-"+strconv.Itoa(i)), w.broken)
		require.NoError(tb, err)
		_, err = run.Result(enginetest.Context(tb))
		require.ErrorIs(tb, err, runtime.ErrRunFailed)
	}
}

// Finish continues all runs in an engine with the data, using the tokens that the former engine has issued, and checks
// their results.
func (w *Workload) Finish(tb testing.TB, b *enginetest.Bench) {
	tb.Helper()
	ctx, c := enginetest.Context(tb), b.Client
	w.failing.Store(false)
	worker := b.KeepingWorker(tb, w.Handlers())
	for id, text := range w.tokens {
		token, err := runtime.ParseToken(text)
		require.NoError(tb, err)
		name := map[byte]string{'p': "approve", 's': "more"}[id[1]]
		d, err := c.Signal(ctx, token, runtime.Signal{Name: name, Payload: 1000, Source: "ann", IdempotencyKey: "ann"})
		require.NoError(tb, err, id)
		require.NotEmpty(tb, d.Outcome)
	}
	for i := range w.Each {
		require.NoError(tb, c.Run("chain", "paused-"+strconv.Itoa(i)).Resume(ctx))
	}
	for name, def := range map[string]*flow.Definition[int, int]{
		"finished": w.chain, "map-finished": w.mapped, "spent": w.budgeted, "limited-finished": w.throttled,
		"waiting": w.chain, "approval": w.approval, "delayed": w.chain, "map-waiting": w.mapped, "limited": w.throttled, "paused": w.chain,
		"asking": w.asking, "retried": w.retried,
	} {
		for i := range w.Each {
			w.result(tb, c, def, name, i)
		}
	}
	w.fails(tb, c)
	budget, err := c.Budget(fabrictype.BudgetName{Name: "plan", Flow: "budgeted"}).Describe(ctx)
	require.NoError(tb, err)
	require.EqualValues(tb, 3*w.Each, budget.Amount("pages").Spent)
	pauses, err := c.Pauses(ctx)
	require.NoError(tb, err)
	require.Len(tb, pauses, 1)
	require.NoError(tb, c.Lane("elsewhere").Resume(ctx))
	id, err := c.Schedule("hourly").Trigger(ctx)
	require.NoError(tb, err)
	run, err := runtime.Attach(c.Run("scheduled", id), w.scheduled)
	require.NoError(tb, err)
	got, err := run.Result(ctx)
	require.NoError(tb, err)
	require.Equal(tb, 42, got)
	require.NoError(tb, worker.Stop())
}
