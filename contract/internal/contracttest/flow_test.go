package contracttest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// line is a call and its reply.
type line struct {
	name string
	call wire
	want string
}

func (b *bench) expect(t *testing.T, lines ...line) {
	t.Helper()
	for _, x := range lines {
		want(t, x.name, b.say(x.call), x.want)
	}
}

func newFlowID() enginecore.FlowID { return enginecore.FlowID(uuid.NewString()) }

func (b *bench) openFlow() enginecore.FlowID {
	b.tb.Helper()
	id := newFlowID()
	must(b, enginerpc.CreateFlowCall{Partition: partition, FlowID: id, FlowKind: "kind", Namespace: "ns"})
	return id
}

func TestFlowMembers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		flow, other := b.openFlow(), b.openFlow()
		core := b.keys.FlowCore(partition, flow)
		add := func(flow enginecore.FlowID, id enginecore.ExecutionID) wire {
			return wireOf(b, enginerpc.AddExecutionToFlowCall{FlowID: flow, ExecutionID: id})
		}
		ended, foreign, moved := b.running(), b.create(), b.create()
		b.complete(ended, "")
		must(b, enginerpc.AddExecutionToFlowCall{FlowID: other, ExecutionID: foreign})
		b.set(moved, "flow_id", "elsewhere")
		b.do("SADD", b.keys.FlowMembers(partition, flow), string(moved))
		index := b.keys.IndexFlowIndex(partition)
		b.expect(t,
			line{"create again", wireOf(b, enginerpc.CreateFlowCall{Partition: partition, FlowID: flow, FlowKind: "k", Namespace: "n"}), "1|ALREADY_SATISFIED|" + string(flow)},
			line{"no flow", add(newFlowID(), newExecutionID()), "0|flow_not_found"},
			line{"no execution", add(flow, newExecutionID()), "0|execution_not_found"},
			line{"one that has ended", add(flow, ended.id), "1|OK|" + string(ended.id) + "|1"},
			line{"again", add(flow, ended.id), "1|ALREADY_SATISFIED|" + string(ended.id) + "|1"},
		)
		want(t, "revision", b.field(core, "graph_revision"), "1")
		b.set(ended.id, "flow_id", "")
		b.do("SREM", index, string(flow))
		b.expect(t,
			line{"one of another flow", add(flow, foreign), "0|already_member_of_different_flow:" + string(other)},
			line{"a member that says another flow", add(flow, moved), "0|already_member_of_different_flow:elsewhere"},
			line{"a member that says no flow", add(flow, ended.id), "1|ALREADY_SATISFIED|" + string(ended.id) + "|1"},
		)
		want(t, "flow of it", b.core(ended.id, "flow_id"), string(flow))
		listed, _ := b.do("SISMEMBER", index, string(flow)).AsInt64()
		want(t, "in the index", listed, 1)
		for _, state := range []string{"cancelled", "completed", "failed"} {
			b.do("HSET", core, "public_flow_state", state)
			b.expect(t, line{state, add(flow, newExecutionID()), "0|flow_already_terminal"})
		}
	})
}

func TestCancelFlow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		cancel := func(flow enginecore.FlowID, policy string) wire {
			return wireOf(b, enginerpc.ContractCancelFlowCall{Partition: partition, FlowID: flow, Reason: "why", CancellationPolicy: policy})
		}
		unknown := newFlowID()
		for _, grace := range []string{"x", "-1", "1.5", "nan", "inf", "9007199254740992"} {
			b.expect(t, line{"grace " + grace, cancel(unknown, "cancel_all").with(5, grace), "0|invalid_grace_ms"})
		}
		b.expect(t, line{"unknown", cancel(unknown, "cancel_all").with(5, "1e3"), "0|flow_not_found"})
		backlog := b.keys.IndexCancelBacklog(partition)
		for _, policy := range []string{"cancel_all", "flow_only", "Cancel_all"} {
			flow, member := b.openFlow(), b.create()
			must(b, enginerpc.AddExecutionToFlowCall{FlowID: flow, ExecutionID: member})
			before := time.Now()
			b.expect(t,
				line{policy, cancel(flow, policy).with(5, " 0x64 "), "1|OK|" + policy + "|" + string(member)},
				line{policy + " again", cancel(flow, policy), "0|flow_already_terminal"},
				line{"create " + policy, wireOf(b, enginerpc.CreateFlowCall{Partition: partition, FlowID: flow, FlowKind: "k", Namespace: "n"}), "1|ALREADY_SATISFIED|" + string(flow)},
			)
			at, owed := b.score(backlog, string(flow))
			want(t, policy+" owes", owed, policy == "cancel_all")
			if owed && (at < float64(before.UnixMilli()) || at > float64(time.Now().UnixMilli()+1100)) {
				t.Errorf("due at %v", at)
			}
			want(t, "phase of the member", b.core(member, "lifecycle_phase"), "runnable")
			want(t, "reason", b.flowField(flow, "cancel_reason"), "why")
			want(t, "policy", b.flowField(flow, "cancellation_policy"), policy)
			ack := wireOf(b, enginerpc.AckCancelMemberCall{FlowID: flow, ExecutionID: member})
			b.expect(t, line{"ack", ack, "1|OK"}, line{"ack again", ack, "1|OK"})
			_, owed = b.score(backlog, string(flow))
			want(t, policy+" owes after the last ack", owed, false)
		}
	})
}

