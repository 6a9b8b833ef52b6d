package completion

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/payload"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// Completer reports to the engine how leased executions ended, and returns the executions that the replies lease or
// offer in exchange. It repeats a report while the engine is unavailable and the lease lasts; renewals extend the
// lease until then.
type Completer struct {
	Session *engine.Session
	// Base ends when reports may no longer be sent.
	Base context.Context
	// ClaimRequest returns the claim that goes with a report, for a number of executions of a lane.
	ClaimRequest func(enginecore.LaneID, int) enginerpc.ClaimRequest
	// MarkUncertain is called after failed calls by which the engine may have leased executions that the
	// worker does not know.
	MarkUncertain func()
	Instance      enginecore.WorkerInstanceID
	Batch         *Batcher // nil if completions are sent one by one
}

// Report is the result of reporting the end of an execution.
type Report struct {
	// Metric is the outcome for the metric of attempts; empty if there is nothing to record. committing is
	// the duration of committing a result.
	Metric     string
	Committing time.Duration
	// Err is set if the engine may not know that the attempt has ended.
	Err error
	// Refused is the reason why the engine refused to complete, suspend, delay or cancel the execution, so that the
	// attempt fails.
	Refused error
	// Resumed is set if the signals or the child run that the execution waits for have arrived already, so that its
	// function runs again; Brought is the result of the wait.
	Resumed bool
	Brought []byte
	// Token is the token of the waitpoint of a suspended execution, if a program holds its task.
	Token   activity.Token
	Handoff Handoff
}

// Report reports the end of an execution, and requests up to slots executions of the same shard in exchange.
func (c *Completer) Report(l *lease.Lease, o Outcome, slots int) Report {
	switch o.Kind {
	case KindCompleted:
		return c.complete(l, o.Result, slots)
	case KindFailed:
		return c.fail(l, o)
	case KindSuspended:
		return c.suspend(l, o, slots)
	case KindAwaitsChild:
		return c.awaitChild(l, o.Child, slots)
	case KindSkipped:
		return c.skip(l, o.Skipped, slots)
	case KindContinued:
		return c.continueAsNew(l, o.next, slots)
	case KindReleased:
		return c.release(l, o.Reason, o.Delay)
	case KindCancelled:
		return c.cancel(l, o.Reason)
	case KindDelayed:
		return c.delay(l, o.Until)
	case KindAwaitsChildren:
		return c.awaitChildren(l)
	case KindAwaitsSignals:
		return c.suspendHeld(l, o.Wait)
	case KindDropped:
	}
	return Report{}
}

// complete commits a result, in one call with other results if the engine supports that.
func (c *Completer) complete(l *lease.Lease, result []byte, slots int) Report {
	begun := time.Now()
	mine := Request{lease: l, result: result, slots: slots}
	var done Result
	if c.Batch == nil {
		done = c.completeOne(mine)
	} else if done = c.Batch.do(c.Base, mine); done.refused {
		leftover := done.handoff
		done = c.completeOne(mine)
		done.handoff.Add(leftover)
	}
	r := Report{Metric: observe.OutcomeSucceeded, Committing: time.Since(begun), Err: done.err, Handoff: done.handoff}
	if refused := tooLargeTogether(done.err); refused != nil {
		return Report{Refused: refused, Handoff: done.handoff}
	}
	if done.err != nil {
		r.Metric = observe.OutcomeNotCommitted
	}
	return r
}

// tooLargeTogether returns the failure of an item of a map whose result makes the results of the items too large
// together; nil for other errors.
func tooLargeTogether(err error) error {
	if err == nil {
		return nil
	}
	refusal, is := errors.AsType[*enginecore.Error](err)
	if !is || refusal.Code != errorcode.ResultsTooLarge {
		return nil
	}
	failure := fmt.Errorf(
		"%w: with the result of this item, the results of %s of %s items have %s bytes, at most %s are allowed",
		engine.ErrTooLarge, refusal.Detail("results"), refusal.Detail("items"), refusal.Detail("bytes"),
		refusal.Detail("limit"))
	return activity.NonRetryable(activity.Category(failure, engine.CategoryTooLarge))
}

