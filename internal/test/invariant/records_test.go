package invariant_test

import (
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// The same of executions with records of their own, as contract mode has them.
func TestEveryRuleFiresOnRecords(t *testing.T) {
	s := newContractStage(t)
	s.mustNotice(t, []damage{
		{invariant.RuleKeys, "DEL $core:c", "not its core"},
		{invariant.RuleKeys, "SREM $all: $id:c", "does not hold"},
		{invariant.RuleKeys, "SADD $all: nobody", "does not exist"},
		{invariant.RuleKeys, "HSET $usage1:b x 1", "without its record"},
		{invariant.RuleKeys, "DEL $all:; SET $all: x", "must be a set"},
		{invariant.RuleState, "HSET $core:b public_state waiting", "public_state"},
		{invariant.RuleState, "HSET $core:b attempt_state pending_first_attempt", "attempt_state"},
		{invariant.RuleState, "HSET $core:c current_lease_id x", "no worker holds"},
		{invariant.RuleState, "HDEL $core:done.a completed_at", "completed_at"},
		{invariant.RuleLaneIndex, "ZREM $eligible: $id:c", "not in eligible"},
		{invariant.RuleLaneIndex, "ZADD $delayed: 1 $id:c", "belongs into eligible"},
		{invariant.RuleLaneIndex, "ZADD $active: 1 $id:done.a", "belongs into terminal"},
		{invariant.RuleLaneIndex, "ZADD $blocked: 1 nobody", "does not exist"},
		{invariant.RuleLaneIndex, "ZREM $terminal: $id:done.d", "not in terminal"},
		{invariant.RuleScore, "ZADD $eligible: 5 $id:c", "has score 5"},
		{invariant.RuleScore, "ZADD $terminal: 5 $id:done.d", "has score 5"},
		{invariant.RuleLease, "ZREM $expiry: $id:b", "which is active"},
		{invariant.RuleLease, "ZADD $expiry: 7 $id:b", "has score 7"},
		{invariant.RuleLease, "ZADD $expiry: 7 $id:done.b", "which is terminal"},
		{invariant.RuleLease, "SREM $worker: $id:b", "which the worker has"},
		{invariant.RuleLease, "SADD $worker: $id:c", "does not have"},
		{invariant.RuleLease, "HSET $lease:b lease_epoch 9", "lease_epoch"},
		{invariant.RuleLease, "HSET $lease:c lease_epoch 9", "but the execution is runnable"},
		{invariant.RuleTimers, "ZADD $timeout: 9999999999999 $id:done.b", "which is terminal"},
		{invariant.RuleAttempts, "ZREM $attempts:done.b 0", "not in the index"},
		{invariant.RuleAttempts, "ZADD $attempts:done.b 1 1", "has no record"},
		{invariant.RuleAttempts, "HSET $attempt:done.b attempt_state started; HDEL $attempt:done.b ended_at", "1 attempts are started"},
		{invariant.RuleAttempts, "HSET $attempt:done.b attempt_state ended_failure", "0 attempts succeeded"},
		{invariant.RuleAttempts, "HSET $attempt:b attempt_id x", "the core says"},
		{invariant.RuleAttempts, "HSET $core:b total_attempt_count 2", "total_attempt_count"},
		{invariant.RuleAttempts, "HDEL $attempt:done.b ended_at", "ended_at"},
		{invariant.RuleAttempts, "COPY $attempt:b $attempt1:b", "2 attempts are started"},
		{invariant.RuleDeps, "HSET $meta:d unsatisfied_required_count 5", "unsatisfied_required_count"},
		{invariant.RuleDeps, "HSET $meta:d impossible_required_count 5", "impossible_required_count"},
		{invariant.RuleDeps, "SREM $unresolved:d $edgeid:", "deps:unresolved: false"},
		{invariant.RuleDeps, "SREM $alledges:d $edgeid:", "not in deps:all_edges"},
		{invariant.RuleDeps, "DEL $dep:d", "has no record"},
		{invariant.RuleDeps, "HSET $dep:d state satisfied", "upstream's outcome is none"},
		{invariant.RuleDeps, "HSET $dep:done.d state impossible", "but 1 edges are impossible"},
		{invariant.RuleDeps, "HSET $core:d lifecycle_phase runnable eligibility_state eligible_now", "unresolved edges"},
		{invariant.RuleFlow, "HSET $flow: graph_revision 1", "graph_revision"},
		{invariant.RuleFlow, "SREM $members: $id:c", "not a member"},
		{invariant.RuleFlow, "SADD $members: nobody", "does not exist"},
		{invariant.RuleFlow, "SREM $out:b $edgeid:", "not in both"},
		{invariant.RuleFlow, "SADD $out:b x", "holds edge x"},
		{invariant.RuleFlow, "SREM $flowindex: $flowid:", "index of flows"},
		{invariant.RuleUnknownFlow, "HSET $core:c flow_id x", "does not exist"},
		{invariant.RuleHeld, "HDEL $tags: flowfabric.submitted", "is still being submitted"},
		{invariant.RuleOrder, "HSET $core:d total_attempt_count 1", "has begun, but edge"},
		{invariant.RuleResult, "DEL $result:done.a", "no result"},
		{invariant.RuleResult, "SET $result:b x", "there is a result"},
		{invariant.RuleWaits, "HSET $core:b current_waitpoint_id x", "names waitpoint"},
		{invariant.RuleStuck, "HSET $core:b lifecycle_phase suspended", "without an open suspension"},
	})
}
