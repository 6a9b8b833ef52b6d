package enginetest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/internal/test/runsubmit"
)

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

const groupKind = "group.node"

// graph is a flow whose nodes a test ends one by one.
type graph struct {
	t      *testing.T
	b      *enginetest.Bench
	e      *enginerpc.Conn
	ctx    context.Context
	p      keyspace.Partition
	id     enginecore.FlowID
	lane   enginecore.LaneID
	run    *runsubmit.Run // that the test has submitted, or is about to
	leases map[string]enginerpc.ClaimedExecution
	worked map[enginecore.ExecutionID]*enginerpc.ClaimedExecution // those that calls of several completions end
}

// newRunID returns the id of a run that does not exist.
func newRunID() enginecore.FlowID { return keyspace.FlowIDFor("n", "tests", uuid.NewString()) }

func newGraph(t *testing.T, b *enginetest.Bench) *graph {
	t.Helper()
	g := &graph{
		t: t, b: b, e: engine.ConnOf(b.Engine.Internal()), ctx: enginetest.Context(t), id: newRunID(),
		leases: make(map[string]enginerpc.ClaimedExecution),
		worked: make(map[enginecore.ExecutionID]*enginerpc.ClaimedExecution),
	}
	p, err := g.e.FlowPartition(g.id)
	require.NoError(t, err)
	g.p, g.lane = p, enginecore.LaneID(g.id)
	return g
}

// node is the id of an execution: of a node of the submitted run, or of one that was created by itself.
func (g *graph) node(name string) enginecore.ExecutionID {
	if g.run != nil && g.run.Ordinal(name) > 0 {
		return g.run.ExecutionID(name)
	}
	return keyspace.ExecutionIDFor(g.p, g.id, name)
}

func (g *graph) edge(up, down string) enginecore.EdgeID { return keyspace.EdgeIDFor(g.id, up, down) }

// home is the partition that keeps the order of the lane: partition 0 on a server that has all of them.
func (g *graph) home() keyspace.Partition {
	p := g.p
	if g.e.Client().Mode() != rueidis.ClientModeCluster {
		p.Index = 0
	}
	return p
}

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

func (g *graph) core(name string) map[string]string {
	g.t.Helper()
	core, err := rowread.Record(g.ctx, g.e.Client(), g.e.Keys(), g.node(name))
	require.NoError(g.t, err)
	return core
}

// rows are the head and the nodes of the run.
func (g *graph) rows() (rowread.Head, []rowread.Row) {
	g.t.Helper()
	client := g.e.Client()
	text, err := client.Do(g.ctx, client.B().Get().Key(g.e.Keys().FlowNodes(g.p, g.id)).Build()).ToString()
	require.NoError(g.t, err)
	head, rows, err := rowread.Parse(text)
	require.NoError(g.t, err)
	return head, rows
}

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
	reply, err := g.e.SetEdgeGroupPolicy(g.ctx, enginerpc.SetEdgeGroupPolicyCall{
		FlowID: g.id, DownstreamExecutionID: g.node(down), PolicyVariant: p.variant, OnSatisfied: p.then, K: p.k,
		ExpectedEdges: expected,
	})
	return reply.Outcome, err
}

