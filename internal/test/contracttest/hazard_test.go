package contracttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

type hazard struct {
	id    string
	check func(t *testing.T, b *bench)
}

// hazards are the weaknesses of the reference that our library does not have, by their ids. Each check fails on the
// reference's behaviour.
var hazards = []hazard{
	{"A1 a delayed resumption is promoted", func(t *testing.T, b *bench) {
		w := b.suspended(forGo)
		must(b, enginerpc.ResumeExecutionCall{WaitpointID: w.wait, LaneID: lane, ExecutionID: w.id, ResumeDelay: time.Millisecond})
		enginetest.Pass(t, b.Conn, time.Millisecond)
		reply := must(b, enginerpc.PromoteDelayedCall{LaneID: lane, ExecutionID: w.id, Now: time.Now().Add(time.Second)})
		want(t, "outcome", reply.Outcome, "promoted")
	}},
	{"A2 a delay in the past leaves the execution in the eligible set", func(t *testing.T, b *bench) {
		call := enginerpc.CreateExecutionCall{
			ExecutionID: newExecutionID(), Namespace: "ns", LaneID: lane, ExecutionKind: "kind", CreatorIdentity: "test", PartitionID: "1",
			DelayUntil: time.Now().Add(-time.Minute),
		}
		function, keys, args, err := enginerpc.Wire(b.keys, call)
		if err != nil {
			t.Fatal(err)
		}
		keys[4] = b.keys.LaneDelayed(partition, lane) // as the public client does
		if err := b.raw(t.Context(), function, keys, args).Error(); err != nil {
			t.Fatal(err)
		}
		_, eligible := b.score(b.keys.LaneEligible(partition, lane), string(call.ExecutionID))
		_, delayed := b.score(b.keys.LaneDelayed(partition, lane), string(call.ExecutionID))
		want(t, "eligible", eligible, true)
		want(t, "delayed", delayed, false)
	}},
	{"A3 a lease after a revoked one can be renewed", func(t *testing.T, b *bench) {
		h := b.running()
		b.revoke(h)
		b.cancel(h.id)
		b.replay(h.id)
		h = b.claim(h.id)
		must(b, enginerpc.RenewLeaseCall{
			ExecutionID: h.id, AttemptIndex: h.index, AttemptID: h.try, LeaseID: h.lease, LeaseEpoch: h.epoch, LeaseTTL: longLease,
		})
	}},
	{"A4 nothing expires before it is due", func(t *testing.T, b *bench) {
		h := b.claim(b.create(), func(c *enginerpc.ClaimExecutionCall) { c.AttemptTimeout = time.Hour })
		for _, reason := range []string{"attempt_timeout", "execution_deadline"} {
			reply := must(b, enginerpc.ExpireExecutionCall{WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, ExpireReason: reason})
			want(t, reason, reply.Outcome, "not_due")
		}
		want(t, "phase", b.core(h.id, "lifecycle_phase"), "active")
		reply := must(b, enginerpc.ExpireExecutionCall{WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, ExpireReason: "operator"})
		want(t, "other reason", reply.Outcome, "expired")
	}},
	{"A5 the timeout of an attempt ends with it", func(t *testing.T, b *bench) {
		h := b.claim(b.create(), func(c *enginerpc.ClaimExecutionCall) { c.AttemptTimeout = time.Hour })
		b.revoke(h)
		must(b, enginerpc.IssueReclaimGrantCall{Grant: b.grantCall(h.id)})
		must(b, b.reclaimCall(h))
		_, there := b.score(b.keys.IndexAttemptTimeout(partition), string(h.id))
		want(t, "old timeout", there, false)
	}},
	{"A6 a marked lease is checked again later", func(t *testing.T, b *bench) {
		h := b.claim(b.create(), func(c *enginerpc.ClaimExecutionCall) { c.LeaseTTL = time.Millisecond })
		enginetest.Pass(t, b.Conn, time.Millisecond)
		must(b, enginerpc.MarkLeaseExpiredIfDueCall{ExecutionID: h.id})
		at, there := b.score(b.keys.IndexLeaseExpiry(partition), string(h.id))
		want(t, "in the index", there, true)
		want(t, "later", at > float64(time.Now().Add(5*time.Second).UnixMilli()), true)
	}},
	{"A7 a revoked execution can be found", func(t *testing.T, b *bench) {
		h := b.running()
		b.revoke(h)
		at, there := b.score(b.keys.IndexLeaseExpiry(partition), string(h.id))
		want(t, "in the index", there, true)
		want(t, "due", at <= float64(time.Now().Add(time.Second).UnixMilli()), true)
	}},
	{"A8 waiting for nothing ends at once", func(t *testing.T, b *bench) {
		up, h := b.create(), b.running()
		e := b.staged(up, h.id)
		b.apply(e)
		b.resolve(e, "success")
		must(b, enginerpc.MoveToWaitingChildrenCall{
			AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
		})
		want(t, "eligibility", b.core(h.id, "eligibility_state"), "eligible_now")
		_, there := b.score(b.eligibleSet(), string(h.id))
		want(t, "in the eligible set", there, true)
	}},
	{"A9 a delayed execution is not blocked, and unblocking keeps a delay", func(t *testing.T, b *bench) {
		id := b.create(func(c *enginerpc.CreateExecutionCall) { c.DelayUntil = time.Now().Add(time.Hour) })
		want(t, "refusal", refused(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: id, BlockingReason: "waiting_for_budget"}), "execution_not_eligible")
		id = b.create()
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: id, BlockingReason: "waiting_for_budget"})
		b.set(id, "delay_until", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()))
		must(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: id})
		want(t, "eligibility", b.core(id, "eligibility_state"), "not_eligible_until_time")
	}},
	{"A10 a pause by policy can be lifted", func(t *testing.T, b *bench) {
		id := b.create()
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: id, BlockingReason: "paused_by_policy"})
		must(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: id})
		want(t, "eligibility", b.core(id, "eligibility_state"), "eligible_now")
	}},
	{"A11 a skipped member without open edges is eligible when replayed", func(t *testing.T, b *bench) {
		up := b.running()
		e := b.staged(up.id, b.create())
		b.apply(e)
		b.fail(up, "")
		b.resolve(e, "failed")
		b.replay(up.id)
		b.complete(b.claim(up.id), "")
		want(t, "open edges", b.replay(e.down).WaitingFor, 0)
		want(t, "eligibility", b.core(e.down, "eligibility_state"), "eligible_now")
	}},
	{"A12 a replay begins anew", func(t *testing.T, b *bench) {
		h := b.running()
		b.fail(h, `{"max_retries":1,"backoff":{"type":"fixed","delay_ms":0}}`)
		must(b, enginerpc.PromoteDelayedCall{LaneID: lane, ExecutionID: h.id, Now: time.Now().Add(time.Second)})
		b.fail(b.claim(h.id), "")
		want(t, "retries before", b.core(h.id, "retry_count"), "1")
		b.replay(h.id)
		want(t, "retries", b.core(h.id, "retry_count"), "0")
		want(t, "reason", b.core(h.id, "failure_reason"), "")
		want(t, "earlier attempt", b.core(h.id, "pending_previous_attempt_index"), "1") // C12
		h = b.claim(h.id)
		want(t, "replayed attempt", b.field(b.keys.AttemptRecord(h.id, h.index), "replayed_from_attempt_index"), "1")
	}},
	{"A13 an empty result replaces an old one", func(t *testing.T, b *bench) {
		h := b.running()
		b.complete(h, "first")
		b.replay(h.id)
		b.complete(b.claim(h.id), "")
		want(t, "old result", b.exists(b.keys.ExecResult(h.id)), false)
	}},
	{"A14 due times are whole", func(t *testing.T, b *bench) {
		h := b.running()
		b.fail(h, `{"max_retries":9,"backoff":{"type":"fixed","delay_ms":10.7}}`)
		want(t, "fraction", strings.Contains(b.core(h.id, "delay_until"), "."), false)
	}},
	{"B2 a grant with a fractional TTL expires", func(t *testing.T, b *bench) {
		id := b.create()
		function, keys, args, err := enginerpc.Wire(b.keys, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(id)})
		if err != nil {
			t.Fatal(err)
		}
		args[5] = "60000.5"
		if err := b.raw(t.Context(), function, keys, args).Error(); err != nil {
			t.Fatal(err)
		}
		ttl, err := b.do("PTTL", b.keys.ExecClaimGrant(id)).AsInt64()
		if err != nil || ttl <= 0 {
			t.Errorf("TTL %d, %v", ttl, err)
		}
	}},
	{"C2 giving up ends the attempt", func(t *testing.T, b *bench) {
		h := b.claim(b.create(withPolicy(`{"max_reclaim_count":0}`)))
		b.revoke(h)
		want(t, "without a grant", refused(b, b.reclaimCall(h)), "invalid_claim_grant") // D3
		want(t, "phase", b.core(h.id, "lifecycle_phase"), "active")
		must(b, enginerpc.IssueReclaimGrantCall{Grant: b.grantCall(h.id)})
		want(t, "with a grant", refused(b, b.reclaimCall(h)), "max_retries_exhausted")
		want(t, "attempt", b.field(b.keys.AttemptRecord(h.id, h.index), "attempt_state"), "ended_failure")
	}},
	{"C3 cancelling ends an attempt that was put aside", func(t *testing.T, b *bench) {
		h := b.running()
		b.delay(h, time.Now().Add(time.Hour))
		b.cancel(h.id)
		want(t, "attempt", b.field(b.keys.AttemptRecord(h.id, h.index), "attempt_state"), "ended_cancelled")
	}},
	{"C4 expiring closes the waitpoint", func(t *testing.T, b *bench) {
		w := b.suspended(forGo)
		must(b, enginerpc.ExpireExecutionCall{WorkerInstanceID: instance, LaneID: lane, ExecutionID: w.id, ExpireReason: "operator"})
		want(t, "waitpoint", b.field(b.keys.WaitpointRecord(partition, w.wait), "state"), "closed")
		want(t, "condition", b.field(b.keys.WaitpointCondition(partition, w.wait), "closed"), "1")
	}},
	{"C6 the record's worker set is cleaned", func(t *testing.T, b *bench) {
		h := b.running()
		must(b, enginerpc.CompleteExecutionCall{
			AttemptIndex: h.index, WorkerInstanceID: "somebody else", LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
		})
		want(t, "worker's set", b.exists(b.keys.IndexWorkerLeases(partition, instance)), false)
	}},
	{"D4 another instance cannot use a grant", func(t *testing.T, b *bench) {
		id := b.create()
		must(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(id)})
		call := b.claimCall(id)
		call.WorkerInstanceID = "another"
		want(t, "refusal", refused(b, call), "invalid_claim_grant")
	}},
	{"G1 the payload of a running child stays", func(t *testing.T, b *bench) {
		up := b.running()
		down := b.create(func(c *enginerpc.CreateExecutionCall) { c.InputPayload = []byte("own") })
		b.claim(down)
		e := b.staged(up.id, down)
		b.apply(e)
		b.complete(up, "result")
		b.resolve(e, "success")
		payload, err := b.do("GET", b.keys.ExecPayload(down)).ToString()
		if err != nil || payload != "own" {
			t.Errorf("payload %q, %v", payload, err)
		}
	}},
	{"G2 skipping a running child takes its lease", func(t *testing.T, b *bench) {
		h := b.running()
		e := b.staged(b.create(), h.id)
		b.apply(e)
		b.resolve(e, "failed")
		want(t, "lease", b.exists(b.keys.ExecLeaseCurrent(h.id)), false)
		for _, index := range []string{b.keys.IndexLeaseExpiry(partition), b.keys.LaneActive(partition, lane)} {
			_, there := b.score(index, string(h.id))
			want(t, index, there, false)
		}
	}},
	{"G3 a delayed child stays delayed when its dependencies are satisfied", func(t *testing.T, b *bench) {
		down := b.create(func(c *enginerpc.CreateExecutionCall) { c.DelayUntil = time.Now().Add(time.Hour) })
		e := b.staged(b.create(), down)
		b.apply(e)
		_, there := b.score(b.keys.LaneDelayed(partition, lane), string(down))
		want(t, "delayed while blocked", there, false)
		b.resolve(e, "success")
		want(t, "eligibility", b.core(down, "eligibility_state"), "not_eligible_until_time")
		_, there = b.score(b.keys.LaneDelayed(partition, lane), string(down))
		want(t, "delayed", there, true)
	}},
	{"G4 only an eligible execution is resumed", func(t *testing.T, b *bench) {
		h := b.running()
		b.delay(h, time.Now().Add(time.Hour))
		b.do("HSET", b.keys.ExecClaimGrant(h.id), "worker_id", worker)
		want(t, "refusal", refused(b, enginerpc.ClaimResumedExecutionCall{
			ExecutionID: h.id, WorkerID: worker, WorkerInstanceID: instance, LaneID: lane, LeaseID: enginecore.LeaseID(uuid.NewString()), LeaseTTL: longLease,
		}), "execution_not_leaseable")
	}},
	{"H-02 a token opens its own execution only", func(t *testing.T, b *bench) {
		a, other := b.suspended(forGo), b.suspended(forGo)
		call := b.deliverCall(a, "go")
		call.ExecutionID = other.id
		want(t, "refusal", refused(b, call), "invalid_token")
		want(t, "phase", b.core(other.id, "lifecycle_phase"), "suspended")
	}},
	{"H-03 the token of an earlier suspension opens nothing", func(t *testing.T, b *bench) {
		w := b.suspended(forGo)
		must(b, enginerpc.ResumeExecutionCall{WaitpointID: w.wait, LaneID: lane, ExecutionID: w.id})
		must(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(w.id)})
		reply := must(b, enginerpc.ClaimResumedExecutionCall{
			ExecutionID: w.id, WorkerID: worker, WorkerInstanceID: instance, LaneID: lane, LeaseID: enginecore.LeaseID(uuid.NewString()), LeaseTTL: longLease,
		})
		again := w.held
		again.lease, again.epoch = reply.LeaseID, reply.LeaseEpoch
		must(b, b.suspendCall(again, enginecore.WaitpointID(uuid.NewString()), forGo))
		want(t, "refusal", refused(b, b.deliverCall(w, "go")), "waitpoint_closed")
	}},
	{"H-09 an outcome that is not an end is refused", func(t *testing.T, b *bench) {
		e := b.staged(b.create(), b.create())
		b.apply(e)
		want(t, "refusal", refused(b, enginerpc.ResolveDependencyCall{
			DownstreamExecutionID: e.down, LaneID: lane, UpstreamExecutionID: e.up, EdgeID: e.id, UpstreamOutcome: "none",
		}), "invalid_input")
	}},
	{"H-11 an edge from an upstream that has succeeded is satisfied", func(t *testing.T, b *bench) {
		up := b.running()
		e := b.staged(up.id, b.create())
		b.complete(up, "result")
		want(t, "open edges", b.apply(e).Unresolved, "0")
		want(t, "eligibility", b.core(e.down, "eligibility_state"), "eligible_now")
	}},
	{"H-14 a block counts again when the dependencies are satisfied", func(t *testing.T, b *bench) {
		down := b.create()
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: down, BlockingReason: "paused_by_operator", BlockingDetail: "why"})
		e := b.staged(b.create(), down)
		b.apply(e)
		_, there := b.score(b.keys.LaneBlockedOperator(partition, lane), string(down))
		want(t, "in the block's index in between", there, false)
		b.resolve(e, "success")
		want(t, "eligibility", b.core(down, "eligibility_state"), "blocked_by_operator")
		want(t, "detail", b.core(down, "blocking_detail"), "why")
		must(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: down})
		want(t, "eligibility", b.core(down, "eligibility_state"), "eligible_now")
		_, there = b.score(b.keys.LaneBlockedOperator(partition, lane), string(down))
		want(t, "in the block's index afterwards", there, false)
	}},
	{"H-17 a signal to an active waitpoint is not buffered", func(t *testing.T, b *bench) {
		w := b.suspended(forGo)
		want(t, "refusal", refused(b, enginerpc.BufferSignalForPendingWaitpointCall{Signal: b.signal(w, "go")}), "waitpoint_not_pending")
	}},
	{"H-18 a bad condition leaves nothing", func(t *testing.T, b *bench) {
		b.secret()
		h := b.running()
		wait := enginecore.WaitpointID(uuid.NewString())
		for _, condition := range []string{"", "{", "5", `{"required_signal_names":null}`, `{"required_signal_names":[{}]}`, `{"minimum_signal_count":"x"}`} {
			want(t, condition, refused(b, b.suspendCall(h, wait, condition)), "invalid_input")
		}
		want(t, "waitpoint", b.exists(b.keys.WaitpointRecord(partition, wait)), false)
		want(t, "phase", b.core(h.id, "lifecycle_phase"), "active")
	}},
	{"H-19 a suspension that is over at once leaves a closed record", func(t *testing.T, b *bench) {
		w := b.pending(b.running())
		must(b, enginerpc.BufferSignalForPendingWaitpointCall{Signal: b.signal(w, "go")})
		call := b.suspendCall(w.held, w.wait, forGo)
		call.UsePendingWaitpoint = true
		reply := must(b, call)
		want(t, "status", reply.Status, enginerpc.StatusAlreadySatisfied)
		want(t, "record", b.field(b.keys.ExecSuspension(w.id), "close_reason"), "resumed")
		want(t, "condition", b.field(b.keys.WaitpointCondition(partition, w.wait), "closed"), "1")
	}},
	{"H-20 the current signing key is never deleted", func(t *testing.T, b *bench) {
		rotate := func(kid, secret string, grace time.Duration) enginerpc.RotateWaitpointHMACSecretCall {
			return enginerpc.RotateWaitpointHMACSecretCall{Partition: partition, NewKID: kid, NewSecretHex: secret, Grace: grace}
		}
		must(b, rotate("a", "aa", time.Hour))
		must(b, rotate("b", "bb", time.Hour))
		want(t, "another secret", refused(b, rotate("a", "ff", time.Hour)), "rotation_conflict")
		must(b, rotate("a", "aa", time.Hour))
		secrets := b.keys.WaitpointSecrets(partition)
		want(t, "grace of the current key", b.field(secrets, "expires_at:a"), "")
		b.do("HSET", secrets, "expires_at:a", "1") // as an old library left it
		must(b, rotate("c", "cc", time.Hour))
		want(t, "secret", b.field(secrets, "secret:a"), "aa")
	}},
	{"H-60 an accepted signal is recognised after its suspension", func(t *testing.T, b *bench) {
		w := b.suspended(forGo)
		call := b.deliverCall(w, "go")
		call.IdempotencyKey, call.DedupTTL = "once", time.Hour
		first := must(b, call)
		again := must(b, call)
		want(t, "status", again.Status, enginerpc.StatusDuplicate)
		want(t, "signal", again.SignalID, first.SignalID)
	}},
	{"H-61 several signals of any name", func(t *testing.T, b *bench) {
		w := b.suspended(`{"minimum_signal_count":3}`)
		for _, effect := range []string{"appended_to_waitpoint", "appended_to_waitpoint", "resume_condition_satisfied"} {
			want(t, "effect", must(b, b.deliverCall(w, uuid.NewString())).Effect, effect)
		}
		want(t, "phase", b.core(w.id, "lifecycle_phase"), "runnable")
	}},
	{"H-62 no token, no word about the waitpoint", func(t *testing.T, b *bench) {
		b.secret()
		w := waiting{held: b.running(), wait: enginecore.WaitpointID(uuid.NewString()), token: "k1:" + strings.Repeat("0", 40)}
		want(t, "refusal", refused(b, enginerpc.BufferSignalForPendingWaitpointCall{Signal: b.signal(w, "go")}), "invalid_token")
	}},
	{"H-64 a lapsed lease mints no token", func(t *testing.T, b *bench) {
		b.secret()
		h := b.claim(b.create(), func(c *enginerpc.ClaimExecutionCall) { c.LeaseTTL = time.Millisecond })
		enginetest.Pass(t, b.Conn, time.Millisecond)
		want(t, "refusal", refused(b, enginerpc.CreatePendingWaitpointCall{
			ExecutionID: h.id, WaitpointID: enginecore.WaitpointID(uuid.NewString()), WaitpointKey: "key", ExpiresAt: time.Now().Add(time.Hour),
		}), "no_active_lease")
	}},
	{"H-67 a closed waitpoint leaves the index of pending waitpoints", func(t *testing.T, b *bench) {
		w := b.pending(b.running())
		index := b.keys.IndexPendingWaitpointExpiry(partition)
		must(b, enginerpc.CloseWaitpointCall{ExecutionID: w.id, WaitpointID: w.wait})
		b.do("ZADD", index, "1", string(w.wait))
		must(b, enginerpc.CloseWaitpointCall{ExecutionID: w.id, WaitpointID: w.wait})
		_, there := b.score(index, string(w.wait))
		want(t, "entry", there, false)
	}},
}

func TestHazards(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, b *bench) {
		for _, hazard := range slices.Concat(hazards, againHazards, budgetHazards, boundHazards) {
			t.Run(hazard.id, func(t *testing.T) {
				own := *b
				own.tb = t
				if b.nodes != nil {
					own.nodes = &nodePool{}
				}
				for _, key := range b.list() {
					b.do("DEL", key)
				}
				hazard.check(t, &own)
			})
		}
	})
}

// list returns the keys of the bench, without the keys of its connection.
func (b *bench) list() []string { return b.match(b.prefix + ":*{*") }

// match is the keys that fit a pattern, of all servers.
func (b *bench) match(pattern string) []string {
	b.tb.Helper()
	var all []string
	for _, node := range b.client.Nodes() {
		keys, err := node.Do(context.Background(), node.B().Keys().Pattern(pattern).Build()).AsStrSlice()
		if err != nil {
			b.tb.Fatal(err)
		}
		all = append(all, keys...)
	}
	return all
}
