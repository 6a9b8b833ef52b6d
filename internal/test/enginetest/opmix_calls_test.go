package enginetest_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

func (x *opMix) request() enginerpc.ClaimRequest {
	worker := enginecore.WorkerInstanceID(fmt.Sprint("w", x.r.IntN(mixWorkers)))
	return enginerpc.ClaimRequest{
		LaneID: x.lane, WorkerID: "w", WorkerInstanceID: worker, ClaimID: randomUUID(x.r), Count: int64(x.r.IntN(4)),
		LeaseTTL: []time.Duration{time.Millisecond, time.Hour, time.Hour}[x.r.IntN(3)], Kinds: "\n" + groupKind + "\n",
	}
}

func (x *opMix) take(worker enginecore.WorkerInstanceID, leases []enginerpc.ClaimedExecution) {
	for _, lease := range leases {
		x.taken = append(x.taken, held{lease, worker})
	}
}

func (x *opMix) claimSome() {
	request := x.request()
	request.Count = 1 + int64(x.r.IntN(3))
	x.send("claim "+string(request.WorkerInstanceID), func(repeated bool) error {
		request.Repeated = repeated
		reply, err := x.e.Claim(x.ctx, enginerpc.ClaimCall{Partition: x.p, Alone: true, ClaimRequest: request})
		x.take(request.WorkerInstanceID, reply.Executions)
		return err
	})
}

// lease returns a lease that a worker has, or believes to have.
func (x *opMix) lease() (held, bool) {
	if len(x.taken) == 0 {
		return held{}, false
	}
	return x.taken[max(0, len(x.taken)-1-x.r.IntN(6))], true
}

// endOne makes a worker end, release or suspend an execution.
func (x *opMix) endOne() {
	x.t.Helper()
	l, ok := x.lease()
	if !ok {
		return
	}
	request := x.request()
	request.WorkerInstanceID = l.worker
	result := x.result()
	switch x.r.IntN(8) {
	case 0, 1:
		x.send("complete "+l.Node, func(repeated bool) error {
			request.Repeated = repeated
			reply, err := x.e.Complete(x.ctx, enginerpc.CompleteCall{
				Partition: x.p, ExecutionID: l.ExecutionID, LeaseID: l.LeaseID, LeaseEpoch: l.LeaseEpoch, AttemptID: l.AttemptID,
				Result: result, ClaimRequest: request,
			})
			x.take(request.WorkerInstanceID, reply.Executions)
			return err
		})
	case 2, 3:
		x.completeSome(l, request)
	case 4, 5:
		retryable := x.r.IntN(3) > 0
		x.send(fmt.Sprint("fail ", l.Node, retryable), func(bool) error {
			_, err := x.e.Fail(x.ctx, enginerpc.FailCall{
				Partition: x.p, ExecutionID: l.ExecutionID, LeaseID: l.LeaseID, LeaseEpoch: l.LeaseEpoch, AttemptID: l.AttemptID,
				AttemptIndex: l.AttemptIndex, Reason: "broken", Category: "test", Retryable: retryable,
			})
			return err
		})
	case 6:
		x.send("release "+l.Node, func(bool) error {
			_, err := x.e.Release(x.ctx, enginerpc.ReleaseCall{
				Partition: x.p, ExecutionID: l.ExecutionID, LeaseID: l.LeaseID, LeaseEpoch: l.LeaseEpoch, AttemptID: l.AttemptID,
				Reason: "test",
			})
			return err
		})
	default:
		suspend := enginerpc.SuspendCall{
			Partition: x.p, ExecutionID: l.ExecutionID, LeaseID: l.LeaseID, LeaseEpoch: l.LeaseEpoch, AttemptID: l.AttemptID,
			Step: "ask", SuspensionID: keyspace.SuspensionID(randomUUID(x.r)), WaitpointKey: "ask", Condition: waitSpec{}.condition(),
			Timeout: time.Millisecond, TimeoutBehavior: "auto_resume_with_timeout_signal", ClaimRequest: request,
		}
		x.send("suspend "+l.Node, func(repeated bool) error {
			suspend.Repeated = repeated
			reply, err := x.e.Suspend(x.ctx, suspend)
			x.take(request.WorkerInstanceID, reply.Executions)
			return err
		})
	}
}

