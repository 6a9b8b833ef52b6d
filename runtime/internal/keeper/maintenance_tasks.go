package keeper

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// How often partitions are looked at.
const (
	// edgesEvery is for executions that are blocked by dependencies.
	EdgesEvery = 2 * time.Minute
	// policiesEvery is for quotas and budgets that programs of the contract have created, admissionsEvery for such quotas by
	// which executions are admitted: nobody else gives their slots back.
	PoliciesEvery   = time.Minute
	admissionsEvery = 5 * time.Second
	// siblingsEvery is for groups that owe cancels. Those who dispatch them close most groups.
	SiblingsEvery = time.Minute
	// projectEvery is for partitions without flows that were made call by call, projectSearch the pause between two pages of
	// such a partition, and projectPace how often the summaries of those flows are brought up to date.
	ProjectEvery  = 10 * time.Minute
	projectSearch = time.Minute
	projectPace   = 15 * time.Second
	// minTrimPace and maxTrimPace bound the time between two looks for executions to remove, where there are any; trimPauses is
	// how many times longer a partition is left alone that has nothing but managed flows.
	minTrimPace = 100 * time.Millisecond
	MaxTrimPace = 10 * time.Minute
	TrimPauses  = 6
	// minCompactPause and maxCompactPause bound the time between two looks for runs that can be made smaller.
	minCompactPause = 100 * time.Millisecond
	MaxCompactPause = time.Minute
)

// countedWhole is the size of the largest runs whose members a step of taskIndexReconciliation counts in one go.
const countedWhole = 2000

// maintenanceLoops returns the loops that need the maintenance calls of the library.
func (k *Keeper) maintenanceLoops() []*MaintenanceLoop {
	loops := []*MaintenanceLoop{
		k.quotaLoop(), k.budgetLoop(), k.edgesLoop(), k.indexLoop(), k.membersLoop(), k.orphanLoop(), k.trimLoop(), k.projectLoop(),
		k.siblingsLoop(), k.budgetPoliciesLoop(), k.admissionsLoop(), k.schedulesLoop(), k.restartLoop(),
	}
	if k.CompactAfter >= 0 {
		loops = append(loops, k.compactLoop())
	}
	return loops
}

// hint returns a hint of one key.
func hint(key func(enginecore.Partition) string) func(enginecore.Partition) []string {
	return func(p enginecore.Partition) []string { return []string{key(p)} }
}

// executionHints are keys that a partition with flows, executions or schedules has.
func (k *Keeper) executionHints(p enginecore.Partition) []string {
	keys := k.Session.Core.Keys()
	return []string{keys.IndexAllExecutions(p), keys.IndexFlowIndex(p), keys.FfxLanes(p), keys.FfxSchedules(p)}
}

// edgesLoop resolves edges whose upstream has ended without it.
func (k *Keeper) edgesLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskDependencyReconciliation}, family: enginecore.FlowFamily, Every: EdgesEvery, repairs: true, hintKeys: k.executionHints,
		Step: inPages(k, evenPace(EdgesEvery),
			func(p enginecore.Partition, _ int64, cursor string) enginerpc.ReconcileEdgesCall {
				return enginerpc.ReconcileEdgesCall{Partition: p, Limit: reconciledAtOnce, Cursor: cursor, Lanes: k.Lanes}
			},
			func(_ context.Context, _ enginecore.Partition, r enginerpc.ReconcileEdgesReply) (page, error) {
				return page{next: r.NextCursor, done: taskDone{task: engine.TaskDependencyReconciliation, count: r.Resolved}}, nil
			}),
	}
}

// membersLoop counts the members of larger runs, page by page.
func (k *Keeper) membersLoop() *MaintenanceLoop {
	every := k.ReconcileEvery
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskMemberReconciliation}, family: enginecore.FlowFamily, Every: every, repairs: true,
		hintKeys: hint(k.Session.Core.Keys().IndexFlowIndex),
		Step: inPages(k, pace{page: every / (6 * stepsPerTurn), search: every / stepsPerTurn, pass: every},
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.CountMembersCall {
				return enginerpc.CountMembersCall{Partition: p, Limit: limit, MoreThan: countedWhole, Cursor: cursor}
			},
			func(ctx context.Context, p enginecore.Partition, r enginerpc.CountMembersReply) (page, error) {
				mended := k.logMended(ctx, p, r.Mended)
				return page{
					next: r.NextCursor, done: taskDone{task: engine.TaskMemberReconciliation, count: sumOf(mended)}, found: r.Large > 0, mended: mended,
				}, nil
			}),
	}
}

