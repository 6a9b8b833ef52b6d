package contracttest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// submitted is a flow that was submitted whole: `first`, and `second` that depends on it.
type submitted struct {
	flow          enginecore.FlowID
	first, second enginecore.ExecutionID
}

func (b *bench) submit() submitted {
	b.tb.Helper()
	s := submitted{flow: enginecore.FlowID(uuid.NewString()), first: newExecutionID(), second: newExecutionID()}
	node := func(id enginecore.ExecutionID, name string, upstreams int64) enginecore.SubmitFlowNode {
		return enginecore.SubmitFlowNode{
			ExecutionID: id, Name: name, Kind: "kind", LaneID: lane, UpstreamCount: upstreams, Policy: []byte("{}"), Tags: []byte("{}"),
		}
	}
	must(b, enginecore.SubmitFlowCall{
		Partition: partition, FlowID: s.flow, FlowName: "name", RunID: "run", Namespace: "ns", GraphHash: "g", InputHash: "i",
		Definition: []byte("{}"), NodeTotal: 2, EdgeTotal: 1, Last: true,
		Nodes: []enginecore.SubmitFlowNode{node(s.first, "first", 0), node(s.second, "second", 1)},
		Edges: []enginecore.SubmitFlowEdge{{
			EdgeID: enginecore.EdgeID(uuid.NewString()), UpstreamExecutionID: s.first, DownstreamExecutionID: s.second,
			DependencyKind: "success_only", InputName: "in",
		}},
	})
	return s
}

// TestReplayReopensFlow ends a submitted flow with functions of the contract and replays its executions.
func TestReplayReopensFlow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		s := b.submit()
		flow := func(name string) string { return b.field(b.keys.FlowCore(partition, s.flow), name) }
		b.fail(b.claim(s.first), "")
		want(t, "state after the failure", flow("public_flow_state"), "failed")
		want(t, "second", b.core(s.second, "terminal_outcome"), "skipped")
		want(t, "open nodes", flow("open_nodes"), "0")

		b.replay(s.first)
		want(t, "state after the replay", flow("public_flow_state"), "open")
		want(t, "open nodes", flow("open_nodes"), "1")
		want(t, "failed node", flow("failed_node"), "")
		want(t, "waiting for", b.replay(s.second).WaitingFor, 1)
		want(t, "open nodes", flow("open_nodes"), "2")

		b.complete(b.claim(s.first), "one")
		want(t, "second", b.core(s.second, "eligibility_state"), "eligible_now")
		b.complete(b.claim(s.second), "two")
		want(t, "state in the end", flow("public_flow_state"), "completed")
		want(t, "outcome", flow("outcome"), "success")
		want(t, "open nodes", flow("open_nodes"), "0")
	})
}

// TestSuspendedMemberTimesOut lets the keeper's call end a suspension of a submitted flow.
func TestSuspendedMemberTimesOut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.secret()
		s := b.submit()
		h := b.claim(s.first)
		call := b.suspendCall(h, enginecore.WaitpointID(uuid.NewString()), forGo)
		call.TimeoutAt, call.TimeoutBehavior = time.Now().Add(time.Millisecond), "fail"
		must(b, call)
		time.Sleep(10 * time.Millisecond)
		must(b, enginecore.TickCall{Partition: partition, Limit: 10})
		want(t, "first", b.core(s.first, "terminal_outcome"), "failed")
		want(t, "second", b.core(s.second, "terminal_outcome"), "skipped")
		want(t, "flow", b.field(b.keys.FlowCore(partition, s.flow), "public_flow_state"), "failed")
	})
}

// TestGivingUpTellsTheFlow listens for the message of hazard C1.
func TestGivingUpTellsTheFlow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		e := b.staged(b.create(withPolicy(`{"max_reclaim_count":0}`)), b.create())
		h := b.claim(e.up)
		b.revoke(h)
		must(b, enginecore.IssueReclaimGrantCall{Grant: b.grantCall(h.id)})
		conn, release := b.client.Dedicate()
		defer release()
		messages := make(chan string, 8)
		closed := conn.SetPubSubHooks(hooks(messages))
		if err := conn.Do(ctx, conn.B().Subscribe().Channel(b.keys.ChannelCompletions()).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		want(t, "refusal", refused(b, b.reclaimCall(h)), "max_retries_exhausted")
		select {
		case got := <-messages:
			want(t, "message", got, `{"flow_id":"`+string(e.flow)+`","execution_id":"`+string(h.id)+`","outcome":"failed"}`)
		case err := <-closed:
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatal("no message")
		}
	})
}
