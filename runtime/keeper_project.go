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
	return &round{
		duties: []Duty{DutyFlowProjection}, family: enginecore.FlowFamily, every: projectEvery, mends: true,
		signs: func(p enginecore.Partition) []string { return []string{k.session.core.Keys().IndexFlowIndex(p)} },
		step: inPages(k, pace{page: projectPace, search: projectSearch, pass: projectPace},
			func(p enginecore.Partition, limit int64, cursor string) enginecore.ProjectFlowsCall {
				return enginecore.ProjectFlowsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginecore.ProjectFlowsReply) (page, error) {
				return page{next: r.NextCursor, done: dutyDone{duty: DutyFlowProjection, count: r.Projected}, found: r.Unmanaged > 0}, nil
			}),
	}
}
