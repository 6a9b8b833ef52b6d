package runtime

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/runcontrol"
)

// maxStartDelay is how far ahead a start may be.
const maxStartDelay = 10 * 366 * 24 * time.Hour

// StartAt makes the run start at a time, to the millisecond by the engine's clock. The run exists at once: it is listed
// and described, with RunDescription.StartsAt, and can be cancelled, paused, given another priority, or moved by
// RunRef.MoveStart. Nothing of it runs before; deadlines, and delays of nodes, count from then on. A time that is over
// is now. It may be ten years ahead.
//
// When Start returns a run that exists, its time does not change.
func StartAt(t time.Time) StartOption {
	return startFunc(func(c *startConfig) { c.StartAt = t })
}

// checkStartAt returns the fault of the time of a start.
func checkStartAt(t time.Time) error {
	if !t.IsZero() && time.Until(t) > maxStartDelay {
		return invalid("start at %s: must be within 10 years", t.UTC().Format(time.RFC3339))
	}
	return nil
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
		return runcontrol.MoveStart(ctx, core, r.at(), t)
	})
}
