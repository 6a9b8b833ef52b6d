package runtime

import (
	"context"
	"fmt"
	"strconv"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// overduePage bounds the entries of one index that one step looks at.
const overduePage = 100

// overdueLoop works off what is due of an index. Entries that stay are passed over, so that they hide none behind them.
func (k *keeper) overdueLoop(index overdueIndex) *maintenanceLoop {
	at := newCursors()
	return &maintenanceLoop{
		tasks: []taskID{index.task}, family: index.family, every: index.every, repairs: true, hintKeys: hint(index.key),
		step: func(ctx context.Context, partitions []enginecore.Partition, only taskID) []stepResult {
			results := make([]stepResult, len(partitions))
			for i, p := range partitions {
				r := &results[i]
				var next string
				var count int64
				if count, next, r.err = k.workOverdue(ctx, index, p, at.get(p)); r.err == nil {
					r.more, r.next = at.moved(p, next, index.every, only != "")
					r.done = []taskDone{{task: index.task, count: count}}
				}
			}
			return results
		},
	}
}

// workOverdue works off one page of an index, from an offset on, and returns the offset of the next one; empty at the end.
func (k *keeper) workOverdue(ctx context.Context, index overdueIndex, p enginecore.Partition, cursor string) (int64, string, error) {
	now, err := k.session.core.Now(ctx)
	if err != nil {
		return 0, cursor, readError("TIME", err)
	}
	var offset int64
	if cursor != "" {
		if offset, err = strconv.ParseInt(cursor, 10, 64); err != nil {
			return 0, "", fmt.Errorf("cursor of an index: %w", err)
		}
	}
	client := k.session.client
	due, err := client.Do(ctx, client.B().Zrangebyscore().Key(index.key(p)).Min("-inf").Max(strconv.FormatInt(now.UnixMilli(), 10)).
		Limit(offset, overduePage).Build()).AsStrSlice()
	if err != nil {
		return 0, cursor, readError("ZRANGEBYSCORE", err)
	}
	if len(due) == 0 {
		return 0, "", nil
	}
	count, err := index.work(ctx, p, due, now)
	if err != nil || len(due) < overduePage {
		return count, "", err
	}
	return count, strconv.FormatInt(offset+max(0, overduePage-count), 10), nil
}
