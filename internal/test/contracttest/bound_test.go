package contracttest

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
)

// boundHazards are weaknesses in the bounds on values that callers pass or policies contain.
var boundHazards = []hazard{
	{"A9 a pause that dependencies hide leaves its index", func(t *testing.T, b *bench) {
		e := b.staged(b.create(), b.create())
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: e.down, BlockingReason: "paused_by_policy"})
		index := b.keys.LaneBlockedBudget(partition, lane)
		_, paused := b.score(index, string(e.down))
		b.apply(e)
		_, stays := b.score(index, string(e.down))
		want(t, "entry of the pause", paused, true)
		want(t, "entry while dependencies are open", stays, false)
	}},
	{"D9 the policy bounds the size of a stream", func(t *testing.T, b *bench) {
		h := b.claim(b.create(withPolicy(`{"stream_policy":{"max_frame_bytes":10,"retention_maxlen":"3"}}`)))
		frame := func(bytes int, keep int64) enginerpc.AppendFrameCall {
			return enginerpc.AppendFrameCall{
				ExecutionID: h.id, AttemptIndex: h.index, LeaseID: h.lease, LeaseEpoch: h.epoch, FrameType: "delta",
				Payload: make([]byte, bytes), RetentionMaxlen: keep, MaxPayloadBytes: 1000,
			}
		}
		stream, meta := b.keys.StreamFrames(h.id, h.index), b.keys.StreamMeta(h.id, h.index)
		want(t, "too large first", refused(b, frame(11, 0)), "retention_limit_exceeded")
		want(t, "stream", b.exists(meta), false)
		for range 5 {
			must(b, frame(10, 1000))
		}
		want(t, "too large", refused(b, frame(11, 0)), "retention_limit_exceeded")
		want(t, "frames", b.length(stream), 3)
		want(t, "retention", b.field(meta, "retention_maxlen"), "3")
		must(b, frame(1, 0))
		want(t, "frames without a wish", b.length(stream), 3)
		must(b, frame(1, 2))
		want(t, "frames with a lower wish", b.length(stream), 2)
		want(t, "retention", b.field(meta, "retention_maxlen"), "2")
	}},
	{"E6 a breach that lasts is counted once", func(t *testing.T, b *bench) {
		id := b.budget(enginerpc.CreateBudgetDim{Name: "a", Hard: "10", Soft: "5"}, enginerpc.CreateBudgetDim{Name: "b", Hard: "10", Soft: "0"})
		report := func(name string, delta int64, status enginerpc.Status) {
			t.Helper()
			want(t, "status", must(b, use(id, enginerpc.ReportUsageAndCheckDim{Name: name, Delta: delta})).Status, status)
		}
		counts := func(hard, soft string) {
			t.Helper()
			record := b.keys.BudgetRecord(budgetPartition, id)
			want(t, "breaches", b.field(record, "breach_count"), hard)
			want(t, "soft breaches", b.field(record, "soft_breach_count"), soft)
		}
		report("a", 20, "HARD_BREACH")
		report("b", 1, enginerpc.StatusOK)
		report("a", 20, "HARD_BREACH")
		counts("1", "0")
		report("b", 20, "HARD_BREACH")
		report("a", 20, "HARD_BREACH")
		counts("2", "0")
		report("a", 6, "SOFT_BREACH")
		report("a", 1, "SOFT_BREACH")
		counts("2", "1")
		report("a", 20, "HARD_BREACH")
		counts("3", "1")
		must(b, enginerpc.ResetBudgetCall{Partition: budgetPartition, BudgetID: id, Now: time.Now()})
		report("a", 20, "HARD_BREACH")
		report("b", 20, "HARD_BREACH")
		counts("5", "1")
	}},
	{"F4 refusals for want of a capability write now and then", func(t *testing.T, b *bench) {
		id := b.create(withPolicy(`{"routing_requirements":{"required_capabilities":["gpu"]}}`))
		b.writesSeldom(t, id, "last_capability_mismatch_at", func() string {
			return refused(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(id)})
		}, "capability_mismatch")
	}},
	{"H-29 an attempt continues with the rest of its timeout", func(t *testing.T, b *bench) {
		asides := map[string]func(held){
			"suspend": func(h held) {
				b.secret()
				wait := enginecore.WaitpointID(uuid.NewString())
				must(b, b.suspendCall(h, wait, forGo))
				must(b, enginerpc.ResumeExecutionCall{WaitpointID: wait, LaneID: lane, ExecutionID: h.id})
			},
			"delay": func(h held) {
				b.delay(h, time.Now())
				must(b, enginerpc.PromoteDelayedCall{LaneID: lane, ExecutionID: h.id, Now: time.Now().Add(time.Second)})
			},
			"wait": func(h held) {
				must(b, enginerpc.MoveToWaitingChildrenCall{
					AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch,
					AttemptID: h.try,
				})
				if b.nodes == nil {
					must(b, enginerpc.PromoteBlockedToEligibleCall{LaneID: lane, ExecutionID: h.id})
				}
			},
		}
		index := b.keys.IndexAttemptTimeout(partition)
		left := func(e enginecore.ExecutionID) time.Duration {
			at, armed := b.score(index, string(e))
			if !armed {
				return 0
			}
			return time.Until(time.UnixMilli(int64(at)))
		}
		for name, aside := range asides {
			h := b.claim(b.create(), func(c *enginerpc.ClaimExecutionCall) { c.AttemptTimeout = time.Hour })
			aside(h)
			want(t, name+": timeout while it waits", left(h.id), 0)
			must(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(h.id)})
			again := must(b, b.resumedCall(h.id))
			want(t, name+": restored", left(h.id) > 59*time.Minute && left(h.id) < time.Hour, true)
			want(t, name+": remembered", b.core(h.id, "remaining_attempt_timeout"), "")

			h.lease, h.epoch = again.LeaseID, again.LeaseEpoch
			aside(h)
			must(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(h.id)})
			call := b.resumedCall(h.id)
			call.RemainingAttemptTimeout = time.Minute
			must(b, call)
			want(t, name+": the caller's", left(h.id) > 50*time.Second && left(h.id) < time.Minute, true)

			h = b.running()
			aside(h)
			must(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(h.id)})
			must(b, b.resumedCall(h.id))
			want(t, name+": none", left(h.id), 0)
			_, there := b.record(h.id)["remaining_attempt_timeout"]
			want(t, name+": field", there, false)
		}
	}},
	{"H-29 a node that is given back begins anew, with its whole timeout", func(t *testing.T, b *bench) {
		id := b.submitRun([]enginerpc.PutGraphNode{
			{Name: "node", Kind: "kind", LaneID: lane, Policy: []byte("{}"), AttemptTimeout: time.Hour},
		}).ExecutionID("node")
		index := b.keys.IndexAttemptTimeout(partition)
		claim := func() enginerpc.ClaimedExecution {
			reply := must(b, enginerpc.ClaimCall{Partition: partition, ClaimRequest: enginerpc.ClaimRequest{
				LaneID: lane, WorkerID: worker, WorkerInstanceID: instance, ClaimID: uuid.NewString(), Count: 1, LeaseTTL: longLease, Kinds: "\nkind\n",
			}})
			if len(reply.Executions) != 1 {
				t.Fatalf("%d executions", len(reply.Executions))
			}
			return reply.Executions[0]
		}
		release := func(c enginerpc.ClaimedExecution) {
			must(b, enginerpc.ReleaseCall{
				Partition: partition, ExecutionID: id, LeaseID: c.LeaseID, LeaseEpoch: c.LeaseEpoch, AttemptID: c.AttemptID, Reason: "stop",
			})
		}
		held := claim()
		b.do("ZADD", index, fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()), string(id)) // most of it is used up
		release(held)
		_, armed := b.score(index, string(id))
		want(t, "armed while it waits", armed, false)
		claim()
		at, _ := b.score(index, string(id))
		left := time.Until(time.UnixMilli(int64(at)))
		want(t, "armed anew", left > 59*time.Minute, true)
		want(t, "remembered", b.core(id, "remaining_attempt_timeout"), "")
	}},
	{"H-29 a new attempt has a timeout of its own", func(t *testing.T, b *bench) {
		h := b.claim(b.create(), func(c *enginerpc.ClaimExecutionCall) { c.AttemptTimeout = time.Hour })
		b.delay(h, time.Now().Add(time.Hour))
		b.cancel(h.id)
		b.replay(h.id)
		h = b.claim(h.id)
		want(t, "remembered", b.core(h.id, "remaining_attempt_timeout"), "")
		_, armed := b.score(b.keys.IndexAttemptTimeout(partition), string(h.id))
		want(t, "armed", armed, false)
	}},
	{"H-63 failed token checks write now and then", func(t *testing.T, b *bench) {
		w := b.suspended(forGo)
		w.token = "k1:" + strings.Repeat("0", 40)
		b.writesSeldom(t, w.id, "last_hmac_validation_failed_at", func() string { return refused(b, b.deliverCall(w, "go")) }, "invalid_token")
	}},
}

