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
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// completer reports to the engine how leased executions ended, and returns the executions that the replies
// lease or offer in exchange. It repeats a report while the engine is unavailable and the lease lasts;
// renewals extend the lease meanwhile.
type completer struct {
	session *engine.Session
	// base ends when reports may no longer be sent.
	base context.Context
	// claimRequest returns the claim that goes with a report, for a number of executions of a lane.
	claimRequest func(enginecore.LaneID, int) enginerpc.ClaimRequest
	// markUncertain is called after failed calls by which the engine may have leased executions that the
	// worker does not know.
	markUncertain func()
	instance      enginecore.WorkerInstanceID
	batch         *completionBatcher // nil if completions are sent one by one
}

// report is the result of reporting the end of an execution.
type report struct {
	// metric is the outcome for the metric of attempts; empty if there is nothing to record. committing is
	// the duration of committing a result.
	metric     string
	committing time.Duration
	// err is set if the engine may not know that the attempt has ended.
	err error
	// refused is the reason why the engine refused to complete, suspend, delay or cancel the execution, so that the
	// attempt fails.
	refused error
	// resumed is set if the signals or the child run that the execution waits for have arrived already, so
	// that its function runs again; brought is the result of the wait.
	resumed bool
	brought []byte
	// token is that of the waitpoint of a suspended execution, if a program holds its task.
	token   activity.Token
	handoff handoff
}

// handoff holds the executions in the reply to a report, for the slot that becomes free and for others.
type handoff struct {
	sentAt time.Time
	// next was leased for the slot; nil if nothing was.
	next *enginerpc.ClaimedExecution
	// candidates can be next after they have been admitted under their limits.
	candidates []enginerpc.Candidate
	// surplus was leased for completions that were refused, so no slot is free for it. spare are candidates
	// for which no slot is free.
	surplus []enginerpc.ClaimedExecution
	spare   []enginerpc.Candidate
	// more reports whether the partition has work left that exceeded one call, remaining whether the lane has
	// further executions to claim there.
	more, remaining bool
}

// handoffOf returns the handoff of a reply to the report of one execution.
func handoffOf(
	executions []enginerpc.ClaimedExecution, candidates []enginerpc.Candidate, more, remaining bool, sentAt time.Time,
) handoff {
	h := handoff{sentAt: sentAt, more: more, remaining: remaining}
	if len(executions) > 0 {
		h.next, h.spare = &executions[0], candidates
	} else {
		h.candidates = candidates
	}
	return h
}

// report reports the end of an execution, and requests up to slots executions of the same shard in exchange.
func (c *completer) report(l *lease, o attemptOutcome, slots int) report {
	switch o.kind {
	case outcomeKindCompleted:
		return c.complete(l, o.result, slots)
	case outcomeKindFailed:
		return c.fail(l, o)
	case outcomeKindSuspended:
		return c.suspend(l, o, slots)
	case outcomeKindAwaitsChild:
		return c.awaitChild(l, o.child, slots)
	case outcomeKindSkipped:
		return c.skip(l, o.skipped, slots)
	case outcomeKindContinued:
		return c.continueAsNew(l, o.next, slots)
	case outcomeKindReleased:
		return c.release(l, o.reason)
	case outcomeKindCancelled:
		return c.cancel(l, o.reason)
	case outcomeKindDelayed:
		return c.delay(l, o.until)
	case outcomeKindAwaitsChildren:
		return c.awaitChildren(l)
	case outcomeKindAwaitsSignals:
		return c.suspendHeld(l, o.wait)
	case outcomeKindDropped:
	}
	return report{}
}

// complete commits a result, in one call with other results if the engine supports that.
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
	if refused := tooLargeTogether(done.err); refused != nil {
		return report{refused: refused, handoff: done.handoff}
	}
	if done.err != nil {
		r.metric = engine.OutcomeNotCommitted
	}
	return r
}

// tooLargeTogether returns the failure of an item of a map whose result makes the results of the items too large
// together; nil for other errors.
func tooLargeTogether(err error) error {
	var refusal *enginecore.Error
	if !errors.As(err, &refusal) || refusal.Code != enginecore.ErrResultsTooLarge {
		return nil
	}
	failure := fmt.Errorf(
		"%w: with the result of this item, those of %s of %s items have %s bytes, at most %s are allowed",
		engine.ErrTooLarge, refusal.Detail("results"), refusal.Detail("items"), refusal.Detail("bytes"),
		refusal.Detail("limit"))
	return activity.NonRetryable(activity.Category(failure, engine.CategoryTooLarge))
}

// add adds the rest of a call with several completions that belongs to none of them.
func (h *handoff) add(leftover handoff) {
	h.surplus, h.spare = append(h.surplus, leftover.surplus...), append(h.spare, leftover.spare...)
	h.more, h.remaining = h.more || leftover.more, h.remaining || leftover.remaining
	if h.sentAt.IsZero() {
		h.sentAt = leftover.sentAt
	}
}

