package enginetest_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/invariant"
	"github.com/flowfabric/flowfabric-go/internal/testserver"
)

const groupKind = "group.node"

// joinPolicy is the policy of an edge group.
type joinPolicy struct {
	variant string
	k       int64
	then    string
}

func (p joinPolicy) String() string { return fmt.Sprintf("%s-%d-%s", p.variant, p.k, p.then) }

const (
	cancelRemaining = "cancel_remaining"
	letRun          = "let_run"
)

// joinPolicies are all shapes of a group over three edges.
func joinPolicies() []joinPolicy {
	list := []joinPolicy{{variant: "all_of"}}
	for _, then := range []string{cancelRemaining, letRun} {
		list = append(list, joinPolicy{"any_of", 0, then})
		for k := range int64(3) {
			list = append(list, joinPolicy{"quorum", k + 1, then})
		}
	}
	return list
}

// joinModel is what a group should do, told its outcomes one by one.
type joinModel struct {
	policy    joinPolicy
	n         int
	succeeded int
	other     int
	state     string
}

func newJoinModel(p joinPolicy, n int) *joinModel {
	return &joinModel{policy: p, n: n, state: "pending"}
}

func (m *joinModel) needed() int {
	switch m.policy.variant {
	case "any_of":
		return 1
	case "quorum":
		return int(m.policy.k)
	}
	return m.n
}

// tell adds an outcome and returns whether the group fires by it.
func (m *joinModel) tell(outcome string) bool {
	if outcome == "success" {
		m.succeeded++
	} else {
		m.other++
	}
	if m.state != "pending" {
		return false
	}
	switch {
	case m.succeeded >= m.needed():
		m.state = "satisfied"
	case m.n-m.other < m.needed():
		m.state = "impossible"
	}
	return m.state != "pending"
}

// sequences are all lists of n of the given texts.
func sequences(n int, of ...string) [][]string {
	lists := [][]string{nil}
	for range n {
		var longer [][]string
		for _, list := range lists {
			for _, text := range of {
				longer = append(longer, append(slices.Clone(list), text))
			}
		}
		lists = longer
	}
	return lists
}

// graph is a flow whose nodes a test ends one by one.
type graph struct {
	t      *testing.T
	b      *enginetest.Bench
	e      *enginecore.Engine
	ctx    context.Context
	p      enginecore.Partition
	id     enginecore.FlowID
	lane   enginecore.LaneID
	edges  [][2]string
	leases map[string]enginecore.ClaimedExecution
}

func newGraph(t *testing.T, b *enginetest.Bench) *graph {
	t.Helper()
	g := &graph{
		t: t, b: b, e: b.Engine.Core(), ctx: enginetest.Context(t), id: enginecore.FlowID(uuid.NewString()),
		leases: make(map[string]enginecore.ClaimedExecution),
	}
	p, err := g.e.FlowPartition(g.id)
	require.NoError(t, err)
	g.p, g.lane = p, enginecore.LaneID(g.id)
	return g
}

func (g *graph) node(name string) enginecore.ExecutionID {
	return enginecore.ExecutionIDFor(g.p, g.id, name)
}

func (g *graph) edge(up, down string) enginecore.EdgeID { return enginecore.EdgeIDFor(g.id, up, down) }

func (g *graph) hash(key string) map[string]string {
	g.t.Helper()
	client := g.e.Client()
	m, err := client.Do(g.ctx, client.B().Hgetall().Key(key).Build()).AsStrMap()
	require.NoError(g.t, err)
	return m
}

func (g *graph) set(key string) []string {
	g.t.Helper()
	client := g.e.Client()
	s, err := client.Do(g.ctx, client.B().Smembers().Key(key).Build()).AsStrSlice()
	require.NoError(g.t, err)
	slices.Sort(s)
	return s
}

func (g *graph) core(name string) map[string]string { return g.hash(g.e.Keys().ExecCore(g.node(name))) }

func (g *graph) state(name string) string { return g.core(name)["public_state"] }

func (g *graph) group(down string) map[string]string {
	return g.hash(g.e.Keys().FlowEdgegroup(g.id, g.node(down)))
}

func (g *graph) owed() []string { return g.set(g.e.Keys().IndexPendingCancelGroups(g.p)) }

func (g *graph) tuple(down string) string { return string(g.id) + "|" + string(g.node(down)) }

// listed are the siblings that a group names for cancelling.
func (g *graph) listed(down string) []string {
	text := g.group(down)["cancel_siblings_pending_members"]
	if text == "" {
		return nil
	}
	names := strings.Split(text, "|")
	slices.Sort(names)
	return names
}

func (g *graph) ids(names ...string) []string {
	var ids []string
	for _, name := range names {
		ids = append(ids, string(g.node(name)))
	}
	slices.Sort(ids)
	return ids
}

func (g *graph) policy(down string, p joinPolicy, expected int64) (string, error) {
	reply, err := g.e.SetEdgeGroupPolicy(g.ctx, enginecore.SetEdgeGroupPolicyCall{
		FlowID: g.id, DownstreamExecutionID: g.node(down), PolicyVariant: p.variant, OnSatisfied: p.then, K: p.k,
		ExpectedEdges: expected,
	})
	return reply.Outcome, err
}

// plain builds a flow call by call: nodes, joins, and edges in the order given.
func (g *graph) plain(nodes []string, joins map[string]joinPolicy, edges ...[2]string) {
	g.t.Helper()
	_, err := g.e.CreateFlow(g.ctx, enginecore.CreateFlowCall{Partition: g.p, FlowID: g.id, FlowKind: "f", Namespace: "n"})
	require.NoError(g.t, err)
	for _, name := range nodes {
		_, err := g.e.CreateExecution(g.ctx, enginecore.CreateExecutionCall{
			ExecutionID: g.node(name), Namespace: "n", LaneID: g.lane, ExecutionKind: groupKind, CreatorIdentity: "test",
		})
		require.NoError(g.t, err)
		_, err = g.e.AddExecutionToFlow(g.ctx, enginecore.AddExecutionToFlowCall{FlowID: g.id, ExecutionID: g.node(name)})
		require.NoError(g.t, err)
	}
	for _, down := range slices.Sorted(maps.Keys(joins)) {
		outcome, err := g.policy(down, joins[down], 0)
		require.NoError(g.t, err)
		require.Equal(g.t, "set", outcome)
	}
	for _, edge := range edges {
		g.stage(edge[0], edge[1])
	}
	for _, edge := range edges {
		g.apply(edge[0], edge[1], "")
	}
}