// writesSeldom checks that a refusal stores its time in a field of the execution's record at most every ten seconds.
func (b *bench) writesSeldom(t *testing.T, e enginecore.ExecutionID, field string, refuse func() string, code string) {
	t.Helper()
	want(t, "refusal", refuse(), code)
	now := time.Now().UnixMilli()
	want(t, "time is there", b.core(e, field) != "", true)
	recent := fmt.Sprint(now - 5000)
	b.set(e, field, recent)
	want(t, "refusal", refuse(), code)
	want(t, "time of a refusal soon after", b.core(e, field), recent)
	old := fmt.Sprint(now - 10001)
	b.set(e, field, old)
	want(t, "refusal", refuse(), code)
	want(t, "time of a later one is new", b.core(e, field) != old, true)
}

func (b *bench) resumedCall(e enginecore.ExecutionID) enginerpc.ClaimResumedExecutionCall {
	return enginerpc.ClaimResumedExecutionCall{
		ExecutionID: e, WorkerID: worker, WorkerInstanceID: instance, LaneID: lane, LeaseID: enginecore.LeaseID(uuid.NewString()),
		LeaseTTL: longLease,
	}
}

// length is how many entries a stream has.
func (b *bench) length(stream string) int64 {
	b.tb.Helper()
	n, err := b.do("XLEN", stream).AsInt64()
	if err != nil {
		b.tb.Fatal(err)
	}
	return n
}

