package contracttest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
)

// state is a state of an execution, with the replies of all calls in that state.
type state struct {
	name string
	make func(b *bench) held
	// replies has a line for calls with equal replies: their names, a colon, and the beginning of the reply. <lease>
	// and <attempt> are the last lease id and attempt id.
	replies string
}

// Calls that only the holder of a lease may make, but for ff_append_frame.
const holders = "complete fail delay wait suspend renew progress pend revoke"

// never is an execution without any lease so far.
func never(id enginecore.ExecutionID) held { return held{id: id, lease: "l", epoch: 1, try: "a"} }

var stateTable = []state{
	{"unknown", func(*bench) held { return never(newExecutionID()) }, holders + ` cancel override grant take-over-grant claim resume take-over
		priority block unblock go-on replay tags apply release: 0|execution_not_found
		append: 0|stream_closed
		expire promote time-out: 1|OK|not_found_cleaned
		mark: 1|ALREADY_SATISFIED|execution_not_found
		evaluate: 1|OK|not_found`},
	{"eligible", func(b *bench) held { return never(b.create()) }, holders + `: 0|execution_not_active|none|0|runnable|
		append: 0|stream_closed
		cancel override: 1|OK|cancelled|runnable
		expire: 1|OK|expired|runnable
		grant: 1|OK|
		claim: 1|OK|new|1|
		resume: 0|not_a_resumed_execution
		take-over-grant take-over: 0|execution_not_reclaimable
		priority: 1|OK|0|7
		promote: 1|OK|not_delayed_cleaned
		block: 1|OK|blocked
		unblock: 0|execution_not_eligible
		go-on: 0|execution_not_suspended
		time-out: 1|OK|not_suspended_cleaned
		replay: 0|execution_not_terminal
		mark: 1|ALREADY_SATISFIED|not_active
		tags: 1|OK|1
		apply: 1|OK|1
		evaluate: 1|OK|eligible
		release: 0|not_blocked_by_deps`},
	{"delayed", func(b *bench) held {
		return never(b.create(func(c *enginerpc.CreateExecutionCall) { c.DelayUntil = time.Now().Add(time.Hour) }))
	}, holders + `: 0|execution_not_active|none|0|runnable|
		append: 0|stream_closed
		cancel override: 1|OK|cancelled|runnable
		expire: 1|OK|expired|runnable
		grant priority block unblock: 0|execution_not_eligible
		claim: 0|execution_not_leaseable
		resume: 0|not_a_resumed_execution
		promote: 1|OK|not_yet_due
		evaluate: 1|OK|eligible
		release: 0|not_blocked_by_deps`},
	{"blocked by its dependencies", func(b *bench) held {
		e := b.staged(b.create(), b.create())
		b.apply(e)
		return never(e.down)
	}, holders + `: 0|execution_not_active|none|0|runnable|
		cancel override: 1|OK|cancelled|runnable
		expire: 1|OK|expired|runnable
		grant priority block unblock: 0|execution_not_eligible
		claim: 0|execution_not_leaseable
		resume: 0|not_a_resumed_execution
		promote: 1|OK|not_delayed_cleaned
		apply: 0|execution_already_in_flow
		evaluate: 1|OK|blocked_by_dependencies
		release: 0|deps_not_satisfied|1|1`},
	{"blocked", func(b *bench) held {
		id := b.create()
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: id, BlockingReason: "waiting_for_quota"})
		return never(id)
	}, holders + `: 0|execution_not_active|none|0|runnable|
		cancel override: 1|OK|cancelled|runnable
		expire: 1|OK|expired|runnable
		grant priority: 0|execution_not_eligible
		block: 1|OK|blocked
		unblock: 1|OK|unblocked
		claim: 0|execution_not_leaseable
		promote: 1|OK|not_delayed_cleaned
		evaluate: 1|OK|eligible
		release: 0|not_blocked_by_deps`},
	{"running", (*bench).running, `complete: 1|OK|completed
		fail: 1|OK|terminal_failed
		delay renew suspend pend append: 1|OK|
		wait progress: 1|OK
		revoke: 1|OK|revoked|<lease>|1
		cancel override: 1|OK|cancelled|active
		expire: 1|OK|expired|active
		grant priority block unblock: 0|execution_not_eligible
		claim resume: 0|execution_not_leaseable
		take-over-grant take-over: 0|execution_not_reclaimable
		promote: 1|OK|not_runnable_cleaned
		go-on: 0|execution_not_suspended
		time-out: 1|OK|not_suspended_cleaned
		replay: 0|execution_not_terminal
		mark: 1|ALREADY_SATISFIED|not_yet_expired
		tags: 1|OK|1
		apply: 1|OK|1
		evaluate: 1|OK|not_runnable
		release: 0|not_runnable`},
	{"lapsed", (*bench).lapsed, `complete fail delay wait suspend renew progress: 0|lease_expired
		append: 0|stale_owner_cannot_append
		pend: 0|no_active_lease
		revoke: 1|OK|revoked|<lease>|1
		cancel override: 1|OK|cancelled|active
		take-over-grant take-over: 0|execution_not_reclaimable
		claim resume: 0|execution_not_leaseable
		mark: 1|OK|marked_expired`},
	{"marked", func(b *bench) held {
		h := b.lapsed()
		must(b, enginerpc.MarkLeaseExpiredIfDueCall{ExecutionID: h.id})
		return h
	}, `complete fail delay wait suspend renew progress: 0|lease_expired
		append: 0|stale_owner_cannot_append
		pend: 0|no_active_lease
		revoke: 1|ALREADY_SATISFIED|already_expired
		cancel override: 1|OK|cancelled|active
		expire: 1|OK|expired|active
		take-over-grant: 1|OK|
		take-over: 1|OK|new|2|
		claim resume: 0|execution_not_leaseable
		mark: 1|ALREADY_SATISFIED|already_expired`},
	{"revoked", func(b *bench) held {
		h := b.running()
		b.revoke(h)
		return h
	}, `complete fail delay wait suspend renew progress cancel: 0|lease_revoked
		append: 0|stale_owner_cannot_append
		pend: 0|no_active_lease
		revoke: 1|ALREADY_SATISFIED|already_revoked
		override: 1|OK|cancelled|active
		expire: 1|OK|expired|active
		take-over-grant: 1|OK|
		take-over: 1|OK|new|2|
		mark: 1|ALREADY_SATISFIED|already_revoked`},
	{"suspended", func(b *bench) held { return b.suspended(forGo).held }, holders + `: 0|execution_not_active|none|1|suspended|<attempt>
		append: 0|stream_closed
		cancel override: 1|OK|cancelled|suspended
		expire: 1|OK|expired|suspended
		grant priority block unblock: 0|execution_not_eligible
		claim resume: 0|execution_not_leaseable
		take-over: 0|execution_not_reclaimable
		promote: 1|OK|not_runnable_cleaned
		go-on: 1|OK|waiting
		time-out: 1|OK|not_yet_due
		replay: 0|execution_not_terminal
		mark: 1|ALREADY_SATISFIED|not_active
		apply: 1|OK|1
		evaluate: 1|OK|not_runnable`},
	{"resumed", func(b *bench) held {
		w := b.suspended(forGo)
		must(b, b.deliverCall(w, "go"))
		return w.held
	}, holders + `: 0|execution_not_active|none|1|runnable|<attempt>
		append: 0|stream_closed
		cancel override: 1|OK|cancelled|runnable
		grant: 1|OK|
		claim: 0|use_claim_resumed_execution
		resume: 1|OK|new|2|
		priority: 1|OK|0|7
		block: 1|OK|blocked
		go-on: 0|execution_not_suspended
		time-out: 1|OK|not_suspended_cleaned`},
	{"before a retry", func(b *bench) held {
		h := b.running()
		b.fail(h, `{"max_retries":1}`)
		return h
	}, holders + `: 0|execution_not_active|none|1|runnable|
		cancel override: 1|OK|cancelled|runnable
		claim: 0|execution_not_leaseable
		resume: 0|not_a_resumed_execution
		promote: 1|OK|not_yet_due`},
	{"completed", func(b *bench) held {
		h := b.running()
		b.complete(h, "")
		return h
	}, holders + ` cancel override block: 0|execution_not_active|success|1|terminal|<attempt>
		append: 0|stream_closed
		expire: 1|OK|already_terminal
		grant priority unblock: 0|execution_not_eligible
		claim resume: 0|execution_not_leaseable
		take-over-grant take-over: 0|execution_not_reclaimable
		promote: 1|OK|not_runnable_cleaned
		go-on: 0|execution_not_suspended
		time-out: 1|OK|not_suspended_cleaned
		replay: 1|OK|0
		mark: 1|ALREADY_SATISFIED|not_active
		tags: 1|OK|1
		apply: 1|OK|1
		evaluate: 1|OK|not_runnable
		release: 0|not_runnable`},
	{"cancelled before it ran", func(b *bench) held {
		id := b.create()
		b.cancel(id)
		return never(id)
	}, holders + ` cancel override block: 0|execution_not_active|cancelled|0|terminal|
		expire: 1|OK|already_terminal
		replay: 1|OK|0`},
	{"skipped", func(b *bench) held {
		e := b.staged(b.create(), b.create())
		b.apply(e)
		b.resolve(e, "failed")
		return never(e.down)
	}, holders + ` cancel override block: 0|execution_not_active|skipped|0|terminal|
		replay: 1|OK|1
		evaluate: 1|OK|not_runnable`},
	{"replayed", func(b *bench) held {
		h := b.running()
		b.fail(h, "")
		b.replay(h.id)
		return h
	}, holders + `: 0|execution_not_active|none|1|runnable|<attempt>
		grant: 1|OK|
		claim: 1|OK|new|2|
		resume: 0|not_a_resumed_execution
		replay: 0|execution_not_terminal`},
}

