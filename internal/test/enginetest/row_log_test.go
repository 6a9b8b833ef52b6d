package enginetest_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// TestEventsFollowFromRows takes two runs of one random graph through the same steps. The events of the first run
// follow from its rows until an unusual step; the second one has its events logged from the beginning. Both have the same
// events in the same order, and an event that was read once keeps its id and its place. FLOWFABRIC_SEED repeats a
// graph.
func TestEventsFollowFromRows(t *testing.T) {
	t.Parallel()
	trials := func(t *testing.T, b *enginetest.Bench, jump func(time.Duration)) {
		written := 0
		for seed := range randseed.Trials(t, 20) {
			x := newTwoLogs(t, b, rand.New(rand.NewPCG(seed, 11)), jump)
			t.Logf("FLOWFABRIC_SEED=%d", seed)
			x.submit(1+x.r.IntN(14), 3)
			for x.step() {
				x.compare()
			}
			if head, _ := x.rows.rows(); head.Events < 0 {
				written++
			}
			b.Check(t, invariant.AnyTime)
		}
		require.Positive(t, written, "no run had its events written out")
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) { trials(t, b, func(time.Duration) {}) })
	t.Run("clock goes back", func(t *testing.T) {
		t.Parallel()
		b, clock := enginetest.WithClock(t)
		trials(t, b, clock.Jump)
	})
	t.Run("clock stopped", func(t *testing.T) {
		t.Parallel()
		trials(t, enginetest.WithStoppedClock(t), func(time.Duration) {})
	})
}

// TestEventsOfAWideRun does the same with a run of 1,000 nodes, whose events are written out in the end.
func TestEventsOfAWideRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		if b.Kind == testserver.OnCluster {
			t.Skip("single servers show the same")
		}
		x := newTwoLogs(t, b, rand.New(rand.NewPCG(1, 12)), func(time.Duration) {})
		x.submit(1000, 500)
		x.rare, x.many = 0, 64
		for i := 0; x.step(); i++ {
			if i%8 == 0 {
				x.compare()
			}
		}
		head, _ := x.rows.rows()
		require.Equal(t, 2002, head.Events)
		x.compare()
		for _, g := range x.sides() {
			_, err := g.e.ReplayExecution(g.ctx, enginerpc.ReplayExecutionCall{ExecutionID: g.node("n0999"), LaneID: g.lane})
			require.NoError(t, err)
		}
		x.compare()
		b.Check(t, invariant.AnyTime)
	})
}

// twoLogs are two runs of one graph: one whose events follow from its rows, and one whose events are logged.
type twoLogs struct {
	t            *testing.T
	r            *rand.Rand
	jump         func(time.Duration)
	rows, logged *graph
	names        []string
	rare, many   int                   // one step of `rare` is unusual; the most completions of one call
	reported     map[string]bool       // nodes with progress
	seen         []enginerpc.FlowEvent // of the first run, when it was last read
}

func newTwoLogs(t *testing.T, b *enginetest.Bench, r *rand.Rand, jump func(time.Duration)) *twoLogs {
	x := &twoLogs{
		t: t, r: r, jump: jump, rows: newGraph(t, b), logged: newGraph(t, b), rare: 2 + r.IntN(10), many: 3, reported: make(map[string]bool),
		seen: []enginerpc.FlowEvent{},
	}
	x.logged.p = x.rows.p
	return x
}

func (x *twoLogs) sides() []*graph { return []*graph{x.rows, x.logged} }

// submit submits both runs: a pair of nodes has an edge with the chance 1/sparse.
func (x *twoLogs) submit(nodes, sparse int) {
	for i := range nodes {
		x.names = append(x.names, fmt.Sprintf("n%04d", i))
	}
	var edges [][2]string
	for i, down := range x.names {
		for _, up := range x.names[:i] {
			if x.r.IntN(sparse) == 0 {
				edges = append(edges, [2]string{up, down})
			}
		}
	}
	plain := x.r.IntN(3) > 0
	for _, g := range x.sides() {
		g.submit(g.describe(x.names, edges...))
		if !plain {
			g.forgetPlain()
		}
	}
	x.logged.logAll()
}

// logAll has the events of a run logged that has just begun.
func (g *graph) logAll() {
	g.t.Helper()
	head, _ := g.rows()
	client, nodes := g.e.Client(), g.e.Keys().FlowNodes(g.p, g.id)
	at := int64(rowread.RunHeadColumns["events"][0])
	require.NoError(g.t, client.Do(g.ctx, client.B().Setrange().Key(nodes).Offset(at).Value("\xff\xff").Build()).Error())
	element := fmt.Sprintf("%d\nflow_submitted   ", head.Created)
	log := client.B().Rpush().Key(g.e.Keys().FlowEvents(g.p, g.id)).Element(element).Build()
	require.NoError(g.t, client.Do(g.ctx, log).Error())
}

// step performs one step on both runs. It reports whether nodes are leased after it.
func (x *twoLogs) step() bool {
	active := slices.Sorted(maps.Keys(x.rows.leases))
	require.Equal(x.t, active, slices.Sorted(maps.Keys(x.logged.leases)), "the leased executions")
	by := time.Duration(x.r.IntN(5)) * time.Minute
	x.jump(-by)
	defer x.jump(by)
	switch {
	case x.rare > 0 && x.r.IntN(x.rare) == 0:
		x.unusual(active)
	case len(active) > 0 && x.r.IntN(8) > 0:
		x.complete(active)
	default:
		for _, g := range x.sides() {
			g.drain(1000) // edges that a call had no room for
			g.claim()
		}
		return len(x.rows.leases) > 0
	}
	return true
}

