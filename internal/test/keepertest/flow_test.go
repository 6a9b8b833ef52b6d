package keepertest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// chain makes a flow of executions that wait for each other, call by call.
func (d *fixture) chain(length int) (enginecore.FlowID, []enginecore.ExecutionID) {
	d.t.Helper()
	flow, _, err := d.CreateFlow(d.ctx, admin.FlowSpec{Kind: "test"})
	require.NoError(d.t, err)
	members := make([]enginecore.ExecutionID, length)
	for i := range members {
		members[i] = d.create(admin.ExecutionSpec{Flow: flow})
		_, _, err = d.AddExecution(d.ctx, flow, members[i])
		require.NoError(d.t, err)
	}
	for i, id := range members[1:] {
		d.connect(flow, members[i], id)
	}
	return flow, members
}

// connect adds an edge.
func (d *fixture) connect(flow enginecore.FlowID, upstream, downstream enginecore.ExecutionID) {
	d.t.Helper()
	info, err := d.Flow(d.ctx, flow)
	require.NoError(d.t, err)
	edge := admin.Edge{Flow: flow, Upstream: upstream, Downstream: downstream}
	edgeID, revision, err := d.StageEdge(d.ctx, edge, info.Revision)
	require.NoError(d.t, err)
	edge.ID = edgeID
	_, _, err = d.ApplyEdge(d.ctx, edge, revision)
	require.NoError(d.t, err)
}

// The summary of a flow counts its members by state, through replays, and is written only when it changes.
func TestFlowProjection(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		id, members := d.chain(3)
		empty, _, err := d.CreateFlow(d.ctx, admin.FlowSpec{Kind: "test"})
		require.NoError(t, err)
		_, err = d.FlowSummary(d.ctx, "00000000-0000-0000-0000-000000000001")
		require.ErrorIs(t, err, enginecore.ErrFlowNotFound)
		before, err := d.FlowSummary(d.ctx, id)
		require.NoError(t, err)
		require.Zero(t, before.UpdatedAt)

		isAt := func(state string, want map[fabrictype.NodeState]int) {
			t.Helper()
			require.EqualValues(t, 1, d.run("flow_projection").Done)
			s, err := d.FlowSummary(d.ctx, id)
			require.NoError(t, err)
			require.Equal(t, want, s.ByState)
			require.Equal(t, state, s.State)
			require.Equal(t, []int{3, 3}, []int{s.Members, s.Counted})
			require.Zero(t, d.run("flow_projection").Done)
			again, err := d.FlowSummary(d.ctx, id)
			require.NoError(t, err)
			require.Equal(t, s.UpdatedAt, again.UpdatedAt)
		}
		isAt("blocked", map[fabrictype.NodeState]int{"waiting": 1, "waiting_children": 2})
		x := d.Claim(members[0], 0)
		isAt("running", map[fabrictype.NodeState]int{"active": 1, "waiting_children": 2})
		d.Complete(x, "done")
		d.run("dependency_reconciliation")
		d.Complete(d.Claim(members[1], 0), "done")
		d.run("dependency_reconciliation")
		isAt("open", map[fabrictype.NodeState]int{"completed": 2, "waiting": 1})
		_, err = d.CancelExecution(d.ctx, members[2], "enough")
		require.NoError(t, err)
		isAt("failed", map[fabrictype.NodeState]int{"completed": 2, "cancelled": 1})
		_, err = d.ReplayExecution(d.ctx, members[2])
		require.NoError(t, err)
		isAt("open", map[fabrictype.NodeState]int{"completed": 2, "waiting": 1})
		d.Complete(d.Claim(members[2], 0), "done")
		isAt("completed", map[fabrictype.NodeState]int{"completed": 3})

		s, err := d.FlowSummary(d.ctx, empty)
		require.NoError(t, err)
		require.Zero(t, s.UpdatedAt, "there is nothing to resolve")
		b.Check(t, invariant.AnyTime)
	})
}

// Of a very large flow some members are counted, and none of its neighbours is left out in steps that stop in between.
func TestProjectionInSteps(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 2}
		const flows, size = 30, 1200
		var ids []enginecore.FlowID
		for i := 0; len(ids) < flows; i++ {
			id := enginecore.FlowID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
			if at, err := d.core.FlowPartition(id); err != nil || at != p {
				continue
			}
			ids = append(ids, id)
			_, _, err := d.CreateFlow(d.ctx, admin.FlowSpec{ID: id, Kind: "test"})
			require.NoError(t, err)
			d.do("SADD", d.keys.FlowMembers(p, id), string(keyspace.NewExecutionID(p)))
		}
		words := []string{"SADD", d.keys.FlowMembers(p, ids[0])}
		for range size - 1 {
			words = append(words, string(keyspace.NewExecutionID(p)))
		}
		d.do(words...)
		projected, steps := int64(0), 0
		for cursor, next := "", true; next; next = cursor != "" {
			reply, err := d.core.ProjectFlows(d.ctx, enginerpc.ProjectFlowsCall{Partition: p, Limit: 8, Cursor: cursor})
			require.NoError(t, err)
			cursor, steps, projected = reply.NextCursor, steps+1, projected+reply.Projected
			require.Less(t, steps, 100)
		}
		require.EqualValues(t, flows, projected)
		require.Greater(t, steps, 5)
		s, err := d.FlowSummary(d.ctx, ids[0])
		require.NoError(t, err)
		require.Equal(t, []int{size, 1000}, []int{s.Members, s.Counted})
		d.do("DEL", d.keys.FlowCore(p, ids[1]))
		require.EqualValues(t, 0, d.run("flow_projection").Done)
		require.EqualValues(t, 0, d.count("SISMEMBER", d.keys.IndexFlowIndex(p), string(ids[1])))
	})
}