// nodeReplies are the replies that are others for nodes of runs, by state: edges lead to them in their own flow.
var nodeReplies = map[string]string{"blocked by its dependencies": "apply: 1|OK|2"}

// lapsed returns a lease that has expired, but is not marked as expired.
func (b *bench) lapsed() held {
	b.tb.Helper()
	h := b.running()
	b.set(h.id, "lease_expires_at", "1")
	return h
}

// callsOn are the calls about an execution by a name that this test gives them. Calls that need a grant find one.
func (b *bench) callsOn(h held) map[string]wire {
	reclaim := b.reclaimCall(h)
	claim, resumed := b.claimCall(h.id), b.resumedCall(h.id)
	reclaim.LeaseID, claim.LeaseID, resumed.LeaseID = "new", "new", "new"
	reclaimGrant := enginerpc.IssueReclaimGrantCall{Grant: b.grantCall(h.id)}
	cancel := b.cancelCall(h.id)
	byHolder := cancel
	byHolder.Source, byHolder.LeaseID, byHolder.LeaseEpoch = "", h.lease, h.epoch
	flow := enginecore.FlowID(uuid.NewString())
	if rowread.Ordinal(h.id) > 0 {
		flow = rowread.FlowID(h.id)
	}
	return map[string]wire{
		"complete": wireOf(b, enginerpc.CompleteExecutionCall{
			AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
		}),
		"fail": wireOf(b, enginerpc.FailExecutionCall{
			AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
		}),
		"delay": wireOf(b, enginerpc.DelayExecutionCall{
			AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
			DelayUntil: time.Now(),
		}),
		"wait": wireOf(b, enginerpc.MoveToWaitingChildrenCall{
			AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
		}),
		"suspend": wireOf(b, b.suspendCall(h, newWaitpointID(), forGo)),
		"renew": wireOf(b, enginerpc.RenewLeaseCall{
			ExecutionID: h.id, AttemptIndex: h.index, AttemptID: h.try, LeaseID: h.lease, LeaseEpoch: h.epoch, LeaseTTL: longLease,
		}),
		"progress": wireOf(b, enginerpc.UpdateProgressCall{ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, ProgressPct: "5"}),
		"pend": wireOf(b, enginerpc.CreatePendingWaitpointCall{
			ExecutionID: h.id, AttemptIndex: h.index, WaitpointID: newWaitpointID(), WaitpointKey: "key", ExpiresAt: time.Now(),
		}),
		"append": wireOf(b, enginerpc.AppendFrameCall{
			ExecutionID: h.id, AttemptIndex: h.index, LeaseID: h.lease, LeaseEpoch: h.epoch, FrameType: "delta", MaxPayloadBytes: 9,
		}),
		"revoke":          wireOf(b, enginerpc.RevokeLeaseCall{WorkerInstanceID: instance, ExecutionID: h.id}),
		"cancel":          wireOf(b, byHolder),
		"override":        wireOf(b, cancel),
		"expire":          wireOf(b, enginerpc.ExpireExecutionCall{WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, ExpireReason: "operator"}),
		"grant":           wireOf(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(h.id)}),
		"take-over-grant": wireOf(b, reclaimGrant),
		"claim":           wireOf(b, claim),
		"resume":          wireOf(b, resumed),
		"take-over":       wireOf(b, reclaim),
		"priority":        wireOf(b, enginerpc.ChangePriorityCall{LaneID: lane, ExecutionID: h.id, NewPriority: 7}),
		"promote":         wireOf(b, enginerpc.PromoteDelayedCall{LaneID: lane, ExecutionID: h.id, Now: time.Now()}),
		"block":           wireOf(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: h.id, BlockingReason: "waiting_for_quota"}),
		"unblock":         wireOf(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: h.id}),
		"go-on":           wireOf(b, enginerpc.ResumeExecutionCall{WaitpointID: newWaitpointID(), LaneID: lane, ExecutionID: h.id}),
		"time-out": wireOf(b, enginerpc.ExpireSuspensionCall{
			WaitpointID: newWaitpointID(), AttemptIndex: h.index, LaneID: lane, ExecutionID: h.id,
		}),
		"replay": wireOf(b, enginerpc.ReplayExecutionCall{LaneID: lane, ExecutionID: h.id}),
		"mark":   wireOf(b, enginerpc.MarkLeaseExpiredIfDueCall{ExecutionID: h.id}),
		"tags":   {function: "ff_set_execution_tags", keys: []string{b.keys.ExecCore(h.id), b.keys.ExecTags(h.id)}, args: []string{"a.b", "c"}},
		"apply": wireOf(b, enginerpc.ApplyDependencyToChildCall{
			DownstreamExecutionID: h.id, LaneID: lane, FlowID: flow, EdgeID: enginecore.EdgeID(uuid.NewString()),
			UpstreamExecutionID: newExecutionID(), GraphRevision: 1,
		}),
		"evaluate": wireOf(b, enginerpc.EvaluateFlowEligibilityCall{ExecutionID: h.id}),
		"release":  wireOf(b, enginerpc.PromoteBlockedToEligibleCall{LaneID: lane, ExecutionID: h.id}),
	}
}

