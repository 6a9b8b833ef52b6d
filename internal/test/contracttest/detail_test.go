package contracttest

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

func (b *bench) newCreate() enginerpc.CreateExecutionCall {
	return enginerpc.CreateExecutionCall{
		ExecutionID: newExecutionID(), Namespace: "ns", LaneID: lane, ExecutionKind: "kind", CreatorIdentity: "test", PartitionID: "1",
	}
}

func newWaitpointID() enginecore.WaitpointID { return enginecore.WaitpointID(uuid.NewString()) }

// TestBadNumbersComeLast sends malformed numbers to calls that the contract validates late: other faults of the call
// are reported first, and the number is the reason of a refusal only if the call has no other fault.
func TestBadNumbersComeLast(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, b *bench) {
		b.secret()
		h, ended, idle := b.running(), b.running(), b.create()
		b.complete(ended, "")
		there, malformed := b.newCreate(), b.newCreate()
		there.ExecutionID, malformed.PolicyJSON = idle, []byte("{")
		delay := func(h held) wire {
			return wireOf(b, enginerpc.DelayExecutionCall{
				WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
				DelayUntil: time.Now(),
			}).with(5, "soon")
		}
		pend := func(h held, index enginecore.AttemptIndex) wire {
			return wireOf(b, enginerpc.CreatePendingWaitpointCall{
				ExecutionID: h.id, AttemptIndex: index, WaitpointID: newWaitpointID(), WaitpointKey: "key", ExpiresAt: time.Now(),
			}).with(5, "soon")
		}
		stranger := held{id: newExecutionID(), lease: "l", epoch: 1, try: "a"}
		suspend := func(h held) wire { return wireOf(b, b.suspendCall(h, newWaitpointID(), forGo)).with(12, "{") }
		unknown := b.suspendCall(h, newWaitpointID(), forGo)
		unknown.UsePendingWaitpoint = true
		w, early := b.suspended(forGo), b.pending(b.running())
		forged := w
		forged.token = "k1:" + fmt.Sprintf("%040d", 0)
		deliver := func(w waiting) wire { return wireOf(b, b.deliverCall(w, "other")) }
		buffer := wireOf(b, enginerpc.BufferSignalForPendingWaitpointCall{Signal: b.signal(early, "go")})
		frame := wireOf(b, enginerpc.AppendFrameCall{
			ExecutionID: h.id, AttemptIndex: h.index, LeaseID: h.lease, LeaseEpoch: h.epoch, FrameType: "delta", MaxPayloadBytes: 9,
		}).with(11, "few")
		claim := wireOf(b, b.claimCall(idle))
		for _, x := range []struct {
			name string
			call wire
			want string
		}{
			{"create an existing execution", wireOf(b, there).with(12, "x"), "1|DUPLICATE|" + string(idle)},
			{"create with a bad policy", wireOf(b, malformed).with(9, "x"), "0|invalid_policy_json|malformed"},
			{"create", wireOf(b, b.newCreate()).with(9, "x"), "0|invalid_input|delay_until must be a number, got: x"},
			{"claim a running execution", wireOf(b, b.claimCall(h.id)).with(11, "x"), "0|execution_not_leaseable"},
			{"claim without a grant", claim.with(12, "x"), "0|invalid_claim_grant"},
			{"delay an unknown execution", delay(stranger), "0|execution_not_found"},
			{"delay an ended execution", delay(ended), fmt.Sprintf("0|execution_not_active|success|1|terminal|%s", ended.try)},
			{"delay", delay(h), "0|invalid_input|delay_until must be a number, got: soon"},
			{"pend for an unknown execution", pend(stranger, 0), "0|execution_not_found"},
			{"pend for another attempt", pend(h, 5), "0|stale_lease"},
			{"pend", pend(h, h.index), "0|invalid_input|expires_at must be a number, got: soon"},
			{"suspend an unknown execution", suspend(stranger), "0|execution_not_found"},
			{"suspend without a number for the history", wireOf(b, b.suspendCall(stranger, newWaitpointID(), forGo)).with(17, "x"), "0|execution_not_found"},
			{"suspend without the waitpoint", wireOf(b, unknown).with(12, "{"), "0|waitpoint_not_found"},
			{"suspend", suspend(h), "0|invalid_input|resume condition: malformed JSON"},
			{"signal with a forged token", deliver(forged).with(16, "x"), "0|invalid_token"},
			{"signal", deliver(w).with(15, "x"), "0|invalid_input|resume_delay_ms must be a number, got: x"},
			{"buffer, whose delay does not count", buffer.with(15, "x"), "1|OK|" + buffer.args[0] + "|buffered_for_pending_waitpoint"},
			{"resume a running execution", wireOf(b, enginerpc.ResumeExecutionCall{WaitpointID: w.wait, LaneID: lane, ExecutionID: h.id}).with(3, "x"), "0|execution_not_suspended"},
			{"resume", wireOf(b, enginerpc.ResumeExecutionCall{WaitpointID: w.wait, LaneID: lane, ExecutionID: w.id}).with(3, "x"),
				"0|invalid_input|resume_delay_ms must be a number, got: x"},
			{"frame of another owner", frame.with(3, "other"), "0|stale_owner_cannot_append"},
			{"frame", frame, "0|invalid_input|retention_maxlen must be a number, got: few"},
		} {
			want(t, x.name, b.say(x.call), x.want)
		}
		must(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(idle)})
		want(t, "claim", b.say(claim.with(11, "x")), "0|invalid_input|attempt_timeout_ms must be a number, got: x")
		want(t, "grant afterwards", b.exists(b.keys.ExecClaimGrant(idle)), true)
	})
}

