package contracttest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// transition is a change of state, with the values of the eight state fields afterwards and the indexes that contain
// the execution.
type transition struct {
	name string
	make func(b *bench) held
	// call is a name of callsOn, or "" when `make` has made the call.
	call string
	// fields are lifecycle, ownership, eligibility, reason, outcome, attempt, public state and detail. <lease>,
	// <attempt> and <due> are placeholders for the execution's own values.
	fields  string
	indexes string
	// stays: last_transition_at is not written.
	stays bool
}

const waiting1 = "runnable unowned eligible_now waiting_for_worker none "

var transitions = []transition{
	{"create", func(b *bench) held { return never(b.create()) }, "", waiting1 + "pending_first_attempt waiting ", "eligible", false},
	{"create delayed", func(b *bench) held {
		return never(b.create(func(c *enginerpc.CreateExecutionCall) { c.DelayUntil = time.Now().Add(time.Hour) }))
	}, "", "runnable unowned not_eligible_until_time waiting_for_delay none pending_first_attempt delayed delayed until <due>", "delayed", false},
	{"claim", func(b *bench) held { return b.granted(b.create()) }, "claim", "active leased not_applicable none none running_attempt active ", "active lease_expiry worker", false},
	{"claim a resumed one", func(b *bench) held { h := b.resumed(); b.granted(h.id); return h }, "resume",
		"active leased not_applicable none none running_attempt active ", "active attempt_timeout execution_deadline lease_expiry worker", false},
	{"mark", (*bench).lapsedTimed, "mark", "active lease_expired_reclaimable not_applicable waiting_for_worker none attempt_interrupted active " +
		"lease expired, awaiting reclaim", "active attempt_timeout execution_deadline lease_expiry worker", true},
	{"mark by a call of the former holder", (*bench).lapsedTimed, "complete",
		"active lease_expired_reclaimable not_applicable waiting_for_worker none attempt_interrupted active lease expired, awaiting reclaim",
		"active attempt_timeout execution_deadline lease_expiry worker", true},
	{"progress of a former holder", (*bench).lapsedTimed, "progress", "active leased not_applicable none none running_attempt active ",
		"active attempt_timeout execution_deadline lease_expiry worker", true},
	{"append of a former holder", (*bench).lapsedTimed, "append", "active leased not_applicable none none running_attempt active ",
		"active attempt_timeout execution_deadline lease_expiry worker", true},
	{"revoke", (*bench).timed, "revoke", "active lease_revoked not_applicable waiting_for_worker none attempt_interrupted active lease revoked: operator",
		"active attempt_timeout execution_deadline lease_expiry", true},
	{"take over", func(b *bench) held { h := b.timed(); b.revoke(h); b.granted(h.id); return h }, "take-over",
		"active leased not_applicable none none running_attempt active ", "active execution_deadline lease_expiry worker", false},
	{"complete", (*bench).timed, "complete", "terminal unowned not_applicable none success attempt_terminal completed ", "terminal", false},
	{"fail", (*bench).timed, "fail", "terminal unowned not_applicable none failed attempt_terminal failed ", "terminal", false},
	{"fail with a retry", func(b *bench) held {
		h := b.timed()
		b.fail(h, `{"max_retries":1}`)
		return h
	}, "", "runnable unowned not_eligible_until_time waiting_for_retry_backoff none pending_retry_attempt delayed retry backoff until <due> " +
		"(attempt 0 failed: boom)", "delayed execution_deadline", false},
	{"cancel", (*bench).timed, "cancel", "terminal unowned not_applicable none cancelled attempt_terminal cancelled ", "terminal", false},
	{"cancel one that was never claimed", func(b *bench) held { return never(b.create()) }, "cancel",
		"terminal unowned not_applicable none cancelled pending_first_attempt cancelled ", "terminal", false},
	{"cancel before a retry", func(b *bench) held { h := b.timed(); b.fail(h, `{"max_retries":1}`); return h }, "override",
		"terminal unowned not_applicable none cancelled attempt_terminal cancelled ", "terminal", false},
	{"cancel a suspended one", (*bench).asleep, "override", "terminal unowned not_applicable none cancelled attempt_terminal cancelled ", "terminal", false},
	{"expire", (*bench).timed, "expire", "terminal unowned not_applicable none expired attempt_terminal expired ", "terminal", false},
	{"expire a suspended one", (*bench).asleep, "expire", "terminal unowned not_applicable none expired attempt_terminal expired ", "terminal", false},
	{"expire one that was never claimed", func(b *bench) held { return never(b.create()) }, "expire",
		"terminal unowned not_applicable none expired pending_first_attempt expired ", "terminal", false},
	{"delay", (*bench).timed, "delay", "runnable unowned not_eligible_until_time waiting_for_delay none attempt_interrupted delayed delayed until <due>",
		"delayed execution_deadline", false},
	{"wait", func(b *bench) held {
		h := b.timed()
		b.apply(b.staged(b.create(), h.id))
		return h
	}, "wait", "runnable unowned blocked_by_dependencies waiting_for_children none attempt_interrupted waiting_children " +
		"waiting for child executions to complete", "blocked_dependencies execution_deadline", false},
	{"promote", func(b *bench) held {
		h := b.timed()
		b.delay(h, time.Now().Add(-time.Second))
		return h
	}, "promote", waiting1 + "attempt_interrupted waiting ", "eligible execution_deadline", false},
	{"block", (*bench).resumed, "block", "runnable unowned blocked_by_quota waiting_for_quota none attempt_interrupted rate_limited ",
		"blocked_quota execution_deadline", false},
	{"unblock", func(b *bench) held { h := b.resumed(); b.say(b.callsOn(h)["block"]); return h }, "unblock",
		waiting1 + "attempt_interrupted waiting ", "eligible execution_deadline", false},
	{"replay", func(b *bench) held { h := b.timed(); b.complete(h, ""); return h }, "replay", waiting1 + "pending_replay_attempt waiting ", "eligible", false},
	{"replay a skipped one", func(b *bench) held {
		e := b.staged(b.create(), b.create())
		b.apply(e)
		b.resolve(e, "failed")
		return never(e.down)
	}, "replay", "runnable unowned blocked_by_dependencies waiting_for_children none pending_replay_attempt waiting_children 1 dep(s) unsatisfied after replay",
		"blocked_dependencies", false},
	{"suspend", (*bench).asleep, "", "suspended unowned not_applicable paused_by_operator none attempt_interrupted suspended " +
		"suspended: waitpoint <waitpoint> awaiting manual_pause", "execution_deadline suspended suspension_timeout", false},
	{"resume", (*bench).asleep, "go-on", waiting1 + "attempt_interrupted waiting ", "eligible execution_deadline", false},
	{"resume by a signal", (*bench).resumed, "", waiting1 + "attempt_interrupted waiting ", "eligible execution_deadline", false},
	{"escalate", func(b *bench) held { return b.timedOut("escalate") }, "time-out",
		"suspended unowned not_applicable paused_by_operator none attempt_interrupted suspended suspension escalated: timeout at 1000",
		"execution_deadline suspended", true},
	{"time out and resume", func(b *bench) held { return b.timedOut("auto_resume_with_timeout_signal") }, "time-out",
		waiting1 + "attempt_interrupted waiting ", "eligible execution_deadline", false},
	{"time out and be cancelled", func(b *bench) held { return b.timedOut("cancel") }, "time-out",
		"terminal unowned not_applicable none cancelled attempt_terminal cancelled ", "terminal", false},
	{"time out and expire", func(b *bench) held { return b.timedOut("expire") }, "time-out",
		"terminal unowned not_applicable none expired attempt_terminal expired ", "terminal", false},
	{"time out otherwise", func(b *bench) held { return b.timedOut("whatever") }, "time-out",
		"terminal unowned not_applicable none failed attempt_terminal failed ", "terminal", false},
	{"apply", (*bench).resumed, "apply", "runnable unowned blocked_by_dependencies waiting_for_children none attempt_interrupted waiting_children " +
		"1 dep(s) unresolved incl <edge>", "blocked_dependencies execution_deadline", false},
	{"apply to one that runs", (*bench).timed, "apply", "active leased not_applicable none none running_attempt active ",
		"active attempt_timeout execution_deadline lease_expiry worker", true},
	{"resolve", func(b *bench) held { return b.resolved(b.resumed(), "success") }, "", waiting1 + "attempt_interrupted waiting ", "eligible execution_deadline", false},
	{"resolve for one that was never claimed", func(b *bench) held { return b.resolved(never(b.create()), "success") }, "",
		waiting1 + "pending_first_attempt waiting ", "eligible", false},
	{"skip", func(b *bench) held { return b.resolved(never(b.create()), "failed") }, "", "terminal unowned not_applicable none skipped none skipped ", "terminal", false},
	{"skip a resumed one", func(b *bench) held { return b.resolved(b.resumed(), "cancelled") }, "",
		"terminal unowned not_applicable none skipped attempt_terminal skipped ", "terminal", false},
	{"skip a suspended one", func(b *bench) held { return b.resolved(b.asleep(), "expired") }, "",
		"terminal unowned not_applicable none skipped attempt_terminal skipped ", "terminal", false},
	{"skip one that runs", func(b *bench) held { return b.resolved(b.timed(), "skipped") }, "",
		"terminal unowned not_applicable none skipped attempt_terminal skipped ", "terminal", false},
	{"release", func(b *bench) held {
		h := never(b.create())
		b.apply(b.staged(b.create(), h.id))
		b.forgetEdges(h.id)
		return h
	}, "release", waiting1 + "pending_first_attempt waiting ", "eligible", false},
}

