package runtime

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Pauses between two looks for runs that can be made smaller.
const (
	minCompactPause = 100 * time.Millisecond
	maxCompactPause = time.Minute
)

// compactRound makes the records of ended runs smaller.
func (k *Keeper) compactRound() *round {
	return &round{
		duties: []Duty{DutyCompaction}, family: enginecore.FlowFamily,
		every: min(max(k.compactAfter/8, minCompactPause), maxCompactPause),
		signs: func(p enginecore.Partition) []string { return []string{k.session.core.Keys().FfxClosedFlows(p)} },
		step: func(ctx context.Context, partitions []enginecore.Partition, _ Duty) []outcome {
			calls := make([]enginecore.CompactCall, len(partitions))
			for i, p := range partitions {
				calls[i] = enginecore.CompactCall{Partition: p, Age: k.compactAfter}
			}
			answers, _ := sendAll(ctx, k.session.core, calls) // each answer has its error
			outcomes := make([]outcome, len(partitions))
			for i, a := range answers {
				outcomes[i] = outcome{err: a.err, more: a.reply.More, done: []dutyDone{{duty: DutyCompaction, count: a.reply.Compacted}}}
			}
			return outcomes
		},
	}
}