// TestSignalsToOtherWaitpoints signals waitpoints of a suspended execution that it does not wait at.
func TestSignalsToOtherWaitpoints(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, b *bench) {
		never, closed := b.pending(b.running()), b.pending(b.running())
		for _, w := range []waiting{never, closed} {
			must(b, b.suspendCall(w.held, newWaitpointID(), forGo))
		}
		must(b, enginerpc.CloseWaitpointCall{ExecutionID: closed.id, WaitpointID: closed.wait})
		want(t, "one that waits for its suspension", refused(b, b.deliverCall(never, "go")), "waitpoint_not_found")
		want(t, "one that was closed before its suspension", refused(b, b.deliverCall(closed, "go")), "waitpoint_not_found")

		again := b.suspended(forGo)
		must(b, b.deliverCall(again, "go"))
		w := b.pendingAgain(again)
		want(t, "one that began anew after its suspension", refused(b, b.deliverCall(w, "go")), "waitpoint_closed")
	})
}

// pendingAgain claims a resumed execution, creates its waitpoint anew, and suspends it at another waitpoint.
func (b *bench) pendingAgain(w waiting) waiting {
	b.tb.Helper()
	must(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(w.id)})
	reply := must(b, b.resumedCall(w.id))
	w.lease, w.epoch = reply.LeaseID, reply.LeaseEpoch
	made := must(b, enginerpc.CreatePendingWaitpointCall{
		ExecutionID: w.id, AttemptIndex: w.index, WaitpointID: w.wait, WaitpointKey: "key", ExpiresAt: time.Now().Add(time.Hour),
	})
	must(b, b.suspendCall(w.held, newWaitpointID(), forGo))
	w.token = made.WaitpointToken
	return w
}

