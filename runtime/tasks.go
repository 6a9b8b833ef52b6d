package runtime

// taskID names a maintenance task of keepers. The engine counts by these names what it has done of each.
type taskID string

// The maintenance tasks.
const (
	taskDelayedPromotion            taskID = "delayed_promotion"
	taskLeaseExpiry                 taskID = "lease_expiry"
	taskAttemptTimeout              taskID = "attempt_timeout"
	taskExecutionDeadline           taskID = "execution_deadline"
	taskStartDeadline               taskID = "start_deadline"
	taskFlowDeadline                taskID = "flow_deadline"
	taskSuspensionTimeout           taskID = "suspension_timeout"
	taskPendingWaitpointExpiry      taskID = "pending_waitpoint_expiry"
	taskPropagation                 taskID = "propagation"
	taskCancelBacklog               taskID = "cancel_backlog"
	taskSiblingCancelDispatch       taskID = "sibling_cancel_dispatch"
	taskPauseRecheck                taskID = "pause_recheck"
	taskRerun                       taskID = "rerun"
	taskAdmission                   taskID = "admission"
	taskChildRuns                   taskID = "child_runs"
	taskQuota                       taskID = "quota"
	taskBudget                      taskID = "budget"
	taskRetention                   taskID = "retention"
	taskExecutionRetention          taskID = "execution_retention"
	taskQuotaReconciliation         taskID = "quota_reconciliation"
	taskBudgetReconciliation        taskID = "budget_reconciliation"
	taskSiblingCancelReconciliation taskID = "sibling_cancel_reconciliation"
	taskFlowProjection              taskID = "flow_projection"
	taskCompaction                  taskID = "compaction"
	taskSchedule                    taskID = "schedule"
	taskDependencyReconciliation    taskID = "dependency_reconciliation"
	taskIndexReconciliation         taskID = "index_reconciliation"
	taskMemberReconciliation        taskID = "member_reconciliation"
	taskKeyReconciliation           taskID = "key_reconciliation"
	taskScheduleReconciliation      taskID = "schedule_reconciliation"
	taskUnblocking                  taskID = "unblocking"
)
