package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/partitionmerge"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/runsearch"
)

const (
	// waitsPerCall bounds the waits that one call reads from a partition.
	waitsPerCall = 100
	// waitRounds bounds how often a page of waits queries the partitions.
	waitRounds = 8
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

// Orders of waits.
const (
	waitsOldestFirst = "opened"
	waitsNewestFirst = "-opened"
	waitsDueFirst    = "due"
)

// Waits yields the open waits of all runs that satisfy the query, child runs of maps and sub-flows included, with their
// tokens. It reads pages as the loop consumes them; each call to the engine examines a bounded number of waits. A wait
// that is open during the whole iteration is yielded exactly once. An error ends the sequence.
//
// Waitpoints that activity.OpenWaitpoint opened ahead of their wait are not among them; RunRef.Waitpoints has those.
//
// The error matches ErrInvalid for an invalid query, and in contract mode ErrNotInContract.
func (c *Client) Waits(ctx context.Context, q WaitQuery) iter.Seq2[Waitpoint, error] {
	return func(yield func(Waitpoint, error) bool) {
		q.Sort = cmp.Or(q.Sort, waitsOldestFirst)
		merge, err := c.searchWaits(ctx, q, "")
		for err == nil {
			var w Waitpoint
			var found bool
			if w, found, err = merge.Next(ctx); err == nil && (!found || !yield(w, nil)) {
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
	q.Sort = cmp.Or(q.Sort, waitsOldestFirst)
	merge, err := c.searchWaits(ctx, q, cursor)
	if err != nil {
		return fail(err)
	}
	merge.Limit(waitRounds)
	var page fabrictype.Page[Waitpoint]
	for len(page.Items) < limit {
		w, found, err := merge.Next(ctx)
		if err != nil {
			return fail(err)
		}
		if !found {
			break
		}
		page.Items = append(page.Items, w)
	}
	if reached, done := merge.Reached(); !done {
		page.Next = reached.Cursor(q.Sort)
	}
	return page, nil
}

// checkWaits returns all faults of a query.
func checkWaits(q WaitQuery) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, invalid("query of waits: "+format, args...)) }
	switch q.Sort {
	case "", waitsOldestFirst, waitsNewestFirst, waitsDueFirst:
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
func (c *Client) searchWaits(
	ctx context.Context, q WaitQuery, cursor string,
) (*partitionmerge.Merge[Waitpoint], error) {
	index, err := library(ctx, c, "waits of all runs")
	if err != nil {
		return nil, err
	}
	if err := checkWaits(q); err != nil {
		return nil, err
	}
	from := partitionmerge.Start
	if cursor != "" {
		var order string
		var ok bool
		from, order, ok = partitionmerge.ParseCursor(cursor, func(id string) error {
			_, err := keyspace.PartitionOf(enginecore.ExecutionID(id))
			return err
		})
		if !ok || order != string(q.Sort) {
			return nil, fmt.Errorf("%w: %.80q", engine.ErrCursor, cursor)
		}
	}
	s := waitSearch{client: c, index: index, query: q}
	return partitionmerge.New(c.session.Partitions(), from, q.Sort != waitsNewestFirst, s.ask), nil
}

// waitSearch queries partitions for open waits.
type waitSearch struct {
	client *Client
	index  engine.Library
	query  WaitQuery
}

func (s *waitSearch) ask(
	ctx context.Context, questions []partitionmerge.Question,
) ([]partitionmerge.Found[Waitpoint], error) {
	calls := make([]enginerpc.ListWaitsCall, len(questions))
	for i, q := range questions {
		calls[i] = s.call(q)
	}
	answers, err := batching.SendAll[enginerpc.ListWaitsReply](ctx, s.index, calls)
	if err != nil {
		return nil, err
	}
	found := make([]partitionmerge.Found[Waitpoint], len(answers))
	for i, answer := range answers {
		reply := answer.Reply
		found[i].More = reply.More
		found[i].Reached = partitionmerge.Position{MS: reply.NextAt.UnixMilli(), ID: reply.NextID}
		for j, listed := range reply.Waits {
			w, err := waitpointOf(reply.Runs[j], listed)
			if err != nil {
				return nil, err
			}
			found[i].Items = append(found[i].Items, partitionmerge.Item[Waitpoint]{At: s.position(w), Value: w})
		}
	}
	return found, nil
}

func (s *waitSearch) position(w Waitpoint) partitionmerge.Position {
	at := w.OpenedAt
	if s.query.Sort == waitsDueFirst {
		at = w.TimeoutAt
	}
	return partitionmerge.Position{MS: at.UnixMilli(), ID: w.ExecutionID}
}

func (s *waitSearch) call(q partitionmerge.Question) enginerpc.ListWaitsCall {
	call := enginerpc.ListWaitsCall{
		Partition: q.Partition, Order: strings.TrimPrefix(string(s.query.Sort), "-"), Limit: waitsPerCall,
		NewestFirst: s.query.Sort == waitsNewestFirst, Namespace: string(s.client.session.Namespace),
		FlowName: s.query.Flow, Audience: s.query.Audience, Text: s.query.Text,
		After: runsearch.WholeFrom(s.query.From), Before: runsearch.LastBefore(s.query.Before),
	}
	for _, name := range slices.Sorted(maps.Keys(s.query.Tags)) {
		call.Tags = append(call.Tags, name, s.query.Tags[name])
	}
	if q.Behind == partitionmerge.Start {
		return call
	}
	call.BehindID = q.Behind.ID
	if at := time.UnixMilli(q.Behind.MS); call.NewestFirst {
		call.Before = at
	} else {
		call.After = at
	}
	return call
}

// waitpointOf returns a listed waitpoint with the run that it belongs to.
func waitpointOf(run enginerpc.WaitingRun, listed enginerpc.ListedWaitpoint) (Waitpoint, error) {
	w, err := readWaitpoint(listed)
	if err != nil {
		return w, err
	}
	w.Flow, w.Run, w.FlowID = run.FlowName, run.RunID, string(run.FlowID)
	for _, tag := range run.Tags {
		if w.Tags == nil {
			w.Tags = make(map[string]string)
		}
		w.Tags[tag.Name] = string(tag.Value)
	}
	return w, nil
}

// Waitpoint returns the waitpoint that the token authorizes signals to, open or closed, for a page that requests the
// answer. It has no signals of others and no token. The error is ErrInvalidToken, and in contract mode matches
// ErrNotInContract.
func (c *Client) Waitpoint(ctx context.Context, token activity.Token) (Waitpoint, error) {
	index, err := library(ctx, c, "waits of all runs")
	if err != nil {
		return Waitpoint{}, fmt.Errorf("read waitpoint: %w", err)
	}
	parts, err := engine.OpenToken(token)
	if err != nil {
		return Waitpoint{}, err
	}
	if int(parts.Partition.Index) >= c.session.Core.Partitioning().Flow {
		return Waitpoint{}, engine.ErrInvalidToken
	}
	reply, err := index.ReadWaitpoint(ctx, enginerpc.ReadWaitpointCall{
		Partition: parts.Partition, ExecutionID: parts.Execution, WaitpointID: parts.Waitpoint,
		WaitpointToken: parts.Signature,
	})
	switch {
	case errors.Is(err, enginecore.ErrInvalidToken):
		return Waitpoint{}, engine.ErrInvalidToken
	case err != nil:
		return Waitpoint{}, fmt.Errorf("read waitpoint: %w", err)
	}
	w, err := waitpointOf(reply.Runs[0], reply.Waits[0])
	w.Token = activity.Token{}
	return w, err
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
		call := enginerpc.ReadWaitpointCall{
			ExecutionID: enginecore.ExecutionID(w.ExecutionID), WaitpointID: enginecore.WaitpointID(w.ID),
			Namespace: r.client.session.Namespace, FlowID: r.flowID,
		}
		if call.Partition, err = keyspace.PartitionOf(call.ExecutionID); err != nil {
			fail(invalid("the waitpoint has no execution: use one that Waitpoints returned"))
			return
		}
		for {
			reply, err := index.ReadWaitpoint(ctx, call)
			if errors.Is(err, enginecore.ErrExecutionNotFound) || errors.Is(err, enginecore.ErrWaitpointNotFound) {
				err = fmt.Errorf("%w: %w", engine.ErrWaitOver, err)
			}
			if err != nil {
				fail(err)
				return
			}
			for _, s := range reply.Signals {
				if !yield(receivedSignal(s), nil) {
					return
				}
			}
			if call.Cursor = reply.NextCursor; call.Cursor == "" {
				return
			}
		}
	}
}

func receivedSignal(s enginerpc.ReceivedSignal) fabrictype.ReceivedSignal {
	signal := fabrictype.ReceivedSignal{
		ID: string(s.SignalID), Name: s.SignalName, Category: s.SignalCategory, SourceType: s.SourceType,
		Source: s.SourceIdentity, CorrelationID: s.CorrelationID, At: s.AcceptedAt, Counts: s.Counts,
	}
	if isJSON(s.Payload) {
		signal.JSON = s.Payload
	} else {
		signal.Data = s.Payload
	}
	return signal
}
