package execution

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// heldLease contains the data of a lease that this process holds: the arguments that the contract's functions
// require in a report.
type heldLease struct {
	partition keyspace.Partition
	lane      enginecore.LaneID
	flow      enginecore.FlowID
	node      string
	graphHash string
	attempt   enginecore.AttemptIndex
	attemptID keyspace.AttemptID
	epoch     enginecore.LeaseEpoch
	worker    enginecore.WorkerInstanceID
	policy    []byte
	retries   int64

	overdue time.Time // when endOverdue fails the attempt; zero is never
	until   time.Time // when the record is forgotten unless it is renewed
}

// end returns the end of the lease's execution with an outcome.
func (l *heldLease) end(id enginecore.ExecutionID, outcome string) End {
	return End{id, l.flow, l.node, l.graphHash, outcome}
}

// heldLeases holds the leases of this process. The zero value is empty; it is safe for concurrent use.
type heldLeases struct {
	mu     sync.Mutex
	held   map[enginecore.LeaseID]*heldLease
	purged time.Time
}

// overdueGrace is the time beyond its start-to-close timeout that a function gets to end after it was cancelled.
const overdueGrace = 2 * time.Second

// add records a lease and, now and then, removes those that were not renewed.
func (b *heldLeases) add(id enginecore.ExecutionID, lease enginecore.LeaseID, l *heldLease, ttl time.Duration) {
	now := time.Now()
	if plan, err := submit.DecodePolicy(l.policy); err == nil && plan.StartToClose > 0 {
		l.overdue = now.Add(plan.StartToClose + overdueGrace)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = make(map[enginecore.LeaseID]*heldLease)
	}
	l.until = now.Add(2 * ttl)
	b.held[lease] = l
	if now.Sub(b.purged) > ttl {
		b.purged = now
		for old, l := range b.held {
			if now.After(l.until) {
				delete(b.held, old)
			}
		}
	}
}

// get returns a lease; nil if it is unknown.
func (b *heldLeases) get(lease enginecore.LeaseID) *heldLease {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[lease]
}

// renewed records the renewal of a lease.
func (b *heldLeases) renewed(lease enginecore.LeaseID, ttl time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.held[lease]; l != nil {
		l.until = time.Now().Add(2 * ttl)
	}
}

// drop removes a lease.
func (b *heldLeases) drop(lease enginecore.LeaseID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, lease)
}

var leaseFields = []string{"lane_id", "flow_id", "current_attempt_index", "current_worker_instance_id", "retry_count"}

// leaseOf returns the data of a lease, from this process or else from the engine.
func (c *Steps) leaseOf(
	ctx context.Context, p keyspace.Partition, id enginecore.ExecutionID, lease enginecore.LeaseID,
) (*heldLease, error) {
	if l := c.leases.get(lease); l != nil {
		return l, nil
	}
	results, err := c.Read(ctx, c.Hmget(c.Keys.ExecCore(id), leaseFields),
		c.Client.B().Get().Key(c.Keys.ExecPolicy(id)).Build())
	if err != nil {
		return nil, err
	}
	core := hashrecord.Read(results[0], leaseFields)
	policy, _ := results[1].AsBytes() // nil where there is none
	return &heldLease{
		partition: p, lane: core.Lane(), flow: enginecore.FlowID(core["flow_id"]), policy: policy,
		retries: core.Int("retry_count"),
		attempt: enginecore.AttemptIndex(core.Int("current_attempt_index")),
		worker:  enginecore.WorkerInstanceID(core["current_worker_instance_id"]),
	}, nil
}

// endedBySelf reports whether a refusal shows that this same lease has ended the execution before, so that only the
// reply was lost.
func endedBySelf(err error, epoch enginecore.LeaseEpoch, attempt keyspace.AttemptID, outcome string) bool {
	var refusal *enginecore.Error
	if !errors.As(err, &refusal) || refusal.Code != enginecore.ErrExecutionNotActive {
		return false
	}
	return refusal.Detail("terminal_outcome") == outcome && refusal.Detail("attempt_id") == string(attempt) &&
		refusal.Detail("lease_epoch") == strconv.FormatInt(int64(epoch), 10)
}

