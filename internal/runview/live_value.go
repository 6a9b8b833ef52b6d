package runview

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// LiveValue returns the value that the function of a node has published last under a key.
func (r *Reader) LiveValue(ctx context.Context, node, key string) (fabrictype.LiveValue, error) {
	store, err := r.Session.Library("live values")
	if err != nil {
		return fabrictype.LiveValue{}, err
	}
	if err := activityspec.CheckName(key); err != nil {
		return fabrictype.LiveValue{}, engine.Invalid("key: %w", err)
	}
	id, err := r.Session.ExecutionID(ctx, r.Run, node)
	if err != nil {
		return fabrictype.LiveValue{}, err
	}
	reply, err := store.ReadLiveValue(ctx, enginerpc.ReadLiveValueCall{
		Partition: r.Run.Partition, ExecutionID: id, ValueKey: key,
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
