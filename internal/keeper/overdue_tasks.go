package keeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// overduePage bounds the entries of one index that one step reads.
const overduePage = 100

// overdueLoop works off the due entries of an index. It skips entries that remain after their visit, so that they do
// not hide the entries after them.
func (m *maintainer) overdueLoop(index engine.OverdueIndex) *MaintenanceLoop {
	at := newCursors()
	return &MaintenanceLoop{
		tasks: []engine.TaskID{index.Task}, family: index.Family, Every: index.Every, repairs: true,
		hintKeys: hint(index.Key),
		Step: func(ctx context.Context, partitions []keyspace.Partition, only engine.TaskID) []StepResult {
			results := make([]StepResult, len(partitions))
			for i, p := range partitions {
				r := &results[i]
				var next string
				var count int64
				count, next, r.Err = m.workOverdue(ctx, index, p, at.get(p))
				if r.faults, r.Err = itemFaults(index.Task, r.Err); r.Err == nil {
					r.more, r.Next = at.moved(p, next, index.Every, only != "")
					r.done = []taskDone{{task: index.Task, count: count}}
				}
			}
			return results
		},
	}
}

// workOverdue works off one page of an index from an offset, and returns the number of completed entries and the
// offset of the next page; empty at the end.
func (m *maintainer) workOverdue(
	ctx context.Context, index engine.OverdueIndex, p keyspace.Partition, cursor string,
) (int64, string, error) {
	now, err := m.Session.Core.Now(ctx)
	if err != nil {
		return 0, cursor, engine.ReadError(ctx, "TIME", err)
	}
	var offset int64
	if cursor != "" {
		if offset, err = strconv.ParseInt(cursor, 10, 64); err != nil {
			return 0, "", fmt.Errorf("cursor of an index: %w", err)
		}
	}
	client := m.Session.Client
	due, err := client.Do(ctx,
		client.B().Zrangebyscore().Key(index.Key(p)).Min("-inf").Max(strconv.FormatInt(now.UnixMilli(), 10)).
			Limit(offset, overduePage).Build()).AsStrSlice()
	if err != nil {
		return 0, cursor, engine.ReadError(ctx, "ZRANGEBYSCORE", err)
	}
	if len(due) == 0 {
		return 0, "", nil
	}
	count, err := index.Work(ctx, p, due, now)
	if len(due) < overduePage {
		return count, "", err
	}
	return count, strconv.FormatInt(offset+max(0, overduePage-count), 10), err
}

// itemFaults separates the errors of single items of a task from the others that are joined in err.
func itemFaults(task engine.TaskID, err error) (faults []enginerpc.ItemFault, rest error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			some, other := itemFaults(task, one)
			faults, rest = append(faults, some...), errors.Join(rest, other)
		}
		return faults, rest
	}
	var item *engine.ItemError
	if errors.As(err, &item) && !retry.IsUnavailable(err) {
		return []enginerpc.ItemFault{{Task: string(task), Item: item.Item, Error: item.Err.Error()}}, nil
	}
	return nil, err
}
