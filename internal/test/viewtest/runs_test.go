package viewtest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
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
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// runSet are runs of two flows that end in every way, with tags of the flow and of the run.
type runSet struct {
	runs []*runtime.Run[string]
	all  []fabrictype.Run // in their present state, the newest first
}

// oneWay is a flow of one node.
func oneWay(t testing.TB, c *fixture.Course, name, way string, opts ...flow.Option) *flow.Definition[fixture.None, string] {
	t.Helper()
	f := flow.New[fixture.None, string](name, opts...)
	flow.Return(f, c.Nodes(f, way)[0])
	return fixture.DefinitionOf(t, f)
}

func startRunSet(t testing.TB, b *enginetest.Bench, size int) *runSet {
	t.Helper()
	ctx := enginetest.Context(t)
	c := fixture.NewCourse()
	defs := []*flow.Definition[fixture.None, string]{
		oneWay(t, c, "good", "ok", flow.Tag("team.name", "census")),
		oneWay(t, c, "bad", "fail", flow.Tag("team.name", "search")),
	}
	waiting := flow.New[fixture.None, string]("slow")
	flow.Return(waiting, flow.Node(waiting, "a", c.Act, flow.Const("ok"), activity.Lane("nobody")))
	defs = append(defs, fixture.DefinitionOf(t, waiting))
	set := &runSet{}
	for i := range size {
		opts := []runtime.StartOption{runtime.WithID(fmt.Sprintf("Run-%03d", i))}
		if i%2 == 0 {
			opts = append(opts, runtime.WithTag("customer.id", fmt.Sprint(i%6)))
		}
		if i%5 == 0 {
			opts = append(opts, runtime.WithTag("team.name", "other"))
		}
		run, err := runtime.Start(ctx, b.Client, defs[i%3], fixture.None{}, opts...)
		require.NoError(t, err)
		set.runs = append(set.runs, run)
		if i%9 == 2 { // of the slow ones
			require.NoError(t, run.Cancel(ctx, "enough"))
		}
	}
	b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{Concurrency: 8})
	for i, run := range set.runs {
		if i%3 == 2 && i%9 != 2 {
			continue // stays open
		}
		_, _ = run.Result(ctx)
	}
	for _, run := range set.runs {
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		set.all = append(set.all, fabrictype.Run{
			Flow: d.Flow, Run: d.Run, FlowID: d.FlowID, State: d.State, CreatedAt: d.CreatedAt, BeganAt: d.BeganAt,
			ClosedAt: d.ClosedAt, FailedNode: d.FailedNode, Reason: d.Reason, Category: d.Category,
			Nodes: fabrictype.NodeCounts{All: 1, Open: d.OpenNodes},
		})
	}
	for i := range set.all {
		run := &set.all[i]
		tags := map[string]string{}
		switch run.Flow {
		case "good":
			tags["team.name"] = "census"
		case "bad":
			tags["team.name"] = "search"
			run.Nodes.Failed = 1
		case "slow":
			if run.State == fabrictype.RunCancelled {
				run.Nodes.Cancelled = 1
			}
		}
		if i%2 == 0 {
			tags["customer.id"] = fmt.Sprint(i % 6)
		}
		if i%5 == 0 {
			tags["team.name"] = "other"
		}
		if len(tags) > 0 {
			run.Tags = tags
		}
	}
	newestFirst(set.all, runtime.RunQuery{})
	return set
}

func newestFirst(runs []fabrictype.Run, q runtime.RunQuery) {
	slices.SortFunc(runs, func(a, b fabrictype.Run) int { return cmp.Or(byTime(q)(a, b), cmp.Compare(b.FlowID, a.FlowID)) })
}

// byTime compares runs by the order of a query; runs of one millisecond are equal.
func byTime(q runtime.RunQuery) func(a, b fabrictype.Run) int {
	return func(a, b fabrictype.Run) int {
		if q.Sort == "created" || q.Sort == "finished" {
			a, b = b, a
		}
		if byEnd(q) {
			return b.ClosedAt.Compare(a.ClosedAt)
		}
		return b.CreatedAt.Compare(a.CreatedAt)
	}
}

