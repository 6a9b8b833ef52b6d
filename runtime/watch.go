package runtime

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
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// Numbers of events read at once: to be yielded, and to be looked through.
const (
	watchPage    = 200
	maxWatchPage = 500
)

// errEnough ends an iteration whose reader has stopped.
var errEnough = errors.New("the reader has stopped")

// lostError returns the error of a reply after which events are missing.
func lostError(gone []enginerpc.GoneEvents) error {
	lost := &EventsLostError{Gone: make(map[string]int, len(gone))}
	for _, g := range gone {
		lost.Gone[g.Node] = int(g.Events)
	}
	return lost
}

// Watch yields the events of the run in order and without gaps, as they happen, until the run is over or ctx ends. It
// begins after the event with the given id, or with the first event for "" and for the id of an event of an earlier run
// with the same id, which was purged. If the run was run again, its earlier ends are events like any others. All
// watches of an engine wait on a separate connection, so they delay nothing else, and reconnect after it broke. A slow
// reader misses no event. OpenConfig.MaxWatches bounds the number of active calls.
//
// The engine keeps the last 20,000 events of a run, or some more, and the first of each node of those before: 32 of
// them, or at least 4 in a run of very many nodes. If some after the given id are missing, Watch yields an
// *EventsLostError where they were, and continues. Any other error ends the iteration. It wraps ErrNotFound, also when
// the run is purged during the call; ErrCursor for a text that is the id of no event; enginecore.ErrClosed when the
// client or the engine is closed; or ErrTooManyWatches. In contract mode, Watch derives events from the states of the
// nodes, once per poll interval.
func (r *RunRef) Watch(ctx context.Context, after string) iter.Seq2[fabrictype.Event, error] {
	return func(yield func(fabrictype.Event, error) bool) {
		if err := r.ready(ctx); err != nil {
			yield(fabrictype.Event{}, err)
			return
		}
		if err := r.watch(ctx, after, yield); err != nil && !errors.Is(err, errEnough) {
			yield(fabrictype.Event{}, r.errorf("watch", err))
		}
	}
}

// watch yields events until the run is over, its reader has stopped or an error ends it.
func (r *RunRef) watch(ctx context.Context, after string, yield func(fabrictype.Event, error) bool) (err error) {
	session := r.client.session
	if err := session.Watches.Begin(); err != nil {
		return err
	}
	defer session.Watches.End()
	ctx, end := r.client.submitter.WhileOpen(ctx)
	defer end()
	defer func() { err = r.whyEnded(ctx, err) }()
	if _, err := r.result(ctx); err != nil {
		return err
	}
	events := session.Backend.FollowEvents(r.partition, r.flowID)
	defer events.Close()
	ended, over, looked := false, false, time.Time{}
	for {
		page, err := r.readEvents(ctx, after, watchPage)
		if errors.Is(err, errorcode.InvalidInput) {
			err = fmt.Errorf("%w: %q is the id of no event", ErrCursor, after)
		}
		if err != nil {
			return err
		}
		if page.Lost && !yield(fabrictype.Event{}, r.errorf("watch", lostError(page.Gone))) {
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
func (r *RunRef) whyEnded(ctx context.Context, err error) error {
	switch {
	case !retry.IsUnreached(err):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.client.session.Closed().Err() != nil:
		return enginecore.ErrClosed
	}
	return err
}

// readEvents reads a page, as soon as the engine can be reached.
func (r *RunRef) readEvents(ctx context.Context, after string, limit int64) (enginerpc.ReadEventsReply, error) {
	for {
		reply, err := r.client.session.Backend.ReadEvents(ctx, enginerpc.ReadEventsCall{
			Partition: r.partition, FlowID: r.flowID, After: after, Limit: limit,
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
func (r *RunRef) over(ctx context.Context) (bool, error) {
	for {
		reply, err := r.result(ctx)
		if ctx.Err() != nil || !errors.Is(err, enginecore.ErrUnavailable) {
			return err == nil && !reply.ClosedAt.IsZero(), err
		}
		sleep.For(ctx, transport.TailPause)
	}
}

// result reads the state of the run; its error distinguishes a run that does not exist from one without events.
func (r *RunRef) result(ctx context.Context) (enginerpc.FlowResultReply, error) {
	reply, err := r.client.session.Backend.FlowResult(ctx,
		enginerpc.FlowResultCall{Partition: r.partition, FlowID: r.flowID})
	switch {
	case errors.Is(err, enginecore.ErrFlowNotFound):
		err = engine.ErrRunNotFound
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return reply, err
}
