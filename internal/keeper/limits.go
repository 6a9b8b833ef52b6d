package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// quotaLoop maintains limits: it promotes waiting executions when a rate admits more of them, and returns the permits
// of executions that no longer run.
func (m *maintainer) quotaLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskQuota}, family: keyspace.QuotaFamily, Every: m.sweepEvery(), hearsDue: true,
		Step: func(ctx context.Context, partitions []keyspace.Partition, _ engine.TaskID) []StepResult {
			calls := make([]enginerpc.QuotaTickCall, len(partitions))
			for i, p := range partitions {
				calls[i] = enginerpc.QuotaTickCall{Partition: p}
			}
			answers, _ := batching.SendAll(ctx, m.Session.Core, calls) // each answer has its error
			receivedAt := time.Now()
			results := make([]StepResult, len(partitions))
			var passing sync.WaitGroup
			for i, a := range answers {
				if results[i].Err = a.Err; a.Err == nil {
					passing.Go(func() {
						results[i] = m.completeTick(ctx, a.Reply)
						results[i].ReceivedAt = receivedAt
					})
				}
			}
			passing.Wait()
			return results
		},
	}
}

// completeTick applies the permits that a tick granted, and returns when the partition is due again.
func (m *maintainer) completeTick(ctx context.Context, reply enginerpc.QuotaTickReply) StepResult {
	o := StepResult{Now: reply.Now, Next: untilDue(reply.Now, reply.NextDueAt), faults: reply.Faults}
	o.more = o.Next > 0 && !reply.NextDueAt.After(reply.Now)
	if len(reply.Granted) == 0 && len(reply.Checks) == 0 && len(reply.Blocks) == 0 {
		return o
	}
	m.quotas.CompleteTick(ctx, reply)
	o.done = []taskDone{{task: engine.TaskQuota, count: int64(len(reply.Granted) + len(reply.Checks))}}
	return o
}