// completeSome completes all that a worker has, with one call.
func (x *opMix) completeSome(l held, request enginerpc.ClaimRequest) {
	call := enginerpc.WorkCall{Partition: x.p, ClaimRequest: request}
	var done []*enginerpc.ClaimedExecution
	seen := make(map[enginecore.ExecutionID]bool)
	for _, other := range slices.Backward(x.taken) {
		if other.worker != l.worker || len(call.Completions) == 4 || seen[other.ExecutionID] {
			continue
		}
		seen[other.ExecutionID] = true
		claimed := &enginerpc.ClaimedExecution{
			ExecutionID: other.ExecutionID, LeaseID: other.LeaseID, LeaseEpoch: other.LeaseEpoch, AttemptID: other.AttemptID,
		}
		done, call.Completions = append(done, claimed), append(call.Completions, enginerpc.Completed(claimed, x.result()))
	}
	x.send(fmt.Sprint("complete many ", len(call.Completions), " ", l.worker), func(repeated bool) error {
		call.Repeated = repeated
		reply, err := x.e.Commit(x.ctx, call, done)
		x.take(request.WorkerInstanceID, reply.Executions)
		return err
	})
}

// keepLease renews a worker's leases, releases unknown ones, or makes an operator revoke a lease.
func (x *opMix) keepLease() {
	x.t.Helper()
	l, ok := x.lease()
	if !ok {
		return
	}
	if x.r.IntN(3) == 0 {
		x.send("revoke "+l.Node, func(bool) error {
			_, err := x.e.RevokeLease(x.ctx, enginerpc.RevokeLeaseCall{ExecutionID: l.ExecutionID, WorkerInstanceID: l.worker})
			return err
		})
		return
	}
	x.send("renew "+l.Node, func(bool) error {
		_, err := x.e.Renew(x.ctx, enginerpc.RenewCall{
			Partition: x.p, WorkerInstanceID: l.worker, LeaseTTL: time.Hour, ReportOrphans: true,
			Leases: []enginerpc.RenewLease{{
				ExecutionID: l.ExecutionID, LeaseID: l.LeaseID, LeaseEpoch: l.LeaseEpoch, AttemptID: l.AttemptID,
			}},
		})
		return err
	})
}

// keeperTask performs one of the keeper's tasks.
func (x *opMix) keeperTask() {
	x.t.Helper()
	switch x.r.IntN(8) {
	case 0:
		enginetest.Pass(x.t, x.e, time.Millisecond)
		fallthrough
	case 1, 2, 3:
		limit := 1 + x.r.Int64N(4)
		x.send(fmt.Sprint("keep ", limit), func(bool) error {
			_, err := x.e.Keep(x.ctx, enginerpc.KeepCall{Partition: x.p, Limit: limit})
			return err
		})
	case 4:
		_, err := x.e.ReconcileEdges(x.ctx, enginerpc.ReconcileEdgesCall{Partition: x.p, Limit: 100})
		x.carry("reconcile edges", err)
	case 5:
		x.hurt()
		fallthrough
	default:
		x.reconcile(1 + x.r.Int64N(30))
	}
}

// hurt removes the list of the runs of the flow, which reconciliation puts in order.
func (x *opMix) hurt() {
	client := x.e.Client()
	require.NoError(x.t, client.Do(x.ctx, client.B().Del().Key(x.e.Keys().FfxRuns(x.p, x.run.FlowName)).Build()).Error())
}