// Complete commits a result, propagates it to the downstreams, and hands off one of them to the worker. If none is
// handed off, it returns how many executions of the lane are eligible.
func (c *Steps) Complete(ctx context.Context, call enginerpc.CompleteCall) (enginerpc.CompleteReply, error) {
	reply := enginerpc.CompleteReply{Status: enginerpc.StatusOK}
	lease, err := c.leaseOf(ctx, call.Partition, call.ExecutionID, call.LeaseID)
	if err != nil {
		return reply, err
	}
	_, err = c.Core.CompleteExecution(ctx, enginerpc.CompleteExecutionCall{
		AttemptIndex: lease.attempt, WorkerInstanceID: lease.worker, LaneID: lease.lane, ExecutionID: call.ExecutionID,
		LeaseID: call.LeaseID, LeaseEpoch: call.LeaseEpoch, AttemptID: call.AttemptID, ResultPayload: call.Result,
	})
	if endedBySelf(err, call.LeaseEpoch, call.AttemptID, "success") {
		reply.Status, err = enginerpc.StatusAlreadySatisfied, nil
	}
	if err != nil {
		return reply, err
	}
	first := reply.Status == enginerpc.StatusOK
	ready, err := c.propagateOnce(ctx, call.Partition, call.LaneID, first, lease.end(call.ExecutionID, "success"))
	if err != nil {
		return reply, err
	}
	if call.Repeated && call.Count > 0 {
		reply.Executions, err = c.claimedBefore(ctx, call.Partition, &call.ClaimRequest)
	}
	mine := ready[:0:0]
	for _, x := range ready {
		if x.suits(&call.ClaimRequest) {
			mine = append(mine, x)
		}
	}
	if err == nil && len(reply.Executions) == 0 {
		reply.Executions, reply.Remaining, err = c.takeSome(ctx, call.Partition, &call.ClaimRequest, mine)
	}
	if err == nil {
		c.leases.drop(call.LeaseID)
	}
	if err == nil && len(reply.Executions) == 0 {
		reply.Remaining, err = c.waiting(ctx, call.Partition, call.LaneID)
	}
	return reply, err
}

// waiting returns the number of eligible executions of a lane.
func (c *Steps) waiting(ctx context.Context, p keyspace.Partition, lane enginecore.LaneID) (int64, error) {
	results, err := c.Read(ctx, c.Client.B().Zcard().Key(c.Keys.LaneEligible(p, lane)).Build())
	if err != nil {
		return 0, err
	}
	return results[0].AsInt64()
}

// Fail reports a failed attempt with the retry that the stored policy grants.
func (c *Steps) Fail(ctx context.Context, call enginerpc.FailCall) (enginerpc.FailReply, error) {
	reply := enginerpc.FailReply{Status: enginerpc.StatusOK}
	lease, err := c.leaseOf(ctx, call.Partition, call.ExecutionID, call.LeaseID)
	if err != nil {
		return reply, err
	}
	if err := c.keepDetails(ctx, call); err != nil {
		return reply, err
	}
	begun := func() time.Duration { return c.sinceFirstAttempt(ctx, call.ExecutionID) }
	failed, err := c.Core.FailExecution(ctx, enginerpc.FailExecutionCall{
		AttemptIndex: lease.attempt, WorkerInstanceID: lease.worker, LaneID: lease.lane, ExecutionID: call.ExecutionID,
		LeaseID: call.LeaseID, LeaseEpoch: call.LeaseEpoch, AttemptID: call.AttemptID, FailureReason: call.Reason,
		FailureCategory: call.Category, RetryPolicyJSON: retryOf(lease, call, begun),
	})
	switch {
	case endedBySelf(err, call.LeaseEpoch, call.AttemptID, "failed"):
		reply.Status, failed.Outcome = enginerpc.StatusAlreadySatisfied, "terminal_failed"
	case retriedBySelf(err, call.LeaseEpoch):
		reply.Status, failed.Outcome = enginerpc.StatusAlreadySatisfied, "retry_scheduled"
	case err != nil:
		return reply, err
	}
	reply.Outcome, reply.DueAt = failed.Outcome, failed.DelayUntil
	if failed.Outcome == "retry_scheduled" {
		c.leases.drop(call.LeaseID)
		if !failed.DelayUntil.IsZero() {
			c.TellDue(ctx, call.Partition, failed.DelayUntil.UnixMilli())
		}
		return reply, nil
	}
	if _, err := c.Propagate(ctx, call.Partition, "", lease.end(call.ExecutionID, "failed")); err != nil {
		return reply, err
	}
	c.leases.drop(call.LeaseID)
	return reply, nil
}

