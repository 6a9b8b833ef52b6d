package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Program is another program of the contract: it works on executions of the default lane one by one, with a call of the
// contract for each step. A failed call ends the test.
type Program struct {
	tb   testing.TB
	ctx  context.Context
	core *enginerpc.Conn
}

// The worker id of a Program, and the lane of its executions.
const (
	ProgramWorker = enginecore.WorkerInstanceID("worker-1")
	ProgramLane   = enginecore.LaneID("default")
)

// Program returns a program that works on the engine of the bench. Its calls end with the context.
func (b *Bench) Program(ctx context.Context, tb testing.TB) *Program {
	return &Program{tb: tb, ctx: ctx, core: engine.ConnOf(b.Engine.Internal())}
}

// Claimed is an execution under a lease of a Program.
type Claimed struct {
	enginerpc.ClaimExecutionReply
	ID enginecore.ExecutionID
}

// Claim leases an execution for its attempt of that index, for longer than any test takes.
func (p *Program) Claim(id enginecore.ExecutionID, attempt enginecore.AttemptIndex) Claimed {
	p.tb.Helper()
	_, err := p.core.IssueClaimGrant(p.ctx, enginerpc.IssueClaimGrantCall{Grant: enginerpc.Grant{
		ExecutionID: id, WorkerID: "w", WorkerInstanceID: ProgramWorker, LaneID: ProgramLane, GrantTTL: time.Minute,
	}})
	require.NoError(p.tb, err)
	reply, err := p.core.ClaimExecution(p.ctx, enginerpc.ClaimExecutionCall{
		AttemptIndex: attempt, ExecutionID: id, WorkerID: "w", WorkerInstanceID: ProgramWorker, LaneID: ProgramLane,
		LeaseID: enginecore.LeaseID(uuid.NewString()), LeaseTTL: time.Hour, RenewBefore: time.Minute,
		AttemptID: keyspace.AttemptID(uuid.NewString()), AttemptPolicyJSON: []byte(`{"of":"the test"}`),
	})
	require.NoError(p.tb, err)
	return Claimed{reply, id}
}

// Complete ends an execution with a result.
func (p *Program) Complete(x Claimed, result string) {
	p.tb.Helper()
	_, err := p.core.CompleteExecution(p.ctx, enginerpc.CompleteExecutionCall{
		AttemptIndex: x.AttemptIndex, WorkerInstanceID: ProgramWorker, LaneID: ProgramLane, ExecutionID: x.ID,
		LeaseID:    x.LeaseID,
		LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID, ResultPayload: []byte(result),
	})
	require.NoError(p.tb, err)
}

// Append adds a text to the output of an attempt.
func (p *Program) Append(x Claimed, text string) {
	p.tb.Helper()
	_, err := p.core.AppendFrame(p.ctx, enginerpc.AppendFrameCall{
		ExecutionID: x.ID, AttemptIndex: x.AttemptIndex, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch,
		FrameType: "line", Payload: []byte(text), AttemptID: x.AttemptID, Source: "worker", Encoding: "utf8",
		RetentionMaxlen: 100, MaxPayloadBytes: 1000, Ts: "1",
	})
	require.NoError(p.tb, err)
}

// OpenAhead makes a waitpoint that nothing waits for yet. It expires in an hour.
func (p *Program) OpenAhead(x Claimed) enginerpc.CreatePendingWaitpointReply {
	p.tb.Helper()
	reply, err := p.core.CreatePendingWaitpoint(p.ctx, enginerpc.CreatePendingWaitpointCall{
		ExecutionID: x.ID, AttemptIndex: x.AttemptIndex, WaitpointID: enginecore.WaitpointID(uuid.NewString()),
		WaitpointKey: "ahead", ExpiresAt: time.Now().Add(time.Hour),
	})
	require.NoError(p.tb, err)
	return reply
}

// Suspend lets an execution wait for one of the signals "yes" and "no" at the waitpoint "approval": until a time, at
// which it fails, or for ever if that is zero.
func (p *Program) Suspend(x Claimed, timeout time.Time) enginerpc.SuspendExecutionReply {
	p.tb.Helper()
	reply, err := p.core.SuspendExecution(p.ctx, enginerpc.SuspendExecutionCall{
		ExecutionID: x.ID, WorkerInstanceID: ProgramWorker, LaneID: ProgramLane, AttemptIndex: x.AttemptIndex,
		AttemptID: x.AttemptID,
		LeaseID:   x.LeaseID, LeaseEpoch: x.LeaseEpoch, SuspensionID: keyspace.SuspensionID(uuid.NewString()),
		WaitpointID: enginecore.WaitpointID(uuid.NewString()), WaitpointKey: "approval",
		ReasonCode:  "waiting_for_approval",
		RequestedBy: "worker", TimeoutAt: timeout, TimeoutBehavior: "fail", ResumePolicyJSON: []byte("{}"),
		ResumeConditionJSON: []byte(`{"condition_type":"signal_set","required_signal_names":["yes","no"],"signal_match_mode":"any","minimum_signal_count":1,"timeout_behavior":"fail"}`),
	})
	require.NoError(p.tb, err)
	return reply
}