// granted gives the worker a grant, whatever the state.
func (b *bench) granted(id enginecore.ExecutionID) held {
	b.tb.Helper()
	b.do("HSET", b.keys.ExecClaimGrant(id), "worker_id", worker)
	return never(id)
}

// timed is running work with a timeout and a deadline.
func (b *bench) timed() held {
	b.tb.Helper()
	return b.claim(b.create(), func(c *enginerpc.ClaimExecutionCall) {
		c.AttemptTimeout, c.ExecutionDeadlineAt = time.Hour, time.Now().Add(time.Hour)
	})
}

func (b *bench) lapsedTimed() held {
	b.tb.Helper()
	h := b.timed()
	b.set(h.id, "lease_expires_at", "1")
	return h
}

// sleeping suspends timed work.
func (b *bench) sleeping(behaviour string, until time.Time) waiting {
	b.tb.Helper()
	b.secret()
	h := b.timed()
	call := b.suspendCall(h, newWaitpointID(), forGo)
	call.ReasonCode, call.TimeoutAt, call.TimeoutBehavior = "manual_pause", until, behaviour
	reply := must(b, call)
	return waiting{held: h, wait: reply.WaitpointID, key: reply.WaitpointKey, token: reply.WaitpointToken}
}

func (b *bench) asleep() held { return b.sleeping("fail", time.Now().Add(time.Hour)).held }