// complete ends some nodes in one call, which may lease others.
func (x *twoLogs) complete(active []string) {
	x.r.Shuffle(len(active), func(i, j int) { active[i], active[j] = active[j], active[i] })
	ended := active[:1+x.r.IntN(min(x.many, len(active)))]
	count := []int64{0, 100}[x.r.IntN(2)]
	for _, g := range x.sides() {
		call := g.completions(ended...)
		call.Count = count
		for _, name := range ended {
			delete(g.leases, name)
		}
		g.completeMany(call)
	}
}

// unusual performs a step that does not follow from rows.
func (x *twoLogs) unusual(active []string) {
	node := ""
	if len(active) > 0 {
		node = active[x.r.IntN(len(active))]
	}
	what := x.r.IntN(4)
	for _, g := range x.sides() {
		lease := g.leases[node]
		var err error
		switch {
		case what == 0 && node != "":
			_, err = g.e.Fail(g.ctx, enginerpc.FailCall{
				Partition: g.p, ExecutionID: lease.ExecutionID, LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch,
				AttemptID: lease.AttemptID, AttemptIndex: lease.AttemptIndex, Reason: "no\nluck", Category: "test",
			})
			delete(g.leases, node)
		case what == 1 && node != "" && !x.reported[node]:
			_, err = g.e.UpdateProgress(g.ctx, enginerpc.UpdateProgressCall{
				ExecutionID: lease.ExecutionID, LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch, ProgressPct: "5",
			})
		case what == 2 && g.ended(x.names[0]):
			_, err = g.e.ReplayExecution(g.ctx, enginerpc.ReplayExecutionCall{ExecutionID: g.node(x.names[0]), LaneID: g.lane})
		default:
			_, err = g.e.PauseFlow(g.ctx, enginerpc.PauseFlowCall{Partition: g.p, FlowID: g.id})
			if err == nil {
				_, err = g.e.ResumeFlow(g.ctx, enginerpc.ResumeFlowCall{Partition: g.p, FlowID: g.id})
			}
		}
		if err != nil {
			require.ErrorContains(x.t, err, "flow", "the run is over")
		}
	}
	x.reported[node] = x.reported[node] || what == 1
}

func (g *graph) ended(node string) bool { return g.core(node)["lifecycle_phase"] == "terminal" }

// read returns the events of a run after an event, by pages of limit events.
func (x *twoLogs) read(g *graph, after string, limit int64) []enginerpc.FlowEvent {
	events := []enginerpc.FlowEvent{}
	for {
		reply, err := g.e.ReadEvents(g.ctx, enginerpc.ReadEventsCall{Partition: g.p, FlowID: g.id, After: after, Limit: limit})
		require.NoError(x.t, err)
		require.False(x.t, reply.Lost)
		events = append(events, reply.Events...)
		if int64(len(reply.Events)) < limit {
			return events
		}
		after = events[len(events)-1].ID
	}
}

// compare reads the events of both runs.
func (x *twoLogs) compare() {
	x.t.Helper()
	limit := int64(1 + x.r.IntN(500))
	if len(x.names) > 100 {
		limit = 500 // the most that one call returns
	}
	all := x.read(x.rows, "", limit)
	require.Equal(x.t, linesOf(x.read(x.logged, "", 500)), linesOf(all))
	require.Equal(x.t, x.seen, all[:len(x.seen)], "events that were read before")
	x.seen = all
	ids := make(map[string]bool)
	for _, e := range all {
		require.False(x.t, ids[e.ID], "%s is the id of two events", e.ID)
		ids[e.ID] = true
	}
	at := x.r.IntN(len(all))
	require.Equal(x.t, all[at+1:], x.read(x.rows, all[at].ID, limit), "after %s", all[at].ID)
	node := append(x.names, "")[x.r.IntN(len(x.names)+1)]
	require.Equal(x.t, linesOf(x.ofNode(x.logged, node)), linesOf(x.ofNode(x.rows, node)))
	of := []enginerpc.FlowEvent{}
	for _, e := range slices.Backward(all) {
		if e.Node == node {
			of = append(of, e)
		}
	}
	require.Equal(x.t, of, x.ofNode(x.rows, node), "events of node %q", node)
}

// ofNode returns the events of a node, the latest first.
func (x *twoLogs) ofNode(g *graph, node string) []enginerpc.FlowEvent {
	events := []enginerpc.FlowEvent{}
	call := enginerpc.ReadNodeEventsCall{Partition: g.p, FlowID: g.id, Node: node, Limit: 100}
	for {
		reply, err := g.e.ReadNodeEvents(g.ctx, call)
		require.NoError(x.t, err)
		events = append(events, reply.Events...)
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return events
		}
	}
}

// linesOf are events without their ids and times.
func linesOf(events []enginerpc.FlowEvent) (lines []string) {
	for _, e := range events {
		lines = append(lines, strings.Join([]string{e.Event, e.Node, e.Attempt, e.Detail}, " "))
	}
	return lines
}
