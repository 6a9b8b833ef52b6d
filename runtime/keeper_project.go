package runtime

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// projectPace is how often the summaries of flows are brought up to date that were made call by call.
	projectPace = 15 * time.Second
	// projectSearch is the pause between two pages of flows without any of those.
	projectSearch = time.Minute
	// projectEvery is how long a partition is left alone that has none of them.
	projectEvery = 10 * time.Minute
)

// projectRound counts the members of flows that were made call by call.
func (k *Keeper) projectRound() *round {
	at := newCursors()
	// found tells in which partitions the pass under way has seen flows of that kind.
	found := make(map[enginecore.Partition]bool)
	return &round{
		duties: []Duty{DutyFlowProjection}, family: enginecore.FlowFamily, every: projectEvery, mends: true,
		signs: func(p enginecore.Partition) []string { return []string{k.engine.core.Keys().IndexFlowIndex(p)} },
		step: func(ctx context.Context, partitions []enginecore.Partition, only Duty) []outcome {
			byHand := only != ""
			calls := make([]enginecore.ProjectFlowsCall, len(partitions))
			for i, p := range partitions {
				calls[i] = enginecore.ProjectFlowsCall{Partition: p, Limit: pageSize(byHand), Cursor: at.get(p)}
			}
			answers, _ := sendAll(ctx, k.engine.core, calls) // each answer has its error
			outcomes := make([]outcome, len(partitions))
			for i, a := range answers {
				if outcomes[i].err = a.err; a.err != nil {
					continue
				}
				p := partitions[i]
				found[p] = found[p] || a.reply.Unmanaged > 0
				outcomes[i].done = []dutyDone{{duty: DutyFlowProjection, count: a.reply.Projected}}
				outcomes[i].more, _ = at.moved(p, a.reply.NextCursor, projectPace, byHand)
				switch {
				case found[p]:
					outcomes[i].next = projectPace
				case a.reply.NextCursor != "":
					outcomes[i].next = projectSearch
				}
				if a.reply.NextCursor == "" {
					delete(found, p)
				}
			}
			return outcomes
		},
	}
}
