package clustertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

const (
	items   = 4  // of the map of a run
	places  = 5  // of the limit that all items of all runs share
	started = 12 // runs at a time
)

// load is a cluster with workers, keepers, a schedule and runs that use everything.
type load struct {
	*enginetest.Bench
	t       *testing.T
	ctx     context.Context
	cluster *testserver.Cluster
	def     *flow.Definition[int, int]
	beat    *flow.Definition[tick, string]

	mu        sync.Mutex
	calls     map[string]int   // of functions, by run and node
	now, most int              // functions under the limit
	beats     map[string]int   // functions of scheduled runs, by the time of their fire
	runs      []string         // that were started and have ended
	looks     int              // at a partition, for a task
	repaired  map[string]int64 // entries that tasks found not to be in order, by index
	faults    map[string]error
	again     []string // that were acknowledged, and were not there when they were started once more
}

// tick is the input of a scheduled run.
type tick struct {
	At time.Time `json:"at,omitzero"`
}

// newLoad starts everything but the runs.
func newLoad(t *testing.T, o testserver.ClusterOptions) *load {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*enginetest.Patience)
	t.Cleanup(cancel)
	x := &load{t: t, ctx: ctx, cluster: testserver.NewCluster(t, o), calls: make(map[string]int), beats: make(map[string]int),
		repaired: make(map[string]int64), faults: make(map[string]error)}
	x.Bench = enginetest.Open(t, testserver.OnCluster, x.cluster.URL(), enginetest.NewPrefix(), runtime.OpenConfig{
		Partitions: 8,
	})
	x.def, x.beat = x.order(), x.heartbeat()
	handlers := slices.Concat(x.def.Handlers(), x.beat.Handlers())
	for range 2 {
		x.Worker(t, handlers, runtime.WorkerConfig{Concurrency: 24})
		x.Keeper(t)
	}
	x.schedule(time.Time{})
	x.Run(t, "tasks", x.tasksByHand)
	return x
}

// schedule declares the schedule, which fires every second until a time; zero is for ever.
func (x *load) schedule(until time.Time) {
	x.t.Helper()
	_, err := runtime.Schedule(x.ctx, x.Client, "beat", x.beat, tick{}, runtime.ScheduleConfig{
		Every: time.Second, EndingAt: until, FireTimeField: "at", Overlap: fabrictype.OverlapAllow, CatchUp: time.Hour,
	})
	require.NoError(x.t, err)
}

// tasksByHand runs all keeper tasks with hardly a pause, so that each of them runs during failovers.
func (x *load) tasksByHand(ctx context.Context) error {
	for ctx.Err() == nil {
		for _, info := range x.KeeperTasks() {
			report, err := x.RunKeeperTask(ctx, info.Name)
			x.mu.Lock()
			x.looks += report.Steps
			for index, n := range report.Repaired {
				x.repaired[index] += n
			}
			away := errors.Is(err, enginecore.ErrUnavailable) || errors.Is(err, enginecore.ErrNotReachable) // for longer than a call waits
			if err != nil && !away && ctx.Err() == nil {
				x.faults[info.Name] = err
			}
			x.mu.Unlock()
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(20 * time.Millisecond): // leave something to the runs
			}
		}
	}
	return nil
}

// tasksDone describes the results of these keeper tasks.
func (x *load) tasksDone() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return fmt.Sprintf("tasks looked %d times, repaired %v, and failed with %v", x.looks, x.repaired, x.faults)
}

