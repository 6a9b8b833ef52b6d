package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// reportPause is the time between two tries to report while the engine is unavailable.
const reportPause = 100 * time.Millisecond

// completer reports to the engine how leased executions ended, and returns what the replies lease or offer in exchange. A report is
// repeated while the engine is unavailable, as long as the lease lasts: renewals extend it meanwhile, so that a result is kept for as
// long as the engine keeps the lease.
type completer struct {
	session *engine.Session
	// base lives as long as reports may be sent.
	base context.Context
	// claimRequest is the claim of executions of a lane that goes with a report.
	claimRequest func(enginecore.LaneID, int) enginerpc.ClaimRequest
	// markUncertain is told of calls after which the engine may know of leases that the worker does not.
	markUncertain func()
	batch         *completionBatcher // nil when completions go one by one
}

// report is what came of telling the engine the end of an execution.
type report struct {
	// metric is the outcome as it is measured; nothing is when it is empty. committing is how long a result took to commit.
	metric     string
	committing time.Duration
	// err is why the engine may not know that the attempt is over.
	err error
	// refused is why a wait is impossible, so that the attempt fails.
	refused error
	// resumed tells that what the execution waits for has come already, brought tells what: its function is to run again.
	resumed bool
	brought []byte
	handoff handoff
}

// handoff is what the reply to a report brings for the slot that becomes free, and for others.
type handoff struct {
	sentAt time.Time
	// next was leased for the slot; nil when nothing was.
	next *enginerpc.ClaimedExecution
	// candidates may be next, once they have passed their limits.
	candidates []enginerpc.Candidate
	// surplus was leased for completions that were refused, spare has to pass its limits: there is no slot for either.
	surplus []enginerpc.ClaimedExecution
	spare   []enginerpc.Candidate
	// more tells that the partition has work that was too much for one call, remaining that the lane has more to claim there.
	more, remaining bool
}

// handoffOf divides what a reply brings to one execution.
func handoffOf(executions []enginerpc.ClaimedExecution, candidates []enginerpc.Candidate, more, remaining bool, sentAt time.Time) handoff {
	h := handoff{sentAt: sentAt, more: more, remaining: remaining}
	if len(executions) > 0 {
		h.next, h.spare = &executions[0], candidates
	} else {
		h.candidates = candidates
	}
	return h
}

// report tells the engine how an execution ended, and asks for others of the same lane and partition for free slots.
func (c *completer) report(l *lease, o attemptOutcome, slots int) report {
	switch o.kind {
	case outcomeKindCompleted:
		return c.complete(l, o.result, slots)
	case outcomeKindFailed:
		return c.fail(l, o.err)
	case outcomeKindSuspended:
		return c.suspend(l, o, slots)
	case outcomeKindAwaitsChild:
		return c.awaitChild(l, o.child, slots)
	case outcomeKindReleased:
		return c.release(l, o.reason)
	}
	return report{}
}

// complete commits a result, together with others if the engine can.
func (c *completer) complete(l *lease, result []byte, slots int) report {
	begun := time.Now()
	mine := completionRequest{l, result, slots}
	var done completionResult
	if c.batch == nil {
		done = c.completeOne(mine)
	} else if done = c.batch.do(c.base, mine); done.refused {
		leftover := done.handoff
		done = c.completeOne(mine)
		done.handoff.add(leftover)
	}
	r := report{metric: engine.OutcomeSucceeded, committing: time.Since(begun), err: done.err, handoff: done.handoff}
	if done.err != nil {
		r.metric = engine.OutcomeNotCommitted
	}
	return r
}

// add adds what a call with several completions has left over for nobody.
func (h *handoff) add(leftover handoff) {
	h.surplus, h.spare = append(h.surplus, leftover.surplus...), append(h.spare, leftover.spare...)
	h.more, h.remaining = h.more || leftover.more, h.remaining || leftover.remaining
	if h.sentAt.IsZero() {
		h.sentAt = leftover.sentAt
	}
}

// completeOne commits one result with a call of its own.
func (c *completer) completeOne(x completionRequest) (done completionResult) {
	claimed := &x.lease.claimed
	call := enginerpc.CompleteCall{
		Partition: x.lease.shard.Partition, ExecutionID: claimed.ExecutionID, LeaseID: claimed.LeaseID,
		LeaseEpoch: claimed.LeaseEpoch, AttemptID: claimed.AttemptID, Result: x.result,
		ClaimRequest: c.claimRequest(x.lease.shard.Lane, x.slots),
	}
	done.err = c.untilKnown(x.lease, func(ctx context.Context, repeated bool) error {
		call.Repeated = repeated
		sentAt := time.Now()
		reply, err := c.session.Backend.Complete(ctx, call)
		done.handoff = handoffOf(reply.Executions, reply.Candidates, reply.More, reply.Remaining > 0, sentAt)
		return err
	})
	return done
}

// untilKnown makes a call again while the engine is unavailable, as long as the lease lasts. The call's context lives as long as the
// lease does by then.
func (c *completer) untilKnown(l *lease, call func(ctx context.Context, repeated bool) error) error {
	again := engine.RetryPolicy{Pause: reportPause, Until: l.leaseEnd, Failed: func(error) { c.markUncertain() }}
	return engine.RetryUntilKnown(c.base, again, func(repeated bool) error {
		ctx, cancel := context.WithDeadline(c.base, l.leaseEnd())
		defer cancel()
		return call(ctx, repeated)
	})
}

