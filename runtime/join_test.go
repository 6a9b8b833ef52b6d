package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
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
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/runsubmit"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// course is an activity whose input selects how it ends: "ok" returns at once, "fail" fails for good, "fail-often" is
// retried, "hang" waits until its context ends, "gate" until the course's gate is open, and "ok-then" until one hangs.
type course struct {
	act     *activity.Activity[string, string]
	sum     *activity.Activity[[]string, string]
	gate    chan struct{}
	hanging atomic.Int32
	hangs   chan struct{}  // closed when the first one hangs
	stopped chan time.Time // the times at which the contexts of hanging functions ended
}

func newCourse() *course {
	c := &course{gate: make(chan struct{}), hangs: make(chan struct{}), stopped: make(chan time.Time, 256)}
	c.act = activity.New("course", c.run, activity.Retry(activity.NoRetry))
	c.sum = activity.New("sum", func(_ context.Context, in []string) (string, error) { return strings.Join(in, " "), nil })
	return c
}

func (c *course) run(ctx context.Context, in string) (string, error) {
	info, _ := activity.Info(ctx)
	switch in {
	case "fail":
		return "", activity.NonRetryable(errors.New("on purpose"))
	case "fail-often":
		return "", errors.New("on purpose, once more")
	case "hang":
		if c.hanging.Add(1) == 1 {
			close(c.hangs)
		}
		<-ctx.Done()
		c.stopped <- time.Now()
		return "", context.Cause(ctx)
	case "ok-then":
		select {
		case <-c.hangs:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	case "gate":
		select {
		case <-c.gate:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	return info.Node, nil
}

// nodes declares one node for each way to end: "a", "b", …
func (c *course) nodes(f *flow.Builder[none, string], ways ...string) []flow.Ref[string] {
	refs := make([]flow.Ref[string], len(ways))
	for i, way := range ways {
		refs[i] = flow.Node(f, string(rune('a'+i)), c.act, flow.Const(way))
	}
	return refs
}

type none = struct{}

// startOf builds and starts a flow.
func startOf(t *testing.T, b *enginetest.Bench, f *flow.Builder[none, string]) *runtime.Run[string] {
	t.Helper()
	def, err := f.Build()
	require.NoError(t, err)
	run, err := runtime.Start(enginetest.Context(t), b.Client, def, none{})
	require.NoError(t, err)
	return run
}

// states are the states of a run's nodes, by name.
func states(t *testing.T, run *runtime.Run[string]) map[string]fabrictype.NodeState {
	t.Helper()
	d, err := run.Describe(enginetest.Context(t))
	require.NoError(t, err)
	out := make(map[string]fabrictype.NodeState)
	for _, n := range d.Nodes {
		out[n.Name] = n.State
	}
	return out
}

func TestAnyOfTakesTheFirstAndCancelsTheRest(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := newCourse()
		b.Worker(t, []activity.Handler{c.act}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[none, string]("race")
		refs := c.nodes(f, "hang", "gate", "hang")
		flow.Return(f, flow.Node(f, "winner", c.act, flow.AnyOf(refs...)))
		run := startOf(t, b, f)
		enginetest.Eventually(t, func() string {
			if c.hanging.Load() < 2 {
				return "the slow ones have not begun"
			}
			return ""
		})
		if !b.Contract() {
			d, err := run.Describe(enginetest.Context(t))
			require.NoError(t, err)
			require.Equal(t, "waits for 1 of a, b, c", d.Nodes[3].Waiting.Sentence)
		}
		close(c.gate)
		result, err := run.Result(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, "winner", result)
		<-c.stopped
		<-c.stopped
		require.Equal(t, map[string]fabrictype.NodeState{"a": "cancelled", "b": "completed", "c": "cancelled", "winner": "completed"},
			states(t, run))
		b.Settle(t)
	})
}

func TestAnyOfLetsTheRestRun(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := newCourse()
		b.Worker(t, []activity.Handler{c.act}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[none, string]("race")
		refs := c.nodes(f, "gate", "ok")
		flow.Return(f, flow.Node(f, "winner", c.act, flow.AnyOf(refs...), flow.LetRun()))
		run := startOf(t, b, f)
		enginetest.Eventually(t, func() string {
			if state := states(t, run)["winner"]; state != fabrictype.NodeSucceeded {
				return "the winner is " + string(state)
			}
			return ""
		})
		require.Equal(t, fabrictype.NodeActive, states(t, run)["a"])
		close(c.gate)
		_, err := run.Result(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeSucceeded, states(t, run)["a"])
		b.Settle(t)
	})
}

func TestQuorumTakesThoseThatSucceeded(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := newCourse()
		b.Worker(t, []activity.Handler{c.act, c.sum}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[none, string]("vote")
		refs := c.nodes(f, "ok", "fail", "hang", "fail", "gate")
		flow.Return(f, flow.Node(f, "merge", c.sum, flow.Quorum(2, refs[4], refs[3], refs[2], refs[1], refs[0])))
		run := startOf(t, b, f)
		enginetest.Eventually(t, func() string {
			if got := states(t, run); got["b"] != fabrictype.NodeFailed || got["d"] != fabrictype.NodeFailed {
				return fmt.Sprintf("two must fail: %v", got)
			}
			return ""
		})
		close(c.gate)
		result, err := run.Result(enginetest.Context(t))
		require.NoError(t, err, "the failures belong to the join")
		require.Equal(t, "e a", result)
		require.Equal(t, map[string]fabrictype.NodeState{
			"a": "completed", "b": "failed", "c": "cancelled", "d": "failed", "e": "completed", "merge": "completed",
		}, states(t, run))
		b.Settle(t)
	})
}

