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
	pace := min(max(keep/8, minTrimPace), maxTrimPace)
	if keep < 0 {
		keep, pace = -time.Millisecond, maxTrimPace // the engine counts in milliseconds
	}
	at := newCursors()
	// found tells in which partitions the pass under way has seen executions that belong to no managed flow.
	found := make(map[enginecore.Partition]bool)
	return &round{
		duties: []Duty{DutyExecutionRetention}, family: enginecore.FlowFamily, every: trimPauses * pace, mends: true,
		signs: k.executionSigns,
		step: func(ctx context.Context, partitions []enginecore.Partition, only Duty) []outcome {
			byHand := only != ""
			calls := make([]enginecore.TrimCall, len(partitions))
			for i, p := range partitions {
				calls[i] = enginecore.TrimCall{Partition: p, Limit: pageSize(byHand), Keep: keep, Cursor: at.get(p)}
			}
			answers, _ := sendAll(ctx, k.engine.core, calls) // each answer has its error
			outcomes := make([]outcome, len(partitions))
			for i, a := range answers {
				if outcomes[i].err = a.err; a.err != nil {
					continue
				}
				p := partitions[i]
				found[p] = found[p] || a.reply.Unmanaged > 0
				outcomes[i].more, outcomes[i].next = at.moved(p, a.reply.NextCursor, pace, byHand)
				outcomes[i].done = []dutyDone{{DutyExecutionRetention, a.reply.Trimmed + a.reply.Flows, a.reply.Lag}}
				if a.reply.NextCursor == "" {
					if found[p] {
						outcomes[i].next = pace
					}
					delete(found, p)
				}
			}
			return outcomes
		},
	}
}

// pageSize bounds the records that one step of a reconciliation looks at.
func pageSize(byHand bool) int64 {
	if byHand {
		return reconciledByHand
	}
	return reconciledAtOnce
}
