package starttest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// keyedFlow is a flow whose runs end when their gates are opened; it notes the order in which they begin.
type keyedFlow struct {
	mu    sync.Mutex
	gates map[int]chan struct{}
	begun []int
	act   *activity.Activity[int, int]
	def   *flow.Definition[int, int]
}

func newKeyedFlow(t *testing.T, opts ...flow.Option) *keyedFlow {
	t.Helper()
	g := &keyedFlow{gates: make(map[int]chan struct{})}
	g.act = activity.New("gated", func(ctx context.Context, n int) (int, error) {
		g.mu.Lock()
		g.begun = append(g.begun, n)
		g.mu.Unlock()
		select {
		case <-g.gate(n):
			return n, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
	f := flow.New[int, int]("gated", opts...)
	flow.Return(f, flow.Node(f, "wait", g.act, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	g.def = def
	return g
}

func (g *keyedFlow) gate(n int) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gates[n] == nil {
		g.gates[n] = make(chan struct{})
	}
	return g.gates[n]
}

func (g *keyedFlow) open(n int) { close(g.gate(n)) }

func (g *keyedFlow) order() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]int(nil), g.begun...)
}

func (g *keyedFlow) start(
	t *testing.T, b *enginetest.Bench, n int, p runtime.KeyPolicy, opts ...runtime.StartOption,
) *runtime.Run[int] {
	t.Helper()
	run, err := runtime.Start(enginetest.Context(t), b.Client, g.def, n, append(opts, runtime.WithKey("k", p))...)
	require.NoError(t, err)
	return run
}

func (g *keyedFlow) results(t *testing.T, runs ...*runtime.Run[int]) {
	t.Helper()
	for _, run := range runs {
		_, err := run.Result(enginetest.Context(t))
		require.NoError(t, err)
	}
}

// A key has AtOnce open runs; another one is refused with the name of one of them, and nothing of it is written.
func TestKeyReject(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		b.Worker(t, []activity.Handler{g.act})
		first := g.start(t, b, 1, runtime.KeyPolicy{})
		require.False(t, first.Existed())
		_, err := runtime.Start(ctx, b.Client, g.def, 2, runtime.WithKey("k", runtime.KeyPolicy{}))
		require.ErrorIs(t, err, &fabrictype.KeyTakenError{})
		var taken *fabrictype.KeyTakenError
		require.ErrorAs(t, err, &taken)
		require.Equal(t, fabrictype.KeyTakenError{Key: "k", Run: first.ID()}, *taken)
		require.ErrorContains(t, err, "run "+first.ID()+` of key "k" is open`)

		other, err := runtime.Start(ctx, b.Client, g.def, 3, runtime.WithKey("other", runtime.KeyPolicy{}))
		require.NoError(t, err, "another key")
		second := g.start(t, b, 4, runtime.KeyPolicy{AtOnce: 2})
		state, err := b.Client.Flow("gated").RunKey(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, 2, state.OpenCount)
		require.ElementsMatch(t, []string{first.ID(), second.ID()}, []string{state.Open[0].Run, state.Open[1].Run})
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{Flow: "gated"}, "", 0)
		require.NoError(t, err)
		require.Len(t, page.Items, 3)
		for _, n := range []int{1, 3, 4} {
			g.open(n)
		}
		g.results(t, first, other, second)
		third := g.start(t, b, 5, runtime.KeyPolicy{})
		g.open(5)
		g.results(t, third)
		state, err = b.Client.Flow("gated").RunKey(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, fabrictype.KeyState{}, state)
		b.Settle(t)
	})
}