// TestSuspensionRecords checks which records a call leaves that names waitpoints that are not there.
func TestSuspensionRecords(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, b *bench) {
		t.Run("the record of the last suspension goes even when the next is refused", func(t *testing.T) {
			b := b.in(t)
			w := b.suspended(forGo)
			b.do("DEL", b.keys.ExecWaitpoints(w.id))
			must(b, b.deliverCall(w, "go"))
			must(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(w.id)})
			reply := must(b, b.resumedCall(w.id))
			w.lease, w.epoch = reply.LeaseID, reply.LeaseEpoch
			call := b.suspendCall(w.held, newWaitpointID(), forGo)
			call.UsePendingWaitpoint = true
			want(t, "refusal", refused(b, call), "waitpoint_not_found")
			want(t, "record", b.exists(b.keys.ExecSuspension(w.id)), false)
			member, err := b.do("SISMEMBER", b.keys.ExecWaitpoints(w.id), string(w.wait)).AsInt64()
			want(t, "earlier waitpoint is known", member == 1 && err == nil, true)
		})
		t.Run("a resumption closes the waitpoint that it names", func(t *testing.T) {
			b := b.in(t)
			w, other := b.suspended(forGo), newWaitpointID()
			must(b, enginerpc.ResumeExecutionCall{WaitpointID: other, LaneID: lane, ExecutionID: w.id})
			record := b.keys.WaitpointRecord(partition, other)
			want(t, "state", b.field(record, "state"), "closed")
			want(t, "reason", b.field(record, "close_reason"), "resumed")
			want(t, "times", b.field(record, "satisfied_at"), b.field(record, "closed_at"))
			want(t, "condition", b.exists(b.keys.WaitpointCondition(partition, other)), false)
		})
		for behaviour, reason := range map[string]string{"auto_resume": "timed_out_auto_resume", "expire": "timed_out_expire", "other": "timed_out_fail"} {
			t.Run("a timeout closes the waitpoint that it names: "+behaviour, func(t *testing.T) {
				b := b.in(t)
				h, other := b.running(), newWaitpointID()
				call := b.suspendCall(h, newWaitpointID(), forGo)
				call.TimeoutAt, call.TimeoutBehavior = time.Now().Add(-time.Second), behaviour
				must(b, call)
				must(b, enginerpc.ExpireSuspensionCall{WaitpointID: other, AttemptIndex: h.index, LaneID: lane, ExecutionID: h.id})
				want(t, "waitpoint", b.field(b.keys.WaitpointRecord(partition, other), "close_reason"), reason)
				want(t, "condition", b.field(b.keys.WaitpointCondition(partition, other), "closed_reason"), reason)
				want(t, "condition closed", b.field(b.keys.WaitpointCondition(partition, other), "closed"), "1")
			})
		}
		t.Run("an empty time of creation is signed as 0", func(t *testing.T) {
			b := b.in(t)
			w := b.suspended(forGo)
			b.do("HSET", b.keys.WaitpointRecord(partition, w.wait), "created_at", "")
			mac := hmac.New(sha1.New, []byte{0x00, 0xff})
			mac.Write([]byte(string(w.wait) + "|" + w.key + "|0"))
			w.token = "k1:" + hex.EncodeToString(mac.Sum(nil))
			want(t, "effect", must(b, b.deliverCall(w, "go")).Effect, "resume_condition_satisfied")
		})
	})
}

// TestBudgetTexts sends values that the contract stores without parsing.
func TestBudgetTexts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		t.Run("fewer dimensions than none", func(t *testing.T) {
			b := b.in(t)
			id := enginecore.BudgetID(uuid.NewString())
			call := wireOf(b, enginerpc.CreateBudgetCall{
				Partition: budgetPartition, BudgetID: id, ScopeType: "s", ScopeID: "i", EnforcementMode: "hard", OnHardLimit: "fail",
				OnSoftLimit: "warn", Now: time.Now(),
			})
			want(t, "reply", b.say(call.with(9, "-2")), "1|OK|"+string(id))
			want(t, "limits", b.exists(b.keys.BudgetLimits(budgetPartition, id)), false)
		})
		t.Run("times that nothing is reckoned from", func(t *testing.T) {
			b := b.in(t)
			id := enginecore.BudgetID(uuid.NewString())
			create := wireOf(b, enginerpc.CreateBudgetCall{
				Partition: budgetPartition, BudgetID: id, ScopeType: "s", ScopeID: "i", EnforcementMode: "hard", OnHardLimit: "fail",
				OnSoftLimit: "warn", Now: time.Now(),
				Dims: []enginerpc.CreateBudgetDim{{Name: "n", Hard: "5", Soft: "3"}},
			})
			definition := b.keys.BudgetRecord(budgetPartition, id)
			want(t, "budget", b.say(create.with(8, "today")), "1|OK|"+string(id))
			want(t, "created", b.field(definition, "created_at"), "today")
			report := wireOf(b, use(id, enginerpc.ReportUsageAndCheckDim{Name: "n", Delta: 9}))
			want(t, "report", b.say(report.with(4, "now")), "1|HARD_BREACH|n|0|5")
			want(t, "breach", b.field(definition, "last_breach_at"), "now")
			want(t, "report without a time", b.say(report.cut(3)), "0|invalid_input|now_ms must be a number, got: nil")
			reset := wireOf(b, enginerpc.ResetBudgetCall{Partition: budgetPartition, BudgetID: id, Now: time.Now()})
			want(t, "reset", b.say(reset.with(2, "later")), "1|OK|0")
			want(t, "reset at", b.field(definition, "last_reset_at"), "later")
			b.do("HSET", definition, "reset_interval_ms", "1000")
			want(t, "reset that is reckoned from", b.say(reset.with(2, "later")), "0|invalid_input|now_ms must be a number, got: later")
		})
	})
}

// in is the bench for a part of its test.
func (b *bench) in(t *testing.T) *bench {
	own := *b
	own.tb = t
	return &own
}