// timedOut is suspended work whose time is up.
func (b *bench) timedOut(behaviour string) held {
	return b.sleeping(behaviour, time.UnixMilli(1000)).held
}

// resumed returns timed work that a signal has resumed.
func (b *bench) resumed() held {
	b.tb.Helper()
	w := b.sleeping("fail", time.Now().Add(time.Hour))
	must(b, b.deliverCall(w, "go"))
	return w.held
}

// resolved adds an edge that leads to the execution, whose upstream ends with an outcome.
func (b *bench) resolved(h held, outcome string) held {
	b.tb.Helper()
	e := b.staged(b.create(), h.id)
	b.apply(e)
	b.resolve(e, outcome)
	return h
}

// forgetEdges closes the edges that lead to an execution, without a word to it.
func (b *bench) forgetEdges(id enginecore.ExecutionID) {
	b.tb.Helper()
	if b.nodes != nil {
		b.set(id, "open", "0")
		return
	}
	b.do("HSET", b.keys.ExecDepsMeta(id), "unsatisfied_required_count", "0")
	b.do("DEL", b.keys.ExecDepsUnresolved(id))
}

// onlyOfRecords are the indexes that do not contain nodes of runs: the rows hold their states.
var onlyOfRecords = map[string]bool{"active": true, "terminal": true, "blocked_dependencies": true, "worker": true}