// retriedBySelf reports whether a refusal shows that this same lease has reported its failure before, and a retry
// follows.
func retriedBySelf(err error, epoch enginecore.LeaseEpoch) bool {
	var refusal *enginecore.Error
	return errors.As(err, &refusal) && refusal.Code == enginecore.ErrExecutionNotActive &&
		refusal.Detail("lifecycle_phase") == "runnable" &&
		refusal.Detail("lease_epoch") == strconv.FormatInt(int64(epoch), 10)
}

// Release returns an execution to its lane: it is delayed until now, which keeps its attempt, and promoted at once.
func (c *Steps) Release(ctx context.Context, call enginerpc.ReleaseCall) (enginerpc.ReleaseReply, error) {
	reply := enginerpc.ReleaseReply{Status: enginerpc.StatusOK}
	lease, err := c.leaseOf(ctx, call.Partition, call.ExecutionID, call.LeaseID)
	if err != nil {
		return reply, err
	}
	now := c.Now()
	b := c.Batch()
	delayed := link.AddOnce[enginerpc.DelayExecutionReply](b, enginerpc.DelayExecutionCall{
		AttemptIndex: lease.attempt, WorkerInstanceID: lease.worker, LaneID: lease.lane, ExecutionID: call.ExecutionID,
		LeaseID: call.LeaseID, LeaseEpoch: call.LeaseEpoch, AttemptID: call.AttemptID, DelayUntil: now,
	})
	promoted := link.AddOnce[enginerpc.PromoteDelayedReply](b,
		enginerpc.PromoteDelayedCall{LaneID: lease.lane, ExecutionID: call.ExecutionID, Now: now})
	if err := b.Run(ctx); err != nil {
		return reply, err
	}
	c.leases.drop(call.LeaseID)
	if delayed.Err == nil {
		c.TellWork(ctx, call.Partition, lease.lane)
	}
	return reply, errors.Join(delayed.Err, promoted.Err)
}

// renewHistoryGrace is how long the record of a lease is kept after its end, as other FlowFabric clients expect.
const renewHistoryGrace = 5 * time.Second

// Renew renews the leases of a partition, one call for each lease, in one round trip.
func (c *Steps) Renew(ctx context.Context, call enginerpc.RenewCall) (enginerpc.RenewReply, error) {
	_, _ = c.ReadClock(ctx) // after a failure, the last reading is used
	b := c.Batch()
	renewed := make([]*batching.CallResult[enginerpc.RenewLeaseReply], len(call.Leases))
	for i, l := range call.Leases {
		var attempt enginecore.AttemptIndex
		if lease := c.leases.get(l.LeaseID); lease != nil {
			attempt = lease.attempt
		}
		renewed[i] = link.AddOnce[enginerpc.RenewLeaseReply](b, enginerpc.RenewLeaseCall{
			ExecutionID: l.ExecutionID, AttemptIndex: attempt, AttemptID: l.AttemptID, LeaseID: l.LeaseID,
			LeaseEpoch: l.LeaseEpoch, LeaseTTL: call.LeaseTTL, LeaseHistoryGrace: renewHistoryGrace,
		})
	}
	_ = b.Run(ctx) // each result has its error
	reply := enginerpc.RenewReply{Status: enginerpc.StatusOK}
	var fault error
	for i, l := range call.Leases {
		var refusal *enginecore.Error
		switch err := renewed[i].Err; {
		case err == nil:
			reply.ExpiresAt = renewed[i].Reply.ExpiresAt
			c.leases.renewed(l.LeaseID, call.LeaseTTL)
			if c.endOverdue(ctx, call.Partition, l) {
				reply.Lost = append(reply.Lost,
					enginerpc.LostLease{ExecutionID: l.ExecutionID, Code: string(enginecore.ErrExecutionNotActive)})
			}
		case errors.As(err, &refusal):
			reply.Lost = append(reply.Lost,
				enginerpc.LostLease{ExecutionID: l.ExecutionID, Code: string(refusal.Code)})
		default:
			fault = err
		}
	}
	if fault == nil && call.ReportOrphans {
		reply.Orphans, fault = c.unknownLeases(ctx, call)
	}
	return reply, fault
}

// endOverdue fails an attempt whose function still runs after its start-to-close timeout and a grace period, as the
// engine does outside contract mode. It reports whether it did.
func (c *Steps) endOverdue(ctx context.Context, p keyspace.Partition, l enginerpc.RenewLease) bool {
	lease := c.leases.get(l.LeaseID)
	if lease == nil || lease.overdue.IsZero() || time.Now().Before(lease.overdue) {
		return false
	}
	_, err := c.Fail(ctx, enginerpc.FailCall{
		Partition: p, ExecutionID: l.ExecutionID, LeaseID: l.LeaseID, LeaseEpoch: l.LeaseEpoch, AttemptID: l.AttemptID,
		AttemptIndex: lease.attempt, Reason: engine.ErrStartToClose.Error(), Category: activityspec.CategoryTimeout,
		Retryable: true,
	})
	return err == nil
}

