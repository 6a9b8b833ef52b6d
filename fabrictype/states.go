package fabrictype

import "fmt"

// RunState is the state of a run.
type RunState string

// States of runs. A run that has failed, expired or was cancelled may still have nodes that are ending; its ClosedAt is
// zero until the last one has.
const (
	// RunRunning: the run has not ended. It may be paused or wait for something.
	RunRunning RunState = "running"
	// RunSucceeded: all nodes have ended, and joins tolerated the failures and cancellations, if any. The outcome of
	// the run is OutcomeSucceeded, whose text is "success".
	RunSucceeded RunState = "succeeded"
	// RunFailed: a node failed or expired, and no join tolerated it.
	RunFailed RunState = "failed"
	// RunCancelled: the run was cancelled, or nodes of it were and no node failed.
	RunCancelled RunState = "cancelled"
	// RunExpired: the run did not end before its deadline.
	RunExpired RunState = "expired"
)

// NodeState is the state of a node of a run, or of an item of a map. Its text is the public state of the engine. Some
// of these texts come from the FlowFabric contract and are wider than their word: see the constants.
type NodeState string

// States of nodes. Node.Waiting explains why a node that has not ended waits.
const (
	// NodeWaiting: the node waits for a free worker, or for the end of a pause.
	NodeWaiting NodeState = "waiting"
	// NodeDelayed: the node is due later, in most cases for a retry.
	NodeDelayed NodeState = "delayed"
	// NodeRateLimited: the node is blocked although its upstreams have ended: it waits for room under a limit or in a
	// budget, for a worker that has registered its activity and offers its capabilities, or for the end of a pause of
	// its activity or run. The text is "rate_limited" in all these cases.
	NodeRateLimited NodeState = "rate_limited"
	// NodeWaitingChildren: the node waits for its upstreams. A map or sub-flow node is also in this state while its
	// child run is open. The text is "waiting_children" in both cases.
	NodeWaitingChildren NodeState = "waiting_children"
	// NodeActive: a worker runs the node.
	NodeActive NodeState = "active"
	// NodeSuspended: the node waits for signals.
	NodeSuspended NodeState = "suspended"
	// NodeSucceeded: the node has a result. The text is "completed"; the outcome of the node is OutcomeSucceeded, whose
	// text is "success".
	NodeSucceeded NodeState = "completed"
	// NodeFailed: an attempt failed and no other one follows.
	NodeFailed NodeState = "failed"
	// NodeCancelled: the node was cancelled, by itself or with its run.
	NodeCancelled NodeState = "cancelled"
	// NodeExpired: a timeout of the node or the deadline of the run ended it.
	NodeExpired NodeState = "expired"
	// NodeSkipped: the node did not run because of the outcomes of its upstreams.
	NodeSkipped NodeState = "skipped"
)

// Ended reports whether a node in this state has ended. It may still run again, by a rerun.
func (s NodeState) Ended() bool {
	switch s {
	case NodeSucceeded, NodeFailed, NodeCancelled, NodeExpired, NodeSkipped:
		return true
	}
	return false
}

// NodeKind is the kind of a node of a run.
type NodeKind string

// Kinds of nodes. A run that stores no graph has nodes of kind KindActivity only.
const (
	// KindActivity is a node whose activity a worker runs; the items of a map are such nodes of its child run.
	KindActivity NodeKind = "activity"
	// KindWaitpoint waits for signals, without a worker.
	KindWaitpoint NodeKind = "waitpoint"
	// KindCondition decides which nodes run: see flow.When and flow.Switch.
	KindCondition NodeKind = "condition"
	// KindTimer sleeps for a time, without a worker.
	KindTimer NodeKind = "timer"
	// KindMap runs its activity for each item of a list, and KindSubFlow runs another flow, in a child run.
	KindMap     NodeKind = "map"
	KindSubFlow NodeKind = "sub_flow"
	// KindLoop runs a flow again and again, and KindExpansion the plan that its activity returns, in child runs.
	KindLoop      NodeKind = "loop"
	KindExpansion NodeKind = "expansion"
)

// Outcome is how a run, a node, an item of a map or an attempt ended. It is empty while an attempt runs or is
// interrupted.
type Outcome string