func (g *graph) stage(up, down string) {
	g.t.Helper()
	revision, err := strconv.ParseInt(g.hash(g.e.Keys().FlowCore(g.p, g.id))["graph_revision"], 10, 64)
	require.NoError(g.t, err)
	_, err = g.e.StageDependencyEdge(g.ctx, enginecore.StageDependencyEdgeCall{
		FlowID: g.id, EdgeID: g.edge(up, down), UpstreamExecutionID: g.node(up), DownstreamExecutionID: g.node(down),
		ExpectedGraphRevision: revision,
	})
	require.NoError(g.t, err)
}

func (g *graph) apply(up, down, ref string) string {
	g.t.Helper()
	reply, err := g.e.ApplyDependencyToChild(g.ctx, enginecore.ApplyDependencyToChildCall{
		FlowID: g.id, EdgeID: g.edge(up, down), UpstreamExecutionID: g.node(up), DownstreamExecutionID: g.node(down),
		GroupExecutionID: g.node(down), LaneID: g.lane, DataPassingRef: ref,
	})
	require.NoError(g.t, err)
	return reply.Unresolved
}

func (g *graph) resolution(up, down, outcome string) enginecore.ResolveDependencyCall {
	return enginecore.ResolveDependencyCall{
		DownstreamExecutionID: g.node(down), GroupExecutionID: g.node(down), UpstreamExecutionID: g.node(up), LaneID: g.lane,
		EdgeID: g.edge(up, down), UpstreamOutcome: outcome, FlowID: g.id,
	}
}

func (g *graph) resolve(up, down, outcome string) (state, effect string) {
	g.t.Helper()
	reply, err := g.e.ResolveDependency(g.ctx, g.resolution(up, down, outcome))
	require.NoError(g.t, err)
	return reply.State, reply.Effect
}

func (g *graph) cancel(name string) {
	g.t.Helper()
	_, err := g.e.CancelExecution(g.ctx, enginecore.CancelExecutionCall{
		ExecutionID: g.node(name), LaneID: g.lane, Reason: "test", Source: "operator_override",
	})
	require.NoError(g.t, err)
}

func (g *graph) evaluate(name string) string {
	g.t.Helper()
	reply, err := g.e.EvaluateFlowEligibility(g.ctx, enginecore.EvaluateFlowEligibilityCall{ExecutionID: g.node(name)})
	require.NoError(g.t, err)
	return reply.Eligibility
}

func (g *graph) replay(name string) int64 {
	g.t.Helper()
	reply, err := g.e.ReplayExecution(g.ctx, enginecore.ReplayExecutionCall{ExecutionID: g.node(name), LaneID: g.lane})
	require.NoError(g.t, err)
	return reply.WaitingFor
}

// managed submits the flow whole, in chunks, with joins set between nodes and edges.
func (g *graph) managed(result string, joins map[string]joinPolicy, edges ...[2]string) {
	g.t.Helper()
	upstreams := make(map[string]int64)
	for _, edge := range edges {
		upstreams[edge[0]] += 0
		upstreams[edge[1]]++
	}
	g.edges = edges
	call := enginecore.SubmitFlowCall{
		Partition: g.p, FlowID: g.id, FlowName: "groups", RunID: string(g.id), Namespace: "n", GraphHash: "g", InputHash: "i",
		Definition: []byte("{}"), NodeTotal: int64(len(upstreams)), EdgeTotal: int64(len(edges)),
	}
	if result != "" {
		call.ResultExecutionID = g.node(result)
	}
	send := func(change func(c *enginecore.SubmitFlowCall)) {
		g.t.Helper()
		c := call
		change(&c)
		for {
			reply, err := g.e.SubmitFlow(g.ctx, c)
			require.NoError(g.t, err)
			if !reply.More {
				return
			}
		}
	}
	for names := range slices.Chunk(slices.Sorted(maps.Keys(upstreams)), 200) {
		send(func(c *enginecore.SubmitFlowCall) {
			for _, name := range names {
				c.Nodes = append(c.Nodes, enginecore.SubmitFlowNode{
					ExecutionID: g.node(name), Name: name, Kind: groupKind, LaneID: g.lane, UpstreamCount: upstreams[name],
					InputCount: upstreams[name], Policy: []byte("{}"), Tags: []byte("{}"),
				})
			}
		})
	}
	for _, down := range slices.Sorted(maps.Keys(joins)) {
		_, err := g.policy(down, joins[down], upstreams[down])
		require.NoError(g.t, err)
	}
	for some := range slices.Chunk(edges, 200) {
		send(func(c *enginecore.SubmitFlowCall) {
			for _, edge := range some {
				c.Edges = append(c.Edges, enginecore.SubmitFlowEdge{
					EdgeID: g.edge(edge[0], edge[1]), UpstreamExecutionID: g.node(edge[0]), DownstreamExecutionID: g.node(edge[1]),
					DependencyKind: "success_only", InputName: edge[0],
				})
			}
		})
	}
	send(func(c *enginecore.SubmitFlowCall) { c.Last = true })
}

// claim leases all that can be claimed.
func (g *graph) claim() {
	g.t.Helper()
	for {
		reply, err := g.e.Claim(g.ctx, enginecore.ClaimCall{Partition: g.p, ClaimRequest: enginecore.ClaimRequest{
			LaneID: g.lane, WorkerID: "w", WorkerInstanceID: "w1", ClaimID: uuid.NewString(), Count: 100,
			LeaseTTL: time.Hour, Kinds: "\n" + groupKind + "\n",
		}})
		require.NoError(g.t, err)
		for _, x := range reply.Executions {
			g.leases[x.Node] = x
		}
		if len(reply.Executions) < 100 {
			return
		}
	}
}

