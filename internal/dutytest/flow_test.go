package dutytest

import (
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
)

// chain makes a flow of executions that wait for each other, call by call.
func (d *desk) chain(length int) (enginecore.FlowID, []enginecore.ExecutionID) {
	d.t.Helper()
	flow, _, err := d.CreateFlow(d.ctx, admin.NewFlow{Kind: "test"})
	require.NoError(d.t, err)
	members := make([]enginecore.ExecutionID, length)
	for i := range members {
		members[i] = d.create(admin.NewExecution{Flow: flow})
		_, _, err = d.AddExecution(d.ctx, flow, members[i])
		require.NoError(d.t, err)
	}
	for i, id := range members[1:] {
		info, err := d.Flow(d.ctx, flow)
		require.NoError(d.t, err)
		edge := admin.Edge{Flow: flow, Upstream: members[i], Downstream: id}
		edgeID, revision, err := d.StageEdge(d.ctx, edge, info.Revision)
		require.NoError(d.t, err)
		edge.ID = edgeID
		_, _, err = d.ApplyEdge(d.ctx, edge, revision)
		require.NoError(d.t, err)
	}
	return flow, members
}
