package runtime

import (
	"context"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// quotaLoop looks after limits: it lets waiting executions go when a rate allows more of them, and takes back the places
// of executions that do not run any more.
func (k *keeper) quotaLoop() *maintenanceLoop {
	return &maintenanceLoop{
		tasks: []taskID{taskQuota}, family: enginecore.QuotaFamily, every: keeperSweep, hearsDue: true,
		hintKeys: func(p enginecore.Partition) []string { return []string{k.session.core.Keys().QuotaDue(p)} },
		step: func(ctx context.Context, partitions []enginecore.Partition, _ taskID) []stepResult {
			calls := make([]enginerpc.QuotaTickCall, len(partitions))
			for i, p := range partitions {
				calls[i] = enginerpc.QuotaTickCall{Partition: p}
			}
			answers, _ := sendAll(ctx, k.session.core, calls) // each answer has its error
			heard := time.Now()
			results := make([]stepResult, len(partitions))
			var passing sync.WaitGroup
			for i, a := range answers {
				if results[i].err = a.err; a.err == nil {
					passing.Go(func() {
						results[i] = k.completeTick(ctx, a.reply)
						results[i].heard = heard
					})
				}
			}
			passing.Wait()
			return results
		},
	}
}

// completeTick has the permits of a tick carried out, and says when the partition is due again.
func (k *keeper) completeTick(ctx context.Context, reply enginerpc.QuotaTickReply) stepResult {
	o := stepResult{now: reply.Now, next: untilDue(reply.Now, reply.NextDueAt)}
	o.more = o.next > 0 && !reply.NextDueAt.After(reply.Now)
	if len(reply.Granted) == 0 && len(reply.Checks) == 0 && len(reply.Blocks) == 0 {
		return o
	}
	k.quotas.completeTick(ctx, reply)
	o.done = []taskDone{{task: taskQuota, count: int64(len(reply.Granted) + len(reply.Checks))}}
	return o
}