func TestStageEdges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		x, y, z, out := b.create(), b.create(), b.create(), b.create()
		flow := b.openFlow()
		for _, id := range []enginecore.ExecutionID{x, y, z} {
			must(b, enginerpc.AddExecutionToFlowCall{FlowID: flow, ExecutionID: id})
		}
		stage := func(edge string, up, down enginecore.ExecutionID, revision string) wire {
			return wireOf(b, enginerpc.StageDependencyEdgeCall{
				FlowID: flow, EdgeID: enginecore.EdgeID(edge), UpstreamExecutionID: up, DownstreamExecutionID: down,
			}).with(5, "").with(7, revision)
		}
		lost := stage("a", x, y, "3")
		lost.keys = append([]string{b.keys.FlowCore(partition, newFlowID())}, lost.keys[1:]...)
		b.expect(t,
			line{"to itself, of no flow", func() wire { w := stage("a", x, x, "3"); w.keys[0] = lost.keys[0]; return w }(), "0|self_referencing_edge"},
			line{"of no flow", lost, "0|flow_not_found"},
			line{"of another revision, to no member", stage("a", x, out, "2"), "0|stale_graph_revision"},
			line{"of a revision written otherwise", stage("a", x, y, "03"), "0|stale_graph_revision"},
			line{"from no member", stage("a", out, y, "3"), "0|execution_not_in_flow"},
			line{"to no member", stage("a", x, out, "3"), "0|execution_not_in_flow"},
			line{"first", stage("a", x, y, "3"), "1|OK|a|4"},
			line{"same id", stage("a", x, z, "4"), "0|dependency_already_exists"},
			line{"same ends", stage("b", x, y, "4"), "1|OK|b|5"},
			line{"second", stage("c", y, z, "5"), "1|OK|c|6"},
			line{"a circle of two", stage("d", y, x, "6"), "0|cycle_detected"},
			line{"a circle of three, by an id that is taken", stage("a", z, x, "6"), "0|cycle_detected"},
		)
		want(t, "kind is kept empty", b.field(b.keys.FlowEdge(partition, flow, "a"), "dependency_kind"), "")
		want(t, "edges", b.flowField(flow, "edge_count"), "3")
		b.do("HDEL", b.keys.FlowCore(partition, flow), "graph_revision")
		b.expect(t, line{"without a revision", stage("e", x, z, "0"), "1|OK|e|1"})
		b.do("HSET", b.keys.FlowCore(partition, flow), "public_flow_state", "completed")
		b.expect(t, line{"flow that is over", stage("f", x, z, "7"), "0|flow_already_terminal"})
	})
}

