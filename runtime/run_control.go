package runtime

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/runcontrol"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Cancel cancels the run: no further node starts, and the contexts of running activities end. It returns when every
// node was notified. If the call is interrupted, keepers complete the cancellation, or the call can be repeated.
// Cancelling a cancelled run is not an error.
//
// The reason has at most 2,048 bytes and no control characters; otherwise the error wraps ErrInvalid. It wraps
// ErrOver when the run has ended otherwise, and ErrNotFound when it does not exist.
func (r *RunRef) Cancel(ctx context.Context, reason string, opts ...ActionOption) error {
	return r.cancel(ctx, submit.CancelAll, reason, opts)
}

// CancelPending cancels the nodes that do not run. Running nodes may finish and keep their results, but get no further
// attempt; when the last of them has ended, the run is cancelled. Cancel may follow. The error is one of Cancel or, in
// contract mode, ErrNotInContract.
func (r *RunRef) CancelPending(ctx context.Context, reason string, opts ...ActionOption) error {
	return r.cancel(ctx, submit.CancelPending, reason, opts)
}

func (r *RunRef) cancel(ctx context.Context, policy, reason string, opts []ActionOption) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.Cancel, "", func(ctx context.Context, r *RunRef) error {
			return r.cancel(ctx, policy, reason, opts)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	by, err := r.client.actionOf(opts)
	if err = errors.Join(err, engine.CheckReason(reason)); err != nil {
		return r.errorf("cancel", err)
	}
	if policy != submit.CancelAll {
		if _, err := library(ctx, r.client, "cancelling single nodes"); err != nil {
			return r.errorf("cancel", err)
		}
	}
	if err := runcontrol.Cancel(ctx, r.client.session, r.at, policy, reason, by.actor); err != nil {
		return r.errorf("cancel", err)
	}
	return nil
}

// CancelNode cancels one node of the run, whether it waits or runs. Downstream nodes are skipped, or start as their
// joins allow. The run continues, and ends as cancelled if no node fails. Cancelling a cancelled node is not an error.
//
// The reason follows the rules of Cancel. The error wraps ErrInvalid; ErrNotFound when the run does not exist or has
// no such node; ErrOver when the node has ended otherwise; or, in contract mode, ErrNotInContract.
func (r *RunRef) CancelNode(ctx context.Context, node, reason string, opts ...ActionOption) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.CancelNode, node, func(ctx context.Context, r *RunRef) error {
			return r.CancelNode(ctx, node, reason, opts...)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	doing := fmt.Sprintf("cancel node %q of", node)
	core, err := library(ctx, r.client, "cancelling single nodes")
	if err != nil {
		return r.errorf(doing, err)
	}
	by, err := r.client.actionOf(opts)
	if err = errors.Join(err, engine.CheckReason(reason)); err != nil {
		return r.errorf(doing, err)
	}
	err = runcontrol.CancelNode(ctx, r.client.session, core, r.at, node, reason, by.actor)
	if err != nil {
		return r.errorf(doing, err)
	}
	return nil
}

// Pause keeps the nodes of the run from starting until Resume. Running functions, delays, signals and the deadline of
// the run continue. Pausing a paused run is not an error, and changes neither its reason nor its actor. The reason
// follows the rules of Cancel. The error wraps ErrInvalid, ErrNotFound, ErrOver when the run has ended, or in
// contract mode ErrNotInContract.
func (r *RunRef) Pause(ctx context.Context, reason string, opts ...ActionOption) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.Pause, "", func(ctx context.Context, r *RunRef) error {
			return r.Pause(ctx, reason, opts...)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	by, err := r.client.actionOf(opts)
	err = errors.Join(err, engine.CheckReason(reason))
	if err == nil {
		err = runcontrol.Pause(ctx, r.client.session, r.at, reason, by.actor)
	}
	if err != nil {
		return r.errorf("pause", err)
	}
	return nil
}

// Resume ends the pause of the run. Resuming a run that is not paused is not an error. Resume makes the nodes of a
// large run eligible in several calls; after an error, repeat it. The error is one of Pause.
func (r *RunRef) Resume(ctx context.Context, opts ...ActionOption) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.Resume, "", func(ctx context.Context, r *RunRef) error {
			return r.Resume(ctx, opts...)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	by, err := r.client.actionOf(opts)
	if err == nil {
		err = runcontrol.Resume(ctx, r.client.session, r.at, by.actor)
	}
	if err != nil {
		return r.errorf("resume", err)
	}
	return nil
}

