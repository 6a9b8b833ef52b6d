package contracttest

import (
	"strconv"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// TestServerClockCounts sends a time that is long over with every call that carries one: the server's clock counts, but where the
// contract leaves the time to the caller for good.
func TestServerClockCounts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		then := time.UnixMilli(1000)
		began := time.Now().Add(-time.Minute).UnixMilli()
		recent := func(what, text string) {
			t.Helper()
			if at, err := strconv.ParseInt(text, 10, 64); err != nil || at < began {
				t.Errorf("%s is %q", what, text)
			}
		}
		recentScore := func(what, key string, id enginecore.ExecutionID) {
			t.Helper()
			if at, there := b.score(key, string(id)); !there || at < float64(began) {
				t.Errorf("%s is %v, %v", what, at, there)
			}
		}
		up, down, blocked := b.create(), b.create(), b.create()
		flow := b.openFlow()
		must(b, enginerpc.CreateFlowCall{Partition: partition, FlowID: flow, FlowKind: "k", Namespace: "n", Now: then})
		for _, id := range []enginecore.ExecutionID{up, down} {
			must(b, enginerpc.AddExecutionToFlowCall{FlowID: flow, ExecutionID: id, Now: then})
		}
		must(b, enginerpc.StageDependencyEdgeCall{
			FlowID: flow, EdgeID: "e", UpstreamExecutionID: up, DownstreamExecutionID: down, ExpectedGraphRevision: 2, Now: then,
		})
		recent("edge", b.field(b.keys.FlowEdge(partition, flow, "e"), "created_at"))
		recent("flow", b.flowField(flow, "last_mutation_at"))
		must(b, enginerpc.ApplyDependencyToChildCall{
			DownstreamExecutionID: down, LaneID: lane, FlowID: flow, EdgeID: "e", UpstreamExecutionID: up, GraphRevision: 3, Now: then,
		})
		recent("applied", b.core(down, "last_transition_at"))
		recent("dependencies", b.field(b.keys.ExecDepsMeta(down), "last_dependency_update_at"))
		must(b, enginerpc.ResolveDependencyCall{
			DownstreamExecutionID: down, LaneID: lane, UpstreamExecutionID: up, EdgeID: "e", UpstreamOutcome: "failed", Now: then,
		})
		recent("resolved", b.field(b.keys.ExecDep(down, "e"), "last_resolved_at"))
		recent("skipped", b.core(down, "completed_at"))
		recentScore("its end", b.keys.LaneTerminal(partition, lane), down)
		must(b, enginerpc.ReplayExecutionCall{LaneID: lane, ExecutionID: down, Now: then})
		recent("replayed", b.core(down, "last_transition_at"))
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: blocked, BlockingReason: "waiting_for_quota", Now: then})
		recent("blocked", b.core(blocked, "last_transition_at"))
		recentScore("its block", b.keys.LaneBlockedQuota(partition, lane), blocked)
		b.set(blocked, "last_transition_at", "")
		must(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: blocked, Now: then})
		recent("unblocked", b.core(blocked, "last_transition_at"))
		must(b, enginerpc.ContractCancelFlowCall{Partition: partition, FlowID: flow, Reason: "r", CancellationPolicy: "cancel_all", Now: then})
		recent("cancelled", b.flowField(flow, "cancelled_at"))
		if at, there := b.score(b.keys.IndexCancelBacklog(partition), string(flow)); !there || at < float64(began+30000) {
			t.Errorf("cancels are due at %v, %v", at, there)
		}

		h := b.running()
		b.delay(h, then)
		want(t, "promotion", must(b, enginerpc.PromoteDelayedCall{LaneID: lane, ExecutionID: h.id, Now: time.UnixMilli(999)}).Outcome, "not_yet_due")
		must(b, enginerpc.PromoteDelayedCall{LaneID: lane, ExecutionID: h.id, Now: then})
		want(t, "promoted", b.core(h.id, "last_transition_at"), "1000")
		id := b.quota(60, 1, 0)
		admit := enginerpc.CheckAdmissionAndRecordCall{Partition: quotaPartition, QuotaPolicyID: id, Now: then, ExecutionID: "{fp:1}:x"}
		want(t, "admission", b.say(wireOf(b, admit)), "ADMITTED")
		admit.ExecutionID, admit.Now = "{fp:1}:y", time.UnixMilli(31000)
		want(t, "second admission", b.say(wireOf(b, admit)), "RATE_EXCEEDED|30000")
		admit.Now = time.UnixMilli(61000)
		want(t, "admission as the first leaves", b.say(wireOf(b, admit)), "ADMITTED")
	})
}

