package enginecore

import (
	"strings"
	"testing"
)

// TestClasses follows the contract's table of error classes for the codes that the library emits.
func TestClasses(t *testing.T) {
	t.Parallel()
	for class, codes := range map[string]string{
		"terminal": `stale_lease lease_expired lease_revoked execution_not_active fence_required partial_fence_triple
			invalid_capabilities invalid_policy_json invalid_input invalid_tag_key execution_not_found target_not_signalable
			signal_limit_exceeded invalid_waitpoint_for_execution invalid_lease_for_suspend waitpoint_not_token_bound
			invalid_kid invalid_secret_hex invalid_grace_ms rotation_conflict invalid_token missing_token token_expired
			hmac_secret_not_initialized invalid_keys_missing_hmac invalid_secret execution_not_terminal max_replays_exhausted
			max_retries_exhausted stream_closed stale_owner_cannot_append retention_limit_exceeded invalid_dependency
			cycle_detected self_referencing_edge execution_already_in_flow dependency_already_exists flow_not_found
			execution_not_in_flow flow_already_terminal not_runnable terminal invalid_blocking_reason
			already_member_of_different_flow flow_id_conflict`,
		"contention": `use_claim_resumed_execution not_a_resumed_execution execution_not_leaseable lease_conflict
			invalid_claim_grant claim_grant_expired waitpoint_not_found waitpoint_pending_use_buffer_script
			stale_graph_revision`,
		"retryable": `capability_mismatch`,
		"bug":       `active_attempt_exists`,
		"informational": `no_active_lease execution_not_eligible execution_not_in_eligible_set grant_already_exists
			execution_not_reclaimable execution_not_suspended already_suspended waitpoint_closed waitpoint_not_open
			waitpoint_not_pending pending_waitpoint_expired waitpoint_already_exists deps_not_satisfied not_blocked_by_deps`,
	} {
		for code := range strings.FieldsSeq(codes) {
			if got := (&Error{Function: "f", Code: Code(code)}).Class(); got != class {
				t.Errorf("%s is %s, want %s", code, got, class)
			}
		}
	}
}