func TestResolveEdges(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, b *bench) {
		resolve := func(e edge, outcome string) wire {
			return wireOf(b, enginerpc.ResolveDependencyCall{
				DownstreamExecutionID: e.down, LaneID: lane, UpstreamExecutionID: e.up, EdgeID: e.id, UpstreamOutcome: outcome,
			})
		}
		for outcome, reply := range map[string]string{"success": "satisfied", "failed": "impossible"} {
			e := b.staged(b.create(), b.create())
			b.expect(t, line{"before it is applied", resolve(e, outcome), "0|invalid_dependency"})
			b.apply(e)
			if b.nodes != nil {
				continue // the next steps rename the child's record
			}
			core, meta := b.keys.ExecCore(e.down), b.keys.ExecDepsMeta(e.down)
			b.do("RENAME", core, core+":away")
			b.expect(t, line{"without a child, " + outcome, resolve(e, outcome), "1|OK|" + reply + "|"})
			b.do("RENAME", core+":away", core)
			want(t, "open", b.field(meta, "unsatisfied_required_count"), "0")
			want(t, "state", b.field(b.keys.ExecDep(e.down, e.id), "state"), reply)
			b.expect(t,
				line{"again", resolve(e, outcome), "1|OK|already_resolved"},
				line{"again with no end", resolve(e, "none"), "1|OK|already_resolved"},
			)
			want(t, "impossible", b.field(meta, "impossible_required_count"), map[string]string{"success": "", "failed": "1"}[outcome])
			want(t, "child", b.core(e.down, "eligibility_state"), "blocked_by_dependencies")
			evaluate := wireOf(b, enginerpc.EvaluateFlowEligibilityCall{ExecutionID: e.down})
			b.expect(t, line{"evaluate", evaluate, "1|OK|" + map[string]string{"success": "eligible", "failed": "impossible"}[outcome]})
		}
		e := b.staged(b.create(), b.create())
		b.apply(e)
		b.expect(t, line{"without a result", resolve(e, "success"), "1|OK|satisfied|"})
		up := b.running()
		e = b.staged(up.id, b.create())
		b.apply(e)
		b.complete(up, "result")
		if b.nodes == nil { // edges of runs are resolved with the end of their upstreams
			b.expect(t, line{"with a result", resolve(e, "success"), "1|OK|satisfied|data_injected"})
			payload, _ := b.do("GET", b.keys.ExecPayload(e.down)).ToString()
			want(t, "payload", payload, "result")
		}
		up = b.running()
		e = b.staged(up.id, b.create())
		b.complete(up, "result")
		b.apply(e)
		payload, _ := b.do("GET", b.keys.ExecPayload(e.down)).ToString()
		want(t, "payload of an edge that was applied afterwards", payload, "result")
		e = b.staged(b.create(), b.create())
		b.apply(e)
		b.cancel(e.down)
		b.expect(t, line{"for a child that has ended", resolve(e, "expired"), "1|OK|impossible|"})
		want(t, "its outcome", b.core(e.down, "terminal_outcome"), "cancelled")
		child := b.create()
		first := b.staged(b.create(), child)
		b.apply(first)
		apply := wireOf(b, enginerpc.ApplyDependencyToChildCall{
			DownstreamExecutionID: child, LaneID: lane, FlowID: first.flow, EdgeID: "second", UpstreamExecutionID: newExecutionID(), GraphRevision: 4,
		})
		b.expect(t,
			line{"second edge", apply, "1|OK|2"}, line{"again", apply, "1|OK|already_applied"},
			line{"of another flow", apply.with(1, "other"), "0|execution_already_in_flow"},
			line{"first of two", resolve(first, "success"), "1|OK|satisfied|"},
		)
		want(t, "child", b.core(child, "eligibility_state"), "blocked_by_dependencies")
		want(t, "revision", b.field(b.keys.ExecDepsMeta(child), "last_flow_graph_revision"), "4")
	})
}

func TestFlowTags(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		flow := b.openFlow()
		core, tags := b.keys.FlowCore(partition, flow), b.keys.FlowTags(partition, flow)
		set := func(core string, words ...string) wire {
			return wire{function: "ff_set_flow_tags", keys: []string{core, tags}, args: words}
		}
		b.do("HSET", core, "old.tag", "1", "a.", "2", "A.b", "3")
		const uneven = "0|invalid_input|tags must be non-empty even-length key/value pairs"
		b.expect(t,
			line{"none, of no flow", set(core + "x"), uneven},
			line{"half", set(core, "a.b"), uneven},
			line{"of no flow", set(core+"x", "a", "b"), "0|flow_not_found"},
			line{"bad second key", set(core, "a.b", "1", "a..b", "2"), "0|invalid_tag_key|a..b"},
		)
		want(t, "tags after it", b.exists(tags), false)
		b.expect(t, line{"same key twice", set(core, "a.b", "1", "a.b", "2"), "1|OK|2"})
		want(t, "tag", b.field(tags, "a.b"), "2")
		want(t, "moved", b.field(tags, "old.tag")+b.field(core, "old.tag"), "1")
		want(t, "not moved", b.field(core, "a.")+b.field(core, "A.b"), "23")
		b.do("HSET", core, "late.tag", "1", "public_flow_state", "cancelled")
		b.expect(t, line{"of a cancelled flow", set(core, "é.b", "1"), "0|invalid_tag_key|é.b"}, line{"of a cancelled flow", set(core, "a_9.é", ""), "1|OK|1"})
		want(t, "moved once", b.field(core, "late.tag"), "1")
		many := make([]string, 0, 8200)
		for i := range 4100 {
			many = append(many, fmt.Sprintf("a.%d", i), strings.Repeat("x", i%3))
		}
		b.expect(t, line{"many", set(core, many...), "1|OK|4100"})
	})
}
