package modetest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// anyContract runs a test in contract mode: with this project's library and with the reference library.
func anyContract(t *testing.T, test func(t *testing.T, x *outside)) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		operator, err := admin.New(b.Engine)
		require.NoError(t, err)
		ctx := enginetest.Context(t)
		test(t, &outside{b, operator, b.Program(ctx, t), engine.ConnOf(b.Engine.Internal()), ctx, t})
	}, runtime.OpenConfig{Partitions: 1})
}

// outside works on executions outside runs.
type outside struct {
	*enginetest.Bench
	operator *admin.Client
	program  *enginetest.Program
	core     *enginerpc.Conn
	ctx      context.Context
	t        *testing.T
}

// create creates an execution of the lane "default".
func (x *outside) create(kind, policy string) enginecore.ExecutionID {
	x.t.Helper()
	id, _, err := x.operator.CreateExecution(x.ctx, admin.ExecutionSpec{
		Kind: kind, Lane: enginetest.ProgramLane, Policy: json.RawMessage(policy), Payload: []byte("1"),
	})
	require.NoError(x.t, err)
	return id
}

// execution reads an execution.
func (x *outside) execution(id enginecore.ExecutionID) admin.Execution {
	x.t.Helper()
	e, err := x.operator.Execution(x.ctx, id)
	require.NoError(x.t, err)
	return e
}

// awaitState waits until an execution is in a state.
func (x *outside) awaitState(id enginecore.ExecutionID, state fabrictype.NodeState) {
	x.t.Helper()
	enginetest.Eventually(x.t, func() string {
		if e := x.execution(id); e.State != state {
			return fmt.Sprintf("it is %s (%s)", e.State, e.BlockingDetail)
		}
		return ""
	})
}

// suspend lets a leased execution wait for the signal "go"; optional arguments are not set.
func (x *outside) suspend(c enginetest.Claimed) (enginerpc.SuspendExecutionReply, error) {
	return x.core.SuspendExecution(x.ctx, enginerpc.SuspendExecutionCall{
		ExecutionID: c.ID, WorkerInstanceID: enginetest.ProgramWorker, LaneID: enginetest.ProgramLane,
		AttemptIndex: c.AttemptIndex, AttemptID: c.AttemptID, LeaseID: c.LeaseID, LeaseEpoch: c.LeaseEpoch,
		SuspensionID: keyspace.SuspensionID(uuid.NewString()), WaitpointID: enginecore.WaitpointID(uuid.NewString()),
		WaitpointKey: "approval", ReasonCode: "waiting_for_signal", RequestedBy: "worker", ResumePolicyJSON: []byte("{}"),
		ResumeConditionJSON: []byte(`{"condition_type":"signal_set","required_signal_names":["go"]}`),
	})
}

// A signal ends a wait, and so does an operator; arguments that a caller does not set have the defaults of the
// contract.
func TestContractWaitsEnd(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		_, err := x.operator.RotateSecret(x.ctx, enginecore.WaitpointSecret{KID: "k1", Hex: "00112233445566778899aabbccddeeff"}, time.Hour)
		require.NoError(t, err)
		wait := func() (enginecore.ExecutionID, enginerpc.SuspendExecutionReply) {
			id := x.create("of a program", "")
			w, err := x.suspend(x.program.Claim(id, 0))
			require.NoError(t, err)
			require.Equal(t, fabrictype.NodeSuspended, x.execution(id).State)
			return id, w
		}
		id, w := wait()
		delivered, err := x.operator.DeliverSignal(x.ctx, admin.Signal{
			Execution: id, Waitpoint: w.WaitpointID, Token: w.WaitpointToken, Name: "go",
		})
		require.NoError(t, err)
		require.Equal(t, "resume_condition_satisfied", delivered.Effect)
		require.Equal(t, fabrictype.NodeWaiting, x.execution(id).State)

		id, w = wait()
		_, err = x.core.DeliverSignal(x.ctx, enginerpc.DeliverSignalCall{LaneID: enginetest.ProgramLane, Signal: enginerpc.Signal{
			SignalID: "s1", ExecutionID: id, WaitpointID: w.WaitpointID, SignalName: "go", SignalCategory: "x",
			SourceType: "x", SourceIdentity: "x", WaitpointToken: w.WaitpointToken,
		}})
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeWaiting, x.execution(id).State)
		client := x.core.Client()
		stored, err := client.Do(x.ctx, client.B().Hmget().Key("ff:signal:{fp:0}:s1").
			Field("payload_encoding", "target_scope").Build()).AsStrSlice()
		require.NoError(t, err)
		require.Equal(t, []string{"json", "waitpoint"}, stored)

		id, w = wait()
		_, err = x.core.ResumeExecution(x.ctx, enginerpc.ResumeExecutionCall{
			LaneID: enginetest.ProgramLane, ExecutionID: id, WaitpointID: w.WaitpointID,
		})
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeWaiting, x.execution(id).State)
	})
}

