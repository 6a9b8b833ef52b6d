package contracttest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/runsubmit"
)

// submitted is a flow that was submitted whole: `first`, and `second` that depends on it.
type submitted struct {
	flow          enginecore.FlowID
	first, second enginecore.ExecutionID
}

func (b *bench) submit() submitted {
	b.tb.Helper()
	run := b.submitRun([]enginerpc.PutGraphNode{
		{Name: "first", Kind: "kind", LaneID: lane, Policy: []byte("{}"), Tags: []byte("{}")},
		{Name: "second", Kind: "kind", LaneID: lane, InputCount: 1, Policy: []byte("{}"), Tags: []byte("{}")},
	}, runsubmit.Edge{Up: "first", Down: "second", Carries: true})
	return submitted{flow: run.FlowID, first: run.ExecutionID("first"), second: run.ExecutionID("second")}
}

// submitRun submits a new run of a graph.
func (b *bench) submitRun(nodes []enginerpc.PutGraphNode, edges ...runsubmit.Edge) *runsubmit.Run {
	b.tb.Helper()
	runID := uuid.NewString()
	run := &runsubmit.Run{
		Partition: partition, FlowID: keyspace.FlowIDFor("ns", "name", runID), FlowName: "name", RunID: runID, Namespace: "ns",
		Creator: "test", GraphHash: "g", InputHash: "i", Definition: []byte("{}"), Nodes: nodes, Edges: edges,
	}
	if _, err := run.Submit(context.Background(), b.Conn); err != nil {
		b.tb.Fatal(err)
	}
	return run
}

// TestReplayReopensFlow ends a submitted flow with functions of the contract and replays its executions.
func TestReplayReopensFlow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		s := b.submit()
		flow := func(name string) string { return b.flowField(s.flow, name) }
		openNodes := func() int { return b.rows(s.flow).Open }
		b.fail(b.claim(s.first), "")
		want(t, "state after the failure", flow("public_flow_state"), "failed")
		want(t, "second", b.core(s.second, "terminal_outcome"), "skipped")
		want(t, "open nodes", openNodes(), 0)

		b.replay(s.first)
		want(t, "state after the replay", flow("public_flow_state"), "open")
		want(t, "open nodes", openNodes(), 1)
		want(t, "failed node", flow("failed_node"), "")
		want(t, "waiting for", b.replay(s.second).WaitingFor, 1)
		want(t, "open nodes", openNodes(), 2)

		b.complete(b.claim(s.first), "one")
		want(t, "second", b.core(s.second, "eligibility_state"), "eligible_now")
		b.complete(b.claim(s.second), "two")
		want(t, "state in the end", flow("public_flow_state"), "completed")
		want(t, "outcome", flow("outcome"), "success")
		want(t, "open nodes", openNodes(), 0)
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
		enginetest.Pass(t, b.Conn, time.Millisecond)
		must(b, enginerpc.TickCall{Partition: partition, Limit: 10})
		want(t, "first", b.core(s.first, "terminal_outcome"), "failed")
		want(t, "second", b.core(s.second, "terminal_outcome"), "skipped")
		want(t, "flow", b.flowField(s.flow, "public_flow_state"), "failed")
	})
}

// An execution that is suspended when it is added to a run is one of the open waits until it is resumed.
func TestSuspendedExecutionIsAddedToRun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		w := b.suspended(forGo)
		open := func() bool {
			_, listed := b.score(b.keys.FfxOpenWaits(partition), string(w.id))
			return listed
		}
		want(t, "an open wait before it belongs to a run", open(), false)
		must(b, enginerpc.AddExecutionToFlowCall{FlowID: b.submit().flow, ExecutionID: w.id})
		want(t, "an open wait", open(), true)
		must(b, b.deliverCall(w, "go"))
		want(t, "an open wait after the signal", open(), false)
	})
}

// TestReleaseNotifiesFlow listens for the message of hazard C1.
func TestReleaseNotifiesFlow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		ctx, cancel := context.WithTimeout(t.Context(), enginetest.Patience)
		defer cancel()
		e := b.staged(b.create(withPolicy(`{"max_reclaim_count":0}`)), b.create())
		h := b.claim(e.up)
		b.revoke(h)
		must(b, enginerpc.IssueReclaimGrantCall{Grant: b.grantCall(h.id)})
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

