package runtime

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime/internal/contractmode"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/keeper"
)

// Duty names one thing that keepers do.
type Duty string

// The duties. DutyTable tells what each of them does, and how often.
const (
	DutyDelayedPromotion            = Duty(engine.TaskDelayedPromotion)
	DutyLeaseExpiry                 = Duty(engine.TaskLeaseExpiry)
	DutyAttemptTimeout              = Duty(engine.TaskAttemptTimeout)
	DutyExecutionDeadline           = Duty(engine.TaskExecutionDeadline)
	DutyStartDeadline               = Duty(engine.TaskStartDeadline)
	DutyFlowDeadline                = Duty(engine.TaskFlowDeadline)
	DutySuspensionTimeout           = Duty(engine.TaskSuspensionTimeout)
	DutyPendingWaitpointExpiry      = Duty(engine.TaskPendingWaitpointExpiry)
	DutyPropagation                 = Duty(engine.TaskPropagation)
	DutyCancelBacklog               = Duty(engine.TaskCancelBacklog)
	DutySiblingCancelDispatch       = Duty(engine.TaskSiblingCancelDispatch)
	DutyPauseRecheck                = Duty(engine.TaskPauseRecheck)
	DutyRerun                       = Duty(engine.TaskRerun)
	DutyAdmission                   = Duty(engine.TaskAdmission)
	DutyChildRuns                   = Duty(engine.TaskChildRuns)
	DutyQuota                       = Duty(engine.TaskQuota)
	DutyBudget                      = Duty(engine.TaskBudget)
	DutyRetention                   = Duty(engine.TaskRetention)
	DutyExecutionRetention          = Duty(engine.TaskExecutionRetention)
	DutyQuotaReconciliation         = Duty(engine.TaskQuotaReconciliation)
	DutyBudgetReconciliation        = Duty(engine.TaskBudgetReconciliation)
	DutySiblingCancelReconciliation = Duty(engine.TaskSiblingCancelReconciliation)
	DutyFlowProjection              = Duty(engine.TaskFlowProjection)
	DutyCompaction                  = Duty(engine.TaskCompaction)
	DutySchedule                    = Duty(engine.TaskSchedule)
	DutyDependencyReconciliation    = Duty(engine.TaskDependencyReconciliation)
	DutyIndexReconciliation         = Duty(engine.TaskIndexReconciliation)
	DutyMemberReconciliation        = Duty(engine.TaskMemberReconciliation)
	DutyKeyReconciliation           = Duty(engine.TaskKeyReconciliation)
	DutyScheduleReconciliation      = Duty(engine.TaskScheduleReconciliation)
	DutyUnblocking                  = Duty(engine.TaskUnblocking)
)

// DutyInfo describes a duty.
type DutyInfo struct {
	Duty Duty
	// Summary says in a sentence what it does.
	Summary string
	// Contract is what the FlowFabric contract calls the scanner of this duty; ParseDuty knows that name, too. Empty for
	// duties that only this library has.
	Contract string
	// Every is how often a partition is looked at at least. What is due earlier is done when it is due, as long as
	// messages arrive.
	Every time.Duration
	// InContractMode tells that keepers in contract mode have the duty; the others are left to the server's own scanners.
	InContractMode bool
}

