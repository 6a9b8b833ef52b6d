package runtime

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// How often partitions are looked at.
const (
	// edgesEvery is for executions that are blocked by dependencies.
	edgesEvery = 2 * time.Minute
	// policiesEvery is for quotas and budgets that programs of the contract have created, admissionsEvery for such quotas by
	// which executions are admitted: nobody else gives their slots back.
	policiesEvery   = time.Minute
	admissionsEvery = 5 * time.Second
	// siblingsEvery is for groups that owe cancels. Those who dispatch them close most groups.
	siblingsEvery = time.Minute
	// projectEvery is for partitions without flows that were made call by call, projectSearch the pause between two pages of
	// such a partition, and projectPace how often the summaries of those flows are brought up to date.
	projectEvery  = 10 * time.Minute
	projectSearch = time.Minute
	projectPace   = 15 * time.Second
	// minTrimPace and maxTrimPace bound the time between two looks for executions to remove, where there are any; trimPauses is
	// how many times longer a partition is left alone that has nothing but managed flows.
	minTrimPace = 100 * time.Millisecond
	maxTrimPace = 10 * time.Minute
	trimPauses  = 6
	// minCompactPause and maxCompactPause bound the time between two looks for runs that can be made smaller.
	minCompactPause = 100 * time.Millisecond
	maxCompactPause = time.Minute
)

// countedWhole is the size of the largest runs whose members a step of taskIndexReconciliation counts in one go.
const countedWhole = 2000

// maintenanceLoops returns the loops that need the maintenance calls of the library.
func (k *keeper) maintenanceLoops() []*maintenanceLoop {
	loops := []*maintenanceLoop{
		k.quotaLoop(), k.budgetLoop(), k.edgesLoop(), k.indexLoop(), k.membersLoop(), k.orphanLoop(), k.trimLoop(), k.projectLoop(),
		k.siblingsLoop(), k.budgetPoliciesLoop(), k.admissionsLoop(), k.schedulesLoop(), k.restartLoop(),
	}
	if k.compactAfter >= 0 {
		loops = append(loops, k.compactLoop())
	}
	return loops
}

// hint returns a hint of one key.
func hint(key func(enginecore.Partition) string) func(enginecore.Partition) []string {
	return func(p enginecore.Partition) []string { return []string{key(p)} }
}

// executionHints are keys that a partition with flows, executions or schedules has.
func (k *keeper) executionHints(p enginecore.Partition) []string {
	keys := k.session.core.Keys()
	return []string{keys.IndexAllExecutions(p), keys.IndexFlowIndex(p), keys.FfxLanes(p), keys.FfxSchedules(p)}
}

// edgesLoop resolves edges whose upstream has ended without it.
func (k *keeper) edgesLoop() *maintenanceLoop {
	return &maintenanceLoop{
		tasks: []taskID{taskDependencyReconciliation}, family: enginecore.FlowFamily, every: edgesEvery, repairs: true, hintKeys: k.executionHints,
		step: inPages(k, evenPace(edgesEvery),
			func(p enginecore.Partition, _ int64, cursor string) enginerpc.ReconcileEdgesCall {
				return enginerpc.ReconcileEdgesCall{Partition: p, Limit: reconciledAtOnce, Cursor: cursor, Lanes: k.lanes}
			},
			func(_ context.Context, _ enginecore.Partition, r enginerpc.ReconcileEdgesReply) (page, error) {
				return page{next: r.NextCursor, done: taskDone{task: taskDependencyReconciliation, count: r.Resolved}}, nil
			}),
	}
}

// membersLoop counts the members of larger runs, page by page.
func (k *keeper) membersLoop() *maintenanceLoop {
	every := k.reconcileEvery
	return &maintenanceLoop{
		tasks: []taskID{taskMemberReconciliation}, family: enginecore.FlowFamily, every: every, repairs: true,
		hintKeys: hint(k.session.core.Keys().IndexFlowIndex),
		step: inPages(k, pace{page: every / (6 * stepsPerTurn), search: every / stepsPerTurn, pass: every},
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.CountMembersCall {
				return enginerpc.CountMembersCall{Partition: p, Limit: limit, MoreThan: countedWhole, Cursor: cursor}
			},
			func(ctx context.Context, p enginecore.Partition, r enginerpc.CountMembersReply) (page, error) {
				mended := k.logMended(ctx, p, r.Mended)
				return page{
					next: r.NextCursor, done: taskDone{task: taskMemberReconciliation, count: sumOf(mended)}, found: r.Large > 0, mended: mended,
				}, nil
			}),
	}
}

