package runtime

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// siblingsEvery is how often groups are looked at that owe cancels. Those who dispatch them close most groups.
const siblingsEvery = time.Minute

// siblingsRound closes groups whose siblings have ended without being cancelled, and takes entries away that mean nothing.
func (k *Keeper) siblingsRound() *round {
	return &round{
		duties: []Duty{DutySiblingCancelReconciliation}, family: enginecore.FlowFamily, every: siblingsEvery, mends: true,
		signs: func(p enginecore.Partition) []string {
			return []string{k.session.core.Keys().IndexPendingCancelGroups(p)}
		},
		step: inPages(k, evenPace(siblingsEvery),
			func(p enginecore.Partition, limit int64, cursor string) enginecore.ReconcileSiblingsCall {
				return enginecore.ReconcileSiblingsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginecore.ReconcileSiblingsReply) (page, error) {
				return page{next: r.NextCursor, done: dutyDone{duty: DutySiblingCancelReconciliation, count: r.Closed + r.Stale}}, nil
			}),
	}
}