// Runs in a queue start one after the other in the order of the calls, say why they wait, and can be cancelled.
func TestKeyQueue(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t, flow.Deadline(time.Hour))
		b.Worker(t, []activity.Handler{g.act})
		queue := runtime.KeyPolicy{WhenTaken: runtime.QueueRun}
		var runs []*runtime.Run[int]
		for n := range 5 {
			runs = append(runs, g.start(t, b, n, queue))
		}
		d, err := runs[2].Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, "k", d.Key)
		require.Equal(t, 2, d.QueuePlace)
		require.Zero(t, d.StartsAt)
		require.Zero(t, d.DeadlineAt)
		waiting := d.Nodes[0].Waiting
		require.Equal(t, waitreason.Queue, waiting.Reason)
		require.Equal(t, runs[0].ID(), waiting.Subject)
		require.Equal(t, fmt.Sprintf(`the run is number 2 in the queue of key "k", behind run %s`, runs[0].ID()), d.Nodes[0].Waiting.Sentence)
		require.ErrorIs(t, runs[2].MoveStart(ctx, time.Time{}), runtime.ErrRunQueued)
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{Flow: "gated"}, "", 0)
		require.NoError(t, err)
		queued := 0
		for _, r := range page.Items {
			require.Equal(t, "k", r.Key)
			require.Zero(t, r.StartsAt)
			if r.Queued {
				queued++
			}
		}
		require.Equal(t, 4, queued)

		require.NoError(t, runs[1].Cancel(ctx, "not needed"))
		_, err = runs[1].Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.NoError(t, runs[3].Pause(ctx, "a look"))
		for _, n := range []int{0, 2, 3, 4} {
			g.open(n)
		}
		g.results(t, runs[0], runs[2])
		d, err = runs[3].Describe(ctx)
		require.NoError(t, err)
		require.Zero(t, d.QueuePlace, "it has its place, and is paused")
		require.NoError(t, runs[3].Resume(ctx))
		g.results(t, runs[3], runs[4])
		require.Equal(t, []int{0, 2, 3, 4}, g.order())
		d, err = runs[4].Describe(ctx)
		require.NoError(t, err)
		require.False(t, d.StartsAt.IsZero())
		require.WithinDuration(t, d.StartsAt.Add(time.Hour), d.DeadlineAt, 0)
		b.Settle(t)
	})
}

// Calls that come at once start one run, and the others join it.
func TestKeyJoin(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		b.Worker(t, []activity.Handler{g.act})
		for n := range 8 {
			g.open(n)
		}
		g.gates[0] = make(chan struct{})
		hold := g.start(t, b, 0, runtime.KeyPolicy{WhenTaken: runtime.JoinRun})
		var all sync.WaitGroup
		for n := 1; n < 8; n++ {
			all.Go(func() {
				run, err := runtime.Start(ctx, b.Client, g.def, n, runtime.WithKey("k", runtime.KeyPolicy{WhenTaken: runtime.JoinRun}))
				if err != nil || run.ID() != hold.ID() || !run.Existed() {
					t.Errorf("call %d: run %s, existed %t: %v", n, run.ID(), run.Existed(), err)
				}
			})
		}
		all.Wait()
		close(g.gates[0])
		joined := g.start(t, b, 0, runtime.KeyPolicy{WhenTaken: runtime.JoinRun})
		result, err := joined.Result(ctx)
		require.NoError(t, err)
		require.Zero(t, result)
		b.Settle(t)
	})
}

// A run that replaces others cancels those that run and those that wait.
func TestKeyCancelRunning(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		b.Worker(t, []activity.Handler{g.act})
		cancels := runtime.KeyPolicy{WhenTaken: runtime.CancelRunning}
		first := g.start(t, b, 1, cancels)
		waiting := g.start(t, b, 2, runtime.KeyPolicy{WhenTaken: runtime.QueueRun})
		last := g.start(t, b, 3, cancels, runtime.WithActor("operator"))
		for _, run := range []*runtime.Run[int]{first, waiting} {
			_, err := run.Result(ctx)
			require.ErrorIs(t, err, runtime.ErrRunCancelled)
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			require.Equal(t, "operator", d.CancelledBy)
			require.Equal(t, "run "+last.ID()+" of the same key has been started", d.CancelReason)
		}
		g.open(3)
		g.results(t, last)
		b.Settle(t)
	})
}