// completing is a completion by a worker that asks for its next execution.
func (b *bench) completing(h held, result string) enginerpc.CompleteCall {
	return enginerpc.CompleteCall{
		Partition: partition, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try, Result: []byte(result),
		ClaimRequest: enginerpc.ClaimRequest{
			LaneID: lane, WorkerID: worker, WorkerInstanceID: instance, ClaimID: uuid.NewString(), Count: 1, LeaseTTL: longLease,
			Kinds: "\nkind\n",
		},
	}
}

// TestCompletionClaimsNext completes executions with a request for the next one.
func TestCompletionClaimsNext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		s := b.submit()
		call := b.completing(b.claim(s.first), "one")
		reply := must(b, call)
		if len(reply.Executions) != 1 || reply.Remaining != 0 {
			t.Fatalf("got %+v", reply)
		}
		next := reply.Executions[0]
		want(t, "next", next.ExecutionID, s.second)
		want(t, "inputs", len(next.Inputs), 1)
		want(t, "name", next.Inputs[0].Name, "first")
		want(t, "result", string(next.Inputs[0].Result), "one")
		want(t, "state", b.core(s.second, "ownership_state"), "leased")
		if _, eligible := b.score(b.keys.LaneEligible(partition, lane), string(s.second)); eligible {
			t.Error("it is eligible as well")
		}
		call.Repeated = true
		again := must(b, call)
		want(t, "leases of the repetition", len(again.Executions), 1)
		want(t, "lease", again.Executions[0].LeaseID, next.LeaseID)

		// A more urgent execution is handed on first, and the downstream stays eligible.
		s = b.submit()
		h, urgent := b.claim(s.first), b.submit().first
		must(b, enginerpc.ChangePriorityCall{LaneID: lane, ExecutionID: urgent, NewPriority: 5})
		reply = must(b, b.completing(h, "one"))
		if len(reply.Executions) != 1 || reply.Remaining != 1 {
			t.Fatalf("got %+v", reply)
		}
		want(t, "next", reply.Executions[0].ExecutionID, urgent)
		want(t, "state", b.core(s.second, "eligibility_state"), "eligible_now")
	})
}

// TestEndRemovesAttachedData attaches data to members of a submitted flow that only calls of the contract attach, and
// completes the members.
func TestEndRemovesAttachedData(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		s := b.submit()
		h := b.claim(s.first, func(c *enginerpc.ClaimExecutionCall) {
			c.AttemptTimeout, c.ExecutionDeadlineAt = time.Hour, time.Now().Add(time.Hour)
		})
		must(b, b.completing(h, "one"))
		for _, key := range []string{b.keys.IndexAttemptTimeout(partition), b.keys.IndexExecutionDeadline(partition)} {
			if _, armed := b.score(key, string(h.id)); armed {
				t.Errorf("%s still holds the execution", key)
			}
		}

		s = b.submit()
		h = b.claim(s.first)
		must(b, enginerpc.AppendFrameCall{
			ExecutionID: h.id, AttemptIndex: h.index, LeaseID: h.lease, LeaseEpoch: h.epoch, FrameType: "log", AttemptID: h.try,
		})
		must(b, b.completing(h, "one"))
		want(t, "stream", b.field(b.keys.StreamMeta(h.id, h.index), "closed_reason"), "attempt_success")

		// It had a lease before it was a member.
		h = b.claim(b.create(), func(c *enginerpc.ClaimExecutionCall) { c.AttemptTimeout = time.Hour })
		must(b, enginerpc.AddExecutionToFlowCall{FlowID: b.submit().flow, ExecutionID: h.id})
		must(b, enginerpc.RenewLeaseCall{
			ExecutionID: h.id, AttemptIndex: h.index, AttemptID: h.try, LeaseID: h.lease, LeaseEpoch: h.epoch, LeaseTTL: longLease,
		})
		want(t, "expiry", b.field(b.keys.ExecLeaseCurrent(h.id), "expires_at"), b.core(h.id, "lease_expires_at"))
		must(b, b.completing(h, "one"))
		want(t, "lease record", b.exists(b.keys.ExecLeaseCurrent(h.id)), false)
		if _, armed := b.score(b.keys.IndexAttemptTimeout(partition), string(h.id)); armed {
			t.Error("the attempt's timeout is still armed")
		}
	})
}
