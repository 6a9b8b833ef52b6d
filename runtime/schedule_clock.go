package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// schedulesRound looks through all schedules, whenever they are due. It is the only one that finds those whose time was written
// by a clock that has been set back.
func (k *Keeper) schedulesRound() *round {
	// cursors are how far the schedules of a partition have been gone through.
	cursors := make(map[enginecore.Partition]string)
	return &round{
		duties: []Duty{DutyScheduleReconciliation}, family: enginecore.FlowFamily, every: k.reconcileEvery, mends: true, ofClock: true,
		signs: func(p enginecore.Partition) []string { return []string{k.session.core.Keys().FfxSchedules(p)} },
		step: func(ctx context.Context, partitions []enginecore.Partition, _ Duty) []outcome {
			return k.reviewSchedules(ctx, partitions, cursors)
		},
	}
}

// reviewSchedules looks through a page of the schedules of some partitions, and works on those that have been overlooked.
func (k *Keeper) reviewSchedules(ctx context.Context, partitions []enginecore.Partition, cursors map[enginecore.Partition]string) []outcome {
	calls := make([]enginecore.ListSchedulesCall, len(partitions))
	for i, p := range partitions {
		calls[i] = enginecore.ListSchedulesCall{Partition: p, Cursor: cursors[p]}
	}
	answers, _ := sendAll(ctx, k.session.core, calls) // each answer has its error
	schedules := newScheduleRunner(k.session, false)
	defer schedules.close()
	outcomes := make([]outcome, len(partitions))
	for i, a := range answers {
		p := partitions[i]
		if a.err != nil {
			outcomes[i].err = a.err
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
		outcomes[i] = outcome{
			now: a.reply.Now, more: a.reply.NextCursor != "",
			done: []dutyDone{{duty: DutyScheduleReconciliation, count: int64(len(overlooked))}},
		}
	}
	return outcomes
}
