package waitlist

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// OfRun returns the open waitpoints and timers of a run and of its open child runs at any depth, the oldest first; with
// closed also those whose wait is over.
func OfRun(ctx context.Context, s *engine.Session, r engine.Run, closed bool) ([]Waitpoint, error) {
	waits, children, err := ofRunAlone(ctx, s, r, closed)
	for len(children) > 0 && err == nil {
		names, readErr := submit.ReadRunNames(ctx, s, children)
		if readErr != nil {
			return nil, readErr
		}
		var below []enginecore.FlowID
		for _, id := range children {
			name, there := names[id]
			if !there {
				continue // it was not created yet, or is purged
			}
			p, readErr := s.Core.FlowPartition(id)
			if readErr != nil {
				return nil, readErr
			}
			child := engine.Run{Flow: name.Flow, ID: name.Run, FlowID: id, Partition: p}
			found, further, readErr := ofRunAlone(ctx, s, child, closed)
			if readErr != nil && !errors.Is(readErr, enginecore.ErrFlowNotFound) {
				return nil, readErr
			}
			waits, below = append(waits, found...), append(below, further...)
		}
		children = below
	}
	return byOpening(waits), err
}

// ofRunAlone reads the waitpoints of a run page by page, with its timers, and the ids of its open child runs.
func ofRunAlone(
	ctx context.Context, s *engine.Session, r engine.Run, closed bool,
) (waits []Waitpoint, children []enginecore.FlowID, err error) {
	call := enginerpc.ListWaitpointsCall{Partition: r.Partition, FlowID: r.FlowID, All: closed}
	for {
		reply, err := s.Backend.ListWaitpoints(ctx, call)
		if err != nil {
			return nil, nil, err
		}
		for _, listed := range reply.Waitpoints {
			w, err := readWaitpoint(listed)
			if err != nil {
				return nil, nil, err
			}
			w.Flow, w.Run, w.FlowID = r.Flow, r.ID, string(r.FlowID)
			waits = append(waits, w)
		}
		children = append(children, reply.Children...)
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return waits, children, nil
		}
	}
}

// byOpening orders waitpoints by the time of their opening, and drops duplicates from the pages of a changing set.
func byOpening(waits []Waitpoint) []Waitpoint {
	slices.SortFunc(waits, func(a, b Waitpoint) int {
		return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Step, b.Step),
			cmp.Compare(a.ID, b.ID))
	})
	return slices.CompactFunc(waits, func(a, b Waitpoint) bool { return a.ID == b.ID })
}
