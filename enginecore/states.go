package enginecore

// LifecyclePhase is the coarse phase of an execution.
type LifecyclePhase string

// Lifecycle phases.
const (
	PhaseRunnable  LifecyclePhase = "runnable"
	PhaseActive    LifecyclePhase = "active"
	PhaseSuspended LifecyclePhase = "suspended"
	PhaseTerminal  LifecyclePhase = "terminal"
)

// OwnershipState states whether a worker holds an execution.
type OwnershipState string

// Ownership states.
const (
	OwnershipUnowned                 OwnershipState = "unowned"
	OwnershipLeased                  OwnershipState = "leased"
	OwnershipLeaseExpiredReclaimable OwnershipState = "lease_expired_reclaimable"
	OwnershipLeaseRevoked            OwnershipState = "lease_revoked"
)

// EligibilityState states whether a runnable execution may be claimed, and if not, the reason.
type EligibilityState string

// Eligibility states.
const (
	EligibleNow                EligibilityState = "eligible_now"
	EligibilityNotUntilTime    EligibilityState = "not_eligible_until_time"
	EligibilityBlockedByDeps   EligibilityState = "blocked_by_dependencies"
	EligibilityBlockedByBudget EligibilityState = "blocked_by_budget"
	EligibilityBlockedByQuota  EligibilityState = "blocked_by_quota"
	EligibilityBlockedByRoute  EligibilityState = "blocked_by_route"
	EligibilityBlockedByOp     EligibilityState = "blocked_by_operator"
	EligibilityBlockedByLane   EligibilityState = "blocked_by_lane_state"
	EligibilityNotApplicable   EligibilityState = "not_applicable"
)

// BlockingReason explains why an execution does not run.
type BlockingReason string

// Blocking reasons. The last two are known to clients and never written by this library.
const (
	BlockingNone                    BlockingReason = "none"
	BlockingWaitingForWorker        BlockingReason = "waiting_for_worker"
	BlockingWaitingForDelay         BlockingReason = "waiting_for_delay"
	BlockingWaitingForRetryBackoff  BlockingReason = "waiting_for_retry_backoff"
	BlockingWaitingForResumeDelay   BlockingReason = "waiting_for_resume_delay"
	BlockingWaitingForChildren      BlockingReason = "waiting_for_children"
	BlockingWaitingForBudget        BlockingReason = "waiting_for_budget"
	BlockingWaitingForQuota         BlockingReason = "waiting_for_quota"
	BlockingWaitingForCapableWorker BlockingReason = "waiting_for_capable_worker"
	BlockingWaitingForSignal        BlockingReason = "waiting_for_signal"
	BlockingWaitingForApproval      BlockingReason = "waiting_for_approval"
	BlockingWaitingForCallback      BlockingReason = "waiting_for_callback"
	BlockingWaitingForToolResult    BlockingReason = "waiting_for_tool_result"
	BlockingPausedByOperator        BlockingReason = "paused_by_operator"
	BlockingPausedByPolicy          BlockingReason = "paused_by_policy"
	BlockingWaitingForLocality      BlockingReason = "waiting_for_locality_match"
	BlockingPausedByFlowCancel      BlockingReason = "paused_by_flow_cancel"
)

// TerminalOutcome is how an execution ended.
type TerminalOutcome string

// Terminal outcomes.
const (
	OutcomeNone      TerminalOutcome = "none"
	OutcomeSuccess   TerminalOutcome = "success"
	OutcomeFailed    TerminalOutcome = "failed"
	OutcomeCancelled TerminalOutcome = "cancelled"
	OutcomeExpired   TerminalOutcome = "expired"
	OutcomeSkipped   TerminalOutcome = "skipped"
)

// AttemptState is the state of an execution's latest attempt, as its record has it.
type AttemptState string

// Attempt states of an execution.
const (
	AttemptNone          AttemptState = "none"
	AttemptPendingFirst  AttemptState = "pending_first_attempt"
	AttemptRunning       AttemptState = "running_attempt"
	AttemptInterrupted   AttemptState = "attempt_interrupted"
	AttemptPendingRetry  AttemptState = "pending_retry_attempt"
	AttemptPendingReplay AttemptState = "pending_replay_attempt"
	AttemptTerminal      AttemptState = "attempt_terminal"
)

