package contracttest

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// held is an execution with the lease that a test holds on it.
type held struct {
	id    enginecore.ExecutionID
	lease enginecore.LeaseID
	epoch enginecore.LeaseEpoch
	index enginecore.AttemptIndex
	try   keyspace.AttemptID
}

const longLease = time.Minute

func (b *bench) create(change ...func(*enginerpc.CreateExecutionCall)) enginecore.ExecutionID {
	b.tb.Helper()
	call := enginerpc.CreateExecutionCall{
		ExecutionID: newExecutionID(), Namespace: "ns", LaneID: lane, ExecutionKind: "kind", CreatorIdentity: "test", PartitionID: "1",
	}
	for _, c := range change {
		c(&call)
	}
	if b.nodes != nil {
		return b.nodes.take(b, call)
	}
	must(b, call)
	return call.ExecutionID
}

func withPolicy(policy string) func(*enginerpc.CreateExecutionCall) {
	return func(c *enginerpc.CreateExecutionCall) { c.PolicyJSON = []byte(policy) }
}

func (b *bench) grantCall(id enginecore.ExecutionID) enginerpc.Grant {
	return enginerpc.Grant{ExecutionID: id, WorkerID: worker, WorkerInstanceID: instance, LaneID: lane, GrantTTL: longLease}
}

func (b *bench) claimCall(id enginecore.ExecutionID) enginerpc.ClaimExecutionCall {
	return enginerpc.ClaimExecutionCall{
		ExecutionID: id, WorkerID: worker, WorkerInstanceID: instance, LaneID: lane, LeaseID: enginecore.LeaseID(uuid.NewString()),
		LeaseTTL: longLease, RenewBefore: time.Second, AttemptID: keyspace.AttemptID(uuid.NewString()),
	}
}

// claim grants and claims an eligible execution.
func (b *bench) claim(id enginecore.ExecutionID, change ...func(*enginerpc.ClaimExecutionCall)) held {
	b.tb.Helper()
	must(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(id)})
	call := b.claimCall(id)
	for _, c := range change {
		c(&call)
	}
	reply := must(b, call)
	return held{id: id, lease: reply.LeaseID, epoch: reply.LeaseEpoch, index: reply.AttemptIndex, try: reply.AttemptID}
}

func (b *bench) running() held {
	b.tb.Helper()
	return b.claim(b.create())
}

func (b *bench) reclaimCall(h held) enginerpc.ReclaimExecutionCall {
	return enginerpc.ReclaimExecutionCall{
		OldAttemptIndex: h.index, AttemptIndex: h.index + 1, ExecutionID: h.id, WorkerID: worker, WorkerInstanceID: instance, LaneID: lane,
		LeaseID: enginecore.LeaseID(uuid.NewString()), LeaseTTL: longLease, AttemptID: keyspace.AttemptID(uuid.NewString()),
	}
}

func (b *bench) revoke(h held) {
	b.tb.Helper()
	must(b, enginerpc.RevokeLeaseCall{WorkerInstanceID: instance, ExecutionID: h.id})
}

func (b *bench) complete(h held, result string) {
	b.tb.Helper()
	must(b, enginerpc.CompleteExecutionCall{
		AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch,
		AttemptID: h.try, ResultPayload: []byte(result),
	})
}

func (b *bench) fail(h held, policy string) enginerpc.FailExecutionReply {
	b.tb.Helper()
	return must(b, enginerpc.FailExecutionCall{
		AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch,
		AttemptID: h.try, FailureReason: "boom", RetryPolicyJSON: []byte(policy),
	})
}

func (b *bench) delay(h held, until time.Time) {
	b.tb.Helper()
	must(b, enginerpc.DelayExecutionCall{
		AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch,
		AttemptID: h.try, DelayUntil: until,
	})
}

func (b *bench) cancelCall(id enginecore.ExecutionID) enginerpc.CancelExecutionCall {
	return enginerpc.CancelExecutionCall{
		WorkerInstanceID: instance, LaneID: lane, ExecutionID: id, Reason: "test", Source: "operator_override",
	}
}

func (b *bench) cancel(id enginecore.ExecutionID) {
	b.tb.Helper()
	must(b, b.cancelCall(id))
}

func (b *bench) replay(id enginecore.ExecutionID) enginerpc.ReplayExecutionReply {
	b.tb.Helper()
	return must(b, enginerpc.ReplayExecutionCall{LaneID: lane, ExecutionID: id})
}