// end ends a node of a managed flow, claiming what it needs; more tells that something was left for later.
func (g *graph) end(name, outcome string) (more bool) {
	g.t.Helper()
	if _, leased := g.leases[name]; !leased {
		g.claim()
	}
	x, leased := g.leases[name]
	switch outcome {
	case "success":
		require.True(g.t, leased, "%s cannot be claimed: %v", name, g.core(name))
		reply, err := g.e.Complete(g.ctx, enginecore.CompleteCall{
			Partition: g.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
			Result:       []byte("result of " + name),
			ClaimRequest: enginecore.ClaimRequest{LaneID: g.lane, WorkerID: "w", WorkerInstanceID: "w1", LeaseTTL: time.Hour},
		})
		require.NoError(g.t, err)
		more = reply.More
	case "failed":
		require.True(g.t, leased, "%s cannot be claimed: %v", name, g.core(name))
		reply, err := g.e.Fail(g.ctx, enginecore.FailCall{
			Partition: g.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
			AttemptIndex: x.AttemptIndex, Reason: "broken", Category: "test",
		})
		require.NoError(g.t, err)
		more = reply.More
	case "cancelled":
		g.cancel(name)
	case "expired":
		_, err := g.e.ExpireExecution(g.ctx, enginecore.ExpireExecutionCall{
			ExecutionID: g.node(name), LaneID: g.lane, ExpireReason: "operator",
		})
		require.NoError(g.t, err)
	default:
		require.Failf(g.t, "no such outcome", "%s", outcome)
	}
	delete(g.leases, name)
	return more
}

// drain ticks until nothing is left for later.
func (g *graph) drain(limit int64) (cancelled int64) {
	g.t.Helper()
	for range 1000 {
		reply, err := g.e.Tick(g.ctx, enginecore.TickCall{Partition: g.p, Limit: limit})
		require.NoError(g.t, err)
		cancelled += reply.Cancelled
		if !reply.More {
			return cancelled
		}
	}
	require.Fail(g.t, "the partition is never done")
	return 0
}

func (g *graph) result() enginecore.FlowResultReply {
	g.t.Helper()
	reply, err := g.e.FlowResult(g.ctx, enginecore.FlowResultCall{Partition: g.p, FlowID: g.id})
	require.NoError(g.t, err)
	return reply
}

// dump is what the flow's members, their dependencies and its groups hold: what a repeated call may not change.
func (g *graph) dump() string {
	g.t.Helper()
	keys := []string{g.e.Keys().FlowCore(g.p, g.id)}
	for _, member := range g.set(g.e.Keys().FlowMembers(g.p, g.id)) {
		id := enginecore.ExecutionID(member)
		keys = append(keys, g.e.Keys().ExecCore(id), g.e.Keys().ExecDepsMeta(id), g.e.Keys().FlowEdgegroup(g.id, id))
	}
	var lines []string
	for _, key := range keys {
		m := g.hash(key)
		for _, field := range slices.Sorted(maps.Keys(m)) {
			lines = append(lines, key+" "+field+" "+m[field])
		}
	}
	return strings.Join(append(lines, g.owed()...), "\n")
}

var threeUp = [][2]string{{"a", "j"}, {"b", "j"}, {"c", "j"}}

// TestJoinTruth tells every kind of group every sequence of outcomes, call by call.
func TestJoinTruth(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for _, p := range joinPolicies() {
			for _, outcomes := range sequences(3, "success", "failed", "skipped") {
				g := newGraph(t, b)
				g.plain([]string{"a", "b", "c", "j"}, map[string]joinPolicy{"j": p}, threeUp...)
				name := p.String() + " " + strings.Join(outcomes, " ")
				joinTruth(t, g, p, outcomes, name)
			}
		}
	})
}

func joinTruth(t *testing.T, g *graph, p joinPolicy, outcomes []string, name string) {
	t.Helper()
	m := newJoinModel(p, 3)
	for i, outcome := range outcomes {
		fired, before := m.state != "pending", g.dump()
		fires := m.tell(outcome)
		state, effect := g.resolve(string(rune('a'+i)), "j", outcome)
		if p.variant != "all_of" {
			want := m.state
			if fired {
				want = "already_fired"
			}
			assert.Equal(t, want, state, name)
			assert.Equal(t, fires && m.state == "impossible", effect == "child_skipped", name)
		}
		assert.NotEqual(t, before, g.dump(), name)
		again := g.dump()
		state, _ = g.resolve(string(rune('a'+i)), "j", outcome)
		assert.Equal(t, "already_resolved", state, name)
		assert.Equal(t, again, g.dump(), "%s: a repeat changes something", name)
	}
	want := map[string]string{"satisfied": "waiting", "impossible": "skipped", "pending": "waiting_children"}[m.state]
	assert.Equal(t, want, g.state("j"), name)
	group := g.group("j")
	assert.Equal(t, m.state, group["group_state"], name)
	assert.Equal(t, "3", group["n"], name)
	assert.Equal(t, strconv.Itoa(m.succeeded), group["succeeded"], name)
	failed, _ := strconv.Atoi(group["failed"])
	skipped, _ := strconv.Atoi(group["skipped"])
	assert.Equal(t, m.other, failed+skipped, name)
	if p.then == cancelRemaining {
		assert.Equal(t, g.ids("a", "b", "c"), g.listed("j"), "%s: all siblings still live", name)
		assert.Equal(t, "sibling_quorum_"+m.state, group["cancel_siblings_reason"], name)
		assert.Contains(t, g.owed(), g.tuple("j"), name)
	} else {
		assert.NotContains(t, g.owed(), g.tuple("j"), name)
		assert.Empty(t, group["cancel_siblings_pending_flag"], name)
	}
}

// TestManagedJoinTruth ends the upstreams of every kind of join in every way, and looks at the join, the siblings and
// the flow.
func TestManagedJoinTruth(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for _, p := range []joinPolicy{
			{variant: "all_of"}, {"any_of", 0, cancelRemaining}, {"any_of", 0, letRun}, {"quorum", 2, cancelRemaining},
			{"quorum", 2, letRun},
		} {
			for _, outcomes := range sequences(3, "success", "failed", "cancelled", "expired") {
				managedTruth(t, b, p, outcomes)
			}
		}
		b.Settle(t)
	})
}

