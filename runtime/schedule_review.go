package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// schedulesLoop looks through all schedules, whenever they are due. It is the only one that finds those whose time was written
// by a clock that has been set back.
func (k *keeper) schedulesLoop() *maintenanceLoop {
	// cursors are how far the schedules of a partition have been gone through.
	cursors := make(map[enginecore.Partition]string)
	return &maintenanceLoop{
		tasks: []taskID{taskScheduleReconciliation}, family: enginecore.FlowFamily, every: k.reconcileEvery, repairs: true, onClockSetBack: true,
		hintKeys: func(p enginecore.Partition) []string { return []string{k.session.core.Keys().FfxSchedules(p)} },
		step: func(ctx context.Context, partitions []enginecore.Partition, _ taskID) []stepResult {
			return k.reviewSchedules(ctx, partitions, cursors)
		},
	}
}

// reviewSchedules looks through a page of the schedules of some partitions, and works on those that have been overlooked.
func (k *keeper) reviewSchedules(ctx context.Context, partitions []enginecore.Partition, cursors map[enginecore.Partition]string) []stepResult {
	calls := make([]enginerpc.ListSchedulesCall, len(partitions))
	for i, p := range partitions {
		calls[i] = enginerpc.ListSchedulesCall{Partition: p, Cursor: cursors[p]}
	}
	answers, _ := sendAll(ctx, k.maintenance, calls) // each answer has its error
	schedules := newScheduleRunner(k.session, false)
	defer schedules.close()
	results := make([]stepResult, len(partitions))
	for i, a := range answers {
		p := partitions[i]
		if a.err != nil {
			results[i].err = a.err
			continue
		}
		var overlooked []enginecore.ScheduleID
		for _, stored := range a.reply.Schedules {
			// One that cannot be read is told of when it is due.
			if r, err := readRecord(p, a.reply.Now, stored); err == nil && r.isOverlooked() {
				overlooked = append(overlooked, stored.ScheduleID)
			}
		}
		schedules.begin(ctx, p, overlooked)
		cursors[p] = a.reply.NextCursor
		results[i] = stepResult{
			now: a.reply.Now, more: a.reply.NextCursor != "",
			done: []taskDone{{task: taskScheduleReconciliation, count: int64(len(overlooked))}},
		}
	}
	return results
}