// order is a flow with a map whose items share a limit, a sub-flow, and a budget that all nodes with activities use.
func (x *load) order() *flow.Definition[int, int] {
	spend := func(ctx context.Context) error {
		return activity.ReportUsageOnce(ctx, "work", map[string]int64{"tokens": 1})
	}
	list := activity.New("list", func(ctx context.Context, n int) ([]int, error) {
		x.called(ctx)
		return slices.Repeat([]int{n}, items), nil
	})
	price := activity.New("price", func(ctx context.Context, n int) (int, error) {
		x.called(ctx)
		x.enter(1)
		defer x.enter(-1)
		select {
		case <-time.After(5 * time.Millisecond): // long enough for an interruption
		case <-ctx.Done():
		}
		return n + 1, spend(ctx)
	}, activity.Limit("pricing", activity.LimitConfig{AtOnce: places}))
	stamp := activity.New("stamp", func(ctx context.Context, n int) (int, error) {
		x.called(ctx)
		return 1000 * n, spend(ctx)
	})
	sum := activity.New("sum", func(ctx context.Context, list []int) (int, error) {
		x.called(ctx)
		total := 0
		for _, n := range list {
			total += n
		}
		return total, nil
	})
	inner := flow.New[int, int]("stamping")
	flow.Return(inner, flow.Node(inner, "stamp", stamp, inner.Input()))
	stamping, err := inner.Build()
	require.NoError(x.t, err)
	f := flow.New[int, int]("order", flow.Budget("spend", flow.BudgetConfig{Counted: []string{"tokens"}, PerFlow: true}),
		flow.Budget("cap", flow.BudgetConfig{Hard: map[string]int64{"tokens": 1_000_000}, Shared: true}))
	priced := flow.Node(f, "sum", sum, flow.Map(f, "price", price, flow.Node(f, "list", list, f.Input())))
	flow.Return(f, flow.Node(f, "total", sum, flow.List(priced, flow.Sub(f, "stamp", stamping, f.Input()))))
	def, err := f.Build()
	require.NoError(x.t, err)
	return def
}

// Of an order: its usage, its number of function calls, and its result.
const (
	tokensOfRun = items + 1
	callsOfRun  = 1 + items + 1 + 2
)

func resultOf(n int) int { return items*(n+1) + 1000*n }

func (x *load) heartbeat() *flow.Definition[tick, string] {
	beat := activity.New("beat", func(_ context.Context, in tick) (string, error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.beats[in.At.UTC().Format(time.RFC3339)]++
		return "ok", nil
	})
	f := flow.New[tick, string]("beating")
	flow.Return(f, flow.Node(f, "beat", beat, f.Input()))
	def, err := f.Build()
	require.NoError(x.t, err)
	return def
}

func (x *load) called(ctx context.Context) {
	info, _ := activity.Info(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls[info.RunID+" "+info.Node]++
}

func (x *load) enter(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now += n
	x.most = max(x.most, x.now)
}

// rush starts runs, some at a time, until the concurrent disturbance has ended and at least a given number of runs has,
// and waits for all.
func (x *load) rush(name string, atLeast int, meanwhile func()) {
	x.t.Helper()
	over := make(chan struct{})
	var mu sync.Mutex
	next := 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-over:
			if next >= atLeast {
				return 0, false
			}
		default:
		}
		next++
		return next, x.ctx.Err() == nil
	}
	var group sync.WaitGroup
	for range started {
		group.Go(func() {
			for n, more := take(); more; n, more = take() {
				id := fmt.Sprint(name, "-", n)
				if out, err := x.run(id, n); err != nil || out != resultOf(n) {
					x.t.Errorf("run %s with input %d: %d, %v", id, n, out, err)
				}
			}
		})
	}
	if meanwhile != nil {
		meanwhile()
	}
	close(over)
	group.Wait()
}

// run runs an order as a careful client does: it repeats the start under one id until it receives the result.
func (x *load) run(id string, in int) (int, error) {
	acknowledged := false
	for {
		run, err := runtime.Start(x.ctx, x.Client, x.def, in, runtime.WithID(id))
		if err == nil {
			if acknowledged && !run.Existed() {
				x.mu.Lock()
				x.again = append(x.again, id)
				x.mu.Unlock()
			}
			acknowledged = true
			var out int
			if out, err = run.Result(x.ctx); err == nil {
				x.mu.Lock()
				x.runs = append(x.runs, id)
				x.mu.Unlock()
				return out, nil
			}
		}
		var over *runtime.RunError
		if errors.As(err, &over) || x.ctx.Err() != nil {
			return 0, err
		}
	}
}

// startAgain repeats the start of runs whose end was acknowledged, in case a failover lost their end or even their
// start, and waits for their results.
func (x *load) startAgain(ids []string) {
	x.t.Helper()
	for _, id := range ids {
		_, number, _ := strings.Cut(id, "-")
		n, err := strconv.Atoi(number)
		require.NoError(x.t, err)
		run, err := runtime.Start(x.ctx, x.Client, x.def, n, runtime.WithID(id))
		require.NoError(x.t, err)
		if !run.Existed() {
			x.again = append(x.again, id)
		}
		out, err := run.Result(x.ctx)
		require.NoError(x.t, err)
		require.Equal(x.t, resultOf(n), out)
	}
}