func managedTruth(t *testing.T, b *enginetest.Bench, p joinPolicy, outcomes []string) {
	t.Helper()
	name := p.String() + " " + strings.Join(outcomes, " ")
	g := newGraph(t, b)
	g.managed("j", map[string]joinPolicy{"j": p}, threeUp...)
	g.claim()
	m := newJoinModel(p, 3)
	failed, stopped := false, false
	for i, outcome := range outcomes {
		up := string(rune('a' + i))
		if stopped {
			assert.Equal(t, "cancelled", g.state(up), "%s: %s is of no use any more", name, up)
			assert.Equal(t, "sibling_quorum_"+m.state, g.core(up)["cancellation_reason"], name)
			continue
		}
		g.end(up, outcome)
		failed = failed || outcome == "failed" || outcome == "expired"
		stopped = m.tell(outcome) && p.then == cancelRemaining
		want := map[string]string{"satisfied": "waiting", "impossible": "skipped", "pending": "waiting_children"}[m.state]
		assert.Equal(t, want, g.state("j"), name)
	}
	if m.state == "satisfied" {
		g.end("j", "success")
	}
	result := g.result()
	switch {
	case m.state == "satisfied":
		assert.Equal(t, "success", result.Outcome, name)
		assert.Empty(t, result.FailedNode, name)
	case failed:
		assert.Equal(t, "failed", result.Outcome, name)
		assert.NotEmpty(t, result.FailedNode, name)
	default:
		assert.Equal(t, "cancelled", result.Outcome, name)
	}
	assert.NotContains(t, g.owed(), g.tuple("j"), name)
	if t.Failed() {
		t.FailNow()
	}
}

// TestJoinAbsorbsBranches: what fails on a branch that ends in a satisfied join is not the flow's failure, however
// long the branch is; a branch that also leads elsewhere is.
func TestJoinAbsorbsBranches(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		anyOf := map[string]joinPolicy{"j": {"any_of", 0, letRun}}
		g.managed("j", anyOf, [][2]string{{"a", "a2"}, {"a2", "j"}, {"b", "j"}}...)
		g.end("a", "failed")
		assert.Equal(t, "skipped", g.state("a2"))
		assert.Equal(t, "1", g.group("j")["skipped"])
		g.end("b", "success")
		g.end("j", "success")
		assert.Equal(t, "success", g.result().Outcome)

		g = newGraph(t, b)
		g.managed("j", anyOf, [][2]string{{"a", "j"}, {"a", "elsewhere"}, {"b", "j"}}...)
		g.end("a", "failed")
		g.end("b", "success")
		g.end("j", "success")
		result := g.result()
		assert.Equal(t, "failed", result.Outcome)
		assert.Equal(t, "a", result.FailedNode)
		b.Settle(t)
	})
}

// TestSiblingsNeededElsewhereSurvive: cancel_remaining ends only what nothing else waits for.
func TestSiblingsNeededElsewhereSurvive(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		race := joinPolicy{"any_of", 0, cancelRemaining}
		t.Run("another consumer", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("", map[string]joinPolicy{"j": race}, [][2]string{{"a", "j"}, {"b", "j"}, {"c", "j"}, {"b", "other"}}...)
			g.end("a", "success")
			assert.Equal(t, "cancelled", g.state("c"))
			assert.Equal(t, "active", g.state("b"))
			g.end("b", "success")
			g.end("other", "success")
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome)
		})
		t.Run("two joins over the same upstreams", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("", map[string]joinPolicy{"j": race, "k": {"quorum", 2, cancelRemaining}}, [][2]string{
				{"a", "j"}, {"b", "j"}, {"c", "j"}, {"a", "k"}, {"b", "k"}, {"c", "k"},
			}...)
			g.end("a", "success")
			assert.Equal(t, "active", g.state("b"), "k waits for one more")
			assert.Equal(t, "active", g.state("c"))
			g.end("b", "success")
			assert.Equal(t, "cancelled", g.state("c"))
			g.end("j", "success")
			g.end("k", "success")
			assert.Equal(t, "success", g.result().Outcome)
		})
		t.Run("the result of the flow", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("b", map[string]joinPolicy{"j": race}, [][2]string{{"a", "j"}, {"b", "j"}}...)
			g.end("a", "success")
			assert.Equal(t, "active", g.state("b"))
			g.end("b", "success")
			g.end("j", "success")
			assert.True(t, g.result().HasResult)
		})
		t.Run("listed for a dispatcher", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "c", "j", "other"}, map[string]joinPolicy{"j": race},
				[][2]string{{"a", "j"}, {"b", "j"}, {"c", "j"}, {"b", "other"}}...)
			g.cancel("a")
			g.resolve("a", "j", "success")
			assert.Equal(t, g.ids("c"), g.listed("j"))
			g.drain(50)
			assert.Equal(t, "cancelled", g.state("c"), "a keeper does what a dispatcher would")
			assert.Equal(t, "edge_group", g.core("c")["cancelled_by"])
			assert.Equal(t, "waiting", g.state("b"))
			assert.Empty(t, g.listed("j"))
		})
		b.Check(t, invariant.AnyTime)
	})
}

// TestManySiblings: a call looks at a bounded number of siblings; the rest is kept, and nothing is lost.
func TestManySiblings(t *testing.T) {
	t.Parallel()
	const width = 600
	fan := make([][2]string, width)
	names := make([]string, width)
	for i := range fan {
		names[i] = fmt.Sprintf("u%03d", i)
		fan[i] = [2]string{names[i], "j"}
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		race := map[string]joinPolicy{"j": {"any_of", 0, cancelRemaining}}
		living := func(g *graph) int {
			n := 0
			for _, name := range names {
				if g.core(name)["lifecycle_phase"] != "terminal" {
					n++
				}
			}
			return n
		}
		t.Run("managed", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("", race, fan...)
			require.True(t, g.end("u000", "success"), "the call must leave some for later")
			left := living(g)
			assert.Less(t, left, width-20, "the call must do what its budget allows")
			assert.GreaterOrEqual(t, left, width-256)
			assert.Equal(t, "waiting", g.state("j"))
			b.Check(t, invariant.AnyTime)
			g.drain(128)
			assert.Zero(t, living(g))
			assert.Empty(t, g.owed())
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome)
			b.Settle(t)
		})
		t.Run("listed for a dispatcher", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain(append(slices.Clone(names), "j"), race, fan...)
			g.cancel("u000")
			g.resolve("u000", "j", "success")
			for rounds := 0; ; rounds++ {
				require.Less(t, rounds, 10)
				listed := g.listed("j")
				require.LessOrEqual(t, len(listed), 256)
				for _, id := range listed {
					_, err := g.e.CancelExecution(g.ctx, enginecore.CancelExecutionCall{
						ExecutionID: enginecore.ExecutionID(id), LaneID: g.lane, Reason: "sibling", Source: "operator_override",
					})
					require.NoError(t, err)
				}
				reply, err := g.e.DrainSiblingCancelGroup(g.ctx, g.drainCall("j"))
				require.NoError(t, err)
				if reply.Left == "" {
					assert.Equal(t, "drained", reply.Outcome)
					break
				}
				assert.Contains(t, g.owed(), g.tuple("j"))
			}
			assert.Zero(t, living(g))
			assert.Empty(t, g.owed())
		})
	})
}

