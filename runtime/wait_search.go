package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/waitlist"
)

// WaitQuery selects open waits of the client's namespace. A wait must satisfy all fields that are set; the zero value
// selects all.
type WaitQuery struct {
	// Flow is the name of the flow.
	Flow string
	// Tags selects the waits of runs that have all of these tags with these values.
	Tags map[string]string
	// Audience selects waits that name it among their audience (activity.Audience).
	Audience string
	// Text selects waits whose title or question contains this text; letters A to Z match in either case. At most 256
	// bytes.
	Text string
	// From (inclusive) and Before (exclusive) bound the time that the waits are ordered by: when they were opened, or
	// with "due" when they time out.
	From, Before time.Time
	// Sort is the order of the waits: "opened" begins with the wait that was opened first, "-opened" with the one that
	// was opened last; "due" selects only waits with a timeout that has not passed, and begins with the one that times
	// out first. Waits of the same millisecond are in the order of their execution ids. Defaults to "opened".
	Sort string
}

// Waits yields the open waits of all runs that satisfy the query, child runs of maps and sub-flows included, with their
// tokens. It reads pages as the loop consumes them; each call to the engine examines a bounded number of waits. A wait
// that is open during the whole iteration is yielded exactly once. An error ends the sequence.
//
// Waitpoints that activity.OpenWaitpoint opened ahead of their wait are not among them; RunRef.Waitpoints has those.
//
// The error matches ErrInvalid for an invalid query, and in contract mode ErrNotInContract.
func (c *Client) Waits(ctx context.Context, q WaitQuery) iter.Seq2[Waitpoint, error] {
	return func(yield func(Waitpoint, error) bool) {
		q.Sort = cmp.Or(q.Sort, waitlist.OldestFirst)
		search, err := c.searchWaits(ctx, q, "")
		for err == nil {
			var w waitlist.Waitpoint
			var found bool
			if w, found, err = search.Next(ctx); err == nil && (!found || !yield(waitpointOf(w), nil)) {
				return
			}
		}
		yield(Waitpoint{}, fmt.Errorf("find waits: %w", err))
	}
}

// ListWaits returns one page of the waits that Waits yields: at most limit waits, beginning at the cursor. A limit of 0
// is 50, and never more than 500 are returned. The cursor is empty for the first page, and then Page.Next of the
// previous page of the same query; any other text returns ErrCursor. The work of a call is bounded.
func (c *Client) ListWaits(
	ctx context.Context, q WaitQuery, cursor string, limit int,
) (fabrictype.Page[Waitpoint], error) {
	fail := func(err error) (fabrictype.Page[Waitpoint], error) {
		return fabrictype.Page[Waitpoint]{}, fmt.Errorf("list waits: %w", err)
	}
	limit, err := listLimit(limit)
	if err != nil {
		return fail(err)
	}
	q.Sort = cmp.Or(q.Sort, waitlist.OldestFirst)
	search, err := c.searchWaits(ctx, q, cursor)
	if err != nil {
		return fail(err)
	}
	found, next, err := search.Page(ctx, limit)
	if err != nil {
		return fail(err)
	}
	page := fabrictype.Page[Waitpoint]{Next: next}
	for _, w := range found {
		page.Items = append(page.Items, waitpointOf(w))
	}
	return page, nil
}

// checkWaits returns all faults of a query.
func checkWaits(q WaitQuery) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, invalid("query of waits: "+format, args...)) }
	switch q.Sort {
	case "", waitlist.OldestFirst, waitlist.NewestFirst, waitlist.DueFirst:
	default:
		fault("sort %q: must be one of opened, -opened, due", q.Sort)
	}
	for _, wrong := range flow.Faults(flowgraph.CheckTags(q.Flow, q.Tags)) {
		fault("tags: %w: %s", wrong.Kind, wrong.Detail)
	}
	for what, text := range map[string]string{"text": q.Text, "audience": q.Audience} {
		if err := recordtext.Check(what, text, maxQueryText); err != nil {
			fault("%w", err)
		}
	}
	if !q.From.IsZero() && !q.Before.IsZero() && !q.From.Before(q.Before) {
		fault("from %s is not before %s", q.From.Format(time.RFC3339), q.Before.Format(time.RFC3339))
	}
	return errors.Join(faults...)
}

// searchWaits begins a search after a cursor.
func (c *Client) searchWaits(ctx context.Context, q WaitQuery, cursor string) (*waitlist.Search, error) {
	index, err := library(ctx, c, "waits of all runs")
	if err != nil {
		return nil, err
	}
	if err := checkWaits(q); err != nil {
		return nil, err
	}
	return waitlist.NewSearch(c.session, index, waitlist.Query{
		Flow: q.Flow, Tags: q.Tags, Audience: q.Audience, Text: q.Text, From: q.From, Before: q.Before,
		Sort: q.Sort,
	}, cursor)
}

// Waitpoint returns the waitpoint that the token authorizes signals to, open or closed, for a page that requests the
// answer. It has no signals of others and no token. The error is ErrInvalidToken, and in contract mode matches
// ErrNotInContract.
func (c *Client) Waitpoint(ctx context.Context, token activity.Token) (Waitpoint, error) {
	index, err := library(ctx, c, "waits of all runs")
	if err != nil {
		return Waitpoint{}, fmt.Errorf("read waitpoint: %w", err)
	}
	w, err := waitlist.ReadByToken(ctx, c.session, index, token)
	return waitpointOf(w), err
}

// ReceivedSignals yields the signals that a waitpoint of the run has received, also signals that did not count, in the
// order of their arrival, with their senders and payloads. An error ends the sequence: it matches ErrOver if the
// run no longer has the waitpoint, and in contract mode ErrNotInContract.
func (r *RunRef) ReceivedSignals(ctx context.Context, w Waitpoint) iter.Seq2[fabrictype.ReceivedSignal, error] {
	return func(yield func(fabrictype.ReceivedSignal, error) bool) {
		fail := func(err error) {
			yield(fabrictype.ReceivedSignal{}, r.errorf(fmt.Sprintf("signals to the waitpoint %s of", w.ID), err))
		}
		if err := r.ready(ctx); err != nil {
			yield(fabrictype.ReceivedSignal{}, err)
			return
		}
		index, err := r.client.session.Library("waits of all runs")
		if err != nil {
			fail(err)
			return
		}
		for signal, err := range waitlist.Received(ctx, r.client.session, index, r.at, w.Wait) {
			if err != nil {
				fail(err)
				return
			}
			if !yield(signal, nil) {
				return
			}
		}
	}
}
