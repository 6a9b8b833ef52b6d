package contracttest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// againHazards concern executions that are replayed or released again, and data left over from earlier attempts.
var againHazards = []hazard{
	{"P1 a replayed member gets the results of upstreams that have succeeded in between", func(t *testing.T, b *bench) {
		up := b.running()
		e := b.staged(up.id, b.create(func(c *enginerpc.CreateExecutionCall) { c.InputPayload = []byte("own") }))
		b.apply(e)
		b.fail(up, "")
		b.resolve(e, "failed")
		want(t, "state", b.core(e.down, "public_state"), "skipped")
		b.replay(up.id)
		b.complete(b.claim(up.id), "result")
		want(t, "open edges", b.replay(e.down).WaitingFor, 0)
		if b.nodes != nil {
			return // a claim resolves the inputs of a run's nodes
		}
		payload, err := b.do("GET", b.keys.ExecPayload(e.down)).ToString()
		if err != nil || payload != "result" {
			t.Errorf("payload %q, %v", payload, err)
		}
	}},
	{"P2 a replayed member that was not skipped waits only for upstreams that have not ended", func(t *testing.T, b *bench) {
		if b.nodes != nil {
			t.Skip("nodes of runs wait for their upstreams")
		}
		for outcome, end := range map[string]func(h held){
			"success":   func(h held) { b.complete(h, "result") },
			"failed":    func(h held) { b.fail(h, "") },
			"cancelled": func(h held) { b.cancel(h.id) },
		} {
			open, up, down := b.running(), b.running(), b.create()
			first, second := b.staged(up.id, down), edge{id: enginecore.EdgeID(uuid.NewString()), up: open.id, down: down}
			second.flow = first.flow
			b.apply(first)
			b.apply(second)
			b.cancel(down)
			end(up)
			want(t, outcome+": waits for", b.replay(down).WaitingFor, 1)
			want(t, outcome+": open edges", b.field(b.keys.ExecDepsMeta(down), "unsatisfied_required_count"), "1")
			want(t, outcome+": impossible edges", atoi(b.field(b.keys.ExecDepsMeta(down), "impossible_required_count")), 0)
			members, err := b.do("SMEMBERS", b.keys.ExecDepsUnresolved(down)).AsStrSlice()
			want(t, outcome+": unresolved", fmt.Sprint(members, err), fmt.Sprint([]string{string(second.id)}, nil))
			b.complete(open, "")
			b.resolve(second, "success")
			want(t, outcome+": eligibility", b.core(down, "eligibility_state"), "eligible_now")
			b.cancel(down)
			want(t, outcome+": waits for nothing", b.replay(down).WaitingFor, 0)
			want(t, outcome+": eligibility", b.core(down, "eligibility_state"), "eligible_now")
		}
	}},
	{"P3 a cancelled or expired execution is in no index, whatever its phase", func(t *testing.T, b *bench) {
		for name, end := range map[string]func(h held){
			"cancel": func(h held) { b.cancel(h.id) },
			"expire": func(h held) {
				must(b, enginerpc.ExpireExecutionCall{WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, ExpireReason: "operator"})
			},
		} {
			h := b.running()
			stale := []string{
				b.keys.LaneDelayed(partition, lane), b.keys.LaneSuspended(partition, lane), b.keys.LaneBlockedBudget(partition, lane),
				b.keys.LaneBlockedQuota(partition, lane), b.keys.LaneBlockedRoute(partition, lane), b.keys.LaneBlockedOperator(partition, lane),
				b.keys.LaneBlockedDependencies(partition, lane), b.eligibleSet(), b.keys.IndexSuspensionTimeout(partition),
			}
			for _, index := range stale {
				b.do("ZADD", index, "1", string(h.id))
			}
			end(h)
			left := slices.DeleteFunc(stale, func(index string) bool {
				_, there := b.score(index, string(h.id))
				return !there
			})
			want(t, name, fmt.Sprint(left), "[]")
		}
	}},
	{"P4 a replay forgets a former delay", func(t *testing.T, b *bench) {
		h := b.running()
		b.delay(h, time.Now().Add(time.Hour))
		b.cancel(h.id)
		b.replay(h.id)
		want(t, "delay", b.core(h.id, "delay_until"), "")
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: h.id, BlockingReason: "waiting_for_budget"})
		must(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: h.id})
		want(t, "eligibility", b.core(h.id, "eligibility_state"), "eligible_now")
	}},
	{"P5 a reset of a missing budget takes it off the schedule", func(t *testing.T, b *bench) {
		id := enginecore.BudgetID(uuid.NewString())
		index := b.keys.IndexBudgetResets(budgetPartition)
		b.do("ZADD", index, "1", string(id))
		want(t, "refusal", refused(b, enginerpc.ResetBudgetCall{Partition: budgetPartition, BudgetID: id, Now: time.Now()}), "budget_not_found")
		_, there := b.score(index, string(id))
		want(t, "entry", there, false)
	}},
	{"A8 waiting without dependencies lasts until a promotion", func(t *testing.T, b *bench) {
		if b.nodes != nil {
			t.Skip("nodes of runs wait for their edges only")
		}
		h := b.running()
		must(b, enginerpc.MoveToWaitingChildrenCall{
			AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
		})
		want(t, "eligibility", b.core(h.id, "eligibility_state"), "blocked_by_dependencies")
		must(b, enginerpc.PromoteBlockedToEligibleCall{LaneID: lane, ExecutionID: h.id})
		want(t, "eligibility", b.core(h.id, "eligibility_state"), "eligible_now")
	}},
	{"A9 a pause blocks waiting executions, which then continue to wait", func(t *testing.T, b *bench) {
		if b.nodes != nil {
			t.Skip("runs are paused by calls of their own")
		}
		dependent := b.create()
		e := b.staged(b.create(), dependent)
		b.apply(e)
		blocked := b.create()
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: blocked, BlockingReason: "waiting_for_budget", BlockingDetail: "why"})
		delayed := b.create(func(c *enginerpc.CreateExecutionCall) { c.DelayUntil = time.Now().Add(time.Hour) })
		for _, id := range []enginecore.ExecutionID{dependent, blocked, delayed} {
			fields := []string{"eligibility_state", "blocking_reason", "blocking_detail", "public_state"}
			state := func() (text string) {
				for _, name := range fields {
					text += b.core(id, name) + " "
				}
				return text + b.indexesOf(id)
			}
			before := state()
			for _, reason := range []string{"paused_by_operator", "paused_by_policy"} {
				must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: id, BlockingReason: reason})
				want(t, reason, b.core(id, "blocking_reason"), reason)
			}
			must(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: id})
			want(t, "afterwards", state(), before)
		}
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: dependent, BlockingReason: "paused_by_operator"})
		b.resolve(e, "success")
		want(t, "satisfied during the pause", b.core(dependent, "eligibility_state"), "blocked_by_operator")
		must(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: dependent})
		want(t, "afterwards", b.core(dependent, "eligibility_state"), "eligible_now")
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: delayed, BlockingReason: "paused_by_operator"})
		b.set(delayed, "delay_until", "1")
		must(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: delayed})
		want(t, "delay ended during the pause", b.core(delayed, "eligibility_state"), "eligible_now")
	}},
	{"H-11 an edge from an upstream that has failed does not end a running child", func(t *testing.T, b *bench) {
		if b.nodes != nil {
			t.Skip("the edges of nodes of runs are there before they run")
		}
		up, h := b.running(), b.running()
		e := b.staged(up.id, h.id)
		b.fail(up, "")
		want(t, "open edges", b.apply(e).Unresolved, "1")
		b.complete(h, "")
		want(t, "state", b.core(h.id, "public_state"), "completed")
	}},
	{"H-14 a reason hidden by dependencies is forgotten at the end", func(t *testing.T, b *bench) {
		e := b.staged(b.create(), b.create())
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: e.down, BlockingReason: "paused_by_operator"})
		b.apply(e)
		b.resolve(e, "failed")
		want(t, "state", b.core(e.down, "public_state"), "skipped")
		want(t, "mark", b.core(e.down, "prior_eligibility_state"), "")
		if b.nodes == nil {
			b.set(e.down, "prior_eligibility_state", "blocked_by_operator")
		}
		b.replay(e.down)
		want(t, "mark of a replay", b.core(e.down, "prior_eligibility_state"), "")
	}},
	{"D8 the stricter limits count", func(t *testing.T, b *bench) {
		ask := func(id enginecore.QuotaPolicyID, rate, concurrent int64) enginerpc.Status {
			return must(b, enginerpc.CheckAdmissionAndRecordCall{
				Partition: quotaPartition, QuotaPolicyID: id, Now: time.Now(), WindowSeconds: 60, RateLimit: rate, ConcurrencyCap: concurrent,
				ExecutionID: newExecutionID(),
			}).Status
		}
		for _, stored := range []int64{0, 10} {
			id := b.quota(60, stored, 0)
			want(t, "first", ask(id, 1, 0), "ADMITTED")
			want(t, "beyond the caller's rate", ask(id, 1, 0), "RATE_EXCEEDED")
			id = b.quota(60, 0, stored)
			want(t, "first", ask(id, 0, 1), "ADMITTED")
			want(t, "beyond the caller's cap", ask(id, 0, 1), "CONCURRENCY_EXCEEDED")
		}
	}},
	{"E1 an admission that lapses and is renewed holds one slot", func(t *testing.T, b *bench) {
		id, e := b.quota(60, 0, 1), newExecutionID()
		want(t, "first", b.admit(id, e), "ADMITTED")
		b.do("DEL", b.keys.QuotaAdmitted(quotaPartition, id, e))
		want(t, "again", b.admit(id, e), "ADMITTED")
		want(t, "slots", b.admitted(id), "1")
		b.release(id, e)
		want(t, "slots", b.admitted(id), "0")
	}},
	{"E5 usage of a budget that does not exist is counted", func(t *testing.T, b *bench) {
		id := enginecore.BudgetID(uuid.NewString())
		want(t, "report", must(b, use(id, enginerpc.ReportUsageAndCheckDim{Name: "a", Delta: 5})).Status, "OK")
		must(b, enginerpc.CreateBudgetCall{
			Partition: budgetPartition, BudgetID: id, ScopeType: "lane", ScopeID: lane, EnforcementMode: "strict", OnHardLimit: "fail",
			OnSoftLimit: "warn", Now: time.Now(), Dims: []enginerpc.CreateBudgetDim{{Name: "a", Hard: "6", Soft: "0"}},
		})
		want(t, "limit", must(b, use(id, enginerpc.ReportUsageAndCheckDim{Name: "a", Delta: 2})).Status, "HARD_BREACH")
	}},
}
