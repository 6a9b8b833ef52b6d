package runtime

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/runcontrol"
)

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
		return runcontrol.MoveTimer(ctx, r.client.session, store, r.at(), node, to, r.client.actorName())
	})
	if err != nil {
		return r.errorf(doing, err)
	}
	return nil
}
