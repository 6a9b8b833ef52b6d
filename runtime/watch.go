package runtime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/runevent"
)

// Numbers of events read at once: to be yielded, and to be looked through.
const (
	watchPage    = 200
	maxWatchPage = 500
)

// ErrEventsLost is yielded by Watch when events after the given id have been dropped, because the run has had more than the
// engine keeps. The events after it follow.
var ErrEventsLost = errors.New("events were dropped")

// Watch yields what happens in the run, in order and without gaps, from the event after the given id on ("" is from its
// start), as it happens, until the run is over or ctx ends. Of a run that was run again, earlier ends are events like
// others. An error that ends it is yielded last, ErrRunNotFound when the run is purged meanwhile. It waits for news on a
// connection of its own, so it delays nothing else, and goes on after the connection broke. As many of them may go on at a time
// as MaxWatches says; one more yields ErrTooManyWatches.
//
// The engine keeps at least about the last 20,000 events of a run; ErrEventsLost tells where some are missing, and does not
// end the watch.
func (r *Run[Out]) Watch(ctx context.Context, after string) iter.Seq2[runevent.Event, error] {
	r = r.there()
	return r.client.watch(ctx, r.flow, r.id, r.flowID, r.part, after)
}

// Watch is Run.Watch for a run known by name.
func (c *Client) Watch(ctx context.Context, flowName, runID, after string) iter.Seq2[runevent.Event, error] {
	id, partition, err := c.locate(flowName, runID)
	if err != nil {
		return func(yield func(runevent.Event, error) bool) { yield(runevent.Event{}, err) }
	}
	return c.watch(ctx, flowName, runID, id, partition, after)
}

func (c *Client) watch(ctx context.Context, flowName, runID string, id enginecore.FlowID, p enginecore.Partition, after string) iter.Seq2[runevent.Event, error] {
	if err := c.ready(); err != nil {
		return func(yield func(runevent.Event, error) bool) { yield(runevent.Event{}, err) }
	}
	return func(yield func(runevent.Event, error) bool) {
		failed := func(err error) {
			yield(runevent.Event{}, fmt.Errorf("watch run %s of flow %s: %w", runID, flowName, err))
		}
		if err := c.session.Watches.Begin(); err != nil {
			failed(err)
			return
		}
		defer c.session.Watches.End()
		if err := c.checkRun(ctx, id, p); err != nil {
			failed(err)
			return
		}
		tail := engine.Tail{Watches: c.session.Watches}
		defer tail.Close()
		behind, ended, over, looked := true, false, false, time.Time{}
		for {
			page, err := c.readEvents(ctx, p, id, after, watchPage)
			if errors.Is(err, enginecore.ErrInvalidInput) {
				err = fmt.Errorf("%w: %q is the id of no event", ErrCursor, after)
			}
			lost := false
			if err == nil && behind {
				lost, err = c.eventsLost(ctx, p, id, after)
			}
			if err != nil {
				failed(err)
				return
			}
			if lost && !yield(runevent.Event{}, fmt.Errorf("watch run %s of flow %s: %w", runID, flowName, ErrEventsLost)) {
				return
			}
			for _, e := range page {
				event := engine.ReadEvent(e)
				after, ended = e.ID, event.Ends()
				if !yield(event, nil) {
					return
				}
			}
			behind = len(page) == watchPage
			switch {
			case len(page) > 0:
				over = false
				continue
			case over:
				return
			}
			// The end may lie before the first event that was asked for, a run that has ended may have been run again, and of
			// one that is purged nothing is heard any more.
			if ended || time.Since(looked) > engine.TailLook {
				if over, err = c.runOver(ctx, id, p); err != nil {
					failed(err)
					return
				}
				if looked = time.Now(); over {
					continue // events may have come meanwhile
				}
			}
			if err := c.session.Backend.AwaitEvents(ctx, &tail, p, id, after); err != nil {
				failed(err)
				return
			}
		}
	}
}

// eventsLost tells whether events after the given id have been dropped. The first event of a run is its submission, as
// long as it is there.
func (c *Client) eventsLost(ctx context.Context, p enginecore.Partition, id enginecore.FlowID, after string) (bool, error) {
	oldest, err := c.readEvents(ctx, p, id, "", 1)
	if err != nil || len(oldest) == 0 || runevent.Kind(oldest[0].Event) == runevent.FlowSubmitted {
		return false, err
	}
	return after == "" || engine.EntryBefore(after, oldest[0].ID), nil
}

// readEvents reads a page, as soon as the engine can be reached.
func (c *Client) readEvents(ctx context.Context, p enginecore.Partition, id enginecore.FlowID, after string, limit int64) ([]enginerpc.FlowEvent, error) {
	for {
		reply, err := c.session.Backend.ReadEvents(ctx, enginerpc.ReadEventsCall{Partition: p, FlowID: id, After: after, Limit: limit})
		switch {
		case err == nil:
			return reply.Events, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, enginecore.ErrUnavailable):
			return nil, err
		}
		engine.Sleep(ctx, engine.TailPause)
	}
}

// checkRun tells a run that does not exist from one where nothing has happened.
func (c *Client) checkRun(ctx context.Context, id enginecore.FlowID, p enginecore.Partition) error {
	_, err := c.runResult(ctx, id, p)
	return err
}

// runOver tells whether a run is over, as soon as the engine can be reached.
func (c *Client) runOver(ctx context.Context, id enginecore.FlowID, p enginecore.Partition) (bool, error) {
	for {
		reply, err := c.runResult(ctx, id, p)
		if ctx.Err() != nil || !errors.Is(err, enginecore.ErrUnavailable) {
			return err == nil && !reply.ClosedAt.IsZero(), err
		}
		engine.Sleep(ctx, engine.TailPause)
	}
}

func (c *Client) runResult(ctx context.Context, id enginecore.FlowID, p enginecore.Partition) (enginerpc.FlowResultReply, error) {
	if err := c.ready(); err != nil {
		return enginerpc.FlowResultReply{}, err
	}
	reply, err := c.session.Backend.FlowResult(ctx, enginerpc.FlowResultCall{Partition: p, FlowID: id})
	switch {
	case errors.Is(err, enginecore.ErrFlowNotFound):
		err = engine.ErrRunNotFound
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return reply, err
}
