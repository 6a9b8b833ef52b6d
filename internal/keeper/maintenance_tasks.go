package keeper

import (
	"context"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Intervals of the loops.
const (
	// EdgesEvery is the interval of the search for unresolved edges of ended upstreams.
	EdgesEvery = 2 * time.Minute
	// PoliciesEvery is the interval at which quotas and budgets that other programs of the contract created are
	// reconciled. admissionsEvery applies to partitions with quotas under which executions are admitted: no other
	// component returns their slots.
	PoliciesEvery   = time.Minute
	admissionsEvery = 5 * time.Second
	// SiblingsEvery is the interval at which edge groups with owed cancels are reconciled. The programs that dispatch
	// those cancels close most groups themselves.
	SiblingsEvery = time.Minute
	// ProjectEvery is the interval for partitions without flows that were created call by call, projectSearch the
	// pause between two pages of such a partition, and projectPace the interval at which the summaries of those flows
	// are updated.
	ProjectEvery  = 10 * time.Minute
	projectSearch = time.Minute
	projectPace   = 15 * time.Second
	// minTrimPace and MaxTrimPace bound the interval at which a partition with unmanaged executions is searched for
	// expired ones. TrimPauses is the factor by which the interval of a partition with managed flows alone is longer.
	minTrimPace = 100 * time.Millisecond
	// MaxTrimPace is the upper bound of the interval of trimming.
	MaxTrimPace = 10 * time.Minute
	// TrimPauses is the factor for partitions without unmanaged executions.
	TrimPauses = 6
)

// maintenanceLoops returns the loops that need the maintenance calls of the library.
func (m *maintainer) maintenanceLoops() []*MaintenanceLoop {
	return []*MaintenanceLoop{
		m.quotaLoop(), m.budgetLoop(), m.edgesLoop(), m.indexLoop(), m.membersLoop(), m.orphanLoop(), m.trimLoop(),
		m.projectLoop(),
		m.siblingsLoop(), m.budgetPoliciesLoop(), m.admissionsLoop(), m.schedulesLoop(), m.restartLoop(),
	}
}

// edgesLoop resolves edges whose upstream has ended without resolving them.
func (m *maintainer) edgesLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskDependencyReconciliation}, family: keyspace.FlowFamily, Every: EdgesEvery,
		repairs: true, hintKeys: m.executionHints,
		Step: inPages(m.maintenance, evenPace(EdgesEvery),
			func(p keyspace.Partition, _ int64, cursor string) enginerpc.ReconcileEdgesCall {
				return enginerpc.ReconcileEdgesCall{
					Partition: p, Limit: reconciledAtOnce, Cursor: cursor, Lanes: m.Lanes,
				}
			},
			func(_ context.Context, _ keyspace.Partition, r enginerpc.ReconcileEdgesReply) (page, error) {
				return page{next: r.NextCursor, faults: r.Faults,
					done: taskDone{task: engine.TaskDependencyReconciliation, count: r.Resolved}}, nil
			}),
	}
}

// membersLoop counts the members of runs larger than countedWhole, page by page.
func (m *maintainer) membersLoop() *MaintenanceLoop {
	every := m.ReconcileEvery
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskMemberReconciliation}, family: keyspace.FlowFamily, Every: every,
		repairs:  true,
		hintKeys: hint(m.Session.Core.Keys().FfxAllRuns),
		Step: inPages(m.maintenance, pace{page: every / (6 * stepsPerTurn), search: every / stepsPerTurn, pass: every},
			func(p keyspace.Partition, limit int64, cursor string) enginerpc.CountMembersCall {
				return enginerpc.CountMembersCall{Partition: p, Limit: limit, MoreThan: countedWhole, Cursor: cursor}
			},
			func(ctx context.Context, p keyspace.Partition, r enginerpc.CountMembersReply) (page, error) {
				repaired := m.logRepaired(ctx, p, r.Repaired)
				return page{
					next: r.NextCursor, faults: r.Faults,
					done:  taskDone{task: engine.TaskMemberReconciliation, count: sumOf(repaired)},
					found: r.Large > 0, repaired: repaired,
				}, nil
			}),
	}
}