// requireFound requires runs in the order of a query.
func requireFound(t *testing.T, want, got []fabrictype.Run, q runtime.RunQuery) {
	t.Helper()
	require.True(t, slices.IsSortedFunc(got, byTime(q)), "%+v", q)
	newestFirst(got, q)
	require.Equal(t, want, got, "%+v", q)
}

func byEnd(q runtime.RunQuery) bool {
	return !q.FinishedBefore.IsZero() || !q.FinishedFrom.IsZero() || q.Sort == "-finished" ||
		q.Sort == "finished"
}

// matches is the rule of a query, written down once more.
func matches(r fabrictype.Run, q runtime.RunQuery) bool {
	for name, value := range q.Tags {
		if got, has := r.Tags[name]; !has || got != value {
			return false
		}
	}
	within := func(at, from, before time.Time) bool {
		return (from.IsZero() || !at.Before(from)) && (before.IsZero() || at.Before(before))
	}
	text := strings.ToLower(q.Text)
	finished := byEnd(q)
	return (strings.Contains(strings.ToLower(r.Run), text) || strings.Contains(r.Flow, text)) && (q.Flow == "" || r.Flow == q.Flow) && (len(q.States) == 0 || slices.Contains(q.States, r.State)) &&
		within(r.CreatedAt, q.CreatedFrom, q.CreatedBefore) &&
		(!finished || !r.ClosedAt.IsZero() && within(r.ClosedAt, q.FinishedFrom, q.FinishedBefore))
}

func TestRunsAreFound(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		set := startRunSet(t, b, 60)
		b.Check(t, invariant.AnyTime)
		middle := set.all[30]
		ended := slices.Clone(set.all)
		newestFirst(ended, runtime.RunQuery{FinishedFrom: time.UnixMilli(1)})
		half := ended[20].ClosedAt
		queries := []runtime.RunQuery{
			{}, {Flow: "good"}, {Flow: "nothing"}, {States: []fabrictype.RunState{fabrictype.RunRunning}},
			{States: []fabrictype.RunState{fabrictype.RunFailed, fabrictype.RunCancelled}}, {Flow: "bad", States: []fabrictype.RunState{fabrictype.RunSucceeded}},
			{Tags: map[string]string{"team.name": "census"}}, {Tags: map[string]string{"customer.id": "2", "team.name": "other"}},
			{Tags: map[string]string{"customer.id": "4"}, Flow: "slow"}, {Tags: map[string]string{"customer.id": ""}},
			{CreatedFrom: middle.CreatedAt}, {CreatedBefore: middle.CreatedAt}, {CreatedFrom: middle.CreatedAt.Add(time.Nanosecond)},
			{CreatedFrom: set.all[50].CreatedAt, CreatedBefore: middle.CreatedAt.Add(time.Millisecond), Flow: "good"},
			{FinishedFrom: time.UnixMilli(1)}, {FinishedFrom: half}, {FinishedBefore: half, Flow: "bad"},
			{FinishedBefore: half, States: []fabrictype.RunState{fabrictype.RunSucceeded, fabrictype.RunRunning}, Tags: map[string]string{"customer.id": "0"}},
			{Text: "rUN-01"}, {Text: "oo"}, {Text: "-05", Flow: "bad"}, {Text: "%d"}, {Text: "none"}, {Sort: "created"},
			{Sort: "created", CreatedFrom: middle.CreatedAt}, {Sort: "-created", CreatedBefore: middle.CreatedAt},
			{Sort: "created", CreatedFrom: set.all[50].CreatedAt, CreatedBefore: middle.CreatedAt, Flow: "good"},
			{Sort: "finished"}, {Sort: "-finished", Flow: "bad"},
			{Sort: "finished", FinishedFrom: half, States: []fabrictype.RunState{fabrictype.RunFailed}},
			{Sort: "created", Tags: map[string]string{"customer.id": "4"}, FinishedFrom: time.Time{}, Text: "run"},
		}
		for _, q := range queries {
			var want []fabrictype.Run
			for _, run := range set.all {
				if matches(run, q) {
					want = append(want, run)
				}
			}
			newestFirst(want, q)
			var got []fabrictype.Run
			for run, err := range b.Client.Runs(enginetest.Context(t), q) {
				require.NoError(t, err)
				got = append(got, run)
			}
			requireFound(t, want, got, q)
			requireFound(t, want, fixture.Pages(t, b.Client, q, 7), q)
		}
		for range b.Client.Runs(enginetest.Context(t), runtime.RunQuery{}) {
			break // a loop may end early
		}
	}, runtime.OpenConfig{Partitions: 3})
}

