package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Pauses between two looks for runs that can be made smaller.
const (
	minCompactPause = 100 * time.Millisecond
	maxCompactPause = time.Minute
)

// compact makes ended runs smaller until ctx ends.
func (k *Keeper) compact(ctx context.Context) {
	wait := min(max(k.compactAfter/8, minCompactPause), maxCompactPause)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		for todo := k.engine.partitions(); len(todo) > 0 && ctx.Err() == nil; {
			todo = k.compactSome(ctx, todo)
		}
	}
}

// compactSome does a bounded part of the work in each of some partitions, and lists those where more is left.
func (k *Keeper) compactSome(ctx context.Context, partitions []enginecore.Partition) []enginecore.Partition {
	pipeline := k.engine.core.Pipeline()
	replies := make([]*enginecore.Result[enginecore.CompactReply], len(partitions))
	for i, p := range partitions {
		replies[i] = enginecore.Add(pipeline, enginecore.CompactCall{Partition: p, Age: k.compactAfter})
	}
	if err := pipeline.Run(ctx); err != nil && ctx.Err() == nil {
		k.engine.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: keeper could not compact, it tries again", eventCompactionFailed.attr(), slog.Any("error", err))
	}
	var left []enginecore.Partition
	for i, p := range partitions {
		if reply, err := replies[i].Get(); err == nil && reply.More {
			left = append(left, p)
		}
	}
	return left
}
