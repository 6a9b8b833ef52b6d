package keeper

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// maintainer makes the maintenance loops of a keeper. Its methods are the steps of the loops; it has the fields of the
// keeper that they need.
type maintainer struct {
	Config
	Session   *engine.Session
	intervals engine.Intervals
	// maintenance makes the maintenance calls of the library; nil in contract mode, where the scanners of the server do
	// that work.
	maintenance engine.Library
	quotas      admission.Admitter
}

func newMaintainer(s *engine.Session, config Config) *maintainer {
	m := &maintainer{Config: config, Session: s, intervals: s.Intervals, quotas: admission.Admitter{Session: s}}
	m.maintenance, _ = s.Library("maintenance")
	return m
}

// countedWhole is the size of the largest run whose members one step of index reconciliation counts at once.
// membersLoop counts larger runs in pages.
const countedWhole = 2000

// hint returns a hintKeys function for a single key.
func hint(key func(keyspace.Partition) string) func(context.Context, keyspace.Partition) []string {
	return func(_ context.Context, p keyspace.Partition) []string { return []string{key(p)} }
}

// executionHints returns keys of which a partition with flows, executions or schedules has at least one.
func (m *maintainer) executionHints(_ context.Context, p keyspace.Partition) []string {
	keys := m.Session.Core.Keys()
	return []string{
		keys.IndexAllExecutions(p), keys.IndexFlowIndex(p), keys.FfxAllRuns(p), keys.FfxLanes(p), keys.FfxSchedules(p),
	}
}

// reconcileLanes returns the configured lanes in the form of the call.
func (m *maintainer) reconcileLanes() []enginerpc.ReconcileLane {
	lanes := make([]enginerpc.ReconcileLane, len(m.Lanes))
	for i, lane := range m.Lanes {
		lanes[i].LaneID = lane
	}
	return lanes
}

// logRepaired logs repaired entries, and returns their number by index; nil if there were none.
func (m *maintainer) logRepaired(
	ctx context.Context, p keyspace.Partition, list []enginerpc.RepairedIndex,
) map[string]int64 {
	if len(list) == 0 {
		return nil
	}
	repaired := make(map[string]int64, len(list))
	for _, r := range list {
		repaired[r.Index] = r.Entries
	}
	m.Session.Logger.LogAttrs(ctx, slog.LevelWarn,
		"flowfabric: the keeper repaired indexes that disagreed with the records",
		observe.EventIndexRepaired.Attr(), slog.String("partition", p.Tag()), slog.Any("entries", repaired))
	return repaired
}

func sumOf(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// quotaLoop maintains limits: it promotes waiting executions when a rate admits more of them, and returns the permits
// of executions that no longer run.
func (m *maintainer) quotaLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskQuota}, family: keyspace.QuotaFamily, Every: m.sweepEvery(), wakesOnDue: true,
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