func TestImpossibleQuorumSkipsAtOnce(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := newCourse()
		b.Worker(t, []activity.Handler{c.act, c.sum}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[none, string]("vote")
		refs := c.nodes(f, "fail", "hang", "fail")
		flow.Return(f, flow.Node(f, "after", c.act, flow.Const("ok"), flow.After(
			flow.Node(f, "merge", c.sum, flow.Quorum(2, refs...)))))
		run := startOf(t, b, f)
		_, err := run.Result(enginetest.Context(t))
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.Contains(t, []string{"a", "c"}, failed.Node)
		got := states(t, run)
		require.Equal(t, fabrictype.NodeCancelled, got["b"])
		require.Equal(t, fabrictype.NodeSkipped, got["merge"])
		require.Equal(t, fabrictype.NodeSkipped, got["after"])
		b.Settle(t)
	})
}

func TestSiblingThatOthersNeedContinues(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := newCourse()
		b.Worker(t, []activity.Handler{c.act, c.sum}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[none, string]("shared")
		refs := c.nodes(f, "ok", "gate", "hang")
		first := flow.Node(f, "first", c.act, flow.AnyOf(refs...))
		flow.Return(f, flow.Node(f, "both", c.sum, flow.List(first, refs[1])))
		run := startOf(t, b, f)
		enginetest.Eventually(t, func() string {
			if state := states(t, run)["c"]; state != fabrictype.NodeCancelled {
				return "c, which no node needs, is " + string(state)
			}
			return ""
		})
		require.NotEqual(t, fabrictype.NodeCancelled, states(t, run)["b"])
		close(c.gate)
		result, err := run.Result(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, "first b", result)
		b.Settle(t)
	})
}

func TestJoinIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		core := engine.ConnOf(b.Engine.Internal())
		id := keyspace.FlowIDFor("ns", "f", "r")
		p, err := core.FlowPartition(id)
		require.NoError(t, err)
		for says, joins := range map[string][2]string{
			"node b: quorum k is 2, must be 1 to 1":                                              {"", "quorum let_run 2"},
			"node b: quorum k is 0, must be 1 to 1":                                              {"", "quorum let_run 0"},
			"node b: policy_variant must be any_of, quorum, any_failure or finally, got: all_of": {"", "all_of let_run 0"},
			"node b: on_satisfied must be cancel_remaining or let_run, got: both":                {"", "any_of both 0"},
			"node a: a join needs upstreams":                                                     {"any_of let_run 0", ""},
			`node b: a join must be "<policy> <on_satisfied> <k>", got: any_of`:                  {"", "any_of"},
		} {
			run := runsubmit.Run{
				Partition: p, FlowID: id, FlowName: "f", RunID: "r", Namespace: "ns", GraphHash: "g", InputHash: "i",
				Definition: []byte("{}"),
				Nodes: []enginerpc.PutGraphNode{
					{Name: "a", Kind: "k", LaneID: "default", Policy: []byte("{}"), Tags: []byte("{}"), Join: joins[0]},
					{Name: "b", Kind: "k", LaneID: "default", Policy: []byte("{}"), Tags: []byte("{}"), Join: joins[1]},
				},
				Edges: []runsubmit.Edge{{Up: "a", Down: "b"}},
			}
			_, err := run.Submit(ctx, core)
			require.ErrorContains(t, err, says)
			require.Empty(t, partitionKeys(t, b), says)
		}
	})
}

// partitionKeys are the keys of flows and executions.
func partitionKeys(t *testing.T, b *enginetest.Bench) []string {
	t.Helper()
	var keys []string
	for _, key := range b.Check(t, invariant.AnyTime).KeyNames() {
		if strings.Contains(key, "{") {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestPlanShowsJoins(t *testing.T) {
	t.Parallel()
	c := newCourse()
	f := flow.New[none, string]("vote")
	refs := c.nodes(f, "ok", "ok", "ok")
	flow.Node(f, "any", c.act, flow.AnyOf(refs...), flow.LetRun())
	flow.Return(f, flow.Node(f, "merge", c.sum, flow.Quorum(2, refs...)))
	def, err := f.Build()
	require.NoError(t, err)
	plan, err := runtime.Plan(def, none{}, runtime.WithID("r"))
	require.NoError(t, err)
	const groups = "  (contract mode needs the edge-group functions)\n"
	require.Contains(t, plan.String(), "ff_set_edge_group_policy      merge: quorum, 2 of 3, cancel_remaining"+groups)
	require.Contains(t, plan.String(), "ff_set_edge_group_policy      any: any_of of 3, let_run"+groups)
	require.Empty(t, plan.Refused())
}

// The table of joins in docs/concepts/flows.md, row by row.
func TestJoinTable(t *testing.T) {
	t.Parallel()
	rows := joinTable(t)
	require.GreaterOrEqual(t, len(rows), 12)
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := newCourse()
		b.Worker(t, []activity.Handler{c.act, c.sum}, runtime.WorkerConfig{Concurrency: 8})
		for i, row := range rows {
			f := flow.New[none, string](fmt.Sprintf("row-%d", i))
			var ways []string
			for _, end := range row.upstreams {
				ways = append(ways, map[string]string{"succeeds": "ok", "fails": "fail", "skipped": "fail"}[end])
			}
			refs := c.nodes(f, ways...)
			for j, end := range row.upstreams {
				if end == "skipped" {
					refs[j] = flow.Node(f, "behind-"+refs[j].Name(), c.act, flow.Const("ok"), flow.After(refs[j]))
				}
			}
			var node flow.Ref[string]
			switch row.join {
			case "all":
				node = flow.Node(f, "node", c.sum, flow.List(refs...))
			case "any of":
				node = flow.Node(f, "node", c.act, flow.AnyOf(refs...), flow.LetRun())
			default:
				var k int
				_, err := fmt.Sscanf(row.join, "%d of", &k)
				require.NoError(t, err, row.join)
				node = flow.Node(f, "node", c.sum, flow.Quorum(k, refs...), flow.LetRun())
			}
			flow.Return(f, node)
			run := startOf(t, b, f)
			_, err := run.Result(enginetest.Context(t))
			want := map[string]fabrictype.NodeState{"runs": "completed", "is skipped": "skipped"}[row.node]
			require.Equal(t, want, states(t, run)["node"], "%+v", row)
			require.Equal(t, row.flow == "succeeds", err == nil, "%+v: %v", row, err)
		}
		b.Settle(t)
	})
}

type joinRow struct {
	join       string
	upstreams  []string
	node, flow string
}

func joinTable(t *testing.T) []joinRow {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "concepts", "flows.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "| join | upstreams | the node | the run |")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n\n")
	var rows []joinRow
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.Contains(cells[0], "---") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, joinRow{join: cells[0], upstreams: strings.Split(cells[1], ", "), node: cells[2], flow: cells[3]})
	}
	return rows
}

