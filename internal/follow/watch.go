package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/runview"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// Numbers of events read at once: to be yielded, and to be looked through.
const (
	watchPage    = 200
	maxWatchPage = 500
)

// errEnough ends an iteration whose reader has stopped.
var errEnough = errors.New("the reader has stopped")

// Run follows one run. It is safe for concurrent use.
type Run struct{ runview.Reader }

// lostError returns the error of a reply after which events are missing.
func lostError(gone []enginerpc.GoneEvents) error {
	lost := &fabrictype.EventsLostError{Gone: make(map[string]int, len(gone))}
	for _, g := range gone {
		lost.Gone[g.Node] = int(g.Events)
	}
	return lost
}

// Watch yields the events of the run after the one with the given id until the run is over or ctx ends. If some are
// missing, it yields an error that wraps a [fabrictype.EventsLostError] where they were, and continues.
func (r *Run) Watch(ctx context.Context, after string) iter.Seq2[fabrictype.Event, error] {
	return func(yield func(fabrictype.Event, error) bool) {
		if err := r.watch(ctx, after, yield); err != nil && !errors.Is(err, errEnough) {
			yield(fabrictype.Event{}, r.Run.Errorf("watch", err))
		}
	}
}

// watch yields events until the run is over, its reader has stopped or an error ends it.
func (r *Run) watch(
	ctx context.Context, after string, yield func(fabrictype.Event, error) bool,
) (err error) {
	session := r.Session
	if err := session.Watches.Begin(); err != nil {
		return err
	}
	defer session.Watches.End()
	defer func() { err = r.whyEnded(ctx, err) }()
	if _, err := r.result(ctx); err != nil {
		return err
	}
	events := session.Backend.FollowEvents(r.Run.Partition, r.Run.FlowID)
	defer events.Close()
	ended, over, looked := false, false, time.Time{}
	for {
		page, err := r.readEvents(ctx, after, watchPage)
		if errors.Is(err, errorcode.InvalidInput) {
			err = fmt.Errorf("%w: %q is the id of no event", engine.ErrCursor, after)
		}
		if err != nil {
			return err
		}
		if page.Lost && !yield(fabrictype.Event{}, r.Run.Errorf("watch", lostError(page.Gone))) {
			return errEnough
		}
		for _, e := range page.Events {
			event := engine.ReadEvent(e)
			after, ended = e.ID, event.Ends()
			if !yield(event, nil) {
				return errEnough
			}
		}
		switch {
		case len(page.Events) > 0:
			over = false
			continue
		case over:
			return nil
		}
		// The end may lie before the first requested event, a run that has ended may have been run again, and a purged
		// run has no further events.
		if ended || time.Since(looked) > transport.TailLook {
			if over, err = r.over(ctx); err != nil {
				return err
			}
			if looked = time.Now(); over {
				continue // events may have come before the check
			}
		}
		if err := events.Await(ctx); err != nil {
			return err
		}
	}
}

// whyEnded returns the cause of ctx, or enginecore.ErrClosed, in place of the error of a call that had no answer
// because ctx has ended or the engine is closed. Other errors are returned as they are.
func (r *Run) whyEnded(ctx context.Context, err error) error {
	switch {
	case !retry.IsUnreached(err):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.Session.Closed().Err() != nil:
		return enginecore.ErrClosed
	}
	return err
}

// readEvents reads a page, as soon as the engine can be reached.
func (r *Run) readEvents(ctx context.Context, after string, limit int64) (enginerpc.ReadEventsReply, error) {
	for {
		reply, err := r.Session.Backend.ReadEvents(ctx, enginerpc.ReadEventsCall{
			Partition: r.Run.Partition, FlowID: r.Run.FlowID, After: after, Limit: limit,
		})
		switch {
		case err == nil:
			return reply, nil
		case ctx.Err() != nil:
			return reply, context.Cause(ctx)
		case !errors.Is(err, enginecore.ErrUnavailable):
			return reply, err
		}
		sleep.For(ctx, transport.TailPause)
	}
}

// over reports whether the run is over, as soon as the engine can be reached.
func (r *Run) over(ctx context.Context) (bool, error) {
	for {
		reply, err := r.result(ctx)
		if ctx.Err() != nil || !errors.Is(err, enginecore.ErrUnavailable) {
			return err == nil && !reply.ClosedAt.IsZero(), err
		}
		sleep.For(ctx, transport.TailPause)
	}
}

// result reads the state of the run; its error distinguishes a run that does not exist from one without events.
func (r *Run) result(ctx context.Context) (enginerpc.FlowResultReply, error) {
	reply, err := r.Session.Backend.FlowResult(ctx,
		enginerpc.FlowResultCall{Partition: r.Run.Partition, FlowID: r.Run.FlowID})
	switch {
	case errors.Is(err, enginecore.ErrFlowNotFound):
		err = engine.ErrRunNotFound
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return reply, err
}