// completeOne commits one result with a separate call.
func (c *Completer) completeOne(x Request) (done Result) {
	claimed := x.lease.Claimed
	call := enginerpc.CompleteCall{
		Partition: x.lease.Shard.Partition, ExecutionID: claimed.ExecutionID, LeaseID: claimed.LeaseID,
		LeaseEpoch: claimed.LeaseEpoch, AttemptID: claimed.AttemptID, Result: x.result,
		ClaimRequest: c.ClaimRequest(x.lease.Shard.Lane, x.slots),
	}
	done.err = c.UntilKnown(x.lease, func(ctx context.Context, repeated bool) error {
		call.Repeated = repeated
		sentAt := time.Now()
		reply, err := c.Session.Backend.Complete(ctx, call)
		done.handoff = handoffOf(reply.Executions, reply.Candidates, reply.More, reply.Remaining > 0, sentAt)
		if err == nil {
			c.passOnEnd(x, reply.Status)
		}
		return err
	})
	if done.err != nil {
		c.passOnEnd(x, enginerpc.StatusAlreadySatisfied) // by a call before this one
	}
	return done
}

// statusEnded is the outcome of a completion that has ended its run.
const statusEnded enginerpc.Status = "ended"

// passOnEnd passes on the end of the run of a completion, as far as its outcome reports it: the reply to a call that
// was repeated does not.
func (c *Completer) passOnEnd(x Request, outcome enginerpc.Status) {
	if outcome != statusEnded && outcome != enginerpc.StatusAlreadySatisfied {
		return
	}
	for _, r := range c.Session.Ends.All() {
		if outcome == statusEnded {
			r.EndedHere(x.lease.Claimed.FlowID, payload.Value(x.result))
		} else {
			r.MayHaveEnded(x.lease.Claimed.FlowID)
		}
	}
}

// UntilKnown repeats a call while the engine is unavailable and the lease lasts. The context of each try ends
// with the lease as renewed by then.
func (c *Completer) UntilKnown(l *lease.Lease, call func(ctx context.Context, repeated bool) error) error {
	again := retry.Policy{Pause: lease.ReportPause, Until: l.LeaseEnd, Failed: func(error) { c.MarkUncertain() }}
	return retry.UntilKnown(c.Base, again, func(repeated bool) error {
		ctx, cancel := context.WithDeadline(c.Base, l.LeaseEnd())
		defer cancel()
		return call(ctx, repeated)
	})
}

// fail reports a failed attempt.
func (c *Completer) fail(l *lease.Lease, o Outcome) (r Report) {
	failure := o.Err
	call := enginerpc.FailCall{
		Partition: l.Shard.Partition, ExecutionID: l.Claimed.ExecutionID, LeaseID: l.Claimed.LeaseID,
		LeaseEpoch: l.Claimed.LeaseEpoch, AttemptID: l.Claimed.AttemptID, AttemptIndex: l.Claimed.AttemptIndex,
		Reason: recordtext.Text(failure.Error(), engine.MaxReason), Category: activityspec.CategoryOf(failure),
		Retryable: !activityspec.IsNonRetryable(failure), JitterPermille: rand.Int64N(1001),
		Details: engine.FailureDetails(failure),
	}
	if o.Stack != "" {
		call.Stack = recordtext.Text(o.Stack, engine.MaxStack)
	}
	if delay, ok := activityspec.RetryDelay(failure); ok {
		call.RetryAfter = max(delay, time.Millisecond)
	}
	r.Err = c.UntilKnown(l, func(ctx context.Context, _ bool) error {
		if call.Words == "" {
			call.Words = c.wordsOf(ctx, call.Reason)
		}
		reply, err := c.Session.Backend.Fail(ctx, call)
		r.Metric, r.Handoff.More = observe.OutcomeOfFailure(reply), reply.More
		return err
	})
	if r.Err != nil {
		return Report{Metric: observe.OutcomeNotCommitted, Err: r.Err}
	}
	return r
}

// wordsOf returns the words by which searches find the run of a failure; empty if the engine cannot give the key of
// them now: the failure is reported all the same.
func (c *Completer) wordsOf(ctx context.Context, reason string) string {
	key, err := c.Session.SearchKey(ctx, c.Session.Namespace)
	if err != nil {
		return ""
	}
	return key.HashAll(reason)
}

// release returns an execution without its end. It sends one call; if that fails, the lease expires.
func (c *Completer) release(l *lease.Lease, reason string, delay time.Duration) Report {
	ctx, cancel := context.WithDeadline(c.Base, l.LeaseEnd())
	defer cancel()
	_, err := c.Session.Backend.Release(ctx, enginerpc.ReleaseCall{
		Partition: l.Shard.Partition, ExecutionID: l.Claimed.ExecutionID, LeaseID: l.Claimed.LeaseID,
		LeaseEpoch: l.Claimed.LeaseEpoch, AttemptID: l.Claimed.AttemptID,
		Reason: recordtext.Text(reason, engine.MaxReason), Delay: delay,
	})
	return Report{Metric: observe.OutcomeReleased, Err: err}
}