// trimLoop removes executions outside managed flows that have been kept long enough.
func (k *Keeper) trimLoop() *MaintenanceLoop {
	keep := k.RetainExecutions
	often := min(max(keep/8, minTrimPace), MaxTrimPace)
	if keep < 0 {
		keep, often = -time.Millisecond, MaxTrimPace // the engine counts in milliseconds
	}
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskExecutionRetention}, family: enginecore.FlowFamily, Every: TrimPauses * often, repairs: true,
		hintKeys: k.executionHints,
		Step: inPages(k, pace{page: often / stepsPerTurn, search: often / stepsPerTurn, pass: often},
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.TrimCall {
				return enginerpc.TrimCall{Partition: p, Limit: limit, Keep: keep, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginerpc.TrimReply) (page, error) {
				return page{next: r.NextCursor, done: taskDone{engine.TaskExecutionRetention, r.Trimmed + r.Flows, r.Lag}, found: r.Unmanaged > 0}, nil
			}),
	}
}

// projectLoop counts the members of flows that were made call by call.
func (k *Keeper) projectLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskFlowProjection}, family: enginecore.FlowFamily, Every: ProjectEvery, repairs: true,
		hintKeys: hint(k.Session.Core.Keys().IndexFlowIndex),
		Step: inPages(k, pace{page: projectPace, search: projectSearch, pass: projectPace},
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.ProjectFlowsCall {
				return enginerpc.ProjectFlowsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginerpc.ProjectFlowsReply) (page, error) {
				return page{next: r.NextCursor, done: taskDone{task: engine.TaskFlowProjection, count: r.Projected}, found: r.Unmanaged > 0}, nil
			}),
	}
}

// siblingsLoop closes groups whose siblings have ended without being cancelled, and removes entries that mean nothing.
func (k *Keeper) siblingsLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskSiblingCancelReconciliation}, family: enginecore.FlowFamily, Every: SiblingsEvery, repairs: true,
		hintKeys: hint(k.Session.Core.Keys().IndexPendingCancelGroups),
		Step: inPages(k, evenPace(SiblingsEvery),
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.ReconcileSiblingsCall {
				return enginerpc.ReconcileSiblingsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginerpc.ReconcileSiblingsReply) (page, error) {
				return page{next: r.NextCursor, done: taskDone{task: engine.TaskSiblingCancelReconciliation, count: r.Closed + r.Stale}}, nil
			}),
	}
}

// budgetPoliciesLoop notes which budgets of other programs are used up.
func (k *Keeper) budgetPoliciesLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskBudgetReconciliation}, family: enginecore.BudgetFamily, Every: PoliciesEvery, repairs: true,
		hintKeys: hint(k.Session.Core.Keys().IndexBudgetPolicies),
		Step: inPages(k, evenPace(PoliciesEvery),
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.ReconcileBudgetsCall {
				return enginerpc.ReconcileBudgetsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginerpc.ReconcileBudgetsReply) (page, error) {
				return page{next: r.NextCursor, done: taskDone{task: engine.TaskBudgetReconciliation, count: r.Mended}}, nil
			}),
	}
}

// admissionsLoop takes back what quotas of other programs have admitted and what does not run any more.
func (k *Keeper) admissionsLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskQuotaReconciliation}, family: enginecore.QuotaFamily, Every: PoliciesEvery, repairs: true,
		hintKeys: hint(k.Session.Core.Keys().IndexQuotaPolicies),
		Step: inPages(k, pace{page: admissionsEvery, search: PoliciesEvery / stepsPerTurn, pass: admissionsEvery},
			func(p enginecore.Partition, limit int64, cursor string) enginerpc.ReconcileQuotasCall {
				return enginerpc.ReconcileQuotasCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(ctx context.Context, p enginecore.Partition, r enginerpc.ReconcileQuotasReply) (page, error) {
				dropped, err := k.dropAdmissions(ctx, p, r.Admitted)
				return page{next: r.NextCursor, done: taskDone{task: engine.TaskQuotaReconciliation, count: r.Mended + dropped}, found: len(r.Admitted) > 0}, err
			}),
	}
}

// compactLoop makes the records of ended runs smaller.
func (k *Keeper) compactLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskCompaction}, family: enginecore.FlowFamily,
		Every:    min(max(k.CompactAfter/8, minCompactPause), MaxCompactPause),
		hintKeys: hint(k.Session.Core.Keys().FfxClosedFlows),
		Step: func(ctx context.Context, partitions []enginecore.Partition, _ engine.TaskID) []StepResult {
			calls := make([]enginerpc.CompactCall, len(partitions))
			for i, p := range partitions {
				calls[i] = enginerpc.CompactCall{Partition: p, Age: k.CompactAfter}
			}
			replies, _ := engine.SendAll(ctx, k.maintenance, calls) // each result has its error
			results := make([]StepResult, len(partitions))
			for i, r := range replies {
				results[i] = StepResult{Err: r.Err, more: r.Reply.More, done: []taskDone{{task: engine.TaskCompaction, count: r.Reply.Compacted}}}
			}
			return results
		},
	}
}