// SetPriority changes the priority of all nodes of the run that have not ended, and of all nodes of its child runs,
// including those that are created later. Nodes that wait for a worker or for a permit of a limit move to their new
// position in the queue at once; running nodes use the new priority for their next attempt. A rerun keeps the priority.
//
// Large runs and child runs are changed in several steps; after an error, repeat the call. A map or sub-flow that
// starts during the call may keep the old priority. The error wraps ErrInvalid, ErrNotFound, ErrOver, or in
// contract mode ErrNotInContract.
func (r *RunRef) SetPriority(ctx context.Context, priority int) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.SetPriority, "", func(ctx context.Context, r *RunRef) error {
			return r.SetPriority(ctx, priority)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	if err := r.setPriority(ctx, "", priority); err != nil {
		return r.errorf("set priority of", err)
	}
	return nil
}

// SetNodePriority changes the priority of one node of the run, as SetPriority does for all. The error may also wrap
// ErrNotFound or ErrOver.
func (r *RunRef) SetNodePriority(ctx context.Context, node string, priority int) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.SetPriority, node, func(ctx context.Context, r *RunRef) error {
			return r.SetNodePriority(ctx, node, priority)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	err := engine.ErrUnknownNode
	if node != "" {
		err = r.setPriority(ctx, node, priority)
	}
	if err != nil {
		return r.errorf("set priority of node "+node+" of", err)
	}
	return nil
}

// setPriority changes the priority of a node, or of all when it is empty.
func (r *RunRef) setPriority(ctx context.Context, node string, priority int) error {
	if err := runcontrol.CheckPriority(priority); err != nil {
		return err
	}
	core, err := library(ctx, r.client, "changing priorities")
	if err != nil {
		return err
	}
	var id enginecore.ExecutionID
	if node != "" {
		if id, err = r.client.session.ExecutionID(ctx, r.at, node); err != nil {
			return err
		}
	}
	entry := r.auditEntry(auditlink.SetPriority, node)
	entry.Detail = strconv.Itoa(priority)
	return r.client.audited(ctx, entry, func(ctx context.Context) error {
		return runcontrol.SetPriority(ctx, r.client.session, core, r.at, id, priority)
	})
}

// Rerun runs the selected nodes of a run that is over again, with the same run id and input. The run becomes open, with
// the whole time of its deadline. A node keeps its previous result until it succeeds again. Each node can be run again
// ten times. Run.Result waits for the new end.
//
// The error wraps ErrRunOpen while the run is not over, ErrNotFound for the run or the node of the scope,
// ErrInvalid for an invalid scope, ErrNothingToRerun when the scope has no nodes, ErrRerunLimit, or in contract
// mode ErrNotInContract; nothing has been changed then. Keepers complete a call that was interrupted later. With
// WithRequestID it can be repeated.
func (r *RunRef) Rerun(ctx context.Context, scope fabrictype.RerunScope, opts ...ActionOption) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.Rerun, "", func(ctx context.Context, r *RunRef) error {
			return r.Rerun(ctx, scope, opts...)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	by, err := r.client.actionOf(opts)
	if err = errors.Join(err, submit.CheckScope(scope)); err == nil {
		err = r.rerun(ctx, scope, by)
	}
	if err != nil {
		return r.errorf("rerun", err)
	}
	return nil
}

func (r *RunRef) rerun(ctx context.Context, scope fabrictype.RerunScope, by action) error {
	if _, err := library(ctx, r.client, "reruns"); err != nil {
		return err
	}
	return r.client.submitter.Rerun(ctx, r.at, submit.ScopeOf(scope), by.actor, by.request)
}

// Purge deletes a run that is over, with everything that belongs to it: nodes, results, events, its own budgets and its
// child runs. Of more than 1,000 child runs, and of those that are still ending, keepers delete the rest shortly after.
// If the call is interrupted, repeat it. The run id can be used again afterwards; while former child runs are left,
// maps and sub-flows of the new run can fail or take the results of those. The error wraps ErrRunOpen while a node of
// the run is open, ErrNotFound, or in contract mode ErrNotInContract.
func (r *RunRef) Purge(ctx context.Context) error { return r.purge(ctx, time.Time{}) }

// PurgeIfClosedAt is Purge for a program that decides by a description or a summary that it has read: it purges the run
// only while its end is the one at closedAt, the ClosedAt of that description or summary. The engine compares, in
// milliseconds, and begins to purge in one atomic call. The error also wraps ErrRunOpen if the run was run again and is
// open, and enginecore.ErrChangedMeanwhile if it has ended again; nothing was changed then. A zero time is ErrInvalid.
func (r *RunRef) PurgeIfClosedAt(ctx context.Context, closedAt time.Time) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	if closedAt.IsZero() {
		return r.errorf("purge", invalid("closedAt is zero: name the ClosedAt of a run that is over"))
	}
	return r.purge(ctx, closedAt)
}