func (g *graph) drainCall(down string) enginecore.DrainSiblingCancelGroupCall {
	return enginecore.DrainSiblingCancelGroupCall{FlowID: g.id, DownstreamExecutionID: g.node(down)}
}

// TestDrainAndReconcile: what the two calls answer, and that repeats change nothing.
func TestDrainAndReconcile(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		race := map[string]joinPolicy{"j": {"any_of", 0, cancelRemaining}}
		fired := func() *graph {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "c", "j"}, race, threeUp...)
			g.cancel("a")
			g.resolve("a", "j", "success")
			require.Equal(t, g.ids("b", "c"), g.listed("j"))
			return g
		}
		drain := func(g *graph) string {
			reply, err := g.e.DrainSiblingCancelGroup(g.ctx, g.drainCall("j"))
			require.NoError(t, err)
			return reply.Outcome + " " + reply.Left
		}
		reconcile := func(g *graph) string {
			reply, err := g.e.ReconcileSiblingCancelGroup(g.ctx, enginecore.ReconcileSiblingCancelGroupCall{
				FlowID: g.id, DownstreamExecutionID: g.node("j"),
			})
			require.NoError(t, err)
			return reply.Action + " " + reply.Reason
		}
		t.Run("drain", func(t *testing.T) {
			g := fired()
			g.cancel("b")
			assert.Equal(t, "drained more", drain(g), "c still runs")
			assert.Equal(t, g.ids("c"), g.listed("j"), "what has been cancelled is not cancelled again")
			before := g.dump()
			assert.Equal(t, "drained more", drain(g))
			assert.Equal(t, before, g.dump())
			g.cancel("c")
			assert.Equal(t, "drained ", drain(g))
			assert.NotContains(t, g.owed(), g.tuple("j"))
			assert.Equal(t, "sibling_quorum_satisfied", g.group("j")["cancel_siblings_reason"])
			assert.NotContains(t, g.group("j"), "cancel_siblings_pending_flag")
			assert.Equal(t, "already_drained ", drain(g))
			assert.Equal(t, "no_op not_in_set", reconcile(g))
		})
		t.Run("reconcile", func(t *testing.T) {
			g := fired()
			g.cancel("b")
			assert.Equal(t, "no_op siblings_running", reconcile(g))
			assert.Equal(t, g.ids("c"), g.listed("j"))
			g.cancel("c")
			assert.Equal(t, "completed_drain ", reconcile(g))
			assert.Equal(t, "no_op not_in_set", reconcile(g))
			assert.NotContains(t, g.group("j"), "cancel_siblings_pending_members")
		})
		t.Run("stale entries", func(t *testing.T) {
			g := fired()
			client := g.e.Client()
			key := g.e.Keys().FlowEdgegroup(g.id, g.node("j"))
			require.NoError(t, client.Do(g.ctx, client.B().Hdel().Key(key).Field("cancel_siblings_pending_flag").Build()).Error())
			assert.Equal(t, "sremmed_stale flag_cleared", reconcile(g))
			for _, call := range []func(*graph) string{drain, reconcile} {
				g := fired()
				key := g.e.Keys().FlowEdgegroup(g.id, g.node("j"))
				require.NoError(t, client.Do(g.ctx, client.B().Del().Key(key).Build()).Error())
				assert.Contains(t, []string{"drained_sans_group ", "sremmed_stale missing_edgegroup"}, call(g))
				assert.NotContains(t, g.owed(), g.tuple("j"))
			}
			odd := g.e.Keys().IndexPendingCancelGroups(g.p)
			require.NoError(t, client.Do(g.ctx, client.B().Sadd().Key(odd).Member("odd", "a|b", "|").Build()).Error())
			g.drain(16)
			assert.Empty(t, g.owed(), "a keeper clears entries without a meaning")
		})
		t.Run("bad ids", func(t *testing.T) {
			g := fired()
			for _, function := range []string{
				enginecore.FunctionName(g.drainCall("j")), enginecore.FunctionName(enginecore.ReconcileSiblingCancelGroupCall{}),
			} {
				_, keys, _, err := enginecore.Wire(g.e.Keys(), g.drainCall("j"))
				require.NoError(t, err)
				reply, err := g.raw(function, keys, []string{"", string(g.node("j"))})
				require.NoError(t, err)
				assert.Equal(t, []string{"0", "invalid_args", "flow_id and downstream_eid required"}, reply)
			}
		})
	})
}

// raw calls a function with keys and arguments as they are.
func (g *graph) raw(function string, keys, args []string) ([]string, error) {
	client := g.e.Client()
	values, err := client.Do(g.ctx, client.B().Fcall().Function(function).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()).ToArray()
	var out []string
	for _, v := range values {
		if n, err := v.AsInt64(); err == nil {
			out = append(out, strconv.FormatInt(n, 10))
		} else if text, err := v.ToString(); err == nil {
			out = append(out, text)
		}
	}
	return out, err
}