// BenchmarkQuorumCancel measures the time from the decision of a join to the moment at which the functions of 100
// siblings see their context cancelled.
func BenchmarkQuorumCancel(b *testing.B) {
	for _, kind := range testserver.Kinds(b) {
		b.Run(string(kind), func(b *testing.B) {
			bench := enginetest.New(b, kind)
			c := newCourse()
			bench.Worker(b, []activity.Handler{c.act, c.sum}, runtime.WorkerConfig{Concurrency: 128})
			var all []time.Duration
			for b.Loop() {
				all = append(all, c.cancelHundred(b, bench)...)
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// cancelHundred runs a join of one node that ends and 100 that do not.
func (c *course) cancelHundred(b *testing.B, bench *enginetest.Bench) []time.Duration {
	const siblings = 100
	c.gate = make(chan struct{})
	c.hanging.Store(0)
	f := flow.New[none, string]("hundred")
	refs := []flow.Ref[string]{flow.Node(f, "winner", c.act, flow.Const("gate"))}
	for i := range siblings {
		refs = append(refs, flow.Node(f, fmt.Sprintf("sibling-%d", i), c.act, flow.Const("hang")))
	}
	flow.Return(f, flow.Node(f, "join", c.sum, flow.Quorum(1, refs...)))
	def, err := f.Build()
	require.NoError(b, err)
	run, err := runtime.Start(b.Context(), bench.Client, def, none{})
	require.NoError(b, err)
	enginetest.Eventually(b, func() string {
		if n := c.hanging.Load(); n < siblings {
			return fmt.Sprintf("%d of %d siblings run", n, siblings)
		}
		return ""
	})
	begin := time.Now()
	close(c.gate)
	took := make([]time.Duration, siblings)
	for i := range took {
		took[i] = (<-c.stopped).Sub(begin)
	}
	_, err = run.Result(b.Context())
	require.NoError(b, err)
	return took
}

// A completion makes a node ready and, because it skips another one, cancels the node as the sibling of a join that can
// no longer be met. The node is not leased to the worker that completed.
func TestCancelledInTheCallThatMadeItReady(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := newCourse()
		b.Worker(t, []activity.Handler{c.act}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[none, string]("both")
		refs := c.nodes(f, "ok")
		ready := flow.Node(f, "ready", c.act, flow.Const("ok"), flow.After(refs[0]))
		skipped := flow.Node(f, "skipped", c.act, flow.Const("ok"), flow.OnFailure(refs[0]))
		flow.Node(f, "join", c.sum, flow.Quorum(2, ready, skipped))
		flow.Return(f, refs[0])
		run := startOf(t, b, f)
		var happened []string
		for e, err := range run.Watch(enginetest.Context(t), "") {
			require.NoError(t, err)
			if e.Node == "ready" {
				happened = append(happened, string(e.Kind))
			}
		}
		require.Equal(t, []string{"cancelled"}, happened)
		b.Settle(t)
	})
}