// purge deletes a run that is over; unless closedAt is zero, only one with that end.
func (r *RunRef) purge(ctx context.Context, closedAt time.Time) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.Purge, "", func(ctx context.Context, r *RunRef) error {
			return r.purge(ctx, closedAt)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	return r.client.audited(ctx, r.auditEntry(auditlink.PurgeRun, ""), func(ctx context.Context) error {
		return r.client.submitter.Purge(ctx, r.at.Flow, r.at.ID, r.at.FlowID, r.at.Partition, closedAt)
	})
}

// MoveStart moves the start of a run that has not started, and its deadline with it: to another time, or to now when
// that is over or zero. The error wraps ErrOver when it has started, ErrRunQueued for one in a queue, ErrInvalid
// for a time more than ten years ahead, ErrNotFound, ErrOver, or in contract mode ErrNotInContract. A run with
// more than 256 roots is moved in several steps: repeat the call after another error.
func (r *RunRef) MoveStart(ctx context.Context, t time.Time) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.MoveStart, "", func(ctx context.Context, r *RunRef) error {
			return r.MoveStart(ctx, t)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	if err := r.moveStart(ctx, t); err != nil {
		return r.errorf("move the start of", err)
	}
	return nil
}

func (r *RunRef) moveStart(ctx context.Context, t time.Time) error {
	if err := checkStartAt(t); err != nil {
		return err
	}
	core, err := library(ctx, r.client, "starting runs later")
	if err != nil {
		return err
	}
	entry := r.auditEntry(auditlink.MoveStart, "")
	entry.Detail = "to " + t.UTC().Format(time.RFC3339Nano)
	return r.client.audited(ctx, entry, func(ctx context.Context) error {
		return runcontrol.MoveStart(ctx, core, r.at, t)
	})
}

// maxTimer is how far ahead a timer may be moved.
const maxTimer = 10 * 366 * 24 * time.Hour

// MoveTimer moves the time until which a node sleeps: a node of flow.Sleep or flow.Until, or one whose function is in
// activity.Sleep. A time that is over ends the sleep at once. The change is atomic, and recorded in the audit log and
// the events of the run. To move a timer of a child run, use the RunRef of that run.
//
// The error wraps ErrOver, ErrInvalid for the zero time and a time more than ten years ahead,
// ErrNotFound, or in contract mode ErrNotInContract.
func (r *RunRef) MoveTimer(ctx context.Context, node string, to time.Time) error {
	var err error
	switch {
	case to.IsZero():
		err = invalid("the zero time; SkipTimer ends a timer")
	case time.Until(to) > maxTimer:
		err = invalid("%s: must be within 10 years", to.UTC().Format(time.RFC3339))
	}
	return r.moveTimer(ctx, node, interceptor.MoveTimer, to, err)
}

// SkipTimer ends the sleep of a node as if its time had come. Everything else is as with MoveTimer.
func (r *RunRef) SkipTimer(ctx context.Context, node string) error {
	return r.moveTimer(ctx, node, interceptor.SkipTimer, time.Time{}, nil)
}

// moveTimer moves a timer, or ends it when the time is zero, unless that is known to be wrong.
func (r *RunRef) moveTimer(
	ctx context.Context, node string, operation interceptor.Operation, to time.Time, fault error,
) error {
	if r.isIntercepted() {
		return r.intercept(ctx, operation, node, func(ctx context.Context, r *RunRef) error {
			return r.moveTimer(ctx, node, operation, to, fault)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	doing, action := "move the timer of node "+node+" of", auditlink.MoveTimer
	if operation == interceptor.SkipTimer {
		doing, action = "skip the timer of node "+node+" of", auditlink.SkipTimer
	}
	if fault != nil {
		return r.errorf(doing, fault)
	}
	store, err := r.client.session.Library("timers")
	if err != nil {
		return r.errorf(doing, err)
	}
	if err := engine.CheckText("actor", r.client.actor, engine.MaxActor); err != nil {
		return r.errorf(doing, err)
	}
	entry := r.auditEntry(action, node)
	if !to.IsZero() {
		entry.Detail = "to " + to.UTC().Format(time.RFC3339Nano)
	}
	err = r.client.audited(ctx, entry, func(ctx context.Context) error {
		return runcontrol.MoveTimer(ctx, r.client.session, store, r.at, node, to, r.client.actorName())
	})
	if err != nil {
		return r.errorf(doing, err)
	}
	return nil
}