// TestPolicyOfAGroup: what can be set, and when.
func TestPolicyOfAGroup(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		_, err := g.policy("j", joinPolicy{"any_of", 0, letRun}, 0)
		require.ErrorIs(t, err, enginecore.ErrFlowNotFound)
		g.plain([]string{"a", "b", "c", "d", "j"}, nil)
		refused := func(p joinPolicy, expected int64, message string) {
			t.Helper()
			_, err := g.policy("j", p, expected)
			var refusal *enginecore.Error
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, message, refusal.Detail("message"))
		}
		set := func(p joinPolicy, expected int64, want string) {
			t.Helper()
			outcome, err := g.policy("j", p, expected)
			require.NoError(t, err)
			assert.Equal(t, want, outcome)
		}
		refused(joinPolicy{"most", 0, letRun}, 0, "unsupported_policy_variant: most")
		refused(joinPolicy{"quorum", 0, letRun}, 0, "quorum k must be >= 1")
		refused(joinPolicy{"any_of", 0, "stop"}, 0, "on_satisfied required for any_of/quorum: cancel_remaining | let_run")
		refused(joinPolicy{"quorum", 3, letRun}, 2, "quorum k is 3, but only 2 edges are expected") // H-81
		assert.Empty(t, g.group("j"), "a refusal writes nothing")

		set(joinPolicy{"quorum", 2, letRun}, 0, "set")
		set(joinPolicy{"quorum", 2, letRun}, 0, "already_set")
		set(joinPolicy{"quorum", 3, letRun}, 0, "set") // H-91: the same variant, but not the same policy
		assert.Equal(t, "3", g.group("j")["k"])
		set(joinPolicy{"quorum", 3, cancelRemaining}, 0, "set")
		assert.Equal(t, cancelRemaining, g.group("j")["on_satisfied"])
		set(joinPolicy{"any_of", 0, letRun}, 0, "set")
		g.stage("a", "j")
		g.apply("a", "j", "")
		set(joinPolicy{"any_of", 0, letRun}, 0, "already_set")
		refused(joinPolicy{"any_of", 0, cancelRemaining}, 0, "edge_group_policy_already_fixed: dependencies already staged")
	})
}

// TestGroupWaitsForItsEdges: a group does not give up before its edges are there. (H-80, H-81)
func TestGroupWaitsForItsEdges(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		t.Run("staged edges", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"any_of", 0, letRun}})
			g.stage("a", "j")
			g.stage("b", "j")
			g.apply("a", "j", "")
			state, _ := g.resolve("a", "j", "failed")
			assert.Equal(t, "pending", state)
			assert.Equal(t, "waiting_children", g.state("j"))
			assert.Equal(t, "blocked_by_dependencies", g.evaluate("j"), "no edge is open, but the group is")
			_, err := g.e.PromoteBlockedToEligible(g.ctx, enginecore.PromoteBlockedToEligibleCall{ExecutionID: g.node("j"), LaneID: g.lane})
			require.ErrorIs(t, err, enginecore.ErrDepsNotSatisfied)
			g.apply("b", "j", "")
			state, _ = g.resolve("b", "j", "success")
			assert.Equal(t, "satisfied", state)
			assert.Equal(t, "waiting", g.state("j"))
		})
		t.Run("announced edges", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "j"}, nil)
			_, err := g.policy("j", joinPolicy{"any_of", 0, letRun}, 2)
			require.NoError(t, err)
			g.cancel("a")
			g.stage("a", "j")
			g.apply("a", "j", "")
			assert.Equal(t, "waiting_children", g.state("j"))
			g.cancel("b")
			g.stage("b", "j")
			g.apply("b", "j", "")
			assert.Equal(t, "skipped", g.state("j"))
		})
		t.Run("quorum above the edges so far", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"quorum", 2, letRun}})
			g.stage("a", "j")
			g.apply("a", "j", "")
			state, _ := g.resolve("a", "j", "success")
			assert.Equal(t, "pending", state)
			g.stage("b", "j")
			g.apply("b", "j", "")
			state, _ = g.resolve("b", "j", "success")
			assert.Equal(t, "satisfied", state)
		})
		b.Check(t, invariant.AnyTime)
	})
}

// TestLateEdges: an edge that comes after the decision holds nothing back. (H-82)
func TestLateEdges(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for _, outcome := range []string{"success", "failed"} {
			g := newGraph(t, b)
			g.plain([]string{"a", "late", "over", "j"}, map[string]joinPolicy{"j": {"any_of", 0, letRun}}, [2]string{"a", "j"})
			g.resolve("a", "j", "success")
			g.stage("late", "j")
			assert.Equal(t, "0", g.apply("late", "j", ""))
			assert.Equal(t, "waiting", g.state("j"))
			assert.Equal(t, "eligible", g.evaluate("j"))
			assert.Equal(t, "already_applied", g.apply("late", "j", ""))
			state, _ := g.resolve("late", "j", outcome)
			assert.Equal(t, "already_fired", state)
			g.cancel("over")
			g.stage("over", "j")
			assert.Equal(t, "0", g.apply("over", "j", ""))
			assert.Equal(t, "waiting", g.state("j"))
			assert.Equal(t, "3", g.group("j")["n"])
			assert.Equal(t, "satisfied", g.group("j")["group_state"])
		}
		b.Check(t, invariant.AnyTime)
	})
}

