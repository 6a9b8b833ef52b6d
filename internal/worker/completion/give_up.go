package completion

import (
	"context"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// sourceWorker is the source that records name for actions of the holder of a lease.
const sourceWorker = "worker"

// giveUp makes a call that gives a lease up, and repeats it while the engine is unavailable and the lease lasts. If
// the engine refuses a repeated call because the execution already has the state that the call leads to, under the
// same lease, only the first reply was lost.
func (c *Completer) giveUp(
	l *lease.Lease, metric, detail, state string, call func(ctx context.Context) error,
) Report {
	err := c.UntilKnown(l, func(ctx context.Context, repeated bool) error {
		err := call(ctx)
		if repeated && l.HasEnded(err, detail, state) {
			return nil
		}
		return err
	})
	return reportOf(metric, err)
}

// cancel ends an execution as cancelled.
func (c *Completer) cancel(l *lease.Lease, reason string) Report {
	call := enginerpc.CancelExecutionCall{
		AttemptIndex: l.Claimed.AttemptIndex, WorkerInstanceID: c.Instance, LaneID: l.Shard.Lane,
		ExecutionID: l.Claimed.ExecutionID, Reason: recordtext.Text(reason, engine.MaxReason), Source: sourceWorker,
		LeaseID: l.Claimed.LeaseID, LeaseEpoch: l.Claimed.LeaseEpoch,
	}
	return c.giveUp(l, observe.OutcomeCancelled, "terminal_outcome", "cancelled", func(ctx context.Context) error {
		_, err := c.Session.Backend.CancelExecution(ctx, call)
		return err
	})
}

// delay gives an execution up until a time. Its attempt continues then.
func (c *Completer) delay(l *lease.Lease, until time.Time) Report {
	call := enginerpc.DelayExecutionCall{
		AttemptIndex: l.Claimed.AttemptIndex, WorkerInstanceID: c.Instance, LaneID: l.Shard.Lane,
		ExecutionID: l.Claimed.ExecutionID, LeaseID: l.Claimed.LeaseID, LeaseEpoch: l.Claimed.LeaseEpoch,
		AttemptID: l.Claimed.AttemptID, DelayUntil: dueTime(until),
	}
	return c.giveUp(l, observe.OutcomeDelayed, "lifecycle_phase", "runnable", func(ctx context.Context) error {
		_, err := c.Session.Backend.DelayExecution(ctx, call)
		return err
	})
}

// ReleaseUntilKnown gives an execution back. Where completer.release tries that once, it repeats the call.
func (c *Completer) ReleaseUntilKnown(l *lease.Lease, reason string) Report {
	return c.giveUp(l, observe.OutcomeReleased, "lifecycle_phase", "runnable", func(context.Context) error {
		return c.release(l, reason, 0).Err
	})
}

// dueTime returns a time in the whole milliseconds of the engine, rounded up; times before 1970 are 1970.
func dueTime(t time.Time) time.Time {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return time.UnixMilli(max(ms, 1))
}

// awaitChildren gives an execution up until all its dependencies are satisfied. Its attempt continues then.
func (c *Completer) awaitChildren(l *lease.Lease) Report {
	call := enginerpc.MoveToWaitingChildrenCall{
		AttemptIndex: l.Claimed.AttemptIndex, WorkerInstanceID: c.Instance, LaneID: l.Shard.Lane,
		ExecutionID: l.Claimed.ExecutionID, LeaseID: l.Claimed.LeaseID, LeaseEpoch: l.Claimed.LeaseEpoch,
		AttemptID: l.Claimed.AttemptID,
	}
	return c.giveUp(l, observe.OutcomeSuspended, "lifecycle_phase", "runnable", func(ctx context.Context) error {
		_, err := c.Session.Backend.MoveToWaitingChildren(ctx, call)
		return err
	})
}

// reportOf returns the report of a call that gives a lease up. A refusal that leaves the lease as it is does not end
// the attempt.
func reportOf(metric string, err error) Report {
	switch {
	case err == nil:
		return Report{Metric: metric}
	case lease.IsFence(err) || retry.IsUnavailable(err) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled):
		return Report{Metric: observe.OutcomeNotCommitted, Err: err}
	}
	return Report{Refused: err}
}