// Within the time, the first run of a key is the only one, also when it is over; one that was purged is none.
func TestKeyUnique(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		b.Worker(t, []activity.Handler{g.act})
		for n := 1; n < 4; n++ {
			g.open(n)
		}
		unique := runtime.KeyPolicy{UniqueFor: time.Hour}
		first := g.start(t, b, 1, unique)
		g.results(t, first)
		second := g.start(t, b, 2, unique)
		require.Equal(t, first.ID(), second.ID())
		require.True(t, second.Existed())
		require.NoError(t, first.Purge(ctx))
		state, err := b.Client.Flow("gated").RunKey(ctx, "k")
		require.NoError(t, err)
		require.Nil(t, state.First)
		third := g.start(t, b, 3, unique)
		require.False(t, third.Existed())
		require.NotEqual(t, first.ID(), third.ID())
		g.results(t, third)
		require.Equal(t, third.ID(), g.start(t, b, 2, unique).ID())
		short, err := runtime.Start(ctx, b.Client, g.def, 1, runtime.WithKey("short", runtime.KeyPolicy{UniqueFor: time.Millisecond}))
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			next, err := runtime.Start(ctx, b.Client, g.def, 1, runtime.WithKey("short", runtime.KeyPolicy{UniqueFor: time.Millisecond}))
			if err != nil || next.ID() == short.ID() {
				return fmt.Sprintf("%s: %v", next.ID(), err)
			}
			return ""
		})
		b.Settle(t)
	})
}

// Runs are found by their key and by waiting in its queue, in lists, bulk jobs and their previews. A run that was
// cancelled in the queue no longer waits, and is in order when it is run again.
func TestKeyQuery(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		b.Worker(t, []activity.Handler{g.act})
		b.Keeper(t)
		queue := runtime.KeyPolicy{WhenTaken: runtime.QueueRun}
		first, second, third := g.start(t, b, 1, queue), g.start(t, b, 2, queue), g.start(t, b, 3, queue)
		_, err := runtime.Start(ctx, b.Client, g.def, 4)
		require.NoError(t, err)
		other, err := runtime.Start(ctx, b.Client, g.def, 5, runtime.WithKey("other", queue))
		require.NoError(t, err)
		found := func(q runtime.RunQuery) []string {
			t.Helper()
			all := []string{}
			for run, err := range b.Client.Runs(ctx, q) {
				require.NoError(t, err)
				all = append(all, run.Run)
			}
			var paged []string
			for _, run := range fixture.Pages(t, b.Client, q, 2) {
				paged = append(paged, run.Run)
			}
			require.ElementsMatch(t, all, paged, "%+v", q)
			return all
		}
		for _, flowName := range []string{"", "gated"} { // with the flow, one partition is searched
			require.ElementsMatch(t, []string{first.ID(), second.ID(), third.ID()},
				found(runtime.RunQuery{Flow: flowName, Key: "k"}))
			require.ElementsMatch(t, []string{second.ID(), third.ID()}, found(runtime.RunQuery{Flow: flowName, Queued: true}))
			require.Equal(t, []string{other.ID()}, found(runtime.RunQuery{Flow: flowName, Key: "other"}))
			require.Empty(t, found(runtime.RunQuery{Flow: flowName, Key: "other", Queued: true}))
			require.Empty(t, found(runtime.RunQuery{Flow: flowName, Key: "K"}))
		}
		require.Empty(t, found(runtime.RunQuery{Key: "k", Queued: true, Sort: "-finished"}))

		q := runtime.RunQuery{Key: "k", Queued: true}
		preview, err := b.Client.PreviewBulkJob(ctx, q, fabrictype.BulkAction{Kind: "cancel", Reason: "late"}, runtime.BulkOptions{})
		require.NoError(t, err)
		require.Equal(t, 2, preview.Runs)
		job, err := b.Client.StartBulkJob(ctx, q, fabrictype.BulkAction{Kind: "cancel", Reason: "late"}, runtime.BulkOptions{})
		require.NoError(t, err)
		require.Equal(t, 2, fixture.AwaitJob(t, b, job.ID, fixture.IsOver).Progress.Done)
		for _, run := range []*runtime.Run[int]{second, third} {
			_, err := run.Result(ctx)
			require.ErrorIs(t, err, runtime.ErrRunCancelled)
		}
		require.Empty(t, found(runtime.RunQuery{Queued: true}))
		for _, run := range fixture.Pages(t, b.Client, runtime.RunQuery{Key: "k"}, 50) {
			require.False(t, run.Queued, run.Run)
		}
		g.open(1)
		g.results(t, first)
		require.NoError(t, second.Rerun(ctx, fabrictype.RerunAll))
		g.open(2)
		g.results(t, second)
		g.open(4)
		g.open(5)
		g.results(t, other)
		b.Settle(t)
	})
}

