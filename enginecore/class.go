package enginecore

import "errors"

// Class groups errors by the possible reactions of a caller.
type Class uint8

// The classes.
const (
	// ClassTerminal: sending the call again will not help.
	ClassTerminal Class = iota
	// ClassRetryable: the same call may succeed later.
	ClassRetryable
	// ClassContention: another caller was faster or the state has changed; read it again and decide anew.
	ClassContention
	// ClassBug: the caller or the library broke a rule.
	ClassBug
	// ClassInformational: nothing had to be done.
	ClassInformational
)

// String names the class.
func (c Class) String() string {
	switch c {
	case ClassRetryable:
		return "retryable"
	case ClassContention:
		return "contention"
	case ClassBug:
		return "bug"
	case ClassInformational:
		return "informational"
	}
	return "terminal"
}

// Class returns the class of a code, by which a caller decides how to react. Unknown codes are terminal.
func (c Code) Class() Class {
	switch c {
	case "use_claim_resumed_execution", "not_a_resumed_execution", "execution_not_leaseable", "lease_conflict",
		"invalid_claim_grant", "claim_grant_expired", "no_eligible_execution", "waitpoint_not_found",
		"waitpoint_pending_use_buffer_script", "stale_graph_revision", "rate_limit_exceeded",
		"concurrency_limit_exceeded":
		return ClassContention
	case "capability_mismatch", "invalid_offset":
		return ClassRetryable
	case "active_attempt_exists", "attempt_not_in_created_state":
		return ClassBug
	case "no_active_lease", "execution_not_eligible", "execution_not_in_eligible_set", "grant_already_exists",
		"execution_not_reclaimable", "execution_not_suspended", "already_suspended", "waitpoint_closed",
		"waitpoint_not_open", "waitpoint_not_pending", "pending_waitpoint_expired", "waitpoint_already_exists",
		"duplicate_signal", "deps_not_satisfied", "not_blocked_by_deps", "budget_soft_exceeded",
		"ok_already_applied", "attempt_already_terminal", "stream_already_closed":
		return ClassInformational
	}
	return ClassTerminal
}

// ClassOf is the class of any error that the engine returns. Connection errors and errors of a server that cannot serve
// at the moment are retryable, except where the outcome is unknown: that has to be settled by reading.
func ClassOf(err error) Class {
	var refusal *Error
	var decode *DecodeError
	var call *CallError
	switch {
	case errors.As(err, &refusal):
		return refusal.Class()
	case errors.As(err, &decode), errors.As(err, &call):
		return ClassBug
	case errors.Is(err, ErrOutcomeUnknown):
		return ClassTerminal
	case errors.Is(err, ErrUnavailable):
		return ClassRetryable
	}
	return ClassTerminal
}