// A run that exists during the whole listing is in its pages exactly once, whatever is started, ends and is purged
// between them.
func TestPagesOfRunsHaveNoGaps(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		def := oneWay(t, c, "short", "ok")
		b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{Concurrency: 8})
		var runs []*runtime.Run[string]
		for i := range 120 {
			run, err := runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithID(fmt.Sprint("old-", i)))
			require.NoError(t, err)
			runs = append(runs, run)
		}
		for _, run := range runs {
			_, err := run.Result(ctx)
			require.NoError(t, err)
		}
		random := rand.New(rand.NewPCG(1, 2))
		for round := range 3 {
			gone, seen := map[string]bool{}, map[string]int{}
			cursor := ""
			for number := 0; ; number++ {
				page, err := b.Client.ListRuns(ctx, runtime.RunQuery{}, cursor, 5)
				require.NoError(t, err)
				for _, run := range page.Items {
					seen[run.Run]++
				}
				if cursor = page.Next; cursor == "" {
					break
				}
				_, err = runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithID(fmt.Sprintf("new-%d-%d", round, number)))
				require.NoError(t, err)
				// The run that the cursor names is purged, and another one.
				for _, i := range []int{len(page.Items) - 1, -1} {
					victim := fmt.Sprint("old-", random.IntN(len(runs)))
					if i >= 0 {
						victim = page.Items[i].Run
					}
					if strings.HasPrefix(victim, "old-") && !gone[victim] && number%4 == 0 {
						gone[victim] = true
						_ = b.Client.Run("short", victim).Purge(ctx) // in a later round it may be gone
					}
				}
			}
			for i := range runs {
				id := fmt.Sprint("old-", i)
				if _, err := b.Client.Run("short", id).Describe(ctx); err == nil {
					require.Equal(t, 1, seen[id], "%s in round %d", id, round)
				}
				require.LessOrEqual(t, seen[id], 1, id)
			}
		}
		b.Check(t, invariant.AnyTime)
	}, runtime.OpenConfig{Partitions: 2})
}

func intsOf(a, b int) []int { return []int{a, b} }

