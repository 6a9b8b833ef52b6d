package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// maxStepsByHand bounds the steps of RunTask in one partition, in case the work never ends.
const maxStepsByHand = 1_000_000

// TaskReport is the result of RunTask. The public DutyReport documents its meaning.
type TaskReport struct {
	// Partitions counts the visited partitions, Steps the steps in all of them.
	Partitions, Steps int
	Done              int64
	// Lag is how late the latest item was, by the engine's clock.
	Lag time.Duration
	// Remaining counts the partitions in which work is left or may be left.
	Remaining int
	// Repaired counts repaired entries by index; nil if there were none.
	Repaired map[string]int64
	Took     time.Duration
}

// RunTask carries out one task in all partitions until none of it is due, whether the keeper runs or not. The error
// joins those of the partitions and of ctx; it wraps engine.ErrUnknownDuty for a task that the backend does not have.
func (k *Keeper) RunTask(ctx context.Context, task engine.TaskID) (report TaskReport, err error) {
	// New loops start at the beginning, independent of the cursors of a running keeper.
	loops := k.newLoops()
	at := slices.IndexFunc(loops, func(l *MaintenanceLoop) bool { return slices.Contains(l.tasks, task) })
	if at < 0 {
		return report, fmt.Errorf("keeper: %w: %q is not done by this keeper", engine.ErrUnknownDuty, task)
	}
	begun := time.Now()
	todo := k.partitionsOf(loops[at])
	report.Partitions = len(todo)
	var faults []error
	for step := 0; len(todo) > 0 && step < maxStepsByHand && ctx.Err() == nil; step++ {
		var left []enginecore.Partition
		for batch := range slices.Chunk(todo, BatchSize) {
			results := k.guarded(ctx, loops[at], batch, task)
			report.Steps += len(results)
			for i, r := range results {
				report.add(task, r)
				switch {
				case r.Err != nil:
					report.Remaining++
					faults = append(faults, fmt.Errorf("keeper: %s in partition %s: %w", task, batch[i].Tag(), r.Err))
				case r.more:
					left = append(left, batch[i])
				}
			}
		}
		todo = left
	}
	report.Remaining += len(todo)
	report.Took = time.Since(begun)
	return report, errors.Join(append(faults, ctx.Err())...)
}

// add counts the result of one step.
func (r *TaskReport) add(task engine.TaskID, result StepResult) {
	for index, n := range result.repaired {
		if r.Repaired == nil {
			r.Repaired = make(map[string]int64)
		}
		r.Repaired[index] += n
	}
	for _, d := range result.done {
		if d.task == task {
			r.Done += d.count
			r.Lag = max(r.Lag, d.lag)
		}
	}
}
