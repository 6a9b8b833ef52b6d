package modetest

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// lease leases an execution for another program that never reports.
func (x *outside) lease(id enginecore.ExecutionID, ttl time.Duration) {
	x.t.Helper()
	grant := enginerpc.Grant{
		ExecutionID: id, WorkerID: "w", WorkerInstanceID: "dies", LaneID: enginetest.ProgramLane, GrantTTL: time.Minute,
	}
	_, err := x.core.IssueClaimGrant(x.ctx, enginerpc.IssueClaimGrantCall{Grant: grant})
	require.NoError(x.t, err)
	_, err = x.core.ClaimExecution(x.ctx, enginerpc.ClaimExecutionCall{
		ExecutionID: id, WorkerID: "w", WorkerInstanceID: "dies", LaneID: enginetest.ProgramLane, LeaseTTL: ttl,
		LeaseID: enginecore.LeaseID(uuid.NewString()), AttemptID: keyspace.AttemptID(uuid.NewString()),
		RenewBefore: ttl,
	})
	require.NoError(x.t, err)
}

// An execution whose lease ran out or was revoked is granted to another worker, which takes it over by the grant.
func TestContractReclaimGrants(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		x.Keeper(t)
		holder := fixture.NewHolder(t, x.Bench, runtime.WorkerConfig{})
		issuer := x.Engine
		for _, isRevoked := range []bool{false, true} {
			id := x.create("work", "")
			if isRevoked {
				x.lease(id, time.Hour)
				_, err := x.operator.RevokeLease(x.ctx, id, "", "it hangs")
				require.NoError(t, err)
			} else {
				x.lease(id, 5*time.Millisecond)
			}
			var task *runtime.Task
			enginetest.Eventually(t, func() string {
				request := fixture.RequestFor("worker")
				request.Instance = holder.Worker.Instance()
				grant, err := issuer.ClaimForWorker(x.ctx, request)
				if err != nil {
					return err.Error()
				}
				require.Equal(t, id, grant.ExecutionID)
				require.True(t, grant.Reclaim)
				task, err = holder.Worker.NextGranted(x.ctx, grant)
				require.NoError(t, err)
				return ""
			})
			require.EqualValues(t, 2, task.Info().LeaseEpoch)
			require.NoError(t, task.Complete(x.ctx, 1))
			require.Equal(t, fabrictype.NodeSucceeded, x.execution(id).State)
		}
	})
}

// Workers that run only granted executions take over the executions of a lost worker.
func TestContractClaimThrough(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		x.Keeper(t)
		lost := x.create("add", "")
		x.lease(lost, 5*time.Millisecond)
		add := fixture.AddOne()
		x.Worker(t, []activity.Handler{add}, runtime.WorkerConfig{
			ClaimThrough: x.Engine.ClaimForWorker,
		})
		run, err := runtime.Start(x.ctx, x.Client, fixture.ChainOf(t, add, 4), 1)
		require.NoError(t, err)
		result, err := run.Result(x.ctx)
		require.NoError(t, err)
		require.Equal(t, 5, result)
		x.awaitState(lost, fabrictype.NodeSucceeded)
	})
}

// An execution that waits for children continues when they have all ended before it began to wait.
func TestContractWaitsForEndedChildren(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		holder := fixture.NewHolder(t, x.Bench, runtime.WorkerConfig{})
		flow, _, err := x.operator.CreateFlow(x.ctx, admin.FlowSpec{Kind: "parents"})
		require.NoError(t, err)
		var members []enginecore.ExecutionID
		for _, kind := range []string{"work", "child"} {
			id, _, err := x.operator.CreateExecution(x.ctx, admin.ExecutionSpec{
				Flow: flow, Kind: kind, Lane: enginetest.ProgramLane, Payload: []byte("1"),
			})
			require.NoError(t, err)
			_, _, err = x.operator.AddExecution(x.ctx, flow, id)
			require.NoError(t, err)
			members = append(members, id)
		}
		task := holder.Next()
		info, err := x.operator.Flow(x.ctx, flow)
		require.NoError(t, err)
		edge := admin.Edge{Flow: flow, Upstream: members[1], Downstream: members[0]}
		var revision int64
		edge.ID, revision, err = x.operator.StageEdge(x.ctx, edge, info.Revision)
		require.NoError(t, err)
		_, _, err = x.operator.ApplyEdge(x.ctx, edge, revision)
		require.NoError(t, err)
		x.program.Complete(x.program.Claim(members[1], 0), "1")
		_, err = x.core.ResolveDependency(x.ctx, enginerpc.ResolveDependencyCall{
			DownstreamExecutionID: members[0], LaneID: enginetest.ProgramLane, UpstreamExecutionID: members[1],
			EdgeID: edge.ID, UpstreamOutcome: "success", FlowID: flow, Now: time.Now(),
		})
		require.NoError(t, err)
		require.NoError(t, task.WaitForChildren(x.ctx))
		require.NoError(t, holder.Next().Complete(x.ctx, 1))
		x.awaitState(members[0], fabrictype.NodeSucceeded)
	})
}