// Frames of a function reach readers in contract mode.
func TestContractStream(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		chatty := activity.New("chatty", func(ctx context.Context, n int) (int, error) {
			for i := range n {
				if err := activity.Emit(ctx, activity.Frame{Kind: "line", Payload: []byte(fmt.Sprint(i))}); err != nil {
					return 0, err
				}
			}
			return n, nil
		})
		def := fixture.OneNode(t, "chatty", chatty)
		x.Worker(t, def.Handlers())
		run, err := runtime.Start(x.ctx, x.Client, def, 5)
		require.NoError(t, err)
		var lines []string
		for frame, err := range run.Stream(x.ctx, "node", "") {
			require.NoError(t, err)
			lines = append(lines, string(frame.Payload()))
		}
		require.Equal(t, []string{"0", "1", "2", "3", "4"}, lines)
	})
}

// An execution that a scheduler has blocked for lack of a capable worker runs once there is one, and other programs see
// the capabilities of the worker.
func TestContractWorkerCapabilities(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		id := x.create("pass", `{"routing_requirements":{"required_capabilities":["gpu"]}}`)
		s := x.Engine
		_, err := s.ClaimForWorker(x.ctx, fixture.RequestFor("weak"))
		require.ErrorIs(t, err, enginecore.ErrNoGrant)
		require.Equal(t, fabrictype.NodeRateLimited, x.execution(id).State)
		keys, client := x.core.Keys(), x.core.Client()
		workers := func() []string {
			list, err := client.Do(x.ctx, client.B().Smembers().Key("ff:idx:workers").Build()).AsStrSlice()
			require.NoError(t, err)
			return list
		}
		require.Empty(t, workers())
		w := x.Worker(t, []activity.Handler{fixture.Passing("pass")}, runtime.WorkerConfig{Capabilities: []string{"ssd", "gpu"}})
		x.awaitState(id, fabrictype.NodeSucceeded)
		require.Len(t, workers(), 1)
		capabilities, err := client.Do(x.ctx, client.B().Get().
			Key(keys.WorkerCapabilities(enginecore.WorkerInstanceID(workers()[0]))).Build()).ToString()
		require.NoError(t, err)
		require.Equal(t, "gpu,ssd", capabilities)
		require.NoError(t, w.Stop())
		require.Empty(t, workers())
	})
}

// A quota whose window is full blocks the next execution instead of failing the request.
func TestContractRateQuota(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		quota, _, err := x.operator.CreateQuota(x.ctx, admin.QuotaSpec{Window: time.Minute, MaxStarts: 1})
		require.NoError(t, err)
		var ids []enginecore.ExecutionID
		keys, client := x.core.Keys(), x.core.Client()
		for range 2 {
			id := x.create("pass", "")
			require.NoError(t, client.Do(x.ctx, client.B().Hset().Key(keys.ExecCore(id)).FieldValue().
				FieldValue("quota_policy_id", string(quota)).Build()).Error())
			ids = append(ids, id)
		}
		s := x.Engine
		_, err = s.ClaimForWorker(x.ctx, fixture.RequestFor("w"))
		require.NoError(t, err)
		// The head of the lane may be the execution that is already granted.
		_, err = s.ClaimForWorker(x.ctx, fixture.RequestFor("w"))
		require.ErrorIs(t, err, enginecore.ErrNoGrant)
		blocked := 0
		for _, id := range ids {
			if e := x.execution(id); e.Blocking == "waiting_for_quota" {
				require.Contains(t, e.BlockingDetail, "rate limit 1/1")
				blocked++
			}
		}
		require.Equal(t, 1, blocked)
	})
}

// The retry policy of another program's execution applies when our worker fails it.
func TestContractRetryOfOthers(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		flaky := activity.New("flaky", func(ctx context.Context, n int) (int, error) {
			return 0, fmt.Errorf("not yet")
		})
		x.Worker(t, []activity.Handler{flaky})
		for policy, want := range map[string]time.Duration{
			`{"retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":30000}}}`: 30 * time.Second,
			`{"retry_policy":{"max_retries":1}}`:                                             time.Second,
		} {
			id := x.create("flaky", policy)
			x.awaitState(id, fabrictype.NodeDelayed)
			client := x.core.Client()
			times, err := client.Do(x.ctx, client.B().Hmget().Key(x.core.Keys().ExecCore(id)).
				Field("last_transition_at", "delay_until").Build()).AsIntSlice()
			require.NoError(t, err)
			require.Equal(t, want.Milliseconds(), times[1]-times[0], policy)
		}
	})
}

// A call that leaves out the caller's time sends the present one: the contract stores it, and scores sets by it.
func TestContractTimeOfCaller(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		id := x.create("of another program", "")
		_, err := x.core.BlockExecutionForAdmission(x.ctx, enginerpc.BlockExecutionForAdmissionCall{
			LaneID: enginetest.ProgramLane, ExecutionID: id, BlockingReason: "paused_by_operator",
		})
		require.NoError(t, err)
		require.Equal(t, "blocked_by_operator", x.execution(id).Eligibility)
		client, core := x.core.Client(), x.core.Keys().ExecCore(id)
		since, err := client.Do(x.ctx, client.B().Hget().Key(core).Field("last_transition_at").Build()).AsInt64()
		require.NoError(t, err)
		require.Positive(t, since)
		unblock := enginerpc.UnblockExecutionCall{LaneID: enginetest.ProgramLane, ExecutionID: id}
		_, err = x.core.UnblockExecution(x.ctx, unblock)
		require.NoError(t, err)
		require.Equal(t, "eligible_now", x.execution(id).Eligibility)
	})
}