// TestReplayResetsAGroup: the group of a skipped child begins anew with it. (H-83)
func TestReplayResetsAGroup(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		t.Run("call by call", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "c", "j"}, map[string]joinPolicy{"j": {"quorum", 2, cancelRemaining}}, threeUp...)
			g.resolve("a", "j", "success")
			g.resolve("b", "j", "failed")
			state, effect := g.resolve("c", "j", "skipped")
			require.Equal(t, "impossible child_skipped", state+" "+effect)
			assert.Equal(t, int64(2), g.replay("j"))
			group := g.group("j")
			assert.Equal(t, "pending 1 0 0", strings.Join([]string{group["group_state"], group["succeeded"], group["failed"], group["skipped"]}, " "))
			assert.Empty(t, g.listed("j"), "nothing is to be cancelled any more")
			assert.NotContains(t, g.owed(), g.tuple("j"))
			state, _ = g.resolve("b", "j", "success")
			assert.Equal(t, "satisfied", state)
			assert.Equal(t, "waiting", g.state("j"))
			state, _ = g.resolve("c", "j", "success")
			assert.Equal(t, "already_fired", state)
		})
		t.Run("all_of", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "j"}, nil, [2]string{"a", "j"}, [2]string{"b", "j"})
			g.resolve("a", "j", "failed")
			g.replay("j")
			g.resolve("a", "j", "success")
			g.resolve("b", "j", "success")
			assert.Equal(t, "satisfied 2", g.group("j")["group_state"]+" "+g.group("j")["succeeded"])
			assert.Equal(t, "waiting", g.state("j"))
		})
		t.Run("managed, upstream first", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"any_of", 0, letRun}}, [2]string{"a", "j"}, [2]string{"b", "j"})
			g.end("a", "failed")
			g.end("b", "failed")
			require.Equal(t, "failed", g.result().Outcome)
			g.replay("a")
			g.end("a", "success")
			assert.Zero(t, g.replay("j"), "a has succeeded by now")
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome, "the join has absorbed what b failed of")
		})
		t.Run("managed, join first", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"any_of", 0, letRun}}, [2]string{"a", "j"}, [2]string{"b", "j"})
			g.end("a", "failed")
			g.end("b", "failed")
			assert.Equal(t, int64(2), g.replay("j"))
			g.replay("a")
			g.end("a", "failed")
			assert.Equal(t, "skipped", g.state("j"), "b was not replayed, and a has failed again")
			assert.Equal(t, "failed", g.result().Outcome)
		})
		t.Run("managed, with an upstream that was the last to end", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"quorum", 2, letRun}}, threeUp...)
			g.end("a", "failed")
			g.end("b", "failed")
			g.end("c", "success")
			require.Equal(t, "failed", g.result().Outcome)
			assert.Equal(t, int64(2), g.replay("j"), "c has succeeded")
			g.replay("a")
			g.end("a", "success")
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome)
		})
		t.Run("managed, cancelled before its join was decided", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"any_of", 0, letRun}}, [2]string{"a", "j"}, [2]string{"b", "j"})
			g.cancel("j")
			g.end("a", "failed")
			g.end("b", "failed")
			assert.Equal(t, int64(2), g.replay("j"), "it may not run without a success")
			g.replay("b")
			g.end("b", "success")
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome)
		})
		t.Run("managed, upstream of a join that still waits", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"quorum", 2, letRun}}, threeUp...)
			g.end("a", "failed")
			g.replay("a")
			g.end("a", "success")
			assert.Equal(t, "1 0", g.group("j")["succeeded"]+" "+g.group("j")["failed"])
			g.end("b", "success")
			assert.Equal(t, "waiting", g.state("j"))
			g.end("c", "failed")
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome)
		})
		b.Settle(t)
	})
}

// TestGroupKeepsTheCountsOfItsChild: what asks the dependencies of a child gets the truth. (H-84)
func TestGroupKeepsTheCountsOfItsChild(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.plain([]string{"a", "b", "c", "j"}, map[string]joinPolicy{"j": {"any_of", 0, letRun}}, threeUp...)
		meta := func() string {
			m := g.hash(g.e.Keys().ExecDepsMeta(g.node("j")))
			return m["unsatisfied_required_count"] + " " + m["impossible_required_count"]
		}
		g.resolve("a", "j", "failed")
		assert.Equal(t, "2 ", meta())
		assert.Equal(t, "blocked_by_dependencies", g.evaluate("j"), "one failure does not make any_of impossible")
		g.resolve("b", "j", "success")
		assert.Equal(t, "0 0", meta())
		assert.Empty(t, g.set(g.e.Keys().ExecDepsUnresolved(g.node("j"))))
		assert.Equal(t, "eligible", g.evaluate("j"))

		g = newGraph(t, b)
		g.plain([]string{"a", "b", "c", "j"}, map[string]joinPolicy{"j": {"quorum", 3, letRun}}, threeUp...)
		g.resolve("a", "j", "failed")
		assert.Equal(t, "0 1", meta())
		b.Check(t, invariant.AnyTime)
	})
}

// TestImpossibleAllOfStaysSo. (H-85)
func TestImpossibleAllOfStaysSo(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.plain([]string{"a", "b", "j"}, nil, [2]string{"a", "j"}, [2]string{"b", "j"})
		g.resolve("a", "j", "failed")
		g.resolve("b", "j", "success")
		assert.Equal(t, "impossible 1 1", g.group("j")["group_state"]+" "+g.group("j")["succeeded"]+" "+g.group("j")["failed"])
	})
}

// TestSiblingsAreFoundWithoutTheirKeys: a call that brings the group alone still leaves a trace of what it owes. (H-89)
func TestSiblingsAreFoundWithoutTheirKeys(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"any_of", 0, cancelRemaining}}, [2]string{"a", "j"}, [2]string{"b", "j"})
		function, keys, args, err := enginecore.Wire(g.e.Keys(), g.resolution("a", "j", "success"))
		require.NoError(t, err)
		g.cancel("a")
		reply, err := g.raw(function, keys[:12], args[:3])
		require.NoError(t, err)
		assert.Equal(t, []string{"1", "OK", "satisfied", ""}, reply)
		assert.Equal(t, g.ids("b"), g.listed("j"))
		assert.Contains(t, g.owed(), g.tuple("j"))
	})
}

// TestEarlierResultsOfAGroupCount. (H-90)
func TestEarlierResultsOfAGroupCount(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		t.Run("named inputs", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"quorum", 2, letRun}},
				[][2]string{{"a", "j"}, {"b", "j"}, {"c", "j"}, {"d", "j"}}...)
			g.end("a", "success")
			g.end("b", "failed")
			g.end("c", "success")
			g.end("d", "success")
			g.claim()
			inputs := make(map[string]string)
			for _, in := range g.leases["j"].Inputs {
				inputs[in.Name] = string(in.Result)
			}
			want := map[string]string{"a": "result of a", "c": "result of c"}
			assert.Equal(t, want, inputs, "those that satisfied the join, and no later one")
			paged, err := g.e.ReadInputs(g.ctx, enginecore.ReadInputsCall{Partition: g.p, ExecutionID: g.node("j")})
			require.NoError(t, err)
			assert.Len(t, paged.Inputs, 2)
			g.end("j", "success")
			b.Settle(t)
		})
		t.Run("payload", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"quorum", 2, letRun}})
			client := g.e.Client()
			require.NoError(t, client.Do(g.ctx, client.B().Set().Key(g.e.Keys().ExecResult(g.node("a"))).Value("from a").Build()).Error())
			g.stage("a", "j")
			g.stage("b", "j")
			g.apply("a", "j", "in")
			g.apply("b", "j", "")
			_, effect := g.resolve("a", "j", "success")
			assert.Equal(t, "data_injected", effect)
			g.resolve("b", "j", "success")
			payload, err := client.Do(g.ctx, client.B().Get().Key(g.e.Keys().ExecPayload(g.node("j"))).Build()).ToString()
			require.NoError(t, err)
			assert.Equal(t, "from a", payload)
		})
	})
}

