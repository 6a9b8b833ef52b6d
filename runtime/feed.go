package runtime

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine/feeds"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
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
	client   *Client
	listener *feeds.Listener
	at       map[keyspace.Partition]feedPosition
	// left are the events of a page that have not been yielded yet.
	left feeds.Page
}

// feedPosition is after an entry of a partition's feed, and after the first events of the entries that follow it.
type feedPosition struct {
	After string `json:"a"`
	Entry string `json:"e,omitempty"`
	Place int64  `json:"p,omitempty"`
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
	at, err := c.parseFeedCursor(cursor)
	if err != nil {
		return nil, fmt.Errorf("feed of runs: %w", err)
	}
	from := make(map[keyspace.Partition]string, len(at))
	for p, position := range at {
		from[p] = position.After
	}
	listener, err := c.session.ListenToRuns(ctx, wanted, from)
	if err != nil {
		return nil, fmt.Errorf("feed of runs: %w", err)
	}
	for p, after := range listener.Positions() {
		if at[p].After != after {
			at[p] = feedPosition{After: after}
		}
	}
	return &Feed{client: c, listener: listener, at: at}, nil
}

// Close ends the following. It may be called several times. Cursor may still be called.
func (f *Feed) Close() { f.listener.Close() }

// Events yields the events as they happen, until ctx ends or an error does; it may be called again. Events of one run,
// and of all runs of one partition, come in their order. All feeds of an engine have one reader.
//
// If events were dropped, because the reader was away for longer than the engine keeps them, or the server has lost its
// latest writes, Events yields an *EventsLostError and continues with the oldest that is left, so some may be yielded a
// second time. Any other error ends the iteration; it matches enginecore.ErrClosed when the client or the engine is
// closed.
func (f *Feed) Events(ctx context.Context) iter.Seq2[fabrictype.FeedEvent, error] {
	return func(yield func(fabrictype.FeedEvent, error) bool) {
		if err := f.client.ready(ctx); err != nil {
			yield(fabrictype.FeedEvent{}, fmt.Errorf("feed of runs: %w", err))
			return
		}
		ctx, end := f.client.submitter.WhileOpen(ctx)
		defer end()
		for f.yieldLeft(yield) {
			page, err := f.listener.Next(ctx)
			if err != nil {
				if retry.IsUnreached(err) && ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				yield(fabrictype.FeedEvent{}, fmt.Errorf("feed of runs: %w", err))
				return
			}
			f.left = page
			if page.Lost && !yield(fabrictype.FeedEvent{}, fmt.Errorf("feed of runs: %w", &EventsLostError{})) {
				return
			}
		}
	}
}

// yieldLeft yields the events of the page. It returns false when the reader has had enough.
func (f *Feed) yieldLeft(yield func(fabrictype.FeedEvent, error) bool) bool {
	for len(f.left.Updates) > 0 {
		n := f.left.Updates[0]
		f.left.Updates = f.left.Updates[1:]
		at := f.at[f.left.Partition]
		if at.Entry != "" && at.After == f.left.After && !isLater(n, at) {
			continue // it was yielded before the cursor was taken
		}
		f.at[f.left.Partition] = feedPosition{After: f.left.After, Entry: n.Entry, Place: n.Place}
		if !yield(readUpdate(n), nil) {
			return false
		}
	}
	if f.left.Next != "" {
		f.at[f.left.Partition] = feedPosition{After: f.left.Next}
		f.left = feeds.Page{}
	}
	return true
}

// isLater reports whether an event comes after all events of a position.
func isLater(n enginerpc.RunUpdate, at feedPosition) bool {
	if n.Entry == at.Entry {
		return n.Place > at.Place
	}
	return feeds.IsEntryBefore(at.Entry, n.Entry)
}

func readUpdate(n enginerpc.RunUpdate) fabrictype.FeedEvent {
	return fabrictype.FeedEvent{
		Kind: fabrictype.EventKind(n.Kind), Flow: n.FlowName, Run: n.RunID, FlowID: string(n.FlowID), Child: n.Child,
		Node:   n.Node,
		Detail: n.Detail, At: n.At,
	}
}

// Cursor returns the position after the last event that was yielded, for a later call of Client.Feed. It has some bytes
// for each partition of the engine.
func (f *Feed) Cursor() string {
	list := make([]feedPosition, len(f.client.session.Partitions()))
	read := f.listener.Positions()
	for i, p := range f.client.session.Partitions() {
		list[i] = f.at[p]
		isYielded := len(f.left.Updates) == 0 || f.left.Partition != p
		if isYielded && feeds.IsEntryBefore(list[i].After, read[p]) {
			list[i] = feedPosition{After: read[p]} // the filter excludes all events in between
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "" // it has nothing that JSON cannot hold
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseFeedCursor reads a cursor: the positions of all partitions, none for "".
func (c *Client) parseFeedCursor(cursor string) (map[keyspace.Partition]feedPosition, error) {
	at := make(map[keyspace.Partition]feedPosition)
	if cursor == "" {
		return at, nil
	}
	fault := fmt.Errorf("%w: %.80q is not the cursor of a feed of this engine", ErrCursor, cursor)
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, fault
	}
	var list []feedPosition
	partitions := c.session.Partitions()
	if json.Unmarshal(text, &list) != nil || len(list) != len(partitions) {
		return nil, fault
	}
	for i, p := range partitions {
		if !feeds.IsEntry(list[i].After) {
			return nil, fault
		}
		at[p] = list[i]
	}
	return at, nil
}
