package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// maxStepsByHand bounds the steps of RunTask in one partition, in case the work never ends.
const maxStepsByHand = 1_000_000

// RunTask performs one task, given by its name or by the name of a scanner of the contract, in all partitions until
// none of it is due, whether the keeper runs or not. The error joins the errors of the partitions and of ctx; it wraps
// ErrUnknownTask for a task that does not exist or that the backend does not have.
func (k *Keeper) RunTask(ctx context.Context, name string) (TaskReport, error) {
	task, err := k.parseTask(name)
	if err != nil {
		return TaskReport{Task: name}, fmt.Errorf("keeper: %w", err)
	}
	report := TaskReport{Task: string(task)}
	// New loops start at the beginning, independent of the cursors of a running keeper.
	loops := k.newLoops()
	at := slices.IndexFunc(loops, func(l *MaintenanceLoop) bool { return slices.Contains(l.tasks, task) })
	if at < 0 {
		return report, fmt.Errorf("keeper: %w: %q is not done by this keeper", ErrUnknownTask, task)
	}
	begun := time.Now()
	todo := k.partitionsOf(loops[at])
	report.Partitions = len(todo)
	var faults []error
	for step := 0; len(todo) > 0 && step < maxStepsByHand && ctx.Err() == nil; step++ {
		var left []keyspace.Partition
		for batch := range slices.Chunk(todo, BatchSize) {
			results := k.guarded(ctx, loops[at], batch, task)
			report.Steps += len(results)
			for i, r := range results {
				addStep(&report, task, r)
				for _, f := range r.faults {
					faults = append(faults, fmt.Errorf("keeper: %s in partition %s: %s: %s", f.Task, batch[i].Tag(), f.Item, f.Error))
				}
				switch {
				case r.Err != nil:
					report.Remaining++
					faults = append(faults, fmt.Errorf("keeper: %s in partition %s: %w", task, batch[i].Tag(), r.Err))
				case r.more:
					left = append(left, batch[i])
				case len(r.faults) > 0:
					report.Remaining++
				}
			}
		}
		todo = left
	}
	report.Remaining += len(todo)
	report.Took = time.Since(begun)
	return report, errors.Join(append(faults, ctx.Err())...)
}

// addStep adds the result of one step to a report.
func addStep(r *TaskReport, task engine.TaskID, result StepResult) {
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
