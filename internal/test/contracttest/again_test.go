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

// againHazards concern executions that run again, or are let go again, and what a former life leaves behind.
var againHazards = []hazard{
	{"P1 a replayed member gets the results of upstreams that have succeeded meanwhile", func(t *testing.T, b *bench) {
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
			return // what nodes of runs take along is read with their claims
		}
		payload, err := b.do("GET", b.keys.ExecPayload(e.down)).ToString()
		if err != nil || payload != "result" {
			t.Errorf("payload %q, %v", payload, err)
		}
	}},
	{"P2 a replayed member that was not skipped waits only for upstreams that have not ended", func(t *testing.T, b *bench) {
		if b.nodes != nil {
			t.Skip("nodes of runs wait for what they need")
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
			want(t, outcome+": impossible edges", b.field(b.keys.ExecDepsMeta(down), "impossible_required_count"), "0")
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
				b.keys.LaneBlockedDependencies(partition, lane), b.keys.LaneEligible(partition, lane), b.keys.IndexSuspensionTimeout(partition),
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
}
