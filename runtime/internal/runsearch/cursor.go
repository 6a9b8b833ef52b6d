package runsearch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// position is a position in the order of a search: that of the run with this time and id.
type position struct {
	ms int64
	id enginecore.FlowID
}

// start comes before every run.
var start = position{ms: -1}

// behind reports whether a position comes after another, the newest or the oldest runs first.
func (p position) behind(other position, oldestFirst bool) bool {
	if other == start || p == start {
		return p != other && other == start
	}
	if oldestFirst {
		p, other = other, p
	}
	return p.ms < other.ms || p.ms == other.ms && p.id < other.id
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

func parseCursor(text string, q Query) (position, error) {
	if text == "" {
		return start, nil
	}
	order, rest, _ := strings.Cut(text, ":")
	ms, id, _ := strings.Cut(rest, ":")
	at, err := strconv.ParseInt(ms, 10, 64)
	flowID, idErr := enginecore.ParseFlowID(id)
	if err != nil || idErr != nil || at < 0 {
		return position{}, fmt.Errorf("%w: %.80q", engine.ErrCursor, text)
	}
	if order != orderOf(q) {
		return position{}, fmt.Errorf("%w: %.80q comes from a query with another order", engine.ErrCursor, text)
	}
	return position{at, flowID}, nil
}

// CursorBehind returns the cursor with which a search goes on behind a run that it has found.
func CursorBehind(q Query, run enginerpc.Run) string { return positionOf(q, run).cursor(q) }

// cursor returns the text of a position for a later search; empty for the start.
func (p position) cursor(q Query) string {
	if p == start {
		return ""
	}
	return orderOf(q) + ":" + strconv.FormatInt(p.ms, 10) + ":" + string(p.id)
}