// AttemptRecordState is the state that an attempt's own record keeps.
type AttemptRecordState string

// States of an attempt's record.
const (
	AttemptRecordStarted     AttemptRecordState = "started"
	AttemptRecordSuspended   AttemptRecordState = "suspended"
	AttemptRecordSuccess     AttemptRecordState = "ended_success"
	AttemptRecordFailure     AttemptRecordState = "ended_failure"
	AttemptRecordCancelled   AttemptRecordState = "ended_cancelled"
	AttemptRecordInterrupted AttemptRecordState = "interrupted_reclaimed"
)

// PublicState is the one-word state shown to users.
type PublicState string

// Public states.
const (
	PublicWaiting         PublicState = "waiting"
	PublicDelayed         PublicState = "delayed"
	PublicRateLimited     PublicState = "rate_limited"
	PublicWaitingChildren PublicState = "waiting_children"
	PublicActive          PublicState = "active"
	PublicSuspended       PublicState = "suspended"
	PublicCompleted       PublicState = "completed"
	PublicFailed          PublicState = "failed"
	PublicCancelled       PublicState = "cancelled"
	PublicExpired         PublicState = "expired"
	PublicSkipped         PublicState = "skipped"
)

// PublicStates lists the public states.
func PublicStates() []PublicState {
	return []PublicState{
		PublicWaiting, PublicDelayed, PublicRateLimited, PublicWaitingChildren, PublicActive, PublicSuspended,
		PublicCompleted,
		PublicFailed, PublicCancelled, PublicExpired, PublicSkipped,
	}
}

// Terminal reports whether an execution in this state has ended.
func (s PublicState) Terminal() bool {
	switch s {
	case PublicCompleted, PublicFailed, PublicCancelled, PublicExpired, PublicSkipped:
		return true
	}
	return false
}

// FlowState is the state of a flow, as its record or the summary of its members has it.
type FlowState string

// States of flows. FlowRunning and FlowBlocked occur in summaries only.
const (
	FlowOpen      FlowState = "open"
	FlowRunning   FlowState = "running" // members are active
	FlowBlocked   FlowState = "blocked" // members wait, and none is active
	FlowCompleted FlowState = "completed"
	FlowFailed    FlowState = "failed"
	FlowCancelled FlowState = "cancelled"
)

// WaitpointState is the state of a waitpoint.
type WaitpointState string

// States of waitpoints.
const (
	WaitpointPending WaitpointState = "pending" // made ahead of its wait
	WaitpointActive  WaitpointState = "active"  // something waits at it
	WaitpointClosed  WaitpointState = "closed"
)

// SignalEffect is the effect of a signal on the waitpoint that it was delivered to.
type SignalEffect string

// Effects of signals.
const (
	SignalNoEffect SignalEffect = "no_op"                          // it is none of those that are waited for
	SignalAppended SignalEffect = "appended_to_waitpoint"          // it counts, and the wait continues
	SignalBuffered SignalEffect = "buffered_for_pending_waitpoint" // it is kept until something waits
	SignalResumed  SignalEffect = "resume_condition_satisfied"     // the wait is over
)

// StreamCloseReason is the reason why the output stream of an attempt was closed.
type StreamCloseReason string

// Reasons for which streams are closed.
const (
	StreamAttemptSucceeded     StreamCloseReason = "attempt_success"
	StreamAttemptFailed        StreamCloseReason = "attempt_failure"
	StreamAttemptCancelled     StreamCloseReason = "attempt_cancelled"
	StreamExpired              StreamCloseReason = "expired"            // of the execution, by a deadline
	StreamLeaseExpired         StreamCloseReason = "lease_expired"      // its worker was lost
	StreamReclaimed            StreamCloseReason = "reclaimed"          // another worker has taken over
	StreamSuspensionTimedOut   StreamCloseReason = "suspension_timeout" // while the attempt waited
	StreamDependencyImpossible StreamCloseReason = "dependency_impossible"
)
