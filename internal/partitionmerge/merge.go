// Package partitionmerge merges the items of partitions, each in the same order, into one sequence. It queries all
// partitions that may have the next item, a bounded number of times, and can continue after a position.
package partitionmerge

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Position is a position in the order of a merge: the position of the item with this time and id. The unit of the time
// is the same for all items of an order.
type Position struct {
	Time int64
	ID   string
}

// Start comes before every item.
var Start = Position{Time: -1}

// After reports whether a position comes after another, the newest or the oldest items first.
func (p Position) After(other Position, oldestFirst bool) bool {
	if other == Start || p == Start {
		return p != other && other == Start
	}
	if oldestFirst {
		p, other = other, p
	}
	return p.Time < other.Time || p.Time == other.Time && p.ID < other.ID
}

// Cursor returns the text of a position in an order, for a later merge; empty for Start.
func (p Position) Cursor(order string) string {
	if p == Start {
		return ""
	}
	return order + ":" + strconv.FormatInt(p.Time, 10) + ":" + p.ID
}

// ParseCursor parses a text of Cursor. valid checks the id. order is the order that the cursor is of, which the caller
// compares; ok is false for a text that is not a cursor.
func ParseCursor(text string, valid func(id string) error) (p Position, order string, ok bool) {
	order, rest, _ := strings.Cut(text, ":")
	digits, id, _ := strings.Cut(rest, ":")
	at, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || at < 0 || valid(id) != nil {
		return Position{}, "", false
	}
	return Position{at, id}, order, true
}

// Item is something that a partition found, and its position.
type Item[T any] struct {
	At    Position
	Value T
}

// Question is the query to one partition: for items after a position.
type Question struct {
	Partition keyspace.Partition
	Behind    Position
}

// Found is the answer of one partition: items in order, and, while there may be more, up to where it was searched.
type Found[T any] struct {
	Items   []Item[T]
	More    bool
	Reached Position
}

// Ask queries partitions, and returns one answer for each question.
type Ask[T any] func(ctx context.Context, questions []Question) ([]Found[T], error)

// Merge merges the items of the partitions into one order. It is not safe for concurrent use.
type Merge[T any] struct {
	ask         Ask[T]
	oldestFirst bool
	streams     []stream[T]
	// rounds is how often partitions may still be queried; negative is without an end.
	rounds int
	last   Position // of the item that was returned last
}

// stream has the items that one partition has found and Next has not returned yet.
type stream[T any] struct {
	partition keyspace.Partition
	found     []Item[T]
	reached   Position // up to where the partition was searched
	done      bool     // it was searched to the end
}

// New begins a merge after a position.
func New[T any](partitions []keyspace.Partition, from Position, oldestFirst bool, ask Ask[T]) *Merge[T] {
	m := &Merge[T]{
		ask: ask, oldestFirst: oldestFirst, streams: make([]stream[T], len(partitions)), rounds: -1, last: from,
	}
	for i, p := range partitions {
		m.streams[i] = stream[T]{partition: p, reached: from}
	}
	return m
}

// Limit bounds how often Next queries the partitions from now on; the items that these rounds do not reach belong to
// another page.
func (m *Merge[T]) Limit(rounds int) { m.rounds = rounds }

// Next returns the next item. found is false at the end, or when the rounds of Limit are used up.
func (m *Merge[T]) Next(ctx context.Context) (value T, found bool, err error) {
	for {
		best := m.best()
		waitFor := m.waitFor(best)
		if len(waitFor) == 0 {
			if best == nil {
				return value, false, nil
			}
			item := best.found[0]
			best.found = best.found[1:]
			m.last = item.At
			return item.Value, true, nil
		}
		if m.rounds == 0 {
			return value, false, nil
		}
		m.rounds--
		if err := m.search(ctx, waitFor); err != nil {
			return value, false, err
		}
	}
}

// best is the stream whose item comes first, nil when none has any.
func (m *Merge[T]) best() *stream[T] {
	var best *stream[T]
	for i := range m.streams {
		stream := &m.streams[i]
		if len(stream.found) > 0 && (best == nil || m.behind(best.found[0].At, stream.found[0].At)) {
			best = stream
		}
	}
	return best
}

// waitFor lists the streams that may yet find an item before the best one that was found.
func (m *Merge[T]) waitFor(best *stream[T]) []*stream[T] {
	var list []*stream[T]
	for i := range m.streams {
		stream := &m.streams[i]
		if len(stream.found) == 0 && !stream.done && (best == nil || m.behind(best.found[0].At, stream.reached)) {
			list = append(list, stream)
		}
	}
	return list
}

func (m *Merge[T]) behind(p, other Position) bool { return p.After(other, m.oldestFirst) }

// search lets streams search on, all at once.
func (m *Merge[T]) search(ctx context.Context, streams []*stream[T]) error {
	questions := make([]Question, len(streams))
	for i, stream := range streams {
		questions[i] = Question{stream.partition, stream.reached}
	}
	answers, err := m.ask(ctx, questions)
	if err != nil {
		return err
	}
	for i, stream := range streams {
		answer := answers[i]
		stream.found = append(stream.found, answer.Items...)
		stream.done = !answer.More
		if answer.More {
			if !m.behind(answer.Reached, stream.reached) {
				return fmt.Errorf("partition %s does not go on behind %v", stream.partition, stream.reached)
			}
			stream.reached = answer.Reached
		}
	}
	return nil
}

// Reached is the position from which a later merge continues: after all items that Next has returned and before all
// that it has not. done is true at the end.
func (m *Merge[T]) Reached() (p Position, done bool) {
	best := m.best()
	waitFor := m.waitFor(best)
	if best != nil && len(waitFor) == 0 {
		return m.last, false
	}
	// Everything up to the stream that was searched least has been returned.
	var least *stream[T]
	for _, stream := range waitFor {
		if least == nil || m.behind(least.reached, stream.reached) {
			least = stream
		}
	}
	if least == nil {
		return Position{}, true
	}
	if m.behind(least.reached, m.last) {
		return least.reached, false
	}
	return m.last, false
}
