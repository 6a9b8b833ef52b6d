package graphtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// deafFlow has a node whose function works until it is released, whatever its context, and one that runs in the end.
type deafFlow struct {
	def      *flow.Definition[string, string]
	handlers []activity.Handler
	works    chan struct{}
	released chan struct{}
	cleaned  chan flow.Failure
}

func newDeafFlow(t *testing.T, name string) *deafFlow {
	t.Helper()
	d := &deafFlow{works: make(chan struct{}, 8), released: make(chan struct{}), cleaned: make(chan flow.Failure, 8)}
	deaf := activity.New("deaf", func(context.Context, string) (string, error) {
		d.works <- struct{}{}
		<-d.released
		return "done", nil
	})
	clean := activity.New("clean", func(_ context.Context, f flow.Failure) (string, error) {
		d.cleaned <- f
		return f.Node, nil
	})
	f := flow.New[string, string](name)
	work := flow.Node(f, "work", deaf, f.Input())
	flow.Node(f, "clean", clean, flow.FailureOf(work), flow.Finally(time.Hour))
	flow.Return(f, work)
	var err error
	d.def, err = f.Build()
	require.NoError(t, err)
	d.handlers = []activity.Handler{deaf, clean}
	return d
}

// A finally node begins when the function of a cancelled node has returned.
func TestFinallyWaitsForFunctions(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		for name, end := range map[string]func(run *runtime.Run[string]) error{
			"cancel":      func(run *runtime.Run[string]) error { return run.Cancel(ctx, "enough") },
			"cancel-node": func(run *runtime.Run[string]) error { return run.CancelNode(ctx, "work", "enough") },
		} {
			d := newDeafFlow(t, name)
			worker := b.KeepingWorker(t, d.handlers, runtime.WorkerConfig{Concurrency: 4})
			run, err := runtime.Start(ctx, b.Client, d.def, "x")
			require.NoError(t, err)
			<-d.works
			require.NoError(t, end(run))
			require.NoError(t, end(run)) // again
			require.Equal(t, map[string]fabrictype.NodeState{
				"work": fabrictype.NodeActive, "clean": fabrictype.NodeWaitingChildren,
			}, fixture.States(t, run))
			b.Check(t, 0)
			require.Empty(t, d.cleaned)
			close(d.released)
			failure := <-d.cleaned
			require.Equal(t, flow.Failure{Node: "work", Outcome: fabrictype.OutcomeCancelled, Reason: "enough"}, failure)
			_, err = run.Result(ctx)
			require.ErrorIs(t, err, runtime.ErrRunCancelled)
			require.Equal(t, fabrictype.NodeCancelled, fixture.States(t, run)["work"])
			b.Settle(t)
			require.NoError(t, worker.Stop())
		}
	})
}

// A worker that does not say that the function has returned is waited for until its lease ends.
func TestFinallyWaitsNoLongerThanTheLease(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		d := newDeafFlow(t, "deaf")
		worker := b.KeepingWorker(t, d.handlers, runtime.WorkerConfig{Concurrency: 4, Lease: time.Second})
		run, err := runtime.Start(ctx, b.Client, d.def, "x")
		require.NoError(t, err)
		<-d.works
		require.NoError(t, run.Cancel(ctx, "enough"))
		failure := <-d.cleaned
		require.Equal(t, flow.Failure{Node: "work", Outcome: fabrictype.OutcomeCancelled, Reason: "enough", MayStillRun: true}, failure)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		close(d.released)
		b.Settle(t)
		require.NoError(t, worker.Stop())
	})
}