// unknownLeases returns the leases that the engine holds for a worker that does not know them.
func (c *Steps) unknownLeases(ctx context.Context, call enginerpc.RenewCall) ([]enginerpc.HeldLease, error) {
	results, err := c.Read(ctx, c.Client.B().Smembers().Key(c.Keys.IndexWorkerLeases(call.Partition,
		call.WorkerInstanceID)).Build())
	if err != nil {
		return nil, err
	}
	known := make(map[enginecore.ExecutionID]bool, len(call.Leases))
	for _, l := range call.Leases {
		known[l.ExecutionID] = true
	}
	var ids []enginecore.ExecutionID
	for _, id := range link.IDsOf[enginecore.ExecutionID](results[0]) {
		if !known[id] {
			ids = append(ids, id)
		}
	}
	cores, err := c.ReadCores(ctx, ids, engine.ClaimFields)
	if err != nil {
		return nil, err
	}
	var unknownLeases []enginerpc.HeldLease
	for i, id := range ids {
		if cores[i]["ownership_state"] == "leased" &&
			cores[i]["current_worker_instance_id"] == string(call.WorkerInstanceID) {
			unknownLeases = append(unknownLeases, enginerpc.HeldLease{
				ExecutionID: id, LeaseID: enginecore.LeaseID(cores[i]["current_lease_id"]),
				LeaseEpoch: enginecore.LeaseEpoch(cores[i].Int("current_lease_epoch")),
				AttemptID:  keyspace.AttemptID(cores[i]["current_attempt_id"]),
			})
		}
	}
	return unknownLeases, nil
}

// EndLeases revokes all leases of a partition.
func (c *Steps) EndLeases(ctx context.Context, call enginerpc.EndLeasesCall) (enginerpc.EndLeasesReply, error) {
	reply := enginerpc.EndLeasesReply{Status: enginerpc.StatusOK}
	results, err := c.Read(ctx,
		c.Client.B().Zrange().Key(c.Keys.IndexLeaseExpiry(call.Partition)).Min("0").Max("-1").Build())
	if err != nil {
		return reply, err
	}
	ids := link.IDsOf[enginecore.ExecutionID](results[0])
	cores, err := c.ReadCores(ctx, ids, []string{"current_worker_instance_id"})
	if err != nil {
		return reply, err
	}
	revocations := make([]enginerpc.RevokeLeaseCall, len(ids))
	for i, id := range ids {
		revocations[i] = enginerpc.RevokeLeaseCall{
			WorkerInstanceID: enginecore.WorkerInstanceID(cores[i]["current_worker_instance_id"]), ExecutionID: id,
			RevokeReason: "the process of its worker has ended",
		}
	}
	answers := link.Send[enginerpc.RevokeLeaseReply](ctx, c.Link, revocations)
	reply.Ended = int64(len(ids))
	return reply, link.FirstError(answers, enginecore.ErrExecutionNotActive, enginecore.ErrExecutionNotFound,
		enginecore.ErrNoActiveLease)
}

// keepDetails stores the details of a failure, which the contract has no field for, with the execution, before its
// attempt ends. They name the attempt, so that details of an earlier one do not count.
func (c *Steps) keepDetails(ctx context.Context, call enginerpc.FailCall) error {
	if len(call.Details) == 0 {
		return nil
	}
	details := strconv.Itoa(int(call.AttemptIndex)) + ":" + string(call.Details)
	_, err := link.CallAgain[enginerpc.SetExecutionTagsReply](ctx, c.Link, enginerpc.SetExecutionTagsCall{
		ExecutionID: call.ExecutionID, Tags: []string{contractnode.TagDetails, details},
	})
	return err
}

// sinceFirstAttempt returns how long ago the first attempt of an execution began; 0 if that is not known.
func (c *Steps) sinceFirstAttempt(ctx context.Context, id enginecore.ExecutionID) time.Duration {
	fields := []string{"started_at"}
	results, err := c.Read(ctx, c.Hmget(c.Keys.ExecCore(id), fields))
	if err != nil {
		return 0
	}
	started := hashrecord.Read(results[0], fields).Time("started_at")
	if started.IsZero() {
		return 0
	}
	return c.Now().Sub(started)
}
