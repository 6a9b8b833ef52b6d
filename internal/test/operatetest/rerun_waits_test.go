package operatetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A waitpoint that is run again opens anew; compensation and cleanup follow the new outcomes of their upstreams.
func TestRerunOfWaitpointsAndCleanup(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := fixture.NewShop()
		b.Worker(t, []activity.Handler{s.Act}, runtime.WorkerConfig{Concurrency: 4})
		f := flow.New[fixture.None, string]("release")
		none := flow.Const([]string{})
		gate := flow.Waitpoint[string](f, "gate")
		deploy := flow.Node(f, "deploy", s.Act, flow.List(gate))
		flow.Node(f, "undo", s.Act, none, flow.OnFailure(deploy))
		flow.Node(f, "clean", s.Act, none, flow.Always(deploy))
		flow.Return(f, flow.Node(f, "tell", s.Act, flow.List(deploy)))
		s.Breaks("deploy")
		run := fixture.StartOf(t, b, f)
		fixture.Send(t, ctx, b, fixture.OpenWaits(t, ctx, run, 1)[0], runtime.Signal{Name: "go", Payload: "first"})
		_, err := run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		require.Equal(t, map[string]int{"deploy": 1, "undo": 1, "clean": 1}, s.Called())
		b.Settle(t)

		s.Breaks()
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "tell1(deploy1(first))", result)
		require.Equal(t, map[string]int{"deploy": 1, "clean": 1, "tell": 1}, s.Called())
		require.Equal(t, fabrictype.NodeSkipped, fixture.States(t, run)["undo"])
		b.Settle(t)

		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		fixture.Send(t, ctx, b, fixture.OpenWaits(t, ctx, run, 1)[0], runtime.Signal{Name: "go", Payload: "second"})
		result, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "tell1(deploy1(second))", result)
		b.Settle(t)
		require.NoError(t, run.Purge(ctx))
		fixture.NothingLeft(t, b)
	})
}

// A function that was spared by CancelPending and then waits is not woken again.
func TestCancelPendingEndsLaterWaits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		begun, gate := make(chan struct{}), make(chan struct{})
		act := activity.New("asks", func(ctx context.Context, _ fixture.None) (string, error) {
			close(begun)
			<-gate
			return activity.Await[string](ctx, "answer")
		})
		f := flow.New[fixture.None, string]("asks")
		flow.Return(f, flow.Node(f, "ask", act, f.Input()))
		b.Worker(t, []activity.Handler{act})
		run := fixture.StartOf(t, b, f)
		<-begun
		require.NoError(t, run.CancelPending(ctx, "no more"))
		close(gate)
		_, err := run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		b.Settle(t)
		require.NoError(t, run.Purge(ctx))
		fixture.NothingLeft(t, b)
	})
}