// TestConditions delivers signals to suspensions with every kind of wait condition, and checks the effect of each
// signal.
func TestConditions(t *testing.T) {
	t.Parallel()
	const none, kept, met = "no_op", "appended_to_waitpoint", "resume_condition_satisfied"
	each(t, func(t *testing.T, b *bench) {
		for condition, x := range map[string]struct{ signals, effects []string }{
			`{}`:                             {[]string{"x"}, []string{met}},
			`[]`:                             {[]string{"x"}, []string{met}},
			`{"required_signal_names":{}}`:   {[]string{"x"}, []string{met}},
			`{"required_signal_names":[]}`:   {[]string{""}, []string{met}},
			`{"required_signal_names":[""]}`: {[]string{"x"}, []string{met}},
			forGo:                            {[]string{"Go", "go"}, []string{none, met}},
			`{"required_signal_names":["a","b"],"signal_match_mode":"all","minimum_signal_count":1}`: {[]string{"b", "b", "a"}, []string{kept, none, met}},
			`{"required_signal_names":["a","a"],"signal_match_mode":"all"}`:                          {[]string{"a", "a"}, []string{kept, met}},
			`{"required_signal_names":["a","b"],"minimum_signal_count":2}`:                           {[]string{"a", "a", "b"}, []string{kept, none, met}},
			`{"required_signal_names":["a","b"],"minimum_signal_count":1.5}`:                         {[]string{"a", "b"}, []string{kept, met}},
			`{"required_signal_names":["a"],"minimum_signal_count":2}`:                               {[]string{"a", "a"}, []string{kept, none}},
			`{"required_signal_names":["a"],"minimum_signal_count":0}`:                               {[]string{"x", "a"}, []string{none, met}},
			`{"required_signal_names":["a","b"],"signal_match_mode":"most"}`:                         {[]string{"b"}, []string{met}},
			`{"required_signal_names":["a",""],"signal_match_mode":"all"}`:                           {[]string{"a", "a"}, []string{kept, met}},
			`{"required_signal_names":["","a"],"signal_match_mode":"all"}`:                           {[]string{"a", "x", "a"}, []string{kept, none, met}},
			`{"required_signal_names":["a","b"],"minimum_signal_count":"2","condition_type":7}`:      {[]string{"a", "b"}, []string{kept, met}},
		} {
			w := b.suspended(condition)
			for i, name := range x.signals {
				want(t, condition+" "+strconv.Itoa(i)+" "+name, must(b, b.deliverCall(w, name)).Effect, x.effects[i])
			}
			over := x.effects[len(x.effects)-1] == met
			record := b.keys.WaitpointRecord(partition, w.wait)
			want(t, condition+": signals", b.field(record, "signal_count"), strconv.Itoa(len(x.signals)))
			want(t, condition+": closed", b.field(b.keys.WaitpointCondition(partition, w.wait), "closed") == "1", over)
			want(t, condition+": waitpoint closed", b.field(record, "state") == "closed", over)

			early := b.pending(b.running())
			for _, name := range x.signals {
				must(b, enginerpc.BufferSignalForPendingWaitpointCall{Signal: b.signal(early, name)})
			}
			call := b.suspendCall(early.held, early.wait, condition)
			call.UsePendingWaitpoint = true
			want(t, condition+": with signals that came before", must(b, call).Status == enginerpc.StatusAlreadySatisfied, over)
		}
	})
}
