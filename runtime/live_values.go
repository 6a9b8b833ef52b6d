package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Value returns the value that the function of a node has published last under a key, by activity.Publish, while the
// node runs or later. For an item of a map, use the child run (Node.Child).
//
// The error wraps ErrNotFound for the run, the node or the value; ErrInvalid for a key that is not a valid name; or
// ErrNotInContract.
func (r *RunRef) Value(ctx context.Context, node, key string) (fabrictype.LiveValue, error) {
	if err := r.ready(ctx); err != nil {
		return fabrictype.LiveValue{}, err
	}
	value, err := r.liveValue(ctx, node, key)
	if err != nil {
		return fabrictype.LiveValue{}, r.errorf(fmt.Sprintf("read live value %q of node %q of", key, node), err)
	}
	return value, nil
}

func (r *RunRef) liveValue(ctx context.Context, node, key string) (fabrictype.LiveValue, error) {
	store, err := library(ctx, r.client, "live values")
	if err != nil {
		return fabrictype.LiveValue{}, err
	}
	if err := activityspec.CheckName(key); err != nil {
		return fabrictype.LiveValue{}, invalid("key: %w", err)
	}
	id, err := r.executionID(ctx, node)
	if err != nil {
		return fabrictype.LiveValue{}, err
	}
	reply, err := store.ReadLiveValue(ctx, enginerpc.ReadLiveValueCall{
		Partition: r.partition, ExecutionID: id, ValueKey: key,
	})
	switch {
	case errors.Is(err, enginecore.ErrExecutionNotFound):
		return fabrictype.LiveValue{}, engine.ErrUnknownNode
	case err != nil:
		return fabrictype.LiveValue{}, err
	case !reply.Has:
		return fabrictype.LiveValue{}, engine.ErrNoValue
	}
	return fabrictype.LiveValue{
		Key: key, At: reply.At, Attempt: int(reply.Attempt) + 1, Size: len(reply.Value), JSON: reply.Value,
	}, nil
}

// liveValuesOf lists the live values of a node that the engine describes.
func liveValuesOf(stored []enginerpc.LiveValue) []fabrictype.LiveValue {
	if len(stored) == 0 {
		return nil
	}
	list := make([]fabrictype.LiveValue, len(stored))
	for i, v := range stored {
		list[i] = fabrictype.LiveValue{Key: v.Key, At: v.At, Attempt: int(v.Attempt) + 1, Size: int(v.Size)}
	}
	return list
}