// plain builds a flow call by call: nodes, joins, and edges in the order given.
func (g *graph) plain(nodes []string, joins map[string]joinPolicy, edges ...[2]string) {
	g.t.Helper()
	_, err := g.e.CreateFlow(g.ctx, enginerpc.CreateFlowCall{Partition: g.p, FlowID: g.id, FlowKind: "f", Namespace: "n"})
	require.NoError(g.t, err)
	for _, name := range nodes {
		_, err := g.e.CreateExecution(g.ctx, enginerpc.CreateExecutionCall{
			ExecutionID: g.node(name), Namespace: "n", LaneID: g.lane, ExecutionKind: groupKind, CreatorIdentity: "test",
		})
		require.NoError(g.t, err)
		_, err = g.e.AddExecutionToFlow(g.ctx, enginerpc.AddExecutionToFlowCall{FlowID: g.id, ExecutionID: g.node(name)})
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

// flowFields returns the fields of the record of the flow.
func (g *graph) flowFields() map[string]string {
	g.t.Helper()
	fields, err := rowread.Flow(g.ctx, g.e.Client(), g.e.Keys(), g.p, g.id)
	require.NoError(g.t, err)
	return fields
}

func (g *graph) stage(up, down string) {
	g.t.Helper()
	revision, err := strconv.ParseInt(g.flowFields()["graph_revision"], 10, 64)
	require.NoError(g.t, err)
	_, err = g.e.StageDependencyEdge(g.ctx, enginerpc.StageDependencyEdgeCall{
		FlowID: g.id, EdgeID: g.edge(up, down), UpstreamExecutionID: g.node(up), DownstreamExecutionID: g.node(down),
		ExpectedGraphRevision: revision,
	})
	require.NoError(g.t, err)
}

func (g *graph) apply(up, down, ref string) string {
	g.t.Helper()
	reply, err := g.e.ApplyDependencyToChild(g.ctx, enginerpc.ApplyDependencyToChildCall{
		FlowID: g.id, EdgeID: g.edge(up, down), UpstreamExecutionID: g.node(up), DownstreamExecutionID: g.node(down),
		GroupExecutionID: g.node(down), LaneID: g.lane, DataPassingRef: ref,
	})
	require.NoError(g.t, err)
	return reply.Unresolved
}

func (g *graph) resolution(up, down, outcome string) enginerpc.ResolveDependencyCall {
	return enginerpc.ResolveDependencyCall{
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
	_, err := g.e.CancelExecution(g.ctx, enginerpc.CancelExecutionCall{
		ExecutionID: g.node(name), LaneID: g.lane, Reason: "test", Source: "operator_override",
	})
	require.NoError(g.t, err)
}

func (g *graph) evaluate(name string) string {
	g.t.Helper()
	reply, err := g.e.EvaluateFlowEligibility(g.ctx, enginerpc.EvaluateFlowEligibilityCall{ExecutionID: g.node(name)})
	require.NoError(g.t, err)
	return reply.Eligibility
}

func (g *graph) replay(name string) int64 {
	g.t.Helper()
	reply, err := g.e.ReplayExecution(g.ctx, enginerpc.ReplayExecutionCall{ExecutionID: g.node(name), LaneID: g.lane})
	require.NoError(g.t, err)
	return reply.WaitingFor
}

// managed submits a run with the nodes of the edges, in the order of their names.
func (g *graph) managed(result string, joins map[string]joinPolicy, edges ...[2]string) {
	g.t.Helper()
	var nodes []string
	for _, edge := range edges {
		nodes = append(nodes, edge[:]...)
	}
	slices.Sort(nodes)
	run := g.describe(slices.Compact(nodes), edges...)
	run.Result = result
	for i := range run.Nodes {
		if p, found := joins[run.Nodes[i].Name]; found && p.variant != "all_of" {
			run.Nodes[i].Join = fmt.Sprintf("%s %s %d", p.variant, p.then, p.k)
		}
	}
	g.submit(run)
}

// whole submits a run with nodes in the order given. The last one gives its result.
func (g *graph) whole(nodes []string, edges ...[2]string) {
	g.t.Helper()
	g.submit(g.describe(nodes, edges...))
}

// describe returns the run that whole submits.
func (g *graph) describe(nodes []string, edges ...[2]string) *runsubmit.Run {
	g.run = &runsubmit.Run{
		Partition: g.p, FlowID: g.id, FlowName: "whole", RunID: string(g.id), Namespace: "n", GraphHash: "g", InputHash: "i",
		Definition: []byte("{}"), Result: nodes[len(nodes)-1],
	}
	upstreams := make(map[string]int64)
	for _, edge := range edges {
		upstreams[edge[1]]++
		g.run.Edges = append(g.run.Edges, runsubmit.Edge{Up: edge[0], Down: edge[1], Carries: true})
	}
	for _, name := range nodes {
		g.run.Nodes = append(g.run.Nodes, enginerpc.PutGraphNode{
			Name: name, Kind: groupKind, LaneID: g.lane, InputCount: upstreams[name], Policy: []byte("{}"), Tags: []byte("{}"),
		})
	}
	return g.run
}

// submit submits a run that does not exist.
func (g *graph) submit(run *runsubmit.Run) {
	g.t.Helper()
	existed, err := run.Submit(g.ctx, g.e)
	require.NoError(g.t, err)
	require.False(g.t, existed)
}

// claim leases all that can be claimed.
func (g *graph) claim() {
	g.t.Helper()
	for {
		reply, err := g.e.Claim(g.ctx, enginerpc.ClaimCall{Partition: g.p, Alone: true, ClaimRequest: enginerpc.ClaimRequest{
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

// end ends a node of a managed flow, after claiming it if necessary; more reports that work is left for later calls.
func (g *graph) end(name, outcome string) (more bool) {
	g.t.Helper()
	if _, leased := g.leases[name]; !leased {
		g.claim()
	}
	x, leased := g.leases[name]
	switch outcome {
	case "success":
		if !leased {
			require.FailNow(g.t, "cannot be claimed", "%s: %v", name, g.core(name))
		}
		reply, err := g.e.Complete(g.ctx, enginerpc.CompleteCall{
			Partition: g.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
			Result:       []byte("result of " + name),
			ClaimRequest: enginerpc.ClaimRequest{LaneID: g.lane, WorkerID: "w", WorkerInstanceID: "w1", LeaseTTL: time.Hour},
		})
		require.NoError(g.t, err)
		more = reply.More
	case "failed":
		if !leased {
			require.FailNow(g.t, "cannot be claimed", "%s: %v", name, g.core(name))
		}
		reply, err := g.e.Fail(g.ctx, enginerpc.FailCall{
			Partition: g.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
			AttemptIndex: x.AttemptIndex, Reason: "broken", Category: "test",
		})
		require.NoError(g.t, err)
		more = reply.More
	case "cancelled":
		g.cancel(name)
	case "expired":
		_, err := g.e.ExpireExecution(g.ctx, enginerpc.ExpireExecutionCall{
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
		reply, err := g.e.Tick(g.ctx, enginerpc.TickCall{Partition: g.p, Limit: limit})
		require.NoError(g.t, err)
		cancelled += reply.Cancelled
		if !reply.More {
			return cancelled
		}
	}
	require.Fail(g.t, "the partition is never done")
	return 0
}

func (g *graph) result() enginerpc.FlowResultReply {
	g.t.Helper()
	reply, err := g.e.FlowResult(g.ctx, enginerpc.FlowResultCall{Partition: g.p, FlowID: g.id})
	require.NoError(g.t, err)
	return reply
}

// dump returns the content of the flow's members, their dependencies and its groups, which a repeated call must not
// change.
func (g *graph) dump() string {
	g.t.Helper()
	var keys []string
	for _, member := range g.set(g.e.Keys().FlowMembers(g.p, g.id)) {
		id := enginecore.ExecutionID(member)
		keys = append(keys, g.e.Keys().ExecCore(id), g.e.Keys().ExecDepsMeta(id), g.e.Keys().FlowEdgegroup(g.id, id))
	}
	var lines []string
	for _, field := range slices.Sorted(maps.Keys(g.flowFields())) {
		lines = append(lines, field+" "+g.flowFields()[field])
	}
	for _, key := range keys {
		m := g.hash(key)
		for _, field := range slices.Sorted(maps.Keys(m)) {
			lines = append(lines, key+" "+field+" "+m[field])
		}
	}
	return strings.Join(append(lines, g.owed()...), "\n")
}

func (g *graph) drainCall(down string) enginerpc.DrainSiblingCancelGroupCall {
	return enginerpc.DrainSiblingCancelGroupCall{FlowID: g.id, DownstreamExecutionID: g.node(down)}
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