// trimLoop removes executions outside managed flows that have been kept long enough.
func (k *keeper) trimLoop() *maintenanceLoop {
	keep := k.retainExecutions
	often := min(max(keep/8, minTrimPace), maxTrimPace)
	if keep < 0 {
		keep, often = -time.Millisecond, maxTrimPace // the engine counts in milliseconds
	}
	return &maintenanceLoop{
		tasks: []taskID{taskExecutionRetention}, family: enginecore.FlowFamily, every: trimPauses * often, repairs: true,
		hintKeys: k.executionHints,
		step: inPages(k, pace{page: often / stepsPerTurn, search: often / stepsPerTurn, pass: often},
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.TrimCall {
				return enginerpc.TrimCall{Partition: p, Limit: limit, Keep: keep, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginerpc.TrimReply) (page, error) {
				return page{next: r.NextCursor, done: taskDone{taskExecutionRetention, r.Trimmed + r.Flows, r.Lag}, found: r.Unmanaged > 0}, nil
			}),
	}
}

// projectLoop counts the members of flows that were made call by call.
func (k *keeper) projectLoop() *maintenanceLoop {
	return &maintenanceLoop{
		tasks: []taskID{taskFlowProjection}, family: enginecore.FlowFamily, every: projectEvery, repairs: true,
		hintKeys: hint(k.session.core.Keys().IndexFlowIndex),
		step: inPages(k, pace{page: projectPace, search: projectSearch, pass: projectPace},
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.ProjectFlowsCall {
				return enginerpc.ProjectFlowsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginerpc.ProjectFlowsReply) (page, error) {
				return page{next: r.NextCursor, done: taskDone{task: taskFlowProjection, count: r.Projected}, found: r.Unmanaged > 0}, nil
			}),
	}
}

// siblingsLoop closes groups whose siblings have ended without being cancelled, and removes entries that mean nothing.
func (k *keeper) siblingsLoop() *maintenanceLoop {
	return &maintenanceLoop{
		tasks: []taskID{taskSiblingCancelReconciliation}, family: enginecore.FlowFamily, every: siblingsEvery, repairs: true,
		hintKeys: hint(k.session.core.Keys().IndexPendingCancelGroups),
		step: inPages(k, evenPace(siblingsEvery),
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.ReconcileSiblingsCall {
				return enginerpc.ReconcileSiblingsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginerpc.ReconcileSiblingsReply) (page, error) {
				return page{next: r.NextCursor, done: taskDone{task: taskSiblingCancelReconciliation, count: r.Closed + r.Stale}}, nil
			}),
	}
}

// budgetPoliciesLoop notes which budgets of other programs are used up.
func (k *keeper) budgetPoliciesLoop() *maintenanceLoop {
	return &maintenanceLoop{
		tasks: []taskID{taskBudgetReconciliation}, family: enginecore.BudgetFamily, every: policiesEvery, repairs: true,
		hintKeys: hint(k.session.core.Keys().IndexBudgetPolicies),
		step: inPages(k, evenPace(policiesEvery),
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.ReconcileBudgetsCall {
				return enginerpc.ReconcileBudgetsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginerpc.ReconcileBudgetsReply) (page, error) {
				return page{next: r.NextCursor, done: taskDone{task: taskBudgetReconciliation, count: r.Mended}}, nil
			}),
	}
}

// admissionsLoop takes back what quotas of other programs have admitted and what does not run any more.
func (k *keeper) admissionsLoop() *maintenanceLoop {
	return &maintenanceLoop{
		tasks: []taskID{taskQuotaReconciliation}, family: enginecore.QuotaFamily, every: policiesEvery, repairs: true,
		hintKeys: hint(k.session.core.Keys().IndexQuotaPolicies),
		step: inPages(k, pace{page: admissionsEvery, search: policiesEvery / stepsPerTurn, pass: admissionsEvery},
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.ReconcileQuotasCall {
				return enginerpc.ReconcileQuotasCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(ctx context.Context, p enginecore.Partition, r enginerpc.ReconcileQuotasReply) (page, error) {
				dropped, err := k.dropAdmissions(ctx, p, r.Admitted)
				return page{next: r.NextCursor, done: taskDone{task: taskQuotaReconciliation, count: r.Mended + dropped}, found: len(r.Admitted) > 0}, err
			}),
	}
}

// compactLoop makes the records of ended runs smaller.
func (k *keeper) compactLoop() *maintenanceLoop {
	return &maintenanceLoop{
		tasks: []taskID{taskCompaction}, family: enginecore.FlowFamily,
		every:    min(max(k.compactAfter/8, minCompactPause), maxCompactPause),
		hintKeys: hint(k.session.core.Keys().FfxClosedFlows),
		step: func(ctx context.Context, partitions []enginecore.Partition, _ taskID) []stepResult {
			calls := make([]enginerpc.CompactCall, len(partitions))
			for i, p := range partitions {
				calls[i] = enginerpc.CompactCall{Partition: p, Age: k.compactAfter}
			}
			replies, _ := sendAll(ctx, k.maintenance, calls) // each result has its error
			results := make([]stepResult, len(partitions))
			for i, r := range replies {
				results[i] = stepResult{err: r.err, more: r.reply.More, done: []taskDone{{task: taskCompaction, count: r.reply.Compacted}}}
			}
			return results
		},
	}
}