// TestNodesAreNotCreated creates executions with the ids of nodes.
func TestNodesAreNotCreated(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		s := b.submit()
		before := b.record(s.second)
		create := b.newCreate()
		create.ExecutionID = s.second
		want(t, "creation of a node", must(b, create).Status, enginerpc.StatusDuplicate)
		create.ExecutionID = keyspace.NodeExecutionID(partition, s.flow, 3)
		want(t, "creation of a node that the run does not have", refused(b, create), "invalid_input")
		create.ExecutionID = keyspace.NodeExecutionID(partition, keyspace.FlowIDFor("ns", "name", "another"), 1)
		want(t, "creation of a node of no run", refused(b, create), "invalid_input")
		want(t, "record", b.exists(b.keys.ExecCore(create.ExecutionID)), false)
		want(t, "node", maps.Equal(b.record(s.second), before), true)
	})
}

// TestManyReclaims takes an execution over more often than a row can count.
func TestManyReclaims(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, b *bench) {
		h := b.claim(b.create(withPolicy(`{"max_reclaim_count":257}`)))
		b.set(h.id, "lease_reclaim_count", "254")
		for _, count := range []string{"255", "256", "257"} {
			b.revoke(h)
			must(b, enginerpc.IssueReclaimGrantCall{Grant: b.grantCall(h.id)})
			reply := must(b, b.reclaimCall(h))
			h.lease, h.epoch, h.index, h.try = reply.LeaseID, reply.LeaseEpoch, reply.AttemptIndex, reply.AttemptID
			want(t, "reclaims", b.core(h.id, "lease_reclaim_count"), count)
		}
		b.revoke(h)
		must(b, enginerpc.IssueReclaimGrantCall{Grant: b.grantCall(h.id)})
		want(t, "one more", refused(b, b.reclaimCall(h)), "max_retries_exhausted")
		b.replay(h.id)
	})
}