// A call reads a bounded number of runs, and returns a cursor for the rest. Runs without success have their own index,
// so a search without such runs needs one call; in the order of their ends, a call reads it only while it has few.
func TestSearchForRareRunsIsBounded(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := oneWay(t, fixture.NewCourse(), "waiting", "ok")
		var starting sync.WaitGroup
		for part := range 8 {
			starting.Go(func() {
				for i := range 150 {
					opts := []runtime.StartOption{runtime.WithID(fmt.Sprint(part, "-", i))}
					if part == 0 && i == 0 {
						opts = append(opts, runtime.WithTag("rare.one", "1"))
					}
					_, err := runtime.Start(ctx, b.Client, def, fixture.None{}, opts...)
					require.NoError(t, err)
				}
			})
		}
		starting.Wait()
		p := keyspace.Partition{Family: keyspace.FlowFamily}
		calls := func(states, order string) (count, found int) {
			call := enginerpc.ListRunsCall{Partition: p, Limit: 100, States: states, Order: order}
			for {
				reply, err := engine.ConnOf(b.Engine.Internal()).ListRuns(ctx, call)
				require.NoError(t, err)
				count, found = count+1, found+len(reply.Runs)
				if !reply.More {
					return count, found
				}
				call.BehindAt, call.BehindID = reply.NextAt, reply.NextID
			}
		}
		require.Equal(t, []int{3, 0}, intsOf(calls("success", "")), "1200 runs in steps of 500")
		require.Equal(t, []int{1, 0}, intsOf(calls("expired,failed,cancelled", "")))
		require.Equal(t, []int{1, 0}, intsOf(calls("expired", "closed")))
		require.Empty(t, fixture.Pages(t, b.Client, runtime.RunQuery{States: []fabrictype.RunState{fabrictype.RunExpired}}, 10))
		require.Len(t, fixture.Pages(t, b.Client, runtime.RunQuery{}, 100), 1200)
		require.Len(t, fixture.Pages(t, b.Client, runtime.RunQuery{Tags: map[string]string{"rare.one": "1"}}, 10), 1)

		cancel := func(from, to int) {
			for part := range 8 {
				starting.Go(func() {
					for i := from; i < to; i++ {
						require.NoError(t, b.Client.Run("waiting", fmt.Sprint(part, "-", i)).Cancel(ctx, "enough"))
					}
				})
			}
			starting.Wait()
		}
		same := func(sort string) {
			t.Helper()
			ids := func(q runtime.RunQuery) (ids []string) {
				for _, run := range fixture.Pages(t, b.Client, q, 100) {
					if run.State == fabrictype.RunCancelled {
						ids = append(ids, run.Run)
					}
				}
				return ids
			}
			cancelled := runtime.RunQuery{Sort: sort, States: []fabrictype.RunState{fabrictype.RunCancelled}}
			require.Equal(t, ids(runtime.RunQuery{Sort: sort}), ids(cancelled), sort)
		}
		cancel(0, 10)
		require.Equal(t, []int{1, 80}, intsOf(calls("cancelled", "")))
		require.Equal(t, []int{1, 80}, intsOf(calls("cancelled,failed", "closed")))
		require.Equal(t, []int{1, 0}, intsOf(calls("failed", "closed")))
		for _, sort := range []string{"created", "-created", "finished", "-finished"} {
			same(sort)
		}
		cancel(10, 70) // more than a call reads of the index in the order of ends
		for _, sort := range []string{"created", "-created", "finished", "-finished"} {
			same(sort)
		}
	}, runtime.OpenConfig{Partitions: 1})
}

func TestTagsOfRunsFollowLaterOnes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := oneWay(t, fixture.NewCourse(), "tagged", "ok", flow.Tag("team.name", "census"))
		run, err := runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithTag("customer.id", "7"))
		require.NoError(t, err)
		p, err := engine.ConnOf(b.Engine.Internal()).FlowPartition(run.FlowID())
		require.NoError(t, err)
		_, err = engine.ConnOf(b.Engine.Internal()).SetFlowTags(ctx, enginerpc.SetFlowTagsCall{
			Partition: p, FlowID: run.FlowID(), Tags: []string{"customer.id", "8", "customer.id", "9", "new.one", "x"},
		})
		require.NoError(t, err)
		b.Check(t, invariant.AnyTime)
		for tag, want := range map[string]int{
			"customer.id=7": 0, "customer.id=8": 0, "customer.id=9": 1, "new.one=x": 1, "team.name=census": 1,
		} {
			name, value, _ := strings.Cut(tag, "=")
			require.Len(t, fixture.Pages(t, b.Client, runtime.RunQuery{Tags: map[string]string{name: value}}, 5), want, tag)
		}
		require.NoError(t, run.Cancel(ctx, "enough"))
		require.NoError(t, run.Purge(ctx))
		fixture.NothingLeft(t, b)
	})
}