// waiting is a suspended execution with its waitpoint.
type waiting struct {
	held
	wait  enginecore.WaitpointID
	key   string
	token string
}

func (b *bench) suspendCall(h held, wait enginecore.WaitpointID, condition string) enginerpc.SuspendExecutionCall {
	return enginerpc.SuspendExecutionCall{
		WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, AttemptIndex: h.index, AttemptID: h.try, LeaseID: h.lease,
		LeaseEpoch: h.epoch, SuspensionID: keyspace.SuspensionID(uuid.NewString()), WaitpointID: wait, WaitpointKey: "key",
		ReasonCode: "waiting_for_signal", RequestedBy: "test", ResumeConditionJSON: []byte(condition), ResumePolicyJSON: []byte("{}"),
	}
}

// secret gives the partition a signing key.
func (b *bench) secret() {
	b.tb.Helper()
	must(b, enginerpc.RotateWaitpointHMACSecretCall{Partition: partition, NewKID: "k1", NewSecretHex: "00ff", Grace: time.Hour})
}

const forGo = `{"required_signal_names":["go"]}`

func (b *bench) suspended(condition string) waiting {
	b.tb.Helper()
	b.secret()
	h := b.running()
	reply := must(b, b.suspendCall(h, enginecore.WaitpointID(uuid.NewString()), condition))
	return waiting{held: h, wait: reply.WaitpointID, key: reply.WaitpointKey, token: reply.WaitpointToken}
}

func (b *bench) pending(h held) waiting {
	b.tb.Helper()
	b.secret()
	reply := must(b, enginerpc.CreatePendingWaitpointCall{
		ExecutionID: h.id, AttemptIndex: h.index, WaitpointID: enginecore.WaitpointID(uuid.NewString()), WaitpointKey: "key",
		ExpiresAt: time.Now().Add(time.Hour),
	})
	return waiting{held: h, wait: reply.WaitpointID, key: reply.WaitpointKey, token: reply.WaitpointToken}
}

func (b *bench) signal(w waiting, name string) enginerpc.Signal {
	return enginerpc.Signal{
		SignalID: enginecore.SignalID(uuid.NewString()), ExecutionID: w.id, WaitpointID: w.wait, SignalName: name, SignalCategory: "c",
		SourceType: "user", SourceIdentity: "me", WaitpointToken: w.token,
	}
}

func (b *bench) deliverCall(w waiting, name string) enginerpc.DeliverSignalCall {
	return enginerpc.DeliverSignalCall{LaneID: lane, Signal: b.signal(w, name)}
}

// flow is a flow of two executions, the second of which depends on the first.
type edge struct {
	flow     enginecore.FlowID
	id       enginecore.EdgeID
	up, down enginecore.ExecutionID
}

func (b *bench) staged(up, down enginecore.ExecutionID) edge {
	b.tb.Helper()
	if b.nodes != nil {
		return b.stagedInRun(up, down)
	}
	e := edge{flow: enginecore.FlowID(uuid.NewString()), id: enginecore.EdgeID(uuid.NewString()), up: up, down: down}
	must(b, enginerpc.CreateFlowCall{Partition: partition, FlowID: e.flow, FlowKind: "kind", Namespace: "ns"})
	for _, member := range []enginecore.ExecutionID{up, down} {
		must(b, enginerpc.AddExecutionToFlowCall{FlowID: e.flow, ExecutionID: member})
	}
	must(b, enginerpc.StageDependencyEdgeCall{
		FlowID: e.flow, EdgeID: e.id, UpstreamExecutionID: up, DownstreamExecutionID: down, DataPassingRef: "in", ExpectedGraphRevision: 2,
	})
	return e
}

func (b *bench) apply(e edge) enginerpc.ApplyDependencyToChildReply {
	b.tb.Helper()
	return must(b, enginerpc.ApplyDependencyToChildCall{
		DownstreamExecutionID: e.down, LaneID: lane, FlowID: e.flow, EdgeID: e.id, UpstreamExecutionID: e.up, GraphRevision: 3,
		DataPassingRef: "in",
	})
}

func (b *bench) resolve(e edge, outcome string) enginerpc.ResolveDependencyReply {
	b.tb.Helper()
	return must(b, enginerpc.ResolveDependencyCall{
		DownstreamExecutionID: e.down, LaneID: lane, UpstreamExecutionID: e.up, EdgeID: e.id, UpstreamOutcome: outcome,
	})
}

// hooks sends the messages of a subscription on.
func hooks(to chan<- string) rueidis.PubSubHooks {
	return rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { to <- m.Message }}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}
