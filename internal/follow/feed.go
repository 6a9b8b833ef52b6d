package follow

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/feeds"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Feed follows the events of all runs of a namespace. It is for use by one goroutine. Close it.
type Feed struct {
	session  *engine.Session
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

// NewFeed opens the feed of all runs after a cursor of an earlier feed, or with "" from now on. Its error matches
// [engine.ErrCursor] for an invalid cursor, and [engine.ErrNotInContract] in contract mode.
func NewFeed(ctx context.Context, s *engine.Session, filter feeds.Filter, cursor string) (*Feed, error) {
	at, err := parseFeedCursor(s.Partitions(), cursor)
	if err != nil {
		return nil, err
	}
	from := make(map[keyspace.Partition]string, len(at))
	for p, position := range at {
		from[p] = position.After
	}
	listener, err := s.ListenToRuns(ctx, filter, from)
	if err != nil {
		return nil, err
	}
	for p, after := range listener.Positions() {
		if at[p].After != after {
			at[p] = feedPosition{After: after}
		}
	}
	return &Feed{session: s, listener: listener, at: at}, nil
}

// Close ends the following. It may be called several times. Cursor may still be called.
func (f *Feed) Close() { f.listener.Close() }

// Events yields the events as they happen, until ctx ends or an error does; it may be called again. It yields
// a [fabrictype.EventsLostError] where events were dropped, and continues.
func (f *Feed) Events(ctx context.Context) iter.Seq2[fabrictype.FeedEvent, error] {
	return func(yield func(fabrictype.FeedEvent, error) bool) {
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
			if page.Lost && !yield(fabrictype.FeedEvent{}, fmt.Errorf("feed of runs: %w", &fabrictype.EventsLostError{})) {
				return
			}
		}
	}
}

// Failures yields the failure of each run that fails or expires, and of each cancelled run of which a node with
// flow.Finally has failed, out of the events of such runs; others are skipped. It waits for events until waiting ends,
// and reads the failures of those that have come until reading ends. If a run was run again or purged since, or could
// not be read, the failure has the data of the event. Errors are the errors of Events, with a nil failure.
func (f *Feed) Failures(
	waiting, reading context.Context, submitter *submit.Submitter,
) iter.Seq2[*submit.RunFailure, error] {
	return func(yield func(*submit.RunFailure, error) bool) {
		for event, err := range f.Events(waiting) {
			if err != nil {
				if !yield(nil, err) {
					return
				}
				continue
			}
			outcome := fabrictype.OutcomeFailed
			switch event.Kind {
			case fabrictype.EventRunFailed:
			case fabrictype.EventRunExpired:
				outcome = fabrictype.OutcomeExpired
			case fabrictype.EventRunCancelled:
				outcome = fabrictype.OutcomeCancelled
				if !submitter.CleanupFailed(reading, enginecore.FlowID(event.FlowID), event.Node) {
					continue
				}
			default:
				continue
			}
			known := &submit.RunFailure{Flow: event.Flow, Run: event.Run, Outcome: string(outcome), Node: event.Node}
			if !yield(submit.ReadKnownFailure(reading, f.session, enginecore.FlowID(event.FlowID), known), nil) {
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

// Cursor returns the position after the last event that was yielded, for a later call of NewFeed. It has some bytes
// for each partition of the engine.
func (f *Feed) Cursor() string {
	list := make([]feedPosition, len(f.session.Partitions()))
	read := f.listener.Positions()
	for i, p := range f.session.Partitions() {
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
func parseFeedCursor(partitions []keyspace.Partition, cursor string) (map[keyspace.Partition]feedPosition, error) {
	at := make(map[keyspace.Partition]feedPosition)
	if cursor == "" {
		return at, nil
	}
	fault := fmt.Errorf("%w: %.80q is not the cursor of a feed of this engine", engine.ErrCursor, cursor)
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, fault
	}
	var list []feedPosition
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