// DutyTable describes all duties, in the order of their names.
func DutyTable() []DutyInfo {
	table := slices.Concat(
		describeDuties(keeper.SweepEvery,
			DutyInfo{Duty: DutyDelayedPromotion, Contract: "delayed_promoter", Summary: "lets executions go whose delay or retry pause is over"},
			DutyInfo{Duty: DutyLeaseExpiry, Contract: "lease_expiry", Summary: "marks lapsed leases and offers their executions to workers"},
			DutyInfo{Duty: DutyAttemptTimeout, Contract: "attempt_timeout", Summary: "ends attempts that exceed their start-to-close timeout, to be retried"},
			DutyInfo{Duty: DutyExecutionDeadline, Contract: "execution_deadline", Summary: "ends executions that exceed their deadline"},
			DutyInfo{Duty: DutyCancelBacklog, Contract: "cancel_reconciler", Summary: "ends members of flows that are over"},
		),
		describeDuties(keeper.SweepEvery,
			DutyInfo{Duty: DutyStartDeadline, Summary: "fails nodes that found no worker within their schedule-to-start timeout"},
			DutyInfo{Duty: DutyFlowDeadline, Summary: "ends runs that exceed their deadline"},
			DutyInfo{Duty: DutyPropagation, Summary: "resolves edges that a call left for later because there were too many"},
			DutyInfo{Duty: DutySiblingCancelDispatch, Contract: "edge_cancel_dispatcher", Summary: "cancels upstreams that a join has no use for any more"},
			DutyInfo{Duty: DutySchedule, Summary: "starts the runs that schedules say are due"},
			DutyInfo{Duty: DutyPauseRecheck, Summary: "looks whether the pause is over that holds an execution"},
			DutyInfo{Duty: DutyRerun, Summary: "goes on with reruns whose caller is gone"},
			DutyInfo{Duty: DutyChildRuns, Summary: "tells nodes that the runs which they stand for are over, and ends and removes runs that no node wants"},
			DutyInfo{Duty: DutyAdmission, Summary: "takes executions through their limits that nobody else did"},
			DutyInfo{Duty: DutyRetention, Summary: "removes runs that have been kept long enough"},
		),
		describeDuties(keeper.SweepEvery,
			DutyInfo{Duty: DutySuspensionTimeout, Contract: "suspension_timeout", Summary: "ends waits whose time is over"},
			DutyInfo{Duty: DutyPendingWaitpointExpiry, Contract: "pending_wp_expiry", Summary: "closes waitpoints that nobody came to wait at"},
		),
		describeDuties(keeper.EdgesEvery,
			DutyInfo{Duty: DutyDependencyReconciliation, Contract: "dependency_reconciler", Summary: "resolves edges whose upstream has ended without it"},
		),
		describeDuties(keeper.SweepEvery,
			DutyInfo{Duty: DutyQuota, Summary: "grants what a limit has free to those that wait, and takes back places that nobody uses"},
		),
		describeDuties(keeper.SweepEvery,
			DutyInfo{Duty: DutyBudget, Contract: "budget_reset", Summary: "resets budgets, takes back what dead workers reserved, and lets nodes go that wait for one"},
		),
		describeDuties(keeper.UnblockEvery,
			DutyInfo{Duty: DutyUnblocking, Contract: "unblock", Summary: "lets executions go that other programs blocked for a budget, a quota or capabilities"},
		),
		describeDuties(DefaultReconcileEvery,
			DutyInfo{Duty: DutyIndexReconciliation, Contract: "index_reconciler", Summary: "mends indexes that do not fit the records"},
			DutyInfo{Duty: DutyKeyReconciliation, Summary: "finds records and lists among all keys that no index leads to, and mends them"},
			DutyInfo{Duty: DutyScheduleReconciliation, Summary: "goes on with schedules that the server's clock has put off because it was set back"},
			DutyInfo{Duty: DutyMemberReconciliation, Summary: "mends what runs with more than 2000 nodes count of them"},
		),
		describeDuties(keeper.TrimPauses*keeper.MaxTrimPace,
			DutyInfo{Duty: DutyExecutionRetention, Contract: "retention_trimmer", Summary: "removes executions outside managed flows that have been kept long enough"},
		),
		describeDuties(keeper.PoliciesEvery,
			DutyInfo{Duty: DutyQuotaReconciliation, Contract: "quota_reconciler", Summary: "takes back what quotas of other programs have admitted and what does not run any more"},
			DutyInfo{Duty: DutyBudgetReconciliation, Contract: "budget_reconciler", Summary: "notes which budgets of other programs are used up, and that their resets come"},
		),
		describeDuties(keeper.SiblingsEvery,
			DutyInfo{Duty: DutySiblingCancelReconciliation, Contract: "edge_cancel_reconciler", Summary: "closes groups of joins whose siblings have ended without being cancelled"},
		),
		describeDuties(keeper.ProjectEvery,
			DutyInfo{Duty: DutyFlowProjection, Contract: "flow_projector", Summary: "counts the members of flows that were made call by call, by state"},
		),
		describeDuties(keeper.MaxCompactPause,
			DutyInfo{Duty: DutyCompaction, Summary: "makes the records of runs smaller that ended some time ago"},
		),
	)
	slices.SortFunc(table, func(a, b DutyInfo) int { return cmp.Compare(a.Duty, b.Duty) })
	return table
}

// describeDuties fills in what some duties have in common.
func describeDuties(every time.Duration, duties ...DutyInfo) []DutyInfo {
	for i := range duties {
		duties[i].Every, duties[i].InContractMode = every, slices.Contains(contractmode.ContractTasks, engine.TaskID(duties[i].Duty))
	}
	return duties
}

// Duties lists the names of all duties, in order.
func Duties() []Duty {
	table := DutyTable()
	names := make([]Duty, len(table))
	for i, info := range table {
		names[i] = info.Duty
	}
	return names
}

// ParseDuty reads the name of a duty, or of the contract's scanner for it. The error is ErrUnknownDuty and lists the names.
func ParseDuty(text string) (Duty, error) {
	table := DutyTable()
	names := make([]string, len(table))
	for i, info := range table {
		if text == string(info.Duty) || text != "" && text == info.Contract {
			return info.Duty, nil
		}
		names[i] = string(info.Duty)
	}
	return "", fmt.Errorf("%w: %q; there are %s", engine.ErrUnknownDuty, text, strings.Join(names, ", "))
}