func TestRunQueries_RefuseContradictions(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := context.Background()
		now := time.Now()
		for _, q := range []runtime.RunQuery{
			{States: []fabrictype.RunState{"lost"}}, {Tags: map[string]string{"": "x"}}, {Tags: map[string]string{"Team": "x"}}, {CreatedFrom: now, CreatedBefore: now},
			{CreatedFrom: now, FinishedFrom: now}, {FinishedFrom: now, FinishedBefore: now.Add(-time.Hour)},
			{Text: strings.Repeat("x", 257)}, {Text: "a\nb"}, {Sort: "up"}, {CreatedFrom: now, Sort: "-finished"},
			{FinishedFrom: now, Sort: "created"},
		} {
			_, err := b.Client.ListRuns(ctx, q, "", 0)
			require.ErrorIs(t, err, runtime.ErrInvalid)
			for _, err := range b.Client.Runs(ctx, q) {
				require.ErrorIs(t, err, runtime.ErrInvalid)
			}
		}
		id := string(keyspace.FlowIDFor("default", "f", "r"))
		for _, cursor := range []string{"c+:1:" + id, "x", "c:1", "c:x:" + id, "c:-2:" + id, "f:1:" + id, "c:1:" + id + "x"} {
			_, err := b.Client.ListRuns(ctx, runtime.RunQuery{}, cursor, 0)
			require.ErrorIs(t, err, runtime.ErrCursor, cursor)
		}
		def := oneWay(t, fixture.NewCourse(), "tagged", "ok")
		_, err := runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithTag("Nonsense", "7"))
		require.ErrorIs(t, err, runtime.ErrInvalid)
		_, err = runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithTag("a.b", strings.Repeat("x", flowgraph.MaxTagValue+1)))
		require.ErrorIs(t, err, flowgraph.ErrLimit)
		b.Check(t, invariant.Quiescent)
	})
}

func TestContractModeHasNoRunSearch(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		_, err := b.Client.ListRuns(context.Background(), runtime.RunQuery{}, "", 0)
		require.ErrorIs(t, err, runtime.ErrNotInContract)
	})
}

// Namespaces of one prefix do not see each other's runs, limits and budgets.
func TestListsKeepToTheirNamespace(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		if b.Kind == testserver.Embedded {
			t.Skip("an engine in memory has one namespace")
		}
		ctx := enginetest.Context(t)
		other := enginetest.Open(t, b.Kind, b.URL, b.Prefix, runtime.OpenConfig{Namespace: "other"})
		var budgets []flow.Option
		var limits []flow.NodeOption
		if !b.Contract() {
			budgets = []flow.Option{
				flow.Budget("own", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}}), flow.Budget("all", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}, PerFlow: true}),
			}
			limits = []flow.NodeOption{activity.Limit("few", activity.LimitConfig{AtOnce: 5})}
		}
		a := activity.New("report", func(ctx context.Context, n int) (int, error) {
			if b.Contract() {
				return n, nil
			}
			return n, activity.ReportUsage(ctx, "calls", 1)
		})
		f := flow.New[int, int]("single", budgets...)
		flow.Return(f, flow.Node(f, "only", a, f.Input(), limits...))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{a})
		b.Keeper(t)
		for i, client := range []*runtime.Client{b.Client, other.Client, other.Client} {
			run, err := runtime.Start(ctx, client, def, i, runtime.WithID(fmt.Sprint("run-", i)))
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err)
		}
		for client, want := range map[*runtime.Client][]string{b.Client: {"run-0"}, other.Client: {"run-2", "run-1"}} {
			page, err := client.ListRuns(ctx, runtime.RunQuery{Flow: "single"}, "", 0)
			require.NoError(t, err)
			require.Equal(t, want, runNames(page.Items))
			if b.Contract() {
				continue
			}
			page, err = client.ListRuns(ctx, runtime.RunQuery{}, "", 0)
			require.NoError(t, err)
			require.Equal(t, want, runNames(page.Items))
			quotas, err := client.Limits(ctx)
			require.NoError(t, err)
			require.LessOrEqual(t, len(quotas), 1, "one that is not in use any more may be forgotten")
			states, err := client.Budgets(ctx)
			require.NoError(t, err)
			require.Len(t, states, 1+len(want))
		}
	})
}

func runNames(runs []fabrictype.Run) []string {
	var names []string
	for _, r := range runs {
		names = append(names, r.Run)
	}
	return names
}
