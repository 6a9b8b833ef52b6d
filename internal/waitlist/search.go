package waitlist

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/partitionmerge"
	"github.com/flowfabric/flowfabric-go/internal/runsearch"
)

const (
	// waitsPerCall bounds the waits that one call reads from a partition.
	waitsPerCall = 100
	// waitRounds bounds how often a page of waits queries the partitions.
	waitRounds = 8
)

// Query selects open waits of a namespace; runtime.WaitQuery explains the fields. It has a Sort and no faults.
type Query struct {
	Flow           string
	Tags           map[string]string
	Audience, Text string
	From, Before   time.Time
	Sort           string
}

// Orders of waits.
const (
	OldestFirst = "opened"
	NewestFirst = "-opened"
	DueFirst    = "due"
)

// Search finds the open waits of all runs that satisfy a query. It is not safe for concurrent use.
type Search struct {
	sort  string
	merge *partitionmerge.Merge[Waitpoint]
}

// NewSearch begins a search after a cursor that Page has returned for the same query; "" is the beginning. Its error
// matches [engine.ErrCursor] for any other cursor.
func NewSearch(s *engine.Session, index engine.Library, q Query, cursor string) (*Search, error) {
	from := partitionmerge.Start
	if cursor != "" {
		var order string
		var ok bool
		from, order, ok = partitionmerge.ParseCursor(cursor, func(id string) error {
			_, err := keyspace.PartitionOf(enginecore.ExecutionID(id))
			return err
		})
		if !ok || order != q.Sort {
			return nil, fmt.Errorf("%w: %.80q", engine.ErrCursor, cursor)
		}
	}
	asking := asking{session: s, index: index, query: q}
	return &Search{q.Sort, partitionmerge.New(s.Partitions(), from, q.Sort != NewestFirst, asking.ask)}, nil
}

// Next returns the next wait; false after the last one.
func (s *Search) Next(ctx context.Context) (Waitpoint, bool, error) { return s.merge.Next(ctx) }

// Page returns the next waits, at most limit, and the cursor after them, "" after the last one. Its work is bounded,
// so that it may return fewer waits although there are more.
func (s *Search) Page(ctx context.Context, limit int) (waits []Waitpoint, next string, err error) {
	s.merge.Limit(waitRounds)
	for len(waits) < limit {
		w, found, err := s.merge.Next(ctx)
		if err != nil {
			return nil, "", err
		}
		if !found {
			break
		}
		waits = append(waits, w)
	}
	if reached, done := s.merge.Reached(); !done {
		next = reached.Cursor(s.sort)
	}
	return waits, next, nil
}

// asking queries partitions for open waits.
type asking struct {
	session *engine.Session
	index   engine.Library
	query   Query
}

func (s *asking) ask(
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
		found[i].Reached = partitionmerge.Position{Time: reply.NextAt.UnixMilli(), ID: reply.NextID}
		for j, listed := range reply.Waits {
			w, err := waitpointOf(reply.Runs[j], listed)
			if err != nil {
				return nil, err
			}
			if !s.query.hasText(&w) {
				continue
			}
			found[i].Items = append(found[i].Items, partitionmerge.Item[Waitpoint]{At: s.position(w), Value: w})
		}
	}
	return found, nil
}

// hasText reports whether the title or the question of a wait contains the text of the query.
func (q *Query) hasText(w *Waitpoint) bool {
	text := lower(q.Text)
	return text == "" || strings.Contains(lower(w.Title), text) || strings.Contains(lower(w.Question), text)
}

// lower replaces the letters A to Z.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

func (s *asking) position(w Waitpoint) partitionmerge.Position {
	at := w.OpenedAt
	if s.query.Sort == DueFirst {
		at = w.TimeoutAt
	}
	return partitionmerge.Position{Time: at.UnixMilli(), ID: w.ExecutionID}
}

func (s *asking) call(q partitionmerge.Question) enginerpc.ListWaitsCall {
	call := enginerpc.ListWaitsCall{
		Partition: q.Partition, Order: strings.TrimPrefix(s.query.Sort, "-"), Limit: waitsPerCall,
		NewestFirst: s.query.Sort == NewestFirst, Namespace: string(s.session.Namespace),
		FlowName: s.query.Flow, Audience: s.query.Audience,
		After: runsearch.WholeFrom(s.query.From), Before: runsearch.LastBefore(s.query.Before),
	}
	for _, name := range slices.Sorted(maps.Keys(s.query.Tags)) {
		call.Tags = append(call.Tags, name, s.query.Tags[name])
	}
	if q.Behind == partitionmerge.Start {
		return call
	}
	call.BehindID = q.Behind.ID
	if at := time.UnixMilli(q.Behind.Time); call.NewestFirst {
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
