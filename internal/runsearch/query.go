package runsearch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/partitionmerge"
)

// Query selects runs. A run must satisfy everything that is set.
type Query struct {
	Flow string
	// States are the engine's words for the outcomes of runs, "open" among them.
	States []string
	Tags   map[string]string
	// CreatedFrom and CreatedBefore bound the time when a run was started, ClosedFrom and ClosedBefore when its last
	// node ended. With one of the latter, only ended runs are found, the latest end first; else the newest come first.
	CreatedFrom, CreatedBefore, ClosedFrom, ClosedBefore time.Time
	// ByEnd orders the runs by their end, also without a bound of it. OldestFirst turns the order round.
	ByEnd, OldestFirst bool
	// Text is contained in the id of the run or in the name of its flow, ignoring case.
	Text string
	// ID is the beginning of the id of the run.
	ID string `json:",omitempty"`
	// Terms are words that a run must have, as [ParseWords] reads them. Runs are found by indexes if these have them; a
	// single term that no index has is looked for like Text.
	Terms []Term `json:",omitempty"`
	// Only selects the runs with these names; no other one is read.
	Only []Name `json:",omitempty"`
	// Key is the key of the runs. Queued finds those that wait in the queue of their key.
	Key    string `json:",omitempty"`
	Queued bool   `json:",omitempty"`
	// Children also finds child runs.
	Children bool
	// Namespace is the namespace of the runs; empty means the session's.
	Namespace string
}

// Name names a run of a namespace.
type Name struct {
	Flow string `json:"flow"`
	Run  string `json:"run"`
}

// byEnd reports whether runs are wanted in the order of their ends.
func (q Query) byEnd() bool { return q.ByEnd || !q.ClosedFrom.IsZero() || !q.ClosedBefore.IsZero() }

// call is the first call of each partition.
func (q Query) call() enginerpc.ListRunsCall {
	call := enginerpc.ListRunsCall{
		FlowName: q.Flow, Children: q.Children, Text: q.Text, RunIDBegins: q.ID, OldestFirst: q.OldestFirst,
		RunKey: q.Key, Queued: q.Queued,
		After: WholeFrom(q.CreatedFrom), Before: LastBefore(q.CreatedBefore),
	}
	if q.byEnd() {
		call.Order, call.After, call.Before = "closed", WholeFrom(q.ClosedFrom), LastBefore(q.ClosedBefore)
	}
	call.States = strings.Join(q.States, ",")
	for _, name := range slices.Sorted(maps.Keys(q.Tags)) {
		call.Tags = append(call.Tags, name, q.Tags[name])
	}
	return call
}

// WholeFrom is the first whole millisecond that is not before a time; zero stays zero.
func WholeFrom(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond)
}

// LastBefore is the last whole millisecond before a time; zero stays zero.
func LastBefore(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(-time.Nanosecond).Truncate(time.Millisecond)
}

// orderOf names the order of a search, as cursors do.
func orderOf(q Query) string {
	order := "c"
	if q.byEnd() {
		order = "f"
	}
	if q.OldestFirst {
		order += "+"
	}
	return order
}

func parseCursor(text string, q Query) (partitionmerge.Position, error) {
	if text == "" {
		return partitionmerge.Start, nil
	}
	p, order, ok := partitionmerge.ParseCursor(text, func(id string) error {
		_, err := keyspace.ParseFlowID(id)
		return err
	})
	if !ok {
		return p, fmt.Errorf("%w: %.80q", engine.ErrCursor, text)
	}
	if order != orderOf(q) {
		return p, fmt.Errorf("%w: %.80q comes from a query with another order", engine.ErrCursor, text)
	}
	return p, nil
}

func positionOf(run enginerpc.Run) partitionmerge.Position {
	return partitionmerge.Position{Time: run.ListedAt, ID: string(run.FlowID)}
}

// CursorAfter returns the cursor with which a search continues after a run that it has found.
func CursorAfter(q Query, run enginerpc.Run) string { return positionOf(run).Cursor(orderOf(q)) }