// trimLoop removes executions outside managed flows whose retention is over.
func (m *maintainer) trimLoop() *MaintenanceLoop {
	keep := m.RetainExecutions
	often := min(max(keep/8, minTrimPace), MaxTrimPace)
	if keep < 0 {
		keep, often = -time.Millisecond, MaxTrimPace // the engine counts in milliseconds
	}
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskExecutionRetention}, family: keyspace.FlowFamily, Every: TrimPauses * often,
		repairs:  true,
		hintKeys: m.executionHints,
		Step: inPages(m.maintenance, pace{page: often / stepsPerTurn, search: often / stepsPerTurn, pass: often},
			func(p keyspace.Partition, limit int64, cursor string) enginerpc.TrimCall {
				return enginerpc.TrimCall{Partition: p, Limit: limit, Keep: keep, Cursor: cursor}
			},
			func(_ context.Context, _ keyspace.Partition, r enginerpc.TrimReply) (page, error) {
				return page{next: r.NextCursor, faults: r.Faults,
					done:  taskDone{engine.TaskExecutionRetention, r.Trimmed + r.Flows, r.Lag},
					found: r.Unmanaged > 0}, nil
			}),
	}
}

// projectLoop updates the summaries of flows that were created call by call.
func (m *maintainer) projectLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskFlowProjection}, family: keyspace.FlowFamily, Every: ProjectEvery,
		repairs:  true,
		hintKeys: hint(m.Session.Core.Keys().IndexFlowIndex),
		Step: inPages(m.maintenance, pace{page: projectPace, search: projectSearch, pass: projectPace},
			func(p keyspace.Partition, limit int64, cursor string) enginerpc.ProjectFlowsCall {
				return enginerpc.ProjectFlowsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ keyspace.Partition, r enginerpc.ProjectFlowsReply) (page, error) {
				return page{next: r.NextCursor, faults: r.Faults,
					done:  taskDone{task: engine.TaskFlowProjection, count: r.Projected},
					found: r.Unmanaged > 0}, nil
			}),
	}
}

// siblingsLoop closes edge groups whose siblings have ended without being cancelled, and removes stale entries.
func (m *maintainer) siblingsLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskSiblingCancelReconciliation}, family: keyspace.FlowFamily,
		Every: SiblingsEvery, repairs: true,
		hintKeys: hint(m.Session.Core.Keys().IndexPendingCancelGroups),
		Step: inPages(m.maintenance, evenPace(SiblingsEvery),
			func(p keyspace.Partition, limit int64, cursor string) enginerpc.ReconcileSiblingsCall {
				return enginerpc.ReconcileSiblingsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ keyspace.Partition, r enginerpc.ReconcileSiblingsReply) (page, error) {
				return page{next: r.NextCursor, faults: r.Faults,
					done: taskDone{task: engine.TaskSiblingCancelReconciliation, count: r.Closed + r.Stale},
					reconciled: map[string]int64{
						"completed_drain": r.Closed, "sremmed_stale": r.Stale, "no_op": r.Owing,
					}}, nil
			}),
	}
}

// budgetPoliciesLoop updates which budgets of other programs are exhausted.
func (m *maintainer) budgetPoliciesLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskBudgetReconciliation}, family: keyspace.BudgetFamily, Every: PoliciesEvery,
		repairs:  true,
		hintKeys: hint(m.Session.Core.Keys().IndexBudgetPolicies),
		Step: inPages(m.maintenance, evenPace(PoliciesEvery),
			func(p keyspace.Partition, limit int64, cursor string) enginerpc.ReconcileBudgetsCall {
				return enginerpc.ReconcileBudgetsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ keyspace.Partition, r enginerpc.ReconcileBudgetsReply) (page, error) {
				return page{next: r.NextCursor, faults: r.Faults,
					done: taskDone{task: engine.TaskBudgetReconciliation, count: r.Repaired}}, nil
			}),
	}
}

// admissionsLoop drops admissions under quotas of other programs whose executions no longer run.
func (m *maintainer) admissionsLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskQuotaReconciliation}, family: keyspace.QuotaFamily, Every: PoliciesEvery,
		repairs:  true,
		hintKeys: hint(m.Session.Core.Keys().IndexQuotaPolicies),
		Step: inPages(m.maintenance, pace{
			page: admissionsEvery, search: PoliciesEvery / stepsPerTurn, pass: admissionsEvery,
		},
			func(p keyspace.Partition, limit int64, cursor string) enginerpc.ReconcileQuotasCall {
				return enginerpc.ReconcileQuotasCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(ctx context.Context, p keyspace.Partition, r enginerpc.ReconcileQuotasReply) (page, error) {
				dropped, faults, err := m.dropAdmissions(ctx, p, r.Admitted)
				return page{next: r.NextCursor, done: taskDone{task: engine.TaskQuotaReconciliation,
					count: r.Repaired + dropped}, found: len(r.Admitted) > 0,
					faults: slices.Concat(r.Faults, faults)}, err
			}),
	}
}
