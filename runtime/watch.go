package runtime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Event is something that happened in a run.
type Event struct {
	// ID orders the events of a run; Watch goes on after it.
	ID string
	At time.Time
	// Kind is one of: flow_submitted, started, resumed, reclaimed, lease_expired, retry, delayed, given_back, success,
	// failed, cancelled, expired, skipped, flow_cancel_requested, flow_deadline, flow_success, flow_failed,
	// flow_cancelled, flow_expired. New kinds may come.
	Kind string
	// Node is empty for events of the run itself.
	Node string
	// Attempt counts from 1; 0 where the event belongs to none.
	Attempt int
	// Detail is the worker that started it, the reason of a failure or cancel, and the like.
	Detail string
}

// Ends tells that the event is the last one of its run, which is over.
func (e Event) Ends() bool {
	switch e.Kind {
	case "flow_success", "flow_failed", "flow_cancelled", "flow_expired":
		return true
	}
	return false
}

const (
	// watchPage is the number of events read at once.
	watchPage = 200
	// watchBlock is how long the engine holds a read that waits for news.
	watchBlock = 2 * time.Second
)

// Watch yields what happens in the run, from the event after the given id on ("" is from its start), as it happens, until
// the run is over or ctx ends. An error is yielded last. Each watch that waits for news has a connection of its own, so it
// delays nothing else.
//
// The engine keeps about the last 20,000 events of a run.
func (r *Run[Out]) Watch(ctx context.Context, after string) iter.Seq2[Event, error] {
	return r.client.watch(ctx, r.flow, r.id, r.flowID, r.part, after)
}

// Watch is Run.Watch for a run known by name.
func (c *Client) Watch(ctx context.Context, flowName, runID, after string) iter.Seq2[Event, error] {
	id, partition, err := c.locate(flowName, runID)
	if err != nil {
		return func(yield func(Event, error) bool) { yield(Event{}, err) }
	}
	return c.watch(ctx, flowName, runID, id, partition, after)
}

func (c *Client) watch(ctx context.Context, flowName, runID string, id enginecore.FlowID, p enginecore.Partition, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		failed := func(err error) {
			yield(Event{}, fmt.Errorf("watch run %s of flow %s: %w", runID, flowName, err))
		}
		if err := c.checkRun(ctx, id, p); err != nil {
			failed(err)
			return
		}
		for {
			reply, err := c.engine.core.ReadEvents(ctx, enginecore.ReadEventsCall{Partition: p, FlowID: id, After: after, Limit: watchPage})
			if err != nil {
				failed(err)
				return
			}
			for _, e := range reply.Events {
				after = e.ID
				event := readEvent(e)
				if !yield(event, nil) || event.Ends() {
					return
				}
			}
			if len(reply.Events) > 0 {
				continue
			}
			if err := c.awaitEvent(ctx, p, id, after); err != nil {
				failed(err)
				return
			}
		}
	}
}

// checkRun tells a run that does not exist from one where nothing has happened.
func (c *Client) checkRun(ctx context.Context, id enginecore.FlowID, p enginecore.Partition) error {
	_, err := c.engine.core.FlowResult(ctx, enginecore.FlowResultCall{Partition: p, FlowID: id})
	if errors.Is(err, enginecore.ErrFlowNotFound) {
		return ErrRunNotFound
	}
	return err
}

// awaitEvent returns when there may be news.
func (c *Client) awaitEvent(ctx context.Context, p enginecore.Partition, id enginecore.FlowID, after string) error {
	if after == "" {
		after = "0-0"
	}
	client := c.engine.client
	read := client.B().Xread().Count(1).Block(watchBlock.Milliseconds()).Streams().
		Key(c.engine.core.Keys().FlowEvents(p, id)).Id(after).Build()
	err := client.Do(ctx, read).Error()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil || rueidis.IsRedisNil(err):
		return nil
	}
	return enginecore.ConnectError(err)
}

func readEvent(e enginecore.FlowEvent) Event {
	ms, _, _ := strings.Cut(e.ID, "-")
	at, _ := strconv.ParseInt(ms, 10, 64)
	event := Event{ID: e.ID, At: time.UnixMilli(at).UTC(), Kind: e.Event, Node: e.Node, Detail: e.Detail}
	if index, err := strconv.Atoi(e.Attempt); err == nil {
		event.Attempt = index + 1
	}
	return event
}
