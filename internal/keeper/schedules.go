package keeper

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/schedule"
)

// schedulesLoop reviews all schedules, due or not. No other loop finds those whose due time was written by a clock
// that was set back.
func (m *maintainer) schedulesLoop() *MaintenanceLoop {
	// cursors are the positions in the schedules of each partition.
	cursors := make(map[keyspace.Partition]string)
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskScheduleReconciliation}, family: keyspace.FlowFamily,
		Every: m.ReconcileEvery, repairs: true, onClockSetBack: true,
		hintKeys: hint(m.Session.Core.Keys().FfxSchedules),
		Step: func(ctx context.Context, partitions []keyspace.Partition, _ engine.TaskID) []StepResult {
			return m.reviewSchedules(ctx, partitions, cursors)
		},
	}
}

// reviewSchedules reads a page of the schedules of some partitions, and works on those that the due index misses.
func (m *maintainer) reviewSchedules(
	ctx context.Context, partitions []keyspace.Partition, cursors map[keyspace.Partition]string,
) []StepResult {
	calls := make([]enginerpc.ListSchedulesCall, len(partitions))
	for i, p := range partitions {
		calls[i] = enginerpc.ListSchedulesCall{Partition: p, Cursor: cursors[p]}
	}
	answers, _ := batching.SendAll(ctx, m.maintenance, calls) // each answer has its error
	schedules := schedule.NewRunner(m.Session, false)
	defer schedules.Close()
	results := make([]StepResult, len(partitions))
	for i, a := range answers {
		p := partitions[i]
		if a.Err != nil {
			results[i].Err = a.Err
			continue
		}
		var overlooked []keyspace.ScheduleID
		for _, stored := range a.Reply.Schedules {
			// An unreadable schedule is reported when it is due.
			if r, err := schedule.ReadRecord(p, a.Reply.Now, stored); err == nil && r.IsOverlooked() {
				overlooked = append(overlooked, stored.ScheduleID)
			}
		}
		schedules.Begin(ctx, p, overlooked, false)
		cursors[p] = a.Reply.NextCursor
		results[i] = StepResult{
			Now: a.Reply.Now, more: a.Reply.NextCursor != "", faults: a.Reply.Faults,
			done: []taskDone{{task: engine.TaskScheduleReconciliation, count: int64(len(overlooked))}},
		}
	}
	return results
}