// Outcomes.
const (
	// OutcomeSucceeded has the text "success". The state of a run with this outcome is RunSucceeded ("succeeded"), and
	// the state of a node NodeSucceeded ("completed").
	OutcomeSucceeded Outcome = "success"
	// OutcomeFailed: another attempt may follow one that failed.
	OutcomeFailed    Outcome = "failed"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeExpired   Outcome = "expired"
	// OutcomeSkipped: the node did not run, or the run of an item of flow.MapFlowOutcomes has no result. No run has it.
	OutcomeSkipped Outcome = "skipped"
	// OutcomeWorkerLost: the lease of the attempt has ended, and another worker continues with a new attempt or has not
	// yet.
	OutcomeWorkerLost Outcome = "worker_lost"
	// OutcomeRevoked: an operator took the node from the worker of the attempt.
	OutcomeRevoked Outcome = "revoked"
)

// BulkState is the state of a bulk job.
type BulkState string

// States of bulk jobs.
const (
	BulkRunning   BulkState = "running"
	BulkCompleted BulkState = "completed"
	BulkStopped   BulkState = "stopped"
)

// Severity is the severity of a Finding. The zero value is SeverityInfo, and a higher severity is a worse one. In JSON
// it is "info", "warning" or "error".
type Severity int

// Severities of findings.
const (
	// SeverityInfo: worth knowing, nothing to do.
	SeverityInfo Severity = iota
	// SeverityWarning: work can be lost or delayed when something else goes wrong.
	SeverityWarning
	// SeverityError: work is lost or waits without end now, or will.
	SeverityError
)

// String is "info", "warning" or "error".
func (s Severity) String() string {
	switch s {
	case SeverityInfo:
		return "info"
	case SeverityWarning:
		return "warning"
	case SeverityError:
		return "error"
	}
	return fmt.Sprintf("Severity(%d)", int(s))
}

// MarshalText implements encoding.TextMarshaler with String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler for the texts of MarshalText.
func (s *Severity) UnmarshalText(text []byte) error {
	for _, known := range []Severity{SeverityInfo, SeverityWarning, SeverityError} {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("severity %.40q: must be info, warning or error", text)
}

// WaitState is the state of a wait.
type WaitState string

// States of waits.
const (
	// WaitPending: activity.OpenWaitpoint opened the wait and the function has not called Await yet. Signals are kept.
	WaitPending WaitState = "pending"
	// WaitOpen: a node or an activity waits for signals.
	WaitOpen WaitState = "open"
	// WaitClosed: the wait is over.
	WaitClosed WaitState = "closed"
)

// SignalOutcome is the answer of the engine to a signal.
type SignalOutcome string

// Outcomes of signals.
const (
	// SignalAccepted: the signal was recorded, and the wait continues or has not begun; SignalResult.Counts reports
	// whether the signal counts towards its end.
	SignalAccepted SignalOutcome = "accepted"
	// SignalResumed: the signal ended the wait.
	SignalResumed SignalOutcome = "resumed"
	// SignalDuplicate: the signal was delivered before; SignalResult.First is the outcome of that delivery.
	SignalDuplicate SignalOutcome = "duplicate"
	// SignalClosed: the wait was over.
	SignalClosed SignalOutcome = "closed"
	// SignalExpired: the wait had timed out.
	SignalExpired SignalOutcome = "expired"
)

// FireOutcome is the outcome of a fire of a schedule. Its text is part of the stored form.
type FireOutcome string

// Outcomes of fires.
const (
	// FireStarted is a fire whose run was started.
	FireStarted FireOutcome = "started"
	// FireSkipped is a fire that was not started because of the overlap policy, or because the timetable was changed
	// while the jitter delayed it.
	FireSkipped FireOutcome = "skipped"
	// FireMissed is a fire that was not started because no keeper ran within the catch-up window, or because too many
	// fires were to be made up.
	FireMissed FireOutcome = "missed"
	// FireFailed is a fire whose run could not be started; ScheduleFire.Reason has the error.
	FireFailed FireOutcome = "failed"
)

// OverlapPolicy determines the treatment of a fire while the run that the schedule started last is open. Its text is
// part of the stored form.
type OverlapPolicy string

// Overlap policies.
const (
	// OverlapSkip skips the fire: no run is started. It is the default.
	OverlapSkip OverlapPolicy = "skip"
	// OverlapQueue starts fires one after another, each when the previous run has ended. At most QueueLimit fires wait;
	// further ones are skipped.
	OverlapQueue OverlapPolicy = "queue"
	// OverlapCancelPrevious cancels the open run and starts the fire when that run has ended. When several fires wait
	// for that, the last one is started and the others are skipped.
	OverlapCancelPrevious OverlapPolicy = "cancel_previous"
	// OverlapAllow starts every fire at once, also while earlier runs are open.
	OverlapAllow OverlapPolicy = "allow"
)
