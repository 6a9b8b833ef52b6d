package runsearch

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/partitionmerge"
)

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

func positionOf(q Query, run enginerpc.Run) partitionmerge.Position {
	at := run.CreatedAt
	if q.byEnd() {
		at = run.ClosedAt
	}
	return partitionmerge.Position{MS: at.UnixMilli(), ID: string(run.FlowID)}
}

// CursorBehind returns the cursor with which a search continues after a run that it has found.
func CursorBehind(q Query, run enginerpc.Run) string { return positionOf(q, run).Cursor(orderOf(q)) }
