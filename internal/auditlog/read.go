package auditlog

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/runsearch"
)

// page is the number of entries that one call reads.
const page = 100

// Query selects entries. An entry must satisfy all fields that are set.
type Query struct {
	Actor  string
	Action string
	Name   string
	// From (inclusive) and Before (exclusive) bound the time.
	From, Before time.Time
	// After continues after the entry with this cursor, towards older ones.
	After string
}

// Read yields the entries that satisfy the query, the last one first. An error ends the sequence. It matches
// [engine.ErrCursor] for an invalid cursor, and [engine.ErrNotInContract] in contract mode.
func Read(ctx context.Context, s *engine.Session, q Query) iter.Seq2[fabrictype.AuditEntry, error] {
	return func(yield func(fabrictype.AuditEntry, error) bool) {
		fail := func(err error) { yield(fabrictype.AuditEntry{}, err) }
		store, err := s.Library("the audit log")
		if err != nil {
			fail(err)
			return
		}
		call := enginerpc.ReadAuditCall{
			Partition: engine.Directory(), Namespace: string(s.Namespace), Limit: page,
			After: runsearch.WholeFrom(q.From), Before: runsearch.LastBefore(q.Before), Cursor: q.After,
		}
		if _, ok := timeOf(q.After); q.After != "" && !ok {
			fail(fmt.Errorf("%w: %.80q", engine.ErrCursor, q.After))
			return
		}
		for {
			reply, err := store.ReadAudit(ctx, call)
			if err != nil {
				fail(err)
				return
			}
			for _, stored := range reply.Entries {
				if e := entryOf(stored); q.selects(e) && !yield(e, nil) {
					return
				}
			}
			if call.Cursor = reply.NextCursor; call.Cursor == "" {
				return
			}
		}
	}
}

func entryOf(e enginerpc.AuditEntry) fabrictype.AuditEntry {
	at, _ := timeOf(e.Position)
	return fabrictype.AuditEntry{
		ID: e.EntryID, At: at, Actor: e.Actor, Action: e.Action, Name: e.Name, Detail: e.Detail,
		Failure: e.Failure, Cursor: e.Position,
	}
}

// timeOf returns the time of an entry by its position; false if that is none.
func timeOf(position string) (time.Time, bool) {
	ms, number, _ := strings.Cut(position, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || at < 0 {
		return time.Time{}, false
	}
	if _, err := strconv.ParseUint(number, 10, 64); err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(at).UTC(), true
}

func (q *Query) selects(e fabrictype.AuditEntry) bool {
	return (q.Actor == "" || q.Actor == e.Actor) && (q.Action == "" || q.Action == e.Action) &&
		(q.Name == "" || q.Name == e.Name)
}