func (x *opMix) reconcile(limit int64) {
	x.t.Helper()
	call := enginerpc.ReconcileCall{Partition: x.p, Limit: limit}
	for i := range mixWorkers {
		worker := enginecore.WorkerInstanceID(fmt.Sprint("w", i))
		call.Workers = append(call.Workers, enginerpc.ReconcileWorker{WorkerInstanceID: worker})
	}
	for {
		reply, err := x.e.Reconcile(x.ctx, call)
		x.carry(fmt.Sprint("reconcile from ", call.Cursor, reply.Repaired), err)
		for _, m := range reply.Repaired {
			// A closed flow may still be listed among flows with members to end, until a keeper processes it.
			require.Contains(x.t, []string{"runs", "cancel_backlog"}, m.Index, "was not out of order")
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return
		}
	}
}

// stopSome cancels the flow, with the one call or the other, or a node.
func (x *opMix) stopSome() {
	x.t.Helper()
	policy := []string{"cancel_all", "cancel_pending"}[x.r.IntN(2)]
	name := x.names[x.r.IntN(len(x.names))]
	switch k := x.r.IntN(12); {
	case k < 3:
		x.send("cancel flow "+policy, func(bool) error {
			_, err := x.e.CancelFlow(x.ctx, enginerpc.CancelFlowCall{
				Partition: x.p, FlowID: x.id, Reason: "test", Actor: "test", Policy: policy,
			})
			return err
		})
	case k < 5:
		x.send("contract's cancel", func(bool) error {
			_, err := x.e.ContractCancelFlow(x.ctx, enginerpc.ContractCancelFlowCall{
				Partition: x.p, FlowID: x.id, Reason: "test", CancellationPolicy: policy, Grace: time.Millisecond,
			})
			return err
		})
	case k < 7:
		x.send("acknowledge cancel of "+name, func(bool) error {
			_, err := x.e.CancelExecution(x.ctx, enginerpc.CancelExecutionCall{
				ExecutionID: x.node(name), LaneID: x.lane, Reason: "test", Source: "flow_cascade",
			})
			if err == nil {
				_, err = x.e.AckCancelMember(x.ctx, enginerpc.AckCancelMemberCall{ExecutionID: x.node(name), FlowID: x.id})
			}
			return err
		})
	case k < 8:
		x.send("expire "+name, func(bool) error {
			_, err := x.e.ExpireExecution(x.ctx, enginerpc.ExpireExecutionCall{
				ExecutionID: x.node(name), LaneID: x.lane, ExpireReason: "operator",
			})
			return err
		})
	default:
		x.send("cancel "+name, func(bool) error {
			_, err := x.e.CancelNode(x.ctx, enginerpc.CancelNodeCall{Partition: x.p, ExecutionID: x.node(name), Reason: "test", Actor: "test"})
			return err
		})
	}
}

// runAgain replays a node, or runs some of them again, of which the keeper may have to do the rest.
func (x *opMix) runAgain() {
	x.t.Helper()
	name := x.names[x.r.IntN(len(x.names))]
	if x.r.IntN(2) == 0 {
		x.send("replay "+name, func(bool) error {
			_, err := x.e.ReplayExecution(x.ctx, enginerpc.ReplayExecutionCall{ExecutionID: x.node(name), LaneID: x.lane})
			return err
		})
		return
	}
	call := enginerpc.RerunCall{Partition: x.p, FlowID: x.id, RerunID: randomUUID(x.r), Mode: "test", Actor: "test", Begin: true}
	for _, name := range x.names {
		if x.r.IntN(2) == 0 {
			call.Nodes = append(call.Nodes, x.node(name))
		}
	}
	if len(call.Nodes) == 0 {
		call.Nodes = append(call.Nodes, x.node(name))
	}
	if x.r.IntN(3) == 0 {
		collect := call
		collect.Begin = false
		x.send("collect for a rerun", func(bool) error { _, err := x.e.Rerun(x.ctx, collect); return err })
	}
	x.send("rerun", func(bool) error { _, err := x.e.Rerun(x.ctx, call); return err })
}