// A rerun takes a place again, or is refused.
func TestKeyRerun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		b.Worker(t, []activity.Handler{g.act})
		g.open(1)
		first := g.start(t, b, 1, runtime.KeyPolicy{})
		g.results(t, first)
		second := g.start(t, b, 2, runtime.KeyPolicy{})
		err := first.Rerun(ctx, fabrictype.RerunAll)
		require.ErrorIs(t, err, &fabrictype.KeyTakenError{})
		require.ErrorContains(t, err, second.ID())
		g.open(2)
		g.results(t, second)
		err = first.Rerun(ctx, fabrictype.RerunAll)
		require.NoError(t, err)
		g.results(t, first)
		b.Settle(t)
	})
}

// Of many starts at once, each key has one open run at any time, and all runs end.
func TestKeyManyAtOnce(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var mu sync.Mutex
		open := make(map[string]int)
		a := activity.New("one", func(_ context.Context, key string) (string, error) {
			mu.Lock()
			open[key]++
			n := open[key]
			mu.Unlock()
			defer func() {
				mu.Lock()
				open[key]--
				mu.Unlock()
			}()
			if n > 1 {
				return "", activity.NonRetryable(fmt.Errorf("%d runs of %s", n, key))
			}
			return key, nil
		})
		f := flow.New[string, string]("many")
		flow.Return(f, flow.Node(f, "one", a, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{a})
		b.Worker(t, []activity.Handler{a})
		var runs []runtime.NewRun[string]
		for n := range 60 {
			key := fmt.Sprintf("key %d", n%3)
			runs = append(runs, runtime.NewRun[string]{Input: key, Options: []runtime.StartOption{
				runtime.WithKey(key, runtime.KeyPolicy{WhenTaken: runtime.QueueRun}),
			}})
		}
		started, err := runtime.StartMany(ctx, b.Client, def, runs)
		require.NoError(t, err)
		for _, s := range started {
			require.NoError(t, s.Err)
			_, err := s.Run.Result(ctx)
			require.NoError(t, err)
		}
		b.Settle(t)
	})
}

// Invalid options are refused with all faults, before anything is sent.
func TestArrivalOptions_AreValidated(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		day := 24 * time.Hour
		for text, opts := range map[string][]runtime.StartOption{
			"key: it is empty":       {runtime.WithKey("", runtime.KeyPolicy{})},
			"at once -1":             {runtime.WithKey("k", runtime.KeyPolicy{AtOnce: -1})},
			`when taken "later"`:     {runtime.WithKey("k", runtime.KeyPolicy{WhenTaken: "later"})},
			"unique for 96360h0m0s":  {runtime.WithKey("k", runtime.KeyPolicy{UniqueFor: 11 * 365 * day})},
			"WithID and WithKey":     {runtime.WithID("a"), runtime.WithKey("k", runtime.KeyPolicy{})},
			"StartAt and WithKey":    {runtime.StartAt(time.Now().Add(day)), runtime.WithKey("k", runtime.KeyPolicy{})},
			"WithKey and WithThrott": {runtime.WithKey("k", runtime.KeyPolicy{}), runtime.WithThrottle("k", runtime.Throttle{Starts: 1, Per: day})},
			"starts 0":               {runtime.WithThrottle("k", runtime.Throttle{Per: day})},
			"per 0s":                 {runtime.WithThrottle("k", runtime.Throttle{Starts: 1})},
			"control":                {runtime.WithKey("k\n", runtime.KeyPolicy{})},
		} {
			_, err := runtime.Start(ctx, b.Client, g.def, 1, opts...)
			require.ErrorIs(t, err, runtime.ErrInvalid, text)
			require.ErrorContains(t, err, text)
		}
		_, err := runtime.Start(ctx, b.Client, g.def, 1, runtime.WithDebounce("k", runtime.DebouncePolicy{Quiet: day, AtMost: time.Hour}))
		require.ErrorContains(t, err, "at most 1h0m0s: must be quiet, 24h0m0s, to 10 years")
		_, err = runtime.Start(ctx, b.Client, g.def, 1, runtime.WithDebounce("k", runtime.DebouncePolicy{}))
		require.ErrorContains(t, err, "quiet 0s")
		wide := flow.New[int, int]("wide")
		for n := range 257 {
			node := flow.Node(wide, fmt.Sprint("n", n), g.act, wide.Input())
			if n == 0 {
				flow.Return(wide, node)
			}
		}
		def, err := wide.Build()
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, def, 1, runtime.WithKey("k", runtime.KeyPolicy{}))
		require.ErrorContains(t, err, "256 nodes without upstreams, got: 257")
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{}, "", 0)
		require.NoError(t, err)
		require.Empty(t, page.Items)
		b.Settle(t)
	})
}

