package fabrictype

import "time"

// EventKind is the kind of an event of a run or of one of its nodes. Programs ignore kinds that they do not know.
//
// In addition to the constants, a run has these events: "flow_cancel_requested" and "flow_deadline", after which no
// node starts and the contexts of running functions end, and "flow_reopened", when a node of a run that was over is
// replayed.
//
// And a node has these: "sleeping", "timer_moved", "timer_ended" and "timer_skipped" of a sleep, with its end in
// Detail, or the actor who skipped it; "resumed_by_operator" when ResumeWait ends a wait, with the actor;
// "waiting_children" when an attempt is interrupted until its dependencies are satisfied; "resumed" when an attempt
// that was interrupted continues, with the worker; "panicked" when the function panics or ends its goroutine, with the
// stack; "continued" when the function continues as new, or a loop with its next turn, with their number; "delayed"
// when the attempt was put off; "released" when a worker that stops released it; "lease_expired" when its worker was
// lost, "lease_revoked" when an operator took it from its worker, and "reclaimed" when another worker has taken it
// over; "replayed" when a node that had ended runs again.
type EventKind string

// Events of a run.
const (
	EventRunSubmitted EventKind = "flow_submitted"
	// EventRunPaused and EventRunResumed: in between, no node starts. Detail is who did it.
	EventRunPaused  EventKind = "flow_paused"
	EventRunResumed EventKind = "flow_resumed"
	// EventRunRerun: nodes of a run that was over are run again; Detail is the scope.
	EventRunRerun EventKind = "flow_rerun"
	// EventBudgetSoft: more than the soft limit of a budget has been spent. EventBudgetHard: something was refused
	// because of its hard limit. Node and Attempt identify the attempt that reported usage, Detail describes the
	// budget.
	EventBudgetSoft EventKind = "budget_soft"
	EventBudgetHard EventKind = "budget_hard"
	// A run ends with one of these. The text of EventRunSucceeded has the outcome of the run, OutcomeSucceeded, not its
	// state.
	EventRunSucceeded EventKind = "flow_success"
	EventRunFailed    EventKind = "flow_failed"
	EventRunCancelled EventKind = "flow_cancelled"
	EventRunExpired   EventKind = "flow_expired"
)

// Events of a node.
const (
	// EventStarted: an attempt begins; Detail is the worker.
	EventStarted EventKind = "started"
	// EventProgress: Percent and Message are those that the function reports. The engine keeps the last report of a
	// node only.
	EventProgress EventKind = "progress"
	// EventSuspended: the node waits for signals; Detail names the wait.
	EventSuspended EventKind = "suspended"
	// EventSignalled: a signal was taken; Detail is its name.
	EventSignalled EventKind = "signalled"
	// EventWaitTimedOut: the time of a wait is up. EventEscalated: it is, and the wait continues.
	EventWaitTimedOut EventKind = "wait_timed_out"
	EventEscalated    EventKind = "escalated"
	// EventRetry: an attempt failed and another one follows; Detail is the reason.
	EventRetry EventKind = "retry"
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

// Event is an event of a run or of one of its nodes.
type Event struct {
	// ID is the place of the event in the run: RunRef.Watch continues right after it.
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Kind EventKind `json:"kind"`
	// Node is empty for events of the run itself.
	Node string `json:"node,omitempty"`
	// Attempt counts from 1; 0 where the event belongs to none.
	Attempt int `json:"attempt,omitempty"`
	// Detail is the worker that started it, the reason of a failure or cancellation, and the like.
	Detail string `json:"detail,omitempty"`
	// Category is the category of the failure, such as "timeout", of events of the kinds EventRetry,
	// EventFailed and EventExpired.
	Category string `json:"category,omitempty"`
	// Percent and Message are the arguments of EventProgress.
	Percent float64 `json:"percent,omitempty"`
	Message string  `json:"message,omitempty"`
}

// Ends reports whether the run ends with the event. Others follow only when the run is run again.
func (e Event) Ends() bool {
	switch e.Kind {
	case EventRunSucceeded, EventRunFailed, EventRunCancelled, EventRunExpired:
		return true
	}
	return false
}

// FeedEvent is an event of the feed of all runs. The feed has the events of runs but for "flow_deadline" and
// "flow_reopened", and of nodes the events of waits: EventSuspended, EventSignalled, EventEscalated, EventWaitTimedOut
// and "resumed_by_operator".
type FeedEvent struct {
	// Cursor continues after the event. Only the HTTP API sets it; in Go, Feed.Cursor returns it.
	Cursor string    `json:"cursor"`
	Kind   EventKind `json:"kind"`
	Flow   string    `json:"flow"`
	Run    string    `json:"run"`
	FlowID string    `json:"flow_id,omitempty"`
	// Child reports whether the run is a child run of a map or sub-flow.
	Child bool `json:"child,omitempty"`
	// Node is the node that the event is about: the one that waits or was answered, or that failed first of a run that
	// has failed. Empty for other events of the run.
	Node string `json:"node,omitempty"`
	// Detail is as in Event.
	Detail string    `json:"detail,omitempty"`
	At     time.Time `json:"at"`
}
