package runtime

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// DefaultRetainExecutions is how long keepers keep executions outside managed flows after their end, unless RetainExecutions
// or the execution's own policy says otherwise.
const DefaultRetainExecutions = 24 * time.Hour

// RetainExecutions is how long executions that belong to no managed flow are kept after their end, with payload, result,
// attempts, streams and all else that belongs to them: those that ff_create_execution or package admin has created. The
// retention_ttl_ms of the stream_policy in an execution's policy goes before. Runs have flow.Retention instead. Defaults to
// DefaultRetainExecutions; a negative time keeps those for ever whose policy says nothing. Without effect in contract mode.
func RetainExecutions(d time.Duration) KeeperOption {
	return func(k *Keeper) { k.retainExecutions = d }
}

const (
	// minTrimPace and maxTrimPace bound the time between two looks for executions to remove, where there are any.
	minTrimPace = 100 * time.Millisecond
	maxTrimPace = 10 * time.Minute
	// trimPauses is how many times longer a partition is left alone that has nothing but managed flows.
	trimPauses = 6
)

// trimRound removes executions outside managed flows that have been kept long enough.
func (k *Keeper) trimRound() *round {
	keep := k.retainExecutions
	often := min(max(keep/8, minTrimPace), maxTrimPace)
	if keep < 0 {
		keep, often = -time.Millisecond, maxTrimPace // the engine counts in milliseconds
	}
	return &round{
		duties: []Duty{DutyExecutionRetention}, family: enginecore.FlowFamily, every: trimPauses * often, mends: true,
		signs: k.executionSigns,
		step: inPages(k, pace{page: often / stepsPerRound, search: often / stepsPerRound, pass: often},
			func(p enginecore.Partition, limit int64, cursor string) enginecore.TrimCall {
				return enginecore.TrimCall{Partition: p, Limit: limit, Keep: keep, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginecore.TrimReply) (page, error) {
				return page{next: r.NextCursor, done: dutyDone{DutyExecutionRetention, r.Trimmed + r.Flows, r.Lag}, found: r.Unmanaged > 0}, nil
			}),
	}
}