// spent is the amount that orders have spent so far.
func (x *load) spent() int {
	x.t.Helper()
	s, err := x.Client.Budget(fabrictype.BudgetName{Name: "spend", Flow: "order"}).Describe(x.ctx)
	require.NoError(x.t, err)
	return int(s.Amount("tokens").Spent)
}

// exact checks that nothing was lost and nothing came twice: every function was called once, all that was spent is
// counted and nothing else, and no limit was exceeded.
func (x *load) exact() {
	t := x.t
	t.Helper()
	require.GreaterOrEqual(t, x.found(), 3*len(x.runs), "runs, and the child runs of their maps and sub-flows")
	require.Empty(t, x.again, "runs were lost")
	x.mu.Lock()
	defer x.mu.Unlock()
	twice := maps.Clone(x.calls)
	maps.DeleteFunc(twice, func(_ string, n int) bool { return n == 1 })
	require.Empty(t, twice, "functions were called again")
	require.Empty(t, x.repaired, "everything is in order, but not for a task of keepers")
	require.Empty(t, x.faults)
	require.Len(t, x.calls, callsOfRun*len(x.runs))
	require.LessOrEqual(t, x.most, places, "more at once than the limit allows")
	require.Equal(t, tokensOfRun*len(x.runs), x.spent())
	s, err := x.Client.Budget(fabrictype.BudgetName{Name: "cap"}).Describe(x.ctx)
	require.NoError(t, err)
	require.Equal(t, int64(tokensOfRun*len(x.runs)), s.Amount("tokens").Spent)
}

// found checks that searches and lists contain every run once. It returns the number of runs, including child runs.
func (x *load) found() int {
	t := x.t
	t.Helper()
	var ids []string
	for cursor := ""; ; {
		page, err := x.Client.ListRuns(x.ctx, runtime.RunQuery{Flow: "order", States: []fabrictype.RunState{fabrictype.RunSucceeded}}, cursor, 7)
		require.NoError(t, err)
		for _, r := range page.Items {
			ids = append(ids, r.Run)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.ElementsMatch(t, x.runs, ids)
	// The schedule continues to start runs, so the runs found first must be among those listed afterwards.
	var found []fabrictype.Run
	for r, err := range x.Client.Runs(x.ctx, runtime.RunQuery{Children: true}) {
		require.NoError(t, err)
		found = append(found, r)
	}
	listed := make(map[string]bool)
	operator, err := admin.New(x.Engine)
	require.NoError(t, err)
	for f, err := range operator.Flows(x.ctx, admin.FlowQuery{}) {
		require.NoError(t, err)
		listed[string(f.ID)] = true
	}
	for _, r := range found {
		require.True(t, listed[r.FlowID], "%s %s", r.Flow, r.Run)
	}
	return len(found)
}

// beatsOnce ends the schedule, and checks that it has fired for every second once. It does not pause the schedule: a
// pause would hold back a fire that is due and that no keeper has seen yet.
func (x *load) beatsOnce() {
	t := x.t
	t.Helper()
	x.schedule(time.Now().Add(time.Second))
	var d *fabrictype.Schedule
	enginetest.Eventually(t, func() string {
		var err error
		d, err = x.Client.Schedule("beat").Describe(x.ctx)
		require.NoError(t, err)
		x.mu.Lock()
		defer x.mu.Unlock()
		if !d.NextFire.IsZero() || d.Waiting > 0 || int64(len(x.beats)) < d.Started {
			return fmt.Sprintf("%d fires, %d that wait, %d runs, and the next fire at %v", d.Started, d.Waiting, len(x.beats), d.NextFire)
		}
		return ""
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	require.Zero(t, d.Skipped+d.Missed+d.Failed)
	require.EqualValues(t, d.Started, len(x.beats))
	times := slices.Sorted(maps.Keys(x.beats))
	first, err := time.Parse(time.RFC3339, times[0])
	require.NoError(t, err)
	for i, at := range times {
		require.Equal(t, first.Add(time.Duration(i)*time.Second).Format(time.RFC3339), at, "no second is left out")
		require.Equal(t, 1, x.beats[at], "the fire of %s", at)
	}
}
