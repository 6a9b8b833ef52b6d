package keeper

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// Tasks describes the tasks of this keeper, sorted by name, with its intervals. In contract mode it has fewer.
func (k *Keeper) Tasks() []Task {
	table := slices.DeleteFunc(k.taskTable(), func(t Task) bool {
		return !slices.ContainsFunc(k.Loops, func(l *MaintenanceLoop) bool {
			return slices.Contains(l.tasks, engine.TaskID(t.Name))
		})
	})
	slices.SortFunc(table, func(a, b Task) int { return cmp.Compare(a.Name, b.Name) })
	return table
}

// taskTable describes all tasks.
func (k *Keeper) taskTable() []Task {
	rows := []struct {
		task         engine.TaskID
		contractName string
		every        time.Duration
		summary      string
	}{
		{
			engine.TaskDelayedPromotion, "delayed_promoter", k.sweepEvery(),
			"makes executions eligible whose delay or retry delay has passed",
		},
		{
			engine.TaskLeaseExpiry, "lease_expiry", k.sweepEvery(),
			"marks expired leases and offers their executions to workers",
		},
		{
			engine.TaskAttemptTimeout, "attempt_timeout", k.sweepEvery(),
			"ends attempts beyond their start-to-close timeout, to be retried",
		},
		{engine.TaskExecutionDeadline, "execution_deadline", k.sweepEvery(), "ends executions beyond their deadline"},
		{engine.TaskCancelBacklog, "cancel_reconciler", k.sweepEvery(), "ends members of ended runs"},
		{engine.TaskStartDeadline, "", k.sweepEvery(), "fails nodes that no worker claimed in time"},
		{engine.TaskFlowDeadline, "", k.sweepEvery(), "ends runs beyond their deadline"},
		{engine.TaskPropagation, "", k.sweepEvery(), "resolves edges that a call left for later"},
		{
			engine.TaskSiblingCancelDispatch, "edge_cancel_dispatcher", k.sweepEvery(),
			"cancels upstreams that a decided join does not need",
		},
		{engine.TaskSchedule, "", k.sweepEvery(), "starts due runs of schedules"},
		{engine.TaskBulkJob, "", k.sweepEvery(), "takes the next step of bulk jobs, and removes old ones"},
		{engine.TaskRunKey, "", k.sweepEvery(), "checks the queues of runs that share a key"},
		{engine.TaskPauseRecheck, "", k.sweepEvery(), "re-checks executions held by a pause"},
		{engine.TaskRerun, "", k.sweepEvery(), "continues reruns whose caller has gone"},
		{
			engine.TaskChildRuns, "", k.sweepEvery(),
			"notifies nodes of the end of their child runs; ends and purges child runs that no node needs",
		},
		{engine.TaskAdmission, "", k.sweepEvery(), "acquires permits for executions whose worker did not"},
		{engine.TaskRetention, "", k.sweepEvery(),
			"purges runs whose retention is over, and graphs of which no run was submitted for an hour"},
		{engine.TaskSuspensionTimeout, "suspension_timeout", k.sweepEvery(), "ends waits that have timed out"},
		{
			engine.TaskPendingWaitpointExpiry, "pending_wp_expiry", k.sweepEvery(),
			"closes waitpoints for which no wait began",
		},
		{
			engine.TaskDependencyReconciliation, "dependency_reconciler", EdgesEvery,
			"resolves open edges of ended upstreams",
		},
		{engine.TaskQuota, "", k.sweepEvery(), "assigns free permits of a limit and reclaims unused ones"},
		{
			engine.TaskBudget, "budget_reset", k.sweepEvery(),
			"resets budgets, returns reservations of dead workers and releases waiting nodes",
		},
		{
			engine.TaskUnblocking, "unblock", k.unblockEvery(),
			"releases executions that other programs blocked for a budget, a quota or capabilities",
		},
		{
			engine.TaskIndexReconciliation, "index_reconciler", k.ReconcileEvery,
			"repairs indexes that disagree with the records",
		},
		{
			engine.TaskKeyReconciliation, "", k.ReconcileEvery,
			"scans all keys for records that no index leads to, and repairs the indexes",
		},
		{
			engine.TaskScheduleReconciliation, "", k.ReconcileEvery,
			"continues schedules that were postponed because the server's clock has been set back",
		},
		{
			engine.TaskMemberReconciliation, "", k.ReconcileEvery,
			"repairs the node counts of runs with more than 2000 nodes, and the indexes of those nodes",
		},
		{
			engine.TaskExecutionRetention, "retention_trimmer", TrimPauses * MaxTrimPace,
			"removes executions outside managed flows whose retention is over",
		},
		{
			engine.TaskQuotaReconciliation, "quota_reconciler", PoliciesEvery,
			"releases admissions of quotas of other programs whose executions no longer run",
		},
		{
			engine.TaskBudgetReconciliation, "budget_reconciler", PoliciesEvery,
			"records since when a hard limit of other programs' budgets has been reached, and ensures their resets",
		},
		{
			engine.TaskSiblingCancelReconciliation, "edge_cancel_reconciler", SiblingsEvery,
			"closes edge groups whose siblings have ended without being cancelled",
		},
		{
			engine.TaskFlowProjection, "flow_projector", ProjectEvery,
			"counts the members of flows created call by call, by state",
		},
	}
	table := make([]Task, len(rows))
	for i, row := range rows {
		table[i] = Task{
			Name: string(row.task), ContractName: row.contractName, Every: row.every, Summary: row.summary,
		}
	}
	return table
}

// parseTask returns the task with the name, which may also be the name of a scanner of the contract. Its error wraps
// ErrUnknownTask and lists the names.
func (k *Keeper) parseTask(name string) (engine.TaskID, error) {
	table := k.taskTable()
	names := make([]string, len(table))
	for i, task := range table {
		if name == task.Name || name != "" && name == task.ContractName {
			return engine.TaskID(task.Name), nil
		}
		names[i] = task.Name
	}
	slices.Sort(names)
	return "", fmt.Errorf("%w: %q; there are %s", ErrUnknownTask, name, strings.Join(names, ", "))
}

// Task describes one kind of a keeper's work. The public admin.KeeperTask documents the fields.
type Task struct {
	Name, Summary, ContractName string
	Every                       time.Duration
}

// TaskReport is the result of one task run on request. The public admin.KeeperTaskReport documents the fields.
type TaskReport struct {
	Task              string
	Partitions, Steps int
	Done              int64
	Lag               time.Duration
	Remaining         int
	Repaired          map[string]int64
	Took              time.Duration
}

// ErrUnknownTask is returned for a task that does not exist, or that the engine does not have because it is in contract
// mode.
var ErrUnknownTask = errors.New("no such keeper task")

// Handle carries a keeper from a runtime.Keeper to packages of this module; programs can do nothing with it.
type Handle struct{ keeper *Keeper }

// HandleOf returns the handle of a keeper.
func HandleOf(k *Keeper) Handle { return Handle{k} }

// Of returns the keeper of a handle.
func Of(h Handle) *Keeper { return h.keeper }
