package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// ErrNoValue is returned by RunRef.Value when the node has published no value under the key.
var ErrNoValue = errors.New("no live value")

// LiveValue is a value that a function has published by activity.Publish.
type LiveValue struct {
	Key string
	// At is when it was published last, by the engine's clock, and Attempt the attempt that did, counted from 1.
	At      time.Time
	Attempt int
	// Size is the number of bytes of the value.
	Size int
	// Data is the value in JSON; nil in a NodeDescription, which lists keys only.
	Data json.RawMessage
}

// Decode decodes the value as encoding/json does.
func (v LiveValue) Decode(target any) error {
	if err := json.Unmarshal(v.Data, target); err != nil {
		return fmt.Errorf("live value %q: %w", v.Key, err)
	}
	return nil
}

// Value returns the value that the function of a node has published last under a key, by activity.Publish, while the
// node runs or later. For an item of a map, ask the child run (NodeDescription.Child).
//
// The error wraps ErrNoValue; ErrUnknownNode; ErrRunNotFound; ErrInvalid for a key that is not a valid name; or
// ErrNotInContract.
func (r *RunRef) Value(ctx context.Context, node, key string) (LiveValue, error) {
	if err := r.ready(ctx); err != nil {
		return LiveValue{}, err
	}
	value, err := r.liveValue(ctx, node, key)
	if err != nil {
		return LiveValue{}, r.errorf(fmt.Sprintf("read live value %q of node %q of", key, node), err)
	}
	return value, nil
}

func (r *RunRef) liveValue(ctx context.Context, node, key string) (LiveValue, error) {
	store, err := offered[engine.LiveValues](ctx, r.client)
	if err != nil {
		return LiveValue{}, err
	}
	if err := activityspec.CheckName(key); err != nil {
		return LiveValue{}, invalid("key: %w", err)
	}
	id, err := r.executionID(ctx, node)
	if err != nil {
		return LiveValue{}, err
	}
	reply, err := store.ReadLiveValue(ctx, enginerpc.ReadLiveValueCall{
		Partition: r.partition, ExecutionID: id, ValueKey: key,
	})
	switch {
	case errors.Is(err, enginecore.ErrExecutionNotFound):
		return LiveValue{}, engine.ErrUnknownNode
	case err != nil:
		return LiveValue{}, err
	case !reply.Has:
		return LiveValue{}, ErrNoValue
	}
	return LiveValue{
		Key: key, At: reply.At, Attempt: int(reply.Attempt) + 1, Size: len(reply.Value), Data: reply.Value,
	}, nil
}

// liveValuesOf lists the live values of a node that the engine describes.
func liveValuesOf(stored []enginerpc.LiveValue) []LiveValue {
	if len(stored) == 0 {
		return nil
	}
	list := make([]LiveValue, len(stored))
	for i, v := range stored {
		list[i] = LiveValue{Key: v.Key, At: v.At, Attempt: int(v.Attempt) + 1, Size: int(v.Size)}
	}
	return list
}
