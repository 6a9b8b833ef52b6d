package enginecore

// Class returns the class of the error, by which a caller decides how to react:
//
//   - terminal: sending the call again will not help; so are all codes that this version does not know
//   - retryable: the same call may succeed later
//   - contention: another caller was faster or the state has changed; read it again and decide anew
//   - bug: the caller or the library broke a rule
//   - informational: nothing had to be done
func (e *Error) Class() string {
	switch e.Code {
	case "use_claim_resumed_execution", "not_a_resumed_execution", "execution_not_leaseable", "lease_conflict",
		"invalid_claim_grant", "claim_grant_expired", "no_eligible_execution", "waitpoint_not_found",
		"waitpoint_pending_use_buffer_script", "stale_graph_revision", "rate_limit_exceeded",
		"concurrency_limit_exceeded":
		return "contention"
	case "capability_mismatch", "invalid_offset":
		return "retryable"
	case "active_attempt_exists", "attempt_not_in_created_state":
		return "bug"
	case "no_active_lease", "execution_not_eligible", "execution_not_in_eligible_set", "grant_already_exists",
		"execution_not_reclaimable", "execution_not_suspended", "already_suspended", "waitpoint_closed",
		"waitpoint_not_open", "waitpoint_not_pending", "pending_waitpoint_expired", "waitpoint_already_exists",
		"duplicate_signal", "deps_not_satisfied", "not_blocked_by_deps", "budget_soft_exceeded",
		"ok_already_applied", "attempt_already_terminal", "stream_already_closed":
		return "informational"
	}
	return "terminal"
}
