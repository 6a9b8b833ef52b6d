package runtime

import (
	"context"
	"iter"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/follow"
)

// LogQuery selects the lines of a node.
type LogQuery struct {
	// Attempt is the number of an attempt, counted from 1. Defaults to 0, which is all of them.
	Attempt int
	// After is the cursor of a line, after which to begin. Defaults to the first line.
	After string
	// Follow waits for further lines until the node has ended.
	Follow bool
}

// Logs yields the lines that the attempts of a node logged with activity.Logger, in order: those that exist, or with
// Follow all until the node has ended. The node may be one of a child run, as for Stream. Lines stay with their
// attempt until the run is purged; they are part of the stream of the attempt, of which the engine keeps the last
// 10,000 frames, or the number set by activity.KeepFrames.
//
// An error is yielded last. It is one of the errors of Stream, or wraps ErrInvalid for a negative attempt.
func (r *RunRef) Logs(ctx context.Context, node string, q LogQuery) iter.Seq2[fabrictype.LogLine, error] {
	if q.Attempt < 0 {
		return func(yield func(fabrictype.LogLine, error) bool) {
			yield(fabrictype.LogLine{}, invalid("logs of node %s: attempt %d: must not be negative", node, q.Attempt))
		}
	}
	return following(ctx, r, func(ctx context.Context, f *follow.Run) iter.Seq2[fabrictype.LogLine, error] {
		return f.Logs(ctx, node, q.Attempt, q.After, q.Follow)
	})
}
