package runtime

import "log/slog"

// logEvent names what a log record tells, in its attribute "event". The names are stable, the messages are not.
type logEvent string

func (e logEvent) attr() slog.Attr { return slog.String("event", string(e)) }

// What workers log of attempts.
const (
	eventAttemptFailed    logEvent = "attempt.failed"
	eventAttemptDeadline  logEvent = "attempt.deadline"
	eventAttemptEnded     logEvent = "attempt.ended_by_engine"
	eventActivityPanicked logEvent = "activity.panicked"
	eventOverstays        logEvent = "attempt.overstays"
	eventOverstayEnded    logEvent = "attempt.overstay_ended"
	eventLeaseLost        logEvent = "lease.lost"
	eventResultLost       logEvent = "result.not_committed"
	eventFailureLost      logEvent = "failure.not_recorded"
	eventSuspensionLost   logEvent = "suspension.not_recorded"
	eventReturnFailed     logEvent = "execution.not_given_back"
	eventFramesLost       logEvent = "frames.not_stored"
	eventProgressLost     logEvent = "progress.not_recorded"
	eventBudgetWait       logEvent = "attempt.waits_for_budget"
)

// What workers and keepers log of their dealings with the engine.
const (
	eventEngineInMemory      logEvent = "engine.in_memory"
	eventServerMisconfigured logEvent = "server.misconfigured"
	eventEngineAway          logEvent = "engine.away"
	eventSubscriptionsLost   logEvent = "subscriptions.lost"
	eventClaimFailed         logEvent = "claim.failed"
	eventClaimLost           logEvent = "claim.lost"
	eventRenewalFailed       logEvent = "lease.renewal_failed"
	eventStrayReturned       logEvent = "lease.stray_returned"
	eventLiveKeyLeft         logEvent = "worker.live_key_left"
	eventGrantFailed         logEvent = "grant.failed"
	eventAnnounceFailed      logEvent = "worker.announce_failed"
	eventDrainFailed         logEvent = "drain.failed"
	eventLimitsFailed        logEvent = "limits.failed"
	eventBudgetFailed        logEvent = "budget.failed"
	eventTickFailed          logEvent = "keeper.tick_failed"
	eventLibraryUnchecked    logEvent = "library.unchecked"
	eventIndexMended         logEvent = "keeper.index_mended"
	eventRestartNoticed      logEvent = "keeper.restart_noticed"
	eventRestartReconciled   logEvent = "keeper.restart_reconciled"
	eventKeeperPanicked      logEvent = "keeper.panicked"
	eventScheduleFailed      logEvent = "keeper.schedule_failed"
	eventFireFailed          logEvent = "schedule.fire_failed"
	eventErrandFailed        logEvent = "keeper.errand_failed"
	eventAttendFailed        logEvent = "contract.follow_up_failed"
	eventLeaseShort          logEvent = "worker.lease_short"
	eventKeeperMissing       logEvent = "keeper.missing"
	eventKeeperEnded         logEvent = "keeper.ended"
	eventClockSetBack        logEvent = "engine.clock_set_back"
)
