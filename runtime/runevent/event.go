package runevent

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"time"
)

// Kind says what has happened. Later versions may add kinds, so a program should ignore those it does not know.
type Kind string

// Events of a run.
const (
	FlowSubmitted fabrictype.EventKind = "flow_submitted"
	// FlowCancelRequested and FlowDeadline: nothing starts any more, and what runs is told to end.
	FlowCancelRequested fabrictype.EventKind = "flow_cancel_requested"
	FlowDeadline        fabrictype.EventKind = "flow_deadline"
	// FlowPaused and FlowResumed: in between, no node starts. Detail is who did it.
	FlowPaused  fabrictype.EventKind = "flow_paused"
	FlowResumed fabrictype.EventKind = "flow_resumed"
	// BudgetSoft: more than the soft limit of a budget has been spent. BudgetHard: something was refused because of its
	// hard limit. Node and Attempt are whose report it was, Detail says how the budget stands.
	BudgetSoft fabrictype.EventKind = "budget_soft"
	BudgetHard fabrictype.EventKind = "budget_hard"
	// FlowReopened: a node of a run that was over is replayed.
	FlowReopened fabrictype.EventKind = "flow_reopened"
	// FlowRerun: nodes of a run that was over are run again; Detail is the scope. A Replayed of each follows.
	FlowRerun fabrictype.EventKind = "flow_rerun"
	// A run ends with one of these. The text of FlowSucceeded has the outcome of the run, flow.Succeeded, not its
	// state.
	FlowSucceeded fabrictype.EventKind = "flow_success"
	FlowFailed    fabrictype.EventKind = "flow_failed"
	FlowCancelled fabrictype.EventKind = "flow_cancelled"
	FlowExpired   fabrictype.EventKind = "flow_expired"
)

// Events of a node.
const (
	// Started: an attempt begins; Detail is the worker.
	Started fabrictype.EventKind = "started"
	// Progress: Percent and Message are what the function reports. Only the last report of a node is kept for those
	// who come later.
	Progress fabrictype.EventKind = "progress"
	// Suspended: the node waits for signals; Detail names the wait.
	Suspended fabrictype.EventKind = "suspended"
	// Sleeping: the node sleeps until a time, which Detail says. TimerMoved: to another one, in Detail. It ends with
	// TimerEnded when its time has come, and with TimerSkipped when an operator ends it; Detail is who did.
	Sleeping     fabrictype.EventKind = "sleeping"
	TimerMoved   fabrictype.EventKind = "timer_moved"
	TimerEnded   fabrictype.EventKind = "timer_ended"
	TimerSkipped fabrictype.EventKind = "timer_skipped"
	// Signalled: a signal was taken; Detail is its name.
	Signalled fabrictype.EventKind = "signalled"
	// WaitTimedOut: the time of a wait is up, and Escalated: the wait goes on all the same.
	WaitTimedOut fabrictype.EventKind = "wait_timed_out"
	Escalated    fabrictype.EventKind = "escalated"
	// ResumedByOperator: the wait was ended by ResumeWait; Detail says who did it.
	ResumedByOperator fabrictype.EventKind = "resumed_by_operator"
	// WaitingChildren: the attempt was put aside until its dependencies are satisfied.
	WaitingChildren fabrictype.EventKind = "waiting_children"
	// Resumed: an attempt that was put aside goes on; Detail is the worker.
	Resumed fabrictype.EventKind = "resumed"
	// Panicked: the function of an attempt panicked or ended its goroutine; Detail is the stack, of several lines. A
	// Retry or the end of the node follows at once.
	Panicked fabrictype.EventKind = "panicked"
	// Continued: the function goes on as new, or a loop with its next turn; Detail is the number of the generation or
	// turn.
	Continued fabrictype.EventKind = "continued"
	// Retry: an attempt failed and another will follow; Detail is the reason.
	Retry fabrictype.EventKind = "retry"
	// Delayed: the attempt was put off. Released: a worker that stops released the execution, and the attempt goes on
	// elsewhere.
	Delayed  fabrictype.EventKind = "delayed"
	Released fabrictype.EventKind = "released"
	// LeaseExpired: the worker was lost. Reclaimed: another one has taken over.
	// LeaseRevoked: an operator has taken the execution from its worker.
	LeaseExpired fabrictype.EventKind = "lease_expired"
	LeaseRevoked fabrictype.EventKind = "lease_revoked"
	Reclaimed    fabrictype.EventKind = "reclaimed"
	// Replayed: a node that had ended runs again.
	Replayed fabrictype.EventKind = "replayed"
	// A node ends with one of these; Detail is the reason.
	Succeeded fabrictype.EventKind = "success"
	Failed    fabrictype.EventKind = "failed"
	Cancelled fabrictype.EventKind = "cancelled"
	Expired   fabrictype.EventKind = "expired"
	Skipped   fabrictype.EventKind = "skipped"
)

// EndsNode reports whether a node ends with an event of this kind.
func (k fabrictype.EventKind) EndsNode() bool {
	switch k {
	case fabrictype.EventSucceeded, fabrictype.EventFailed, fabrictype.EventCancelled, fabrictype.EventExpired, fabrictype.EventSkipped:
		return true
	}
	return false
}

// Event is something that happened in a run.
type Event struct {
	// ID stands for the event's place in the run: Watch goes on right after it.
	ID   string
	At   time.Time
	Kind fabrictype.EventKind
	// Node is empty for events of the run itself.
	Node string
	// Attempt counts from 1; 0 where the event belongs to none.
	Attempt int
	// Detail is the worker that started it, the reason of a failure or cancel, and the like.
	Detail string
	// Category is the category of the failure, such as activity.CategoryTimeout. Retry, Failed and Expired have one.
	Category string
	// Percent and Message are those of Progress.
	Percent float64
	Message string
}

// Ends reports whether the run ends with the event. Others follow only when the run is run again.
func (e fabrictype.Event) Ends() bool {
	switch e.Kind {
	case fabrictype.EventRunSucceeded, fabrictype.EventRunFailed, fabrictype.EventRunCancelled, fabrictype.EventRunExpired:
		return true
	}
	return false
}
