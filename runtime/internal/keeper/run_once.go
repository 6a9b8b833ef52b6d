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

// maxStepsByHand bounds the steps that runTask takes in one partition, in case it never comes to an end.
const maxStepsByHand = 1_000_000

// taskReport is what runTask has done.
type taskReport struct {
	// partitions counts those that were looked at, steps the looks.
	Partitions, Steps int
	Done              int64
	// lag is how late the latest item was, by the engine's clock.
	Lag time.Duration
	// remaining counts partitions where more is to do, or may be.
	Remaining int
	// mended counts entries that were not in order by index.
	Mended map[string]int64
	Took   time.Duration
}

// runTask does one task on all partitions until nothing of it is left to do for now, whether the keeper runs or not. The error
// is ErrUnknownDuty for a task that the engine's backend does not have.
func (k *Keeper) RunTask(ctx context.Context, task engine.TaskID) (report taskReport, err error) {
	// Loops of their own begin at the beginning, wherever those of a running keeper are.
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
		for batch := range slices.Chunk(todo, KeeperBatch) {
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

func (r *taskReport) add(task engine.TaskID, result StepResult) {
	for index, n := range result.mended {
		if r.Mended == nil {
			r.Mended = make(map[string]int64)
		}
		r.Mended[index] += n
	}
	for _, d := range result.done {
		if d.task == task {
			r.Done += d.count
			r.Lag = max(r.Lag, d.lag)
		}
	}
}
