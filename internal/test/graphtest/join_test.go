package graphtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/runsubmit"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestAnyOfTakesTheFirstAndCancelsTheRest(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("race")
		refs := c.Nodes(f, "hang", "gate", "hang")
		flow.Return(f, flow.Node(f, "winner", c.Act, flow.AnyOf(refs...)))
		run := fixture.StartOf(t, b, f)
		enginetest.Eventually(t, func() string {
			if c.Hanging.Load() < 2 {
				return "the slow ones have not begun"
			}
			return ""
		})
		if !b.Contract() {
			d, err := run.Describe(enginetest.Context(t))
			require.NoError(t, err)
			require.Equal(t, "waits for 1 of a, b, c", d.Nodes[3].Waiting.Sentence)
		}
		close(c.Gate)
		result, err := run.Result(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, "winner", result)
		<-c.Stopped
		<-c.Stopped
		require.Equal(t, map[string]fabrictype.NodeState{"a": "cancelled", "b": "completed", "c": "cancelled", "winner": "completed"},
			fixture.States(t, run))
		b.Settle(t)
	})
}

func TestAnyOfLetsTheRestRun(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("race")
		refs := c.Nodes(f, "gate", "ok")
		flow.Return(f, flow.Node(f, "winner", c.Act, flow.AnyOf(refs...), flow.LetRun()))
		run := fixture.StartOf(t, b, f)
		enginetest.Eventually(t, func() string {
			if state := fixture.States(t, run)["winner"]; state != fabrictype.NodeSucceeded {
				return "the winner is " + string(state)
			}
			return ""
		})
		require.Equal(t, fabrictype.NodeActive, fixture.States(t, run)["a"])
		close(c.Gate)
		_, err := run.Result(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeSucceeded, fixture.States(t, run)["a"])
		b.Settle(t)
	})
}

func TestQuorumTakesThoseThatSucceeded(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("vote")
		refs := c.Nodes(f, "ok", "fail", "hang", "fail", "gate")
		flow.Return(f, flow.Node(f, "merge", c.Sum, flow.Quorum(2, refs[4], refs[3], refs[2], refs[1], refs[0])))
		run := fixture.StartOf(t, b, f)
		enginetest.Eventually(t, func() string {
			if got := fixture.States(t, run); got["b"] != fabrictype.NodeFailed || got["d"] != fabrictype.NodeFailed {
				return fmt.Sprintf("two must fail: %v", got)
			}
			return ""
		})
		close(c.Gate)
		result, err := run.Result(enginetest.Context(t))
		require.NoError(t, err, "the failures belong to the join")
		require.Equal(t, "e a", result)
		require.Equal(t, map[string]fabrictype.NodeState{
			"a": "completed", "b": "failed", "c": "cancelled", "d": "failed", "e": "completed", "merge": "completed",
		}, fixture.States(t, run))
		b.Settle(t)
	})
}

func TestImpossibleQuorumSkipsAtOnce(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("vote")
		refs := c.Nodes(f, "fail", "hang", "fail")
		flow.Return(f, flow.Node(f, "after", c.Act, flow.Const("ok"), flow.After(
			flow.Node(f, "merge", c.Sum, flow.Quorum(2, refs...)))))
		run := fixture.StartOf(t, b, f)
		_, err := run.Result(enginetest.Context(t))
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.Contains(t, []string{"a", "c"}, failed.Node)
		got := fixture.States(t, run)
		require.Equal(t, fabrictype.NodeCancelled, got["b"])
		require.Equal(t, fabrictype.NodeSkipped, got["merge"])
		require.Equal(t, fabrictype.NodeSkipped, got["after"])
		b.Settle(t)
	})
}

func TestSiblingThatOthersNeedContinues(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("shared")
		refs := c.Nodes(f, "ok", "gate", "hang")
		first := flow.Node(f, "first", c.Act, flow.AnyOf(refs...))
		flow.Return(f, flow.Node(f, "both", c.Sum, flow.List(first, refs[1])))
		run := fixture.StartOf(t, b, f)
		enginetest.Eventually(t, func() string {
			if state := fixture.States(t, run)["c"]; state != fabrictype.NodeCancelled {
				return "c, which no node needs, is " + string(state)
			}
			return ""
		})
		require.NotEqual(t, fabrictype.NodeCancelled, fixture.States(t, run)["b"])
		close(c.Gate)
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
	c := fixture.NewCourse()
	f := flow.New[fixture.None, string]("vote")
	refs := c.Nodes(f, "ok", "ok", "ok")
	flow.Node(f, "any", c.Act, flow.AnyOf(refs...), flow.LetRun())
	flow.Return(f, flow.Node(f, "merge", c.Sum, flow.Quorum(2, refs...)))
	def, err := f.Build()
	require.NoError(t, err)
	plan, err := runtime.Plan(def, fixture.None{}, runtime.WithID("r"))
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
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{Concurrency: 8})
		for i, row := range rows {
			f := flow.New[fixture.None, string](fmt.Sprintf("row-%d", i))
			var ways []string
			for _, end := range row.upstreams {
				ways = append(ways, map[string]string{"succeeds": "ok", "fails": "fail", "skipped": "fail"}[end])
			}
			refs := c.Nodes(f, ways...)
			for j, end := range row.upstreams {
				if end == "skipped" {
					refs[j] = flow.Node(f, "behind-"+refs[j].Name(), c.Act, flow.Const("ok"), flow.After(refs[j]))
				}
			}
			var node flow.Ref[string]
			switch row.join {
			case "all":
				node = flow.Node(f, "node", c.Sum, flow.List(refs...))
			case "any of":
				node = flow.Node(f, "node", c.Act, flow.AnyOf(refs...), flow.LetRun())
			default:
				var k int
				_, err := fmt.Sscanf(row.join, "%d of", &k)
				require.NoError(t, err, row.join)
				node = flow.Node(f, "node", c.Sum, flow.Quorum(k, refs...), flow.LetRun())
			}
			flow.Return(f, node)
			run := fixture.StartOf(t, b, f)
			_, err := run.Result(enginetest.Context(t))
			want := map[string]fabrictype.NodeState{"runs": "completed", "is skipped": "skipped"}[row.node]
			require.Equal(t, want, fixture.States(t, run)["node"], "%+v", row)
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
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "concepts", "flows.md"))
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
			c := fixture.NewCourse()
			bench.Worker(b, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{Concurrency: 128})
			var all []time.Duration
			for b.Loop() {
				all = append(all, c.CancelHundred(b, bench)...)
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// A completion makes a node ready and, because it skips another one, cancels the node as the sibling of a join that can
// no longer be met. The node is not leased to the worker that completed.
func TestCancelledInTheCallThatMadeItReady(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("both")
		refs := c.Nodes(f, "ok")
		ready := flow.Node(f, "ready", c.Act, flow.Const("ok"), flow.After(refs[0]))
		skipped := flow.Node(f, "skipped", c.Act, flow.Const("ok"), flow.OnFailure(refs[0]))
		flow.Node(f, "join", c.Sum, flow.Quorum(2, ready, skipped))
		flow.Return(f, refs[0])
		run := fixture.StartOf(t, b, f)
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