// A keeper enters lost permits and queued runs of a key again, and removes those that do not belong there.
func TestKey_KeeperRepairsPermitsAndQueue(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		queue := runtime.KeyPolicy{WhenTaken: runtime.QueueRun}
		runs := []*runtime.Run[int]{g.start(t, b, 0, queue), g.start(t, b, 1, queue), g.start(t, b, 2, queue)}
		partitions := engine.ConnOf(b.Engine.Internal()).Partitioning()
		id := keyspace.RunKeyIDFor("default", "gated", "k")
		partition, err := partitions.RunKeyPartition(id)
		require.NoError(t, err)
		client := engine.ConnOf(b.Engine.Internal()).Client()
		keys := b.Prefix + ":ffx:" + partition.Tag() + ":run_key"
		do := func(words ...string) {
			t.Helper()
			n, err := client.Do(ctx, client.B().Arbitrary(words...).Build()).ToInt64()
			require.NoError(t, err)
			require.Positive(t, n, words)
		}
		do("DEL", keys+":"+string(id)+":open")
		do("DEL", keys+":"+string(id)+":queue")
		do("DEL", keys+"s_due")
		spoilt, err := invariant.ReadStill(ctx, client, b.Prefix)
		require.NoError(t, err)
		require.ErrorContains(t, spoilt.Check(invariant.AnyTime).Err(), "list of its key")
		report, err := b.RunKeeperTask(ctx, "index_reconciliation")
		require.NoError(t, err)
		require.EqualValues(t, 3, report.Repaired["run_keys"])
		b.Check(t, invariant.AnyTime)

		// A run that is gone keeps no place: keepers check queues.
		do("ZADD", keys+":"+string(id)+":open", "1", "550e8400-e29b-8000-8000-446655440000")
		do("ZREM", keys+":"+string(id)+":open", string(runs[0].FlowID()))
		require.NoError(t, runs[0].Cancel(ctx, "lost"))
		d, err := runs[1].Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, d.QueuePlace)
		do("ZADD", keys+"s_due", "CH", "1", string(id))
		b.Keeper(t)
		b.Worker(t, []activity.Handler{g.act})
		g.open(1)
		g.open(2)
		g.results(t, runs[1], runs[2])
		b.Settle(t)
	})
}

// Contract mode refuses keys, throttles and debouncing before anything is written; batches and comparisons work.
func TestArrivalOptions_AreRefusedInContractMode(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		for name, opt := range map[string]runtime.StartOption{
			"WithKey":      runtime.WithKey("k", runtime.KeyPolicy{}),
			"WithThrottle": runtime.WithThrottle("k", runtime.Throttle{Starts: 1, Per: time.Hour}),
		} {
			_, err := runtime.Start(ctx, b.Client, g.def, 1, opt)
			require.ErrorIs(t, err, runtime.ErrNotInContract)
			require.ErrorContains(t, err, "flow gated: contract mode refuses "+name)
		}
		_, err := runtime.Start(ctx, b.Client, g.def, 1, runtime.WithDebounce("k", runtime.DebouncePolicy{Quiet: time.Hour}))
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		_, err = b.Client.Flow("gated").RunKey(ctx, "k")
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{Flow: "gated"}, "", 0)
		require.NoError(t, err)
		require.Empty(t, page.Items)
		b.Worker(t, []activity.Handler{g.act})
		g.open(1)
		g.open(2)
		one, err := runtime.Start(ctx, b.Client, g.def, 1)
		require.NoError(t, err)
		two, err := runtime.Start(ctx, b.Client, g.def, 2)
		require.NoError(t, err)
		g.results(t, one, two)
		_, err = one.Fork(ctx, runtime.ForkOptions{From: []string{"wait"}})
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		diff, err := one.RunRef.Diff(ctx, two.RunRef)
		require.NoError(t, err)
		require.True(t, diff.Input)
		require.True(t, diff.Result)
		require.Contains(t, diff.Nodes[0].Differs, "result")
	})
}