// fail reports a failed attempt.
func (c *completer) fail(l *lease, failure error) (r report) {
	call := enginerpc.FailCall{
		Partition: l.shard.Partition, ExecutionID: l.claimed.ExecutionID, LeaseID: l.claimed.LeaseID,
		LeaseEpoch: l.claimed.LeaseEpoch, AttemptID: l.claimed.AttemptID, AttemptIndex: l.claimed.AttemptIndex,
		Reason: recordtext.Text(failure.Error(), engine.MaxReason), Category: activity.CategoryOf(failure),
		Retryable: !activity.IsNonRetryable(failure), JitterPermille: rand.Int64N(1001),
	}
	if delay, ok := activityspec.RetryDelay(failure); ok {
		call.RetryAfter = max(delay, time.Millisecond)
	}
	r.err = c.untilKnown(l, func(ctx context.Context, _ bool) error {
		reply, err := c.session.Backend.Fail(ctx, call)
		r.metric, r.handoff.more = engine.OutcomeOfFailure(reply), reply.More
		return err
	})
	if r.err != nil {
		return report{metric: engine.OutcomeNotCommitted, err: r.err}
	}
	return r
}

// suspend puts the execution aside until its signals come.
func (c *completer) suspend(l *lease, o attemptOutcome, slots int) (r report) {
	s := o.suspension
	id := uuid.NewString()
	call := enginerpc.SuspendCall{
		Partition: l.shard.Partition, ExecutionID: l.claimed.ExecutionID, LeaseID: l.claimed.LeaseID,
		LeaseEpoch: l.claimed.LeaseEpoch, AttemptID: l.claimed.AttemptID, Step: s.Step, SuspensionID: enginecore.SuspensionID(id),
		WaitpointKey: submit.WaitpointKey(enginecore.WaitpointID(id)), Condition: submit.ConditionOf(s.Wait), Timeout: s.Wait.Timeout,
		TimeoutBehavior: submit.TimeoutBehaviors[activity.TimeoutBehavior(s.Wait.OnTimeout)], Collect: s.Wait.Collect,
		ClaimRequest: c.claimRequest(l.shard.Lane, slots),
	}
	var failure error
	err := c.untilKnown(l, func(ctx context.Context, repeated bool) error {
		call.Repeated = repeated
		sentAt := time.Now()
		var reply enginerpc.SuspendReply
		err := c.session.Secrets.With(ctx, l.shard.Partition, func() (err error) {
			reply, err = c.session.Core.Suspend(ctx, call)
			return err
		})
		failure = stepError(ctx, err)
		r = report{metric: engine.OutcomeSuspended, handoff: handoffOf(reply.Executions, reply.Candidates, false, reply.Remaining > 0, sentAt)}
		if reply.Status == enginerpc.StatusAlreadySatisfied {
			r = report{resumed: true, brought: reply.Result}
		}
		return err
	})
	switch {
	case err == nil:
		return r
	case isFence(err) || engine.IsUnavailable(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		// The engine may not know of the wait, but has not refused it either. The lease runs out.
		return report{metric: engine.OutcomeNotCommitted, err: err}
	}
	return report{refused: fmt.Errorf("await %q: %w", s.Step, failure)}
}

// awaitChild puts the execution aside until its run is over. Where that fails, the lease runs out, and whoever takes the execution
// over finds the run.
func (c *completer) awaitChild(l *lease, w *childWait, slots int) (r report) {
	call := enginerpc.AwaitChildCall{
		Partition: l.shard.Partition, ExecutionID: l.claimed.ExecutionID, LeaseID: l.claimed.LeaseID,
		LeaseEpoch: l.claimed.LeaseEpoch, AttemptID: l.claimed.AttemptID, ChildFlowID: w.id, Detail: w.Error(),
		ClaimRequest: c.claimRequest(l.shard.Lane, slots),
	}
	err := c.untilKnown(l, func(ctx context.Context, repeated bool) error {
		call.Repeated = repeated
		sentAt := time.Now()
		reply, err := c.session.Core.AwaitChild(ctx, call)
		r = report{handoff: handoffOf(reply.Executions, reply.Candidates, false, reply.Remaining > 0, sentAt)}
		if reply.Status == enginerpc.StatusAlreadySatisfied {
			r = report{resumed: true}
		}
		return err
	})
	if err != nil {
		return report{err: err}
	}
	return r
}

// release returns an execution unfinished. It is tried once: else the lease runs out.
func (c *completer) release(l *lease, reason string) report {
	ctx, cancel := context.WithDeadline(c.base, l.leaseEnd())
	defer cancel()
	_, err := c.session.Backend.Release(ctx, enginerpc.ReleaseCall{
		Partition: l.shard.Partition, ExecutionID: l.claimed.ExecutionID, LeaseID: l.claimed.LeaseID,
		LeaseEpoch: l.claimed.LeaseEpoch, AttemptID: l.claimed.AttemptID, Reason: reason,
	})
	return report{metric: engine.OutcomeGivenBack, err: err}
}

// isFence reports whether the engine does not take the caller for the owner of the execution.
func isFence(err error) bool {
	for _, code := range []enginecore.Code{
		enginecore.ErrExecutionNotActive, enginecore.ErrLeaseRevoked, enginecore.ErrLeaseExpired, enginecore.ErrStaleLease,
		enginecore.ErrExecutionNotFound,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
