package operatetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// awaitState waits until a node is in a state.
func awaitState(t testing.TB, run *runtime.Run[string], node string, want fabrictype.NodeState) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		d, err := run.Describe(context.Background())
		if err != nil {
			return err.Error()
		}
		for _, n := range d.Nodes {
			if n.Name == node && n.State == want {
				return ""
			}
		}
		return fmt.Sprintf("%s is not %s: %s", node, want, fixture.StateOf(d))
	})
}

func TestCancelPending_SparesRunningNodes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		gate := make(chan struct{})
		var attempts atomic.Int64
		act := activity.New("gated", func(ctx context.Context, in string) (string, error) {
			attempts.Add(1)
			select {
			case <-gate:
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			if in == "fail" {
				return "", errors.New("it would be retried")
			}
			return in, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 5, Factor: 1}))
		f := flow.New[fixture.None, string]("pending")
		runs := flow.Node(f, "runs", act, flow.Const("ok"), activity.Priority(9))
		flow.Node(f, "fails", act, flow.Const("fail"), activity.Priority(8))
		flow.Node(f, "waits", act, flow.Const("ok"))
		flow.Return(f, flow.Node(f, "after", act, runs))
		b.Worker(t, []activity.Handler{act}, runtime.WorkerConfig{Concurrency: 2})
		run := fixture.StartOf(t, b, f)
		awaitState(t, run, "runs", fabrictype.NodeActive)
		awaitState(t, run, "fails", fabrictype.NodeActive)
		require.NoError(t, run.CancelPending(ctx, "no more", runtime.WithActor("ann")))
		got := fixture.States(t, run)
		require.Equal(t, map[string]fabrictype.NodeState{"runs": "active", "fails": "active", "waits": "cancelled", "after": "cancelled"}, got)
		b.Check(t, invariant.AnyTime)
		close(gate)
		_, err := run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.ErrorContains(t, err, "no more")
		require.Equal(t, map[string]fabrictype.NodeState{"runs": "completed", "fails": "cancelled", "waits": "cancelled", "after": "cancelled"},
			fixture.States(t, run))
		require.EqualValues(t, 2, attempts.Load(), "nothing starts after the cancel")
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, "ann", d.CancelledBy)
		b.Settle(t)
		require.NoError(t, run.CancelPending(ctx, "again"))
	})
}

func TestCancelAfterCancelPending(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		f := flow.New[fixture.None, string]("both")
		flow.Return(f, c.Nodes(f, "hang", "hang")[1])
		b.Worker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 1})
		run := fixture.StartOf(t, b, f)
		enginetest.Eventually(t, func() string {
			if c.Hanging.Load() == 0 {
				return "nothing runs"
			}
			return ""
		})
		require.NoError(t, run.CancelPending(ctx, "no more"))
		require.NoError(t, run.Cancel(ctx, "at once", runtime.WithActor("bob")))
		<-c.Stopped
		_, err := run.Result(ctx)
		require.ErrorContains(t, err, "at once")
		b.Settle(t)
		require.EqualValues(t, 1, c.Hanging.Load())
	})
}

// A worker that is lost leaves nothing to be taken over when its run was cancelled.
func TestCancelPendingAndALostWorker(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		core := engine.ConnOf(b.Engine.Internal())
		c := fixture.NewCourse()
		f := flow.New[fixture.None, string]("lost")
		flow.Return(f, c.Nodes(f, "ok")[0])
		def := fixture.DefinitionOf(t, f)
		plan, err := fixture.NewPlan(b.Client, def, fixture.None{}, "r")
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithID("r"))
		require.NoError(t, err)
		reply, err := core.Claim(ctx, enginerpc.ClaimCall{
			Partition: plan.Partition, ClaimRequest: enginerpc.ClaimRequest{
				LaneID: "default", WorkerID: "w", WorkerInstanceID: "w1", ClaimID: "00000000-0000-4000-8000-000000000000", Count: 1,
				LeaseTTL: 50 * time.Millisecond, Kinds: "\ncourse\n",
			},
		})
		require.NoError(t, err)
		require.Len(t, reply.Executions, 1)
		require.NoError(t, run.CancelPending(ctx, "no more"))
		b.Keeper(t)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.Equal(t, fabrictype.NodeCancelled, fixture.States(t, run)["a"])
		b.Settle(t)
	})
}

func TestCancelNode(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		b.MessageWorker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{Concurrency: 4})
		f := flow.New[fixture.None, string]("node")
		refs := c.Nodes(f, "hang", "gate", "ok")
		flow.Node(f, "after", c.Act, flow.Const("ok"), flow.After(refs[0]))
		flow.Return(f, flow.Node(f, "join", c.Sum, flow.Quorum(2, refs...)))
		run := fixture.StartOf(t, b, f)
		awaitState(t, run, "a", fabrictype.NodeActive)
		enginetest.Eventually(t, func() string {
			if c.Hanging.Load() == 0 {
				return "a has not begun"
			}
			return ""
		})
		require.NoError(t, run.CancelNode(ctx, "a", "not this one", runtime.WithActor("ann")))
		<-c.Stopped
		require.NoError(t, run.CancelNode(ctx, "a", "not this one"))
		awaitState(t, run, "c", fabrictype.NodeSucceeded)
		require.ErrorIs(t, run.CancelNode(ctx, "c", "too late"), engine.ErrNodeOver)
		require.ErrorIs(t, run.CancelNode(ctx, "x", "unknown"), engine.ErrUnknownNode)
		close(c.Gate)
		_, err := run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.Equal(t, map[string]fabrictype.NodeState{
			"a": "cancelled", "b": "completed", "c": "completed", "after": "skipped", "join": "completed",
		}, fixture.States(t, run))
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, "not this one", d.Nodes[0].Reason)
		b.Settle(t)
		// And it can be run again.
		require.NoError(t, run.Purge(ctx))
		fixture.NothingLeft(t, b)
	})
}

// BenchmarkCancelWide measures how long one call of a cancel holds the engine, with 10,000 members that wait.
func BenchmarkCancelWide(b *testing.B) {
	for _, kind := range testserver.Kinds(b) {
		b.Run(string(kind), func(b *testing.B) {
			bench := enginetest.New(b, kind)
			c := fixture.NewCourse()
			f := flow.New[fixture.None, string]("wide")
			refs := make([]flow.Ref[string], 9999)
			for i := range refs {
				refs[i] = flow.Node(f, fmt.Sprintf("n%d", i), c.Act, flow.Const("ok"))
			}
			flow.Return(f, flow.Node(f, "sum", c.Sum, flow.List(refs...)))
			def := fixture.DefinitionOf(b, f)
			var longest time.Duration
			calls := 0
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				plan, err := fixture.NewPlan(bench.Client, def, fixture.None{}, fmt.Sprint(i))
				require.NoError(b, err)
				_, err = runtime.Start(b.Context(), bench.Client, def, fixture.None{}, runtime.WithID(fmt.Sprint(i)))
				require.NoError(b, err)
				b.StartTimer()
				for more := true; more; calls++ {
					begin := time.Now()
					reply, err := engine.ConnOf(bench.Engine.Internal()).CancelFlow(b.Context(), enginerpc.CancelFlowCall{
						Partition: plan.Partition, FlowID: plan.FlowID, Reason: "enough", Actor: "bench",
					})
					require.NoError(b, err)
					longest = max(longest, time.Since(begin))
					more = reply.More
				}
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
			b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
		})
	}
}