// needsGrant are the calls that use up a grant.
var needsGrant = map[string]bool{"claim": true, "resume": true, "take-over": true}

// TestEveryState makes each call on an execution in each state.
func TestEveryState(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, b *bench) {
		b.secret()
		for _, s := range stateTable {
			for name, begin := range s.expected(b) {
				b.replenish()
				h := s.make(b)
				call, ok := b.callsOn(h)[name]
				if !ok {
					t.Fatalf("no call is named %q", name)
				}
				if needsGrant[name] {
					b.do("HSET", b.keys.ExecClaimGrant(h.id), "worker_id", worker)
				}
				begin := strings.NewReplacer("<lease>", string(h.lease), "<attempt>", string(h.try)).Replace(begin)
				if got := b.say(call); !strings.HasPrefix(got, begin) || strings.HasPrefix(begin, "0") && got != begin {
					t.Errorf("%s, %s: reply %s, want %s", s.name, name, got, begin)
				}
			}
		}
	})
}

// expected returns the expected replies in a state, by the names of the calls.
func (s state) expected(b *bench) map[string]string {
	b.tb.Helper()
	replies := s.replies
	if b.nodes != nil {
		replies += "\n" + nodeReplies[s.name]
	}
	out := make(map[string]string)
	var names []string
	for line := range strings.SplitSeq(strings.TrimSpace(replies), "\n") {
		more, begin, ends := strings.Cut(line, ": ")
		names = append(names, strings.Fields(more)...)
		if ends {
			for _, name := range names {
				out[name] = begin
			}
			names = nil
		}
	}
	if len(names) > 0 {
		b.tb.Fatalf("%s: no reply for %q", s.name, names)
	}
	return out
}
