// Package eventkind has the kinds of events that package fabrictype has no constants for. The comment of
// fabrictype.EventKind describes them.
package eventkind

import "github.com/flowfabric/flowfabric-go/fabrictype"

// Events of a run.
const (
	RunCancelRequested fabrictype.EventKind = "flow_cancel_requested"
	RunDeadline        fabrictype.EventKind = "flow_deadline"
	RunReopened        fabrictype.EventKind = "flow_reopened"
)

// Events of a node.
const (
	Sleeping          fabrictype.EventKind = "sleeping"
	TimerMoved        fabrictype.EventKind = "timer_moved"
	TimerEnded        fabrictype.EventKind = "timer_ended"
	TimerSkipped      fabrictype.EventKind = "timer_skipped"
	ResumedByOperator fabrictype.EventKind = "resumed_by_operator"
	WaitingChildren   fabrictype.EventKind = "waiting_children"
	Resumed           fabrictype.EventKind = "resumed"
	Panicked          fabrictype.EventKind = "panicked"
	Continued         fabrictype.EventKind = "continued"
	Delayed           fabrictype.EventKind = "delayed"
	Released          fabrictype.EventKind = "released"
	LeaseExpired      fabrictype.EventKind = "lease_expired"
	LeaseRevoked      fabrictype.EventKind = "lease_revoked"
	Reclaimed         fabrictype.EventKind = "reclaimed"
	Replayed          fabrictype.EventKind = "replayed"
)

// Feed lists the kinds of events that the feed of all runs has: runs start, end, are run again, paused and resumed, or
// are to be cancelled; nodes wait, and are answered, escalated, timed out or resumed; limits of budgets are passed.
func Feed() []fabrictype.EventKind {
	return []fabrictype.EventKind{
		fabrictype.EventRunSubmitted, fabrictype.EventRunSucceeded, fabrictype.EventRunFailed,
		fabrictype.EventRunCancelled, fabrictype.EventRunExpired, fabrictype.EventRunRerun, fabrictype.EventRunPaused,
		fabrictype.EventRunResumed, RunCancelRequested, fabrictype.EventSuspended, fabrictype.EventSignalled,
		fabrictype.EventEscalated, fabrictype.EventWaitTimedOut, ResumedByOperator, fabrictype.EventBudgetSoft,
		fabrictype.EventBudgetHard,
	}
}