// eligibleSet is the key of the lane's eligible executions. A single server keeps the nodes of all partitions' runs in
// partition 0.
func (b *bench) eligibleSet() string {
	p := partition
	if b.nodes != nil && b.client.Mode() != rueidis.ClientModeCluster {
		p.Index = 0
	}
	return b.keys.LaneEligible(p, lane)
}

// indexesOf are the indexes that an execution is in, by their names.
func (b *bench) indexesOf(id enginecore.ExecutionID) string {
	b.tb.Helper()
	var in []string
	for name, key := range map[string]string{
		"eligible": b.eligibleSet(), "delayed": b.keys.LaneDelayed(partition, lane), "active": b.keys.LaneActive(partition, lane),
		"terminal": b.keys.LaneTerminal(partition, lane), "suspended": b.keys.LaneSuspended(partition, lane),
		"blocked_dependencies": b.keys.LaneBlockedDependencies(partition, lane), "blocked_budget": b.keys.LaneBlockedBudget(partition, lane),
		"blocked_quota": b.keys.LaneBlockedQuota(partition, lane), "blocked_route": b.keys.LaneBlockedRoute(partition, lane),
		"blocked_operator": b.keys.LaneBlockedOperator(partition, lane), "lease_expiry": b.keys.IndexLeaseExpiry(partition),
		"suspension_timeout": b.keys.IndexSuspensionTimeout(partition), "attempt_timeout": b.keys.IndexAttemptTimeout(partition),
		"execution_deadline": b.keys.IndexExecutionDeadline(partition),
	} {
		if _, there := b.score(key, string(id)); there {
			in = append(in, name)
		}
	}
	if member, _ := b.do("SISMEMBER", b.keys.IndexWorkerLeases(partition, instance), string(id)).AsInt64(); member == 1 {
		in = append(in, "worker")
	}
	slices.Sort(in)
	return strings.Join(in, " ")
}

// TestTransitions goes through all changes of state that the contract knows.
func TestTransitions(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, b *bench) {
		b.secret()
		for _, x := range transitions {
			b.replenish()
			h := x.make(b)
			if x.call != "" {
				b.set(h.id, "last_transition_at", "1000")
				call, ok := b.callsOn(h)[x.call]
				if !ok {
					t.Fatalf("no call is named %q", x.call)
				}
				reply := b.say(call)
				want(t, x.name+": time of the change stays ("+reply+")", b.core(h.id, "last_transition_at") == "1000", x.stays)
			}
			var fields []string
			for _, name := range []string{
				"lifecycle_phase", "ownership_state", "eligibility_state", "blocking_reason", "terminal_outcome", "attempt_state", "public_state",
				"blocking_detail",
			} {
				fields = append(fields, b.core(h.id, name))
			}
			edge, _ := b.do("SRANDMEMBER", b.keys.ExecDepsAllEdges(h.id)).ToString()
			wanted := strings.NewReplacer("<due>", b.core(h.id, "delay_until"), "<waitpoint>", b.core(h.id, "current_waitpoint_id"), "<edge>", edge).
				Replace(x.fields)
			want(t, x.name+": state", strings.Join(fields, " "), wanted)
			indexes := strings.Fields(x.indexes)
			if b.nodes != nil {
				indexes = slices.DeleteFunc(indexes, func(name string) bool { return onlyOfRecords[name] })
			}
			want(t, x.name+": indexes", b.indexesOf(h.id), strings.Join(indexes, " "))
		}
	})
}
