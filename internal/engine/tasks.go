package engine

// TaskID names a keeper task. The engine keeps its counts under these names.
type TaskID string

// The keeper tasks.
const (
	TaskDelayedPromotion            TaskID = "delayed_promotion"
	TaskLeaseExpiry                 TaskID = "lease_expiry"
	TaskAttemptTimeout              TaskID = "attempt_timeout"
	TaskExecutionDeadline           TaskID = "execution_deadline"
	TaskStartDeadline               TaskID = "start_deadline"
	TaskFlowDeadline                TaskID = "flow_deadline"
	TaskSuspensionTimeout           TaskID = "suspension_timeout"
	TaskPendingWaitpointExpiry      TaskID = "pending_waitpoint_expiry"
	TaskPropagation                 TaskID = "propagation"
	TaskCancelBacklog               TaskID = "cancel_backlog"
	TaskSiblingCancelDispatch       TaskID = "sibling_cancel_dispatch"
	TaskPauseRecheck                TaskID = "pause_recheck"
	TaskRerun                       TaskID = "rerun"
	TaskAdmission                   TaskID = "admission"
	TaskChildRuns                   TaskID = "child_runs"
	TaskQuota                       TaskID = "quota"
	TaskBudget                      TaskID = "budget"
	TaskRetention                   TaskID = "retention"
	TaskExecutionRetention          TaskID = "execution_retention"
	TaskQuotaReconciliation         TaskID = "quota_reconciliation"
	TaskBudgetReconciliation        TaskID = "budget_reconciliation"
	TaskSiblingCancelReconciliation TaskID = "sibling_cancel_reconciliation"
	TaskFlowProjection              TaskID = "flow_projection"
	TaskSchedule                    TaskID = "schedule"
	TaskBulkJob                     TaskID = "bulk_job"
	TaskRunKey                      TaskID = "run_key"
	TaskDependencyReconciliation    TaskID = "dependency_reconciliation"
	TaskIndexReconciliation         TaskID = "index_reconciliation"
	TaskMemberReconciliation        TaskID = "member_reconciliation"
	TaskKeyReconciliation           TaskID = "key_reconciliation"
	TaskScheduleReconciliation      TaskID = "schedule_reconciliation"
	TaskUnblocking                  TaskID = "unblocking"
)