// completeOne commits one result by a call of its own.
func (c *completer) completeOne(x completionRequest) (done completionResult) {
	claimed := x.lease.claimed
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

// untilKnown repeats a call while the engine is unavailable and the lease lasts. The context of each try ends
// with the lease as renewed by then.
func (c *completer) untilKnown(l *lease, call func(ctx context.Context, repeated bool) error) error {
	again := engine.RetryPolicy{Pause: reportPause, Until: l.leaseEnd, Failed: func(error) { c.markUncertain() }}
	return engine.RetryUntilKnown(c.base, again, func(repeated bool) error {
		ctx, cancel := context.WithDeadline(c.base, l.leaseEnd())
		defer cancel()
		return call(ctx, repeated)
	})
}

// fail reports a failed attempt.
func (c *completer) fail(l *lease, o attemptOutcome) (r report) {
	failure := o.err
	call := enginerpc.FailCall{
		Partition: l.shard.Partition, ExecutionID: l.claimed.ExecutionID, LeaseID: l.claimed.LeaseID,
		LeaseEpoch: l.claimed.LeaseEpoch, AttemptID: l.claimed.AttemptID, AttemptIndex: l.claimed.AttemptIndex,
		Reason: recordtext.Text(failure.Error(), engine.MaxReason), Category: activity.CategoryOf(failure),
		Retryable: !activity.IsNonRetryable(failure), JitterPermille: rand.Int64N(1001),
		Details: engine.FailureDetails(failure),
	}
	if o.stack != "" {
		call.Stack = recordtext.Text(o.stack, engine.MaxStack)
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

// suspend suspends the execution until its signals arrive.
func (c *completer) suspend(l *lease, o attemptOutcome, slots int) (r report) {
	s := o.suspension
	about, failure := submit.EncodeAbout(activityspec.WaitText(s.Wait.Text))
	if failure != nil {
		return report{refused: activity.NonRetryable(fmt.Errorf("await %q: %w", s.Step, failure))}
	}
	id := uuid.NewString()
	call := enginerpc.SuspendCall{
		Partition: l.shard.Partition, ExecutionID: l.claimed.ExecutionID, LeaseID: l.claimed.LeaseID,
		LeaseEpoch: l.claimed.LeaseEpoch, AttemptID: l.claimed.AttemptID, Step: s.Step,
		SuspensionID: enginecore.SuspensionID(id),
		WaitpointKey: submit.WaitpointKey(enginecore.WaitpointID(id)), Condition: submit.ConditionOf(s.Wait),
		Timeout:         s.Wait.Timeout,
		TimeoutBehavior: submit.TimeoutBehaviors[activity.TimeoutBehavior(s.Wait.OnTimeout)], Collect: s.Wait.Collect,
		About:        about,
		ClaimRequest: c.claimRequest(l.shard.Lane, slots),
	}
	store, failure := engine.Capability[engine.WaitStore](c.session.Backend)
	if failure != nil {
		return report{refused: activity.NonRetryable(fmt.Errorf("await %q: %w", s.Step, failure))}
	}
	err := c.untilKnown(l, func(ctx context.Context, repeated bool) error {
		call.Repeated = repeated
		sentAt := time.Now()
		var reply enginerpc.SuspendReply
		err := c.session.Secrets.With(ctx, l.shard.Partition, func() (err error) {
			reply, err = store.Suspend(ctx, call)
			return err
		})
		failure = stepError(ctx, err)
		r = report{
			metric:  engine.OutcomeSuspended,
			handoff: handoffOf(reply.Executions, reply.Candidates, false, reply.Remaining > 0, sentAt),
		}
		if reply.Status == enginerpc.StatusAlreadySatisfied {
			r = report{resumed: true, brought: reply.Result}
		}
		return err
	})
	switch {
	case err == nil:
		return r
	case isFence(err) || engine.IsUnavailable(err) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled):
		// The engine may not know of the wait, but has not refused it either. The lease runs out.
		return report{metric: engine.OutcomeNotCommitted, err: err}
	}
	return report{refused: fmt.Errorf("await %q: %w", s.Step, failure)}
}

// awaitChild suspends the execution until its child run has finished. If that fails, the lease expires, and
// the worker that takes the execution over finds the child run.
func (c *completer) awaitChild(l *lease, w *childWait, slots int) (r report) {
	call := enginerpc.AwaitChildCall{
		Partition: l.shard.Partition, ExecutionID: l.claimed.ExecutionID, LeaseID: l.claimed.LeaseID,
		LeaseEpoch: l.claimed.LeaseEpoch, AttemptID: l.claimed.AttemptID, ChildFlowID: w.id, Detail: w.Error(),
		Looks: c.session.InCluster(), ClaimRequest: c.claimRequest(l.shard.Lane, slots),
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

// release returns an execution without its end. It sends one call; if that fails, the lease expires.
func (c *completer) release(l *lease, reason string) report {
	ctx, cancel := context.WithDeadline(c.base, l.leaseEnd())
	defer cancel()
	_, err := c.session.Backend.Release(ctx, enginerpc.ReleaseCall{
		Partition: l.shard.Partition, ExecutionID: l.claimed.ExecutionID, LeaseID: l.claimed.LeaseID,
		LeaseEpoch: l.claimed.LeaseEpoch, AttemptID: l.claimed.AttemptID, Reason: reason,
	})
	return report{metric: engine.OutcomeReleased, err: err}
}
