package operatetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestCancelReachesRunningFunctions(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		begun, ends := make(chan struct{}, 16), make(chan fixture.Ended, 16)
		var started atomic.Int64
		wait := fixture.WaitForEnd(begun, ends, &started)
		f := flow.New[int, int]("waits")
		for i := range 8 {
			flow.Node(f, fmt.Sprintf("n%d", i), wait, f.Input())
		}
		last := flow.Node(f, "last", wait, f.Input())
		flow.Return(f, last)
		def, err := f.Build()
		require.NoError(t, err)
		b.MessageWorker(t, []activity.Handler{wait}, runtime.WorkerConfig{Concurrency: 2})
		b.MessageWorker(t, []activity.Handler{wait}, runtime.WorkerConfig{Concurrency: 1})
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		for range 3 {
			<-begun
		}
		require.NoError(t, run.Cancel(ctx, "no longer wanted"))
		for range 3 {
			e := <-ends
			require.ErrorIs(t, e.Cause, runtime.ErrCancelled)
			require.ErrorContains(t, e.Cause, "no longer wanted")
		}
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.Equal(t, "no longer wanted", fixture.Failure(t, err).Reason)
		require.NoError(t, run.Cancel(ctx, "again"), "a second cancel succeeds")
		b.Settle(t)
		require.EqualValues(t, 3, started.Load(), "nothing starts after the cancel")
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, "no longer wanted", d.CancelReason)
		for _, n := range d.Nodes {
			require.Equal(t, fabrictype.NodeCancelled, n.State, n.Name)
		}
	})
}

// A flow with more members than one call ends is cancelled completely, and at once as far as starts are concerned.
func TestCancelOfALargeFlow(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		run, err := runtime.Start(ctx, b.Client, fixture.Wide(t, a, fixture.Adder(), 300), 1)
		require.NoError(t, err)
		require.NoError(t, run.Cancel(ctx, "too large"))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		b.Settle(t)
	})
}

// Other tools cancel a flow with the contract's own call; a keeper ends its members when their time has come.
func TestCancelByOtherTools(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		begun, ends := make(chan struct{}, 1), make(chan fixture.Ended, 1)
		var started atomic.Int64
		wait := fixture.WaitForEnd(begun, ends, &started)
		b.MessageWorker(t, []activity.Handler{wait}, runtime.WorkerConfig{Concurrency: 1})
		b.Keeper(t)
		def := fixture.ChainOf(t, wait, 3)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		<-begun
		partition, err := engine.ConnOf(b.Engine.Internal()).FlowPartition(run.FlowID())
		require.NoError(t, err)
		_, err = engine.ConnOf(b.Engine.Internal()).ContractCancelFlow(ctx, enginerpc.ContractCancelFlowCall{
			Partition: partition, FlowID: run.FlowID(), Reason: "others", CancellationPolicy: "cancel_all", Grace: 10 * time.Millisecond,
		})
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.ErrorIs(t, (<-ends).Cause, runtime.ErrCancelled)
		require.EqualValues(t, 1, started.Load())
		b.Settle(t)
	})
}

func TestOperatorCancelsOneNode(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		begun, ends := make(chan struct{}, 1), make(chan fixture.Ended, 1)
		var started atomic.Int64
		wait := fixture.WaitForEnd(begun, ends, &started)
		b.MessageWorker(t, []activity.Handler{wait})
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, wait, 2), 1)
		require.NoError(t, err)
		<-begun
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		n := d.Nodes[0]
		require.Equal(t, fabrictype.NodeActive, n.State)
		_, err = engine.ConnOf(b.Engine.Internal()).CancelExecution(ctx, enginerpc.CancelExecutionCall{
			AttemptIndex: 0, WorkerInstanceID: enginecore.WorkerInstanceID(n.Worker), WaitpointID: "00000000-0000-0000-0000-000000000000", LaneID: "default",
			ExecutionID: enginecore.ExecutionID(n.ExecutionID), Reason: "operator", Source: fixture.Override,
		})
		require.NoError(t, err)
		e := <-ends
		require.ErrorIs(t, e.Cause, runtime.ErrCancelled)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		d, err = run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeSkipped, d.Nodes[1].State)
		b.Settle(t)
	})
}
