package runtime

import (
	"context"
	"fmt"
	"iter"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Items yields the items of a map node in the order of the list, beginning at the index from. It reads them in pages,
// so changes during the iteration may be included in part. The items of an empty list are none, without an error. An
// error is yielded last. It wraps ErrNotFound, also for a node that is not a map and for a map that has not started, or
// in contract mode ErrNotInContract.
func (r *RunRef) Items(ctx context.Context, node string, from int) iter.Seq2[fabrictype.MapItem, error] {
	return func(yield func(fabrictype.MapItem, error) bool) {
		if err := r.ready(ctx); err != nil {
			yield(fabrictype.MapItem{}, err)
			return
		}
		for item, err := range r.reader().Items(ctx, node, from) {
			if !yield(item, err) {
				return
			}
		}
	}
}

// Turns returns the turns of a node of flow.Loop so far, the first one first; the last one may be running. The error
// wraps ErrNotFound, also for a node that is not a loop, or in contract mode ErrNotInContract.
func (r *RunRef) Turns(ctx context.Context, node string) ([]fabrictype.ChildRun, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	turns, err := r.reader().Turns(ctx, node)
	if err != nil {
		return nil, r.errorf("turns of node "+node+" of", err)
	}
	return turns, nil
}

// Value returns the value that the function of a node has published last under a key, by activity.Publish, while the
// node runs or later. For an item of a map, use the child run (Node.Child).
//
// The error wraps ErrNotFound for the run, the node or the value; ErrInvalid for a key that is not a valid name; or
// ErrNotInContract.
func (r *RunRef) Value(ctx context.Context, node, key string) (fabrictype.LiveValue, error) {
	if err := r.ready(ctx); err != nil {
		return fabrictype.LiveValue{}, err
	}
	value, err := r.reader().LiveValue(ctx, node, key)
	if err != nil {
		return fabrictype.LiveValue{}, r.errorf(fmt.Sprintf("read live value %q of node %q of", key, node), err)
	}
	return value, nil
}
