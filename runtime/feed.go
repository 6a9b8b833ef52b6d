package runtime

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine/feeds"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
	"github.com/flowfabric/flowfabric-go/internal/follow"
)

// FeedFilter selects events of the feed. The zero value selects all events except the events of child runs.
type FeedFilter struct {
	// Flow is the name of a flow; empty for all.
	Flow string
	// Kinds are the kinds of events; empty for all that the feed has, which the comment of
	// fabrictype.FeedEvent lists.
	Kinds []fabrictype.EventKind
	// Children includes the events of child runs of maps and sub-flows. A filter with Flow includes them in any case.
	Children bool
}

// Feed follows the events of all runs of the client's namespace. It is for use by one goroutine. Close it.
type Feed struct {
	client *Client
	feed   *follow.Feed
}

// Feed opens the feed of all runs: from the cursor of an earlier feed on, whatever its filter was, or with "" from now
// on. It contains the events after Feed has returned.
//
// While feeds are open, runs cost the engine a little more. The engine keeps an open feed for an hour after the last
// reader, about the last 1,000 calls with updates of each partition.
//
// The error matches ErrInvalid for a kind that the feed does not have, ErrCursor for an invalid cursor, and
// ErrNotInContract in contract mode.
func (c *Client) Feed(ctx context.Context, filter FeedFilter, cursor string) (*Feed, error) {
	if err := c.ready(ctx); err != nil {
		return nil, fmt.Errorf("feed of runs: %w", err)
	}
	wanted := feeds.Filter{Flow: filter.Flow, Children: filter.Children}
	for _, kind := range filter.Kinds {
		if !slices.Contains(eventkind.Feed(), kind) {
			return nil, fmt.Errorf("feed of runs: %w", invalid("kind %q: the feed has no such events", kind))
		}
		wanted.Kinds = append(wanted.Kinds, string(kind))
	}
	feed, err := follow.NewFeed(ctx, c.session, wanted, cursor)
	if err != nil {
		return nil, fmt.Errorf("feed of runs: %w", err)
	}
	return &Feed{c, feed}, nil
}

// Close ends the following. It may be called several times. Cursor may still be called.
func (f *Feed) Close() { f.feed.Close() }

// Events yields the events as they happen, until ctx ends or an error does; it may be called again. Events of one run,
// and of all runs of one partition, come in their order. All feeds of an engine have one reader.
//
// If events were dropped, because the reader was away for longer than the engine keeps them, or the server has lost its
// latest writes, Events yields a *fabrictype.EventsLostError and continues with the oldest that is left, so some may be
// yielded a second time. Any other error ends the iteration; it matches enginecore.ErrClosed when the client or the
// engine is closed.
func (f *Feed) Events(ctx context.Context) iter.Seq2[fabrictype.FeedEvent, error] {
	return func(yield func(fabrictype.FeedEvent, error) bool) {
		waiting, end, err := f.open(ctx)
		if err != nil {
			yield(fabrictype.FeedEvent{}, err)
			return
		}
		defer end()
		f.feed.Events(waiting)(yield)
	}
}

// open returns a context that ends with ctx, or when the client or the engine is closed. The caller must call end.
func (f *Feed) open(ctx context.Context) (waiting context.Context, end func(), err error) {
	if err := f.client.ready(ctx); err != nil {
		return nil, nil, fmt.Errorf("feed of runs: %w", err)
	}
	waiting, end = f.client.submitter.WhileOpen(ctx)
	return waiting, end, nil
}

// Failures yields the failure of each run that fails or expires, and of each cancelled run of which a node with
// flow.Finally has failed, as it happens, as Events yields events: open the feed with a filter that has
// fabrictype.EventRunFailed, fabrictype.EventRunExpired and fabrictype.EventRunCancelled, or all kinds. Other events
// are skipped. Save Cursor after a failure was handled, and open the next feed with it: then each failure is handled at
// least once, also if the program stops in between.
//
// A *RunError is as Run.Result returns it. If the run was run again or purged since, or could not be read, it has only
// the data of the event: the run, its outcome, and the node that failed first. Errors are the errors of Events, with a
// nil failure; after a *fabrictype.EventsLostError the iteration continues.
func (f *Feed) Failures(ctx context.Context) iter.Seq2[*RunError, error] {
	return func(yield func(*RunError, error) bool) {
		waiting, end, err := f.open(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer end()
		for failure, err := range f.feed.Failures(waiting, ctx, f.client.submitter) {
			var read *RunError
			if err == nil {
				read = newRunError(failure)
			}
			if !yield(read, err) {
				return
			}
		}
	}
}

// Cursor returns the position after the last event that was yielded, for a later call of Client.Feed. It has some bytes
// for each partition of the engine.
func (f *Feed) Cursor() string { return f.feed.Cursor() }