// TestStrictAuthority sets strict_authority, which refuses calls that the contract otherwise accepts on the caller's
// claimed authority.
func TestStrictAuthority(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, b *bench) {
		for _, strict := range []bool{false, true} {
			refusal := ""
			if strict {
				refusal = "fence_required"
				b.do("HSET", b.keys.FfxPartition(partition), "strict_authority", "1")
			}
			function, keys, args, err := enginerpc.Wire(b.keys, enginerpc.CompleteExecutionCall{
				WorkerInstanceID: instance, LaneID: lane, ExecutionID: b.running().id, Source: "operator_override",
			})
			if err != nil {
				t.Fatal(err)
			}
			args[2] = "" // no epoch; the typed call sends 0
			code, scriptError := refusalOf(b.raw(t.Context(), function, keys, args))
			want(t, "override", code+scriptError, refusal)

			cancel := b.cancelCall(b.running().id)
			cancel.Source = "somebody"
			want(t, "cancel of running work", refused(b, cancel), refusal)
			cancel = b.cancelCall(b.create())
			cancel.Source = ""
			want(t, "cancel of waiting work", refused(b, cancel), "")

			h := b.claim(b.create(withPolicy(`{"retry_policy":{"max_retries":0}}`)))
			outcome := "retry_scheduled"
			if strict {
				outcome = "terminal_failed"
			}
			want(t, "failure", b.fail(h, `{"max_retries":5}`).Outcome, outcome)
			want(t, "failure without a stored policy", b.fail(b.running(), `{"max_retries":5}`).Outcome, "retry_scheduled")
		}

		h := b.running()
		cancel := b.cancelCall(h.id)
		cancel.Source, cancel.LeaseID, cancel.LeaseEpoch = "worker", h.lease, h.epoch
		want(t, "cancel by the lease's holder", refused(b, cancel), "")
		want(t, "cancel by an operator", refused(b, b.cancelCall(b.running().id)), "")
		cancel = b.cancelCall(b.running().id)
		flow := rowread.FlowID(cancel.ExecutionID)
		if b.nodes == nil {
			flow = b.openFlow()
			must(b, enginerpc.AddExecutionToFlowCall{FlowID: flow, ExecutionID: cancel.ExecutionID})
		}
		cancel.Source = "flow_cascade"
		want(t, "cascade of a flow that continues", refused(b, cancel), "fence_required")
		must(b, enginerpc.ContractCancelFlowCall{Partition: partition, FlowID: flow, Reason: "r", CancellationPolicy: "cancel_all"})
		want(t, "cascade of a cancelled flow", refused(b, cancel), "")
	})
}

// TestStreamIDs requests ranges whose ends are stream ids, and ranges with invalid ends.
func TestStreamIDs(t *testing.T) {
	t.Parallel()
	const last = "18446744073709551615-18446744073709551615"
	each(t, func(t *testing.T, b *bench) {
		for _, c := range []struct{ from, to, refusal string }{
			{"", "", ""}, {"-", "+", ""}, {"0", "5-3", ""}, {"(5", "(7-1", ""}, {"007-0001", last, ""}, {last, "0-0", ""}, {"(0-0", "(" + last, ""},
			{"(18446744073709551615", "(0", ""},
			{"x", "+", "invalid_input"}, {"-", "5-", "invalid_input"}, {"-5", "+", "invalid_input"}, {"5-*", "+", "invalid_input"},
			{"(-", "+", "invalid_input"}, {"-", "(+", "invalid_input"}, {"1.5", "+", "invalid_input"}, {"5-3-1", "+", "invalid_input"},
			{"-", "18446744073709551616", "invalid_input"}, {"-", "5-99999999999999999999", "invalid_input"}, {"(" + last, "+", "invalid_input"},
			{"-", "(0-0", "invalid_input"}, {"-", "(00-000", "invalid_input"}, {strings.Repeat("0", 200), "+", "invalid_input"}, {"5\x00", "+", "invalid_input"},
		} {
			call := enginerpc.ReadAttemptStreamCall{ExecutionID: newExecutionID(), FromID: c.from, ToID: c.to, CountLimit: 1}
			want(t, fmt.Sprintf("refusal of %q to %q", c.from, c.to), refused(b, call), c.refusal)
		}
	})
}
