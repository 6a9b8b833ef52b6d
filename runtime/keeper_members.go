package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// countedWhole is the size of the largest runs whose members a step of DutyIndexReconciliation counts in one go.
const countedWhole = 2000

// membersRound counts the members of larger runs, page by page.
func (k *Keeper) membersRound() *round {
	every := k.reconcileEvery
	return &round{
		duties: []Duty{DutyMemberReconciliation}, family: enginecore.FlowFamily, every: every, mends: true,
		signs: func(p enginecore.Partition) []string { return []string{k.session.core.Keys().IndexFlowIndex(p)} },
		step: inPages(k, pace{page: every / (6 * stepsPerRound), search: every / stepsPerRound, pass: every},
			func(p enginecore.Partition, limit int64, cursor string) enginecore.CountMembersCall {
				return enginecore.CountMembersCall{Partition: p, Limit: limit, MoreThan: countedWhole, Cursor: cursor}
			},
			func(ctx context.Context, p enginecore.Partition, r enginecore.CountMembersReply) (page, error) {
				mended := k.tellMended(ctx, p, r.Mended)
				return page{
					next: r.NextCursor, done: dutyDone{duty: DutyMemberReconciliation, count: sumOf(mended)}, found: r.Large > 0, mended: mended,
				}, nil
			}),
	}
}