// TestCountsOfAGroupAreCheckedFirst: an outcome that the group has no edge for is refused before anything is written.
// (H-92)
func TestCountsOfAGroupAreCheckedFirst(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"any_of", 0, letRun}}, [2]string{"a", "j"}, [2]string{"b", "j"})
		client := g.e.Client()
		key := g.e.Keys().FlowEdgegroup(g.id, g.node("j"))
		require.NoError(t, client.Do(g.ctx, client.B().Hset().Key(key).FieldValue().FieldValue("n", "0").Build()).Error())
		before := g.dump()
		_, err := g.e.ResolveDependency(g.ctx, g.resolution("a", "j", "success"))
		require.ErrorIs(t, err, enginecore.ErrInvariantViolation)
		var refusal *enginecore.Error
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, "edgegroup counters exceed n: 1/0", refusal.Detail("message"))
		assert.Equal(t, before, g.dump())
		assert.Equal(t, "unsatisfied", g.hash(g.e.Keys().ExecDep(g.node("j"), g.edge("a", "j")))["state"])
	})
}

// TestOlderFormOfTheCalls: without the group's keys, the calls do what they did before there were groups.
func TestOlderFormOfTheCalls(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"any_of", 0, cancelRemaining}})
		before := g.group("j")
		for _, up := range []string{"a", "b"} {
			g.stage(up, "j")
			reply, err := g.e.ApplyDependencyToChild(g.ctx, enginecore.ApplyDependencyToChildCall{
				FlowID: g.id, EdgeID: g.edge(up, "j"), UpstreamExecutionID: g.node(up), DownstreamExecutionID: g.node("j"), LaneID: g.lane,
			})
			require.NoError(t, err)
			assert.NotEqual(t, "0", reply.Unresolved)
		}
		call := g.resolution("a", "j", "failed")
		call.GroupExecutionID = ""
		function, keys, args, err := enginecore.Wire(g.e.Keys(), call)
		require.NoError(t, err)
		reply, err := g.raw(function, keys[:11], args[:3])
		require.NoError(t, err)
		assert.Equal(t, []string{"1", "OK", "impossible", "child_skipped"}, reply)
		assert.Equal(t, "skipped", g.state("j"))
		assert.Equal(t, before, g.group("j"))
		assert.Empty(t, g.owed())
	})
}

// TestRandomJoins ends the nodes of random graphs with joins in random order and in random ways. Whatever happens, every flow ends and the keyspace is in order.
func TestRandomJoins(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for seed := range uint64(12) {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				randomJoins(t, b, rand.New(rand.NewPCG(seed, 2)))
			})
		}
	})
}

func randomJoins(t *testing.T, b *enginetest.Bench, r *rand.Rand) {
	const nodes = 14
	g := newGraph(t, b)
	name := func(i int) string { return fmt.Sprintf("n%02d", i) }
	var edges [][2]string
	joins := make(map[string]joinPolicy)
	for down := 1; down < nodes; down++ {
		ups := r.Perm(down)[:r.IntN(min(down, 4)+1)]
		for _, up := range ups {
			edges = append(edges, [2]string{name(up), name(down)})
		}
		policies := joinPolicies()
		if p := policies[r.IntN(len(policies))]; len(ups) > 1 && p.variant != "all_of" {
			p.k = min(p.k, int64(len(ups)))
			joins[name(down)] = p
		}
	}
	if len(edges) == 0 {
		return
	}
	g.managed("", joins, edges...)
	for range 200 {
		g.claim()
		var ready []string
		for node := range g.leases {
			if g.state(node) == "active" {
				ready = append(ready, node)
			} else {
				delete(g.leases, node)
			}
		}
		if len(ready) == 0 {
			break
		}
		slices.Sort(ready)
		outcomes := []string{"success", "success", "success", "failed", "cancelled", "expired"}
		g.end(ready[r.IntN(len(ready))], outcomes[r.IntN(len(outcomes))])
		b.Check(t, invariant.AnyTime)
		require.False(t, t.Failed())
	}
	assert.NotEmpty(t, g.result().Outcome, "the flow has not ended")
	b.Check(t, invariant.Quiescent)
}

// TestBrokenGroupsAreSeen: the check of the keyspace reports a group that does not fit its edges or its siblings.
func TestBrokenGroupsAreSeen(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	for _, damage := range []struct {
		field, value, report string
	}{
		{"succeeded", "2", "counts 2 successes"},
		{"n", "7", "n is 7 of 3 edges"},
		{"group_state", "satisfied", "is satisfied by 0 of 1 successes"},
		{"cancel_siblings_pending_flag", "true", "whose group owes cancels"},
	} {
		g := newGraph(t, b)
		g.managed("j", map[string]joinPolicy{"j": {"any_of", 0, cancelRemaining}}, threeUp...)
		g.end("a", "failed")
		client := g.e.Client()
		key := g.e.Keys().FlowEdgegroup(g.id, g.node("j"))
		before := g.group("j")[damage.field]
		set := func(value string) {
			require.NoError(t, client.Do(g.ctx, client.B().Hset().Key(key).FieldValue().FieldValue(damage.field, value).Build()).Error())
		}
		set(damage.value)
		report, err := invariant.Check(g.ctx, client, b.Prefix, invariant.AnyTime)
		require.NoError(t, err)
		assert.ErrorContains(t, report.Err(), damage.report)
		set(before)
	}
	b.Check(t, invariant.AnyTime)
}
