package runtime

import "time"

// EventKind says what has happened. New kinds may come; a program should let pass what it does not know.
type EventKind string

// Events of a run.
const (
	EventFlowSubmitted EventKind = "flow_submitted"
	// EventFlowCancelRequested and EventFlowDeadline: nothing starts any more, and what runs is told to end.
	EventFlowCancelRequested EventKind = "flow_cancel_requested"
	EventFlowDeadline        EventKind = "flow_deadline"
	// EventFlowPaused and EventFlowResumed: in between, no node starts.
	EventFlowPaused  EventKind = "flow_paused"
	EventFlowResumed EventKind = "flow_resumed"
	// EventBudgetSoft: more than the soft limit of a budget has been spent. EventBudgetHard: something was refused because of its
	// hard limit. Node and Attempt are whose report it was, Detail says how the budget stands.
	EventBudgetSoft EventKind = "budget_soft"
	EventBudgetHard EventKind = "budget_hard"
	// EventFlowReopened: a node of a run that was over is replayed.
	EventFlowReopened EventKind = "flow_reopened"
	// EventFlowRerun: nodes of a run that was over are run again; Detail is the mode. An EventReplayed of each follows.
	EventFlowRerun EventKind = "flow_rerun"
	// A run ends with one of these.
	EventFlowSucceeded EventKind = "flow_success"
	EventFlowFailed    EventKind = "flow_failed"
	EventFlowCancelled EventKind = "flow_cancelled"
	EventFlowExpired   EventKind = "flow_expired"
)

// Events of a node.
const (
	// EventStarted: an attempt begins; Detail is the worker.
	EventStarted EventKind = "started"
	// EventProgress: Percent and Message are what the function reports. Only the last report of a node is kept for those
	// who come later.
	EventProgress EventKind = "progress"
	// EventSuspended: the node waits for signals; Detail names the wait.
	EventSuspended EventKind = "suspended"
	// EventSignalled: a signal was taken; Detail is its name.
	EventSignalled EventKind = "signalled"
	// EventWaitTimedOut: the time of a wait is up, and EventEscalated: the wait goes on all the same.
	EventWaitTimedOut EventKind = "wait_timed_out"
	EventEscalated    EventKind = "escalated"
	// EventResumedByOperator: the wait was ended by ResumeWait; Detail says who did it.
	EventResumedByOperator EventKind = "resumed_by_operator"
	// EventWaitingChildren: the attempt was put aside until its dependencies are satisfied.
	EventWaitingChildren EventKind = "waiting_children"
	// EventResumed: an attempt that was put aside goes on; Detail is the worker.
	EventResumed EventKind = "resumed"
	// EventRetry: an attempt failed and another will follow; Detail is the reason.
	EventRetry EventKind = "retry"
	// EventDelayed: the attempt was put off. EventGivenBack: a worker that stops gave it back.
	EventDelayed   EventKind = "delayed"
	EventGivenBack EventKind = "given_back"
	// EventLeaseExpired: the worker was lost. EventReclaimed: another one has taken over.
	// EventLeaseRevoked: an operator has taken the execution from its worker.
	EventLeaseExpired EventKind = "lease_expired"
	EventLeaseRevoked EventKind = "lease_revoked"
	EventReclaimed    EventKind = "reclaimed"
	// EventReplayed: a node that had ended runs again.
	EventReplayed EventKind = "replayed"
	// A node ends with one of these; Detail is the reason.
	EventSucceeded EventKind = "success"
	EventFailed    EventKind = "failed"
	EventCancelled EventKind = "cancelled"
	EventExpired   EventKind = "expired"
	EventSkipped   EventKind = "skipped"
)

// EndsNode reports whether a node ends with an event of this kind.
func (k EventKind) EndsNode() bool {
	switch k {
	case EventSucceeded, EventFailed, EventCancelled, EventExpired, EventSkipped:
		return true
	}
	return false
}

// Event is something that happened in a run.
type Event struct {
	// ID stands for the event's place in the run: Watch goes on right after it.
	ID   string
	At   time.Time
	Kind EventKind
	// Node is empty for events of the run itself.
	Node string
	// Attempt counts from 1; 0 where the event belongs to none.
	Attempt int
	// Detail is the worker that started it, the reason of a failure or cancel, and the like.
	Detail string
	// Percent and Message are those of EventProgress.
	Percent float64
	Message string
}

// Ends reports whether the run ends with the event. Others follow only when the run is run again.
func (e Event) Ends() bool {
	switch e.Kind {
	case EventFlowSucceeded, EventFlowFailed, EventFlowCancelled, EventFlowExpired:
		return true
	}
	return false
}
