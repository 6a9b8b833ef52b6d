package runtime

import (
	"context"
	"iter"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/follow"
)

// ErrCursor is returned for a cursor that Stream did not yield, or that ListRuns did not return for the same query, and
// for the id of an event that does not exist.
var ErrCursor = engine.ErrCursor

// Stream yields the frames that the attempts of a node emit, in order, as they are emitted, until the node has ended or
// ctx ends. It waits on its own connections, so a slow reader delays nothing else, and reconnects after the connection
// broke. If an attempt emitted more frames than the engine keeps, Stream skips the dropped ones, and Frame.Dropped
// counts them.
//
// It begins after the frame with the cursor after, or with the first frame of the first attempt if that is empty.
//
// A node of a child run is named from its parent on, with slashes: "send/item-3" is an item of the map send,
// "ship/pack" the node pack of the sub-flow ship.
//
// An error is yielded last. It wraps ErrNotFound, also when the run has no such node, or the child run does
// not exist at present; ErrCursor for a cursor that no frame has; enginecore.ErrClosed when the client or the
// engine is closed; or ErrTooManyWatches, because a stream that waits counts towards OpenConfig.MaxWatches.
func (r *RunRef) Stream(ctx context.Context, node, after string) iter.Seq2[fabrictype.Frame, error] {
	return following(ctx, r, func(ctx context.Context, f *follow.Run) iter.Seq2[fabrictype.Frame, error] {
		return f.Stream(ctx, node, after)
	})
}

// Frames yields the frames of a node that exist already, as Stream does, and waits for no others.
func (r *RunRef) Frames(ctx context.Context, node, after string) iter.Seq2[fabrictype.Frame, error] {
	return following(ctx, r, func(ctx context.Context, f *follow.Run) iter.Seq2[fabrictype.Frame, error] {
		return f.Frames(ctx, node, after)
	})
}

// following yields the sequence of a follower of the run, as long as the client is open.
func following[T any](
	ctx context.Context, r *RunRef, sequence func(context.Context, *follow.Run) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := r.ready(ctx); err != nil {
			var zero T
			yield(zero, err)
			return
		}
		ctx, end := r.client.submitter.WhileOpen(ctx)
		defer end()
		sequence(ctx, &follow.Run{Reader: *r.reader()})(yield)
	}
}
