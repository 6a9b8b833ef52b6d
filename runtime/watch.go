package runtime

import (
	"context"
	"iter"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/follow"
)

// Watch yields the events of the run in order and without gaps, as they happen, until the run is over or ctx ends. It
// begins after the event with the given id, or with the first event for "" and for the id of an event of an earlier run
// with the same id, which was purged. If the run was run again, its earlier ends are events like any others. All
// watches of an engine wait on a separate connection, so they delay nothing else, and reconnect after it broke. A slow
// reader misses no event. OpenConfig.MaxWatches bounds the number of active calls.
//
// The engine keeps the last 20,000 events of a run, or some more, and the first of each node of those before: 32 of
// them, or at least 4 in a run of very many nodes. If some after the given id are missing, Watch yields a
// *fabrictype.EventsLostError where they were, and continues. Any other error ends the iteration. It wraps ErrNotFound,
// also when the run is purged during the call; ErrCursor for a text that is the id of no event; enginecore.ErrClosed
// when the client or the engine is closed; or ErrTooManyWatches. In contract mode, Watch derives events from the states
// of the nodes, once per poll interval.
func (r *RunRef) Watch(ctx context.Context, after string) iter.Seq2[fabrictype.Event, error] {
	return following(ctx, r, func(ctx context.Context, f *follow.Run) iter.Seq2[fabrictype.Event, error] {
		return f.Watch(ctx, after)
	})
}
