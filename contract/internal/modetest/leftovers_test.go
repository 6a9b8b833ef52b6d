package modetest

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
)

// These tests show the entries that remain in a library when a call names a state that has changed since its caller
// read it. The reference library takes the names of the call as they are, and no client can know better; this project's
// library reads the record itself. The page on contract mode lists these entries.

// isListed reports whether a sorted set has an execution.
func (x *outside) isListed(key string, id enginecore.ExecutionID) bool {
	x.t.Helper()
	client := x.core.Client()
	_, err := client.Do(x.ctx, client.B().Zscore().Key(key).Member(string(id)).Build()).ToString()
	return err == nil
}

// partitionOf returns the partition of an execution.
func (x *outside) partitionOf(id enginecore.ExecutionID) keyspace.Partition {
	x.t.Helper()
	p, err := keyspace.PartitionOf(id)
	require.NoError(x.t, err)
	return p
}

// A cancel whose caller has read the execution before it began to wait ends it, and signals no longer count. The
// waitpoint stays active with the reference library.
func TestCancel_RacingWithASuspension(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		_, err := x.operator.RotateSecret(x.ctx, enginecore.WaitpointSecret{KID: "k1", Hex: "00112233445566778899aabbccddeeff"}, time.Hour)
		require.NoError(t, err)
		id := x.create("of a program", "")
		wait, err := x.suspend(x.program.Claim(id, 0))
		require.NoError(t, err)
		_, err = x.core.CancelExecution(x.ctx, enginerpc.CancelExecutionCall{
			ExecutionID: id, LaneID: enginetest.ProgramLane, WorkerInstanceID: enginetest.ProgramWorker, Reason: "late",
			Source: "operator_override",
		})
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeCancelled, x.execution(id).State)
		client := x.core.Client()
		state, err := client.Do(x.ctx, client.B().Hget().Key(x.core.Keys().WaitpointRecord(x.partitionOf(id), wait.WaitpointID)).
			Field("state").Build()).ToString()
		require.NoError(t, err)
		require.Equal(t, x.Reference(), state == "active", state)
		_, err = x.operator.DeliverSignal(x.ctx, admin.Signal{
			Execution: id, Waitpoint: wait.WaitpointID, Token: wait.WaitpointToken, Name: "go",
		})
		require.Error(t, err)
		require.Equal(t, fabrictype.NodeCancelled, x.execution(id).State)
	})
}

// A cancel whose caller has read the execution before it was claimed ends it. The list of the worker's leases keeps its
// entry with the reference library.
func TestCancel_RacingWithAClaim(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		id := x.create("of a program", "")
		claimed := x.program.Claim(id, 0)
		_, err := x.core.CancelExecution(x.ctx, enginerpc.CancelExecutionCall{
			ExecutionID: id, LaneID: enginetest.ProgramLane, AttemptIndex: claimed.AttemptIndex, Reason: "late",
			Source: "operator_override",
		})
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeCancelled, x.execution(id).State)
		client := x.core.Client()
		listed, err := client.Do(x.ctx, client.B().Sismember().
			Key(x.core.Keys().IndexWorkerLeases(x.partitionOf(id), enginetest.ProgramWorker)).Member(string(id)).Build()).AsBool()
		require.NoError(t, err)
		require.Equal(t, x.Reference(), listed)
	})
}

// An edge that is applied to a blocked execution makes it wait for its upstream. The list of those that wait for a
// budget keeps its entry with the reference library; keepers pass over it.
func TestEdgeToABlockedExecution(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		up, down := x.create("of a program", ""), x.create("of a program", "")
		now, err := x.core.Now(x.ctx)
		require.NoError(t, err)
		_, err = x.core.BlockExecutionForAdmission(x.ctx, enginerpc.BlockExecutionForAdmissionCall{
			LaneID: enginetest.ProgramLane, ExecutionID: down, BlockingReason: "waiting_for_budget", Now: now,
		})
		require.NoError(t, err)
		key := x.core.Keys().LaneBlockedBudget(x.partitionOf(down), enginetest.ProgramLane)
		require.True(t, x.isListed(key, down))
		f := &fixture.Outsider{T: t, Ctx: x.ctx, Core: x.core, P: x.partitionOf(up)}
		f.Link(up, down)
		require.Equal(t, recordstate.EligibilityBlockedByDeps, x.execution(down).Eligibility)
		require.Equal(t, x.Reference(), x.isListed(key, down))
		x.Keeper(t)
		x.program.Complete(x.program.Claim(up, 0), "1")
		enginetest.Eventually(t, func() string {
			if e := x.execution(down); e.Eligibility != recordstate.EligibleNow {
				return "it is " + e.Eligibility
			}
			return ""
		})
		x.program.Complete(x.program.Claim(down, 0), "2")
		require.Equal(t, fabrictype.NodeSucceeded, x.execution(down).State)
	})
}

// An execution that is given up because it has been lost too often fails. Its last attempt stays interrupted with the
// reference library, without an end.
func TestLastAttemptOfAbandonedExecution(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		id := x.create("of a program", `{"max_reclaim_count":1}`)
		x.lease(id, time.Hour)
		for lost := range enginecore.AttemptIndex(2) {
			_, err := x.operator.RevokeLease(x.ctx, id, "", "it hangs")
			require.NoError(t, err)
			_, err = x.core.IssueReclaimGrant(x.ctx, enginerpc.IssueReclaimGrantCall{Grant: enginerpc.Grant{
				ExecutionID: id, WorkerID: "w", WorkerInstanceID: "dies", LaneID: enginetest.ProgramLane, GrantTTL: time.Minute,
			}})
			require.NoError(t, err)
			_, err = x.core.ReclaimExecution(x.ctx, enginerpc.ReclaimExecutionCall{
				ExecutionID: id, WorkerID: "w", WorkerInstanceID: "dies", LaneID: enginetest.ProgramLane, LeaseTTL: time.Hour,
				LeaseID: enginecore.LeaseID(uuid.NewString()), AttemptID: keyspace.AttemptID(uuid.NewString()),
				OldAttemptIndex: lost, AttemptIndex: lost + 1,
			})
			if lost == 0 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errorcode.MaxRetriesExhausted)
			}
		}
		require.Equal(t, fabrictype.NodeFailed, x.execution(id).State)
		client := x.core.Client()
		ended, err := client.Do(x.ctx, client.B().Hexists().Key(x.core.Keys().AttemptRecord(id, 1)).Field("ended_at").Build()).AsBool()
		require.NoError(t, err)
		require.Equal(t, x.Reference(), !ended)
	})
}
