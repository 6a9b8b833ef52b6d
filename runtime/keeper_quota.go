package runtime

import (
	"context"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// quotaRound maintains limits: it admits waiting executions when a rate allows more of them, and takes permits back from
// executions that do not run any more.
func (k *Keeper) quotaRound() *round {
	return &round{
		duties: []Duty{DutyQuota}, family: enginecore.QuotaFamily, every: keeperSweep, hears: true,
		signs: func(p enginecore.Partition) []string { return []string{k.session.core.Keys().QuotaDue(p)} },
		step: func(ctx context.Context, partitions []enginecore.Partition, _ Duty) []outcome {
			calls := make([]enginecore.QuotaTickCall, len(partitions))
			for i, p := range partitions {
				calls[i] = enginecore.QuotaTickCall{Partition: p}
			}
			answers, _ := sendAll(ctx, k.session.core, calls) // each answer has its error
			heard := time.Now()
			outcomes := make([]outcome, len(partitions))
			var passing sync.WaitGroup
			for i, a := range answers {
				if outcomes[i].err = a.err; a.err == nil {
					passing.Go(func() {
						outcomes[i] = k.completeTick(ctx, a.reply)
						outcomes[i].heard = heard
					})
				}
			}
			passing.Wait()
			return outcomes
		},
	}
}

// completeTick has the permits of a tick carried out, and says when the partition is due again.
func (k *Keeper) completeTick(ctx context.Context, reply enginecore.QuotaTickReply) outcome {
	o := outcome{now: reply.Now, next: untilDue(reply.Now, reply.NextDueAt)}
	o.more = o.next > 0 && !reply.NextDueAt.After(reply.Now)
	if len(reply.Granted) == 0 && len(reply.Checks) == 0 && len(reply.Blocks) == 0 {
		return o
	}
	k.quotas.completeTick(ctx, reply)
	o.done = []dutyDone{{duty: DutyQuota, count: int64(len(reply.Granted) + len(reply.Checks))}}
	return o
}
