package keeper

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// MaintenanceLoop visits the partitions of one family, for one keeper task or for several that one call carries
// out. Its timer decides which partitions are visited when.
type MaintenanceLoop struct {
	tasks  []engine.TaskID
	family keyspace.Family
	// Every is the longest time between two visits of an owned partition.
	Every time.Duration
	// repairs marks a loop that searches for inconsistencies. Its first visits are spread over Every, so that a
	// starting keeper does not read all records at once.
	repairs bool
	// engineWide marks a loop that works on the engine as a whole: it visits the first partition only.
	engineWide bool
	// onClockSetBack marks a loop whose next visit is due at once when a server's clock is set back.
	onClockSetBack bool
	// wakesOnDue marks a loop whose next visit of a partition is advanced by due messages.
	wakesOnDue bool
	// Step performs a bounded part of the due work in some partitions and returns their results in the same order.
	// `only` restricts it to one task, for RunTask; empty is all tasks of the loop.
	Step func(ctx context.Context, partitions []keyspace.Partition, only engine.TaskID) []StepResult

	// hintKeys returns keys of a partition of which at least one exists if the loop has work there. Nil means that
	// each visit calls Step.
	hintKeys func(ctx context.Context, p keyspace.Partition) []string

	Timer *PartitionTimer
	// filled are the partitions in which a hint key existed lately, with the number of further visits that call Step
	// without a check of hint keys; nil makes each visit check them.
	filled map[keyspace.Partition]int
	// noteRestart is called when a tick reports that the records of a partition have not been reconciled since their
	// server started; nil for all loops but the one that reconciles them.
	noteRestart func(ctx context.Context, p keyspace.Partition, needed bool)
}

// StepResult is the result of a step in one partition.
type StepResult struct {
	Err error
	Now time.Time // by the engine's clock; zero if the answer has none
	// ReceivedAt is the local time at which the engine's answer arrived, from which Next counts; zero means the end of
	// the step.
	ReceivedAt time.Time
	done       []taskDone
	// more reports that the partition is due again at once. Otherwise Next is the time until its next due item; 0
	// leaves the partition until the loop's next regular visit.
	more bool
	Next time.Duration
	// siblings counts upstreams that joins did not need, by their disposition.
	siblings []enginerpc.SiblingCount
	// dispatched counts cancels of such upstreams by the reason of the join, reconciled the groups with open cancels by
	// action.
	dispatched []enginerpc.SiblingDispatch
	reconciled map[string]int64
	// repaired counts repaired entries by index.
	repaired map[string]int64
	// faults are the items that could not be worked on. They are put off, and the step has worked on the others.
	faults []enginerpc.ItemFault
	// unchecked is checkDone, checkBegun or checkNeeded: whether the records of the partition have been reconciled
	// since its server started.
	unchecked int64
}

// taskDone is the number of items of one task that a step has worked on, and how late the latest of them was.
type taskDone struct {
	task  engine.TaskID
	count int64
	lag   time.Duration
}

// untilDue returns the time from now to at, at least 1 ns; 0 if at is zero.
func untilDue(now, at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), time.Nanosecond)
}

// failedEverywhere returns the results of a step that failed in each of its partitions.
func failedEverywhere(count int, err error) []StepResult {
	results := make([]StepResult, count)
	for i := range results {
		results[i].Err = err
	}
	return results
}
