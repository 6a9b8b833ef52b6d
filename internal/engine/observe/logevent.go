package observe

import "log/slog"

// LogEvent is the stable name of a log record, in its attribute "event". Messages of records may change, names do not.
type LogEvent string

// Attr returns the attribute "event" with the name.
func (e LogEvent) Attr() slog.Attr { return slog.String("event", string(e)) }

// Log events of workers about attempts.
const (
	EventAttemptFailed    LogEvent = "attempt.failed"
	EventAttemptDeadline  LogEvent = "attempt.deadline"
	EventAttemptEnded     LogEvent = "attempt.ended_by_engine"
	EventActivityPanicked LogEvent = "activity.panicked"
	EventPropagatorFailed LogEvent = "activity.propagator_failed"
	EventOverstays        LogEvent = "attempt.overstays"
	EventOverstayEnded    LogEvent = "attempt.overstay_ended"
	EventLeaseLost        LogEvent = "lease.lost"
	EventResultLost       LogEvent = "result.not_committed"
	EventFailureLost      LogEvent = "failure.not_recorded"
	EventSuspensionLost   LogEvent = "suspension.not_recorded"
	EventReturnFailed     LogEvent = "execution.not_released"
	EventFramesLost       LogEvent = "frames.not_stored"
	EventProgressLost     LogEvent = "progress.not_recorded"
	EventBudgetWait       LogEvent = "attempt.waits_for_budget"
)

// Log events of workers and keepers about the engine.
const (
	EventEngineInMemory      LogEvent = "engine.in_memory"
	EventServerMisconfigured LogEvent = "server.misconfigured"
	EventReplicationMissed   LogEvent = "replication.missed"
	EventEngineAway          LogEvent = "engine.away"
	EventSubscriptionsLost   LogEvent = "subscriptions.lost"
	EventClaimFailed         LogEvent = "claim.failed"
	EventClaimLost           LogEvent = "claim.lost"
	EventRenewalFailed       LogEvent = "lease.renewal_failed"
	EventUnknownReleased     LogEvent = "lease.unknown_released"
	EventInputUndecodable    LogEvent = "input.undecodable"
	EventLiveKeyLeft         LogEvent = "worker.live_key_left"
	EventGrantFailed         LogEvent = "grant.failed"
	EventAnnounceFailed      LogEvent = "worker.announce_failed"
	EventAuditFailed         LogEvent = "audit.failed"
	EventPublishFailed       LogEvent = "worker.publish_failed"
	EventFailureHookFailed   LogEvent = "worker.failure_hook_failed"
	EventFailureHookAway     LogEvent = "worker.failure_hook_away"
	EventDraining            LogEvent = "worker.draining"
	EventWorkerStarted       LogEvent = "worker.started"
	EventRunStuck            LogEvent = "run.stuck"
	EventDrainFailed         LogEvent = "drain.failed"
	EventLimitsFailed        LogEvent = "limits.failed"
	EventBudgetFailed        LogEvent = "budget.failed"
	EventTickFailed          LogEvent = "keeper.tick_failed"
	EventItemFailed          LogEvent = "keeper.item_failed"
	EventLibraryUnchecked    LogEvent = "library.unchecked"
	EventIndexRepaired       LogEvent = "keeper.index_repaired"
	EventRestartNoticed      LogEvent = "keeper.restart_noticed"
	EventRestartReconciled   LogEvent = "keeper.restart_reconciled"
	EventKeeperPanicked      LogEvent = "keeper.panicked"
	EventScheduleFailed      LogEvent = "keeper.schedule_failed"
	EventBulkJobFailed       LogEvent = "keeper.bulk_job_failed"
	EventFireFailed          LogEvent = "schedule.fire_failed"
	EventRelayFailed         LogEvent = "keeper.relay_failed"
	EventAttendFailed        LogEvent = "contract.follow_up_failed"
	EventLeaseShort          LogEvent = "worker.lease_short"
	EventKeeperMissing       LogEvent = "keeper.missing"
	EventKeeperEnded         LogEvent = "keeper.ended"
	EventClockSetBack        LogEvent = "engine.clock_set_back"
)
