package modetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Contract mode refuses timers and nodes that start further nodes by name, before anything is written.
func TestContractRefusesTimersAndGrowth(t *testing.T) {
	t.Parallel()
	b := enginetest.NewContract(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	until := activity.New("until", func(context.Context, int) (bool, error) { return true, nil })
	plan := activity.New("plan", func(context.Context, int) (flow.Plan[int], error) { return flow.Done(1) })
	body := fixture.Single(t, fixture.AddOne())
	for want, declare := range map[string]func(*flow.Builder[int, struct{}]){
		"node x: contract mode refuses timers (flow.Sleep, flow.Until, activity.Sleep)": func(f *flow.Builder[int, struct{}]) { flow.Sleep(f, "x", time.Hour) },
		"node y: contract mode refuses timers (flow.Sleep, flow.Until, activity.Sleep)": func(f *flow.Builder[int, struct{}]) { flow.Until(f, "y", flow.Const(time.Now())) },
		"loops (flow.Loop)":   func(f *flow.Builder[int, struct{}]) { flow.Loop(f, "x", body, until, f.Input(), 3) },
		"plans (flow.Expand)": func(f *flow.Builder[int, struct{}]) { flow.Expand(f, "x", plan, f.Input()) },
		"maps":                func(f *flow.Builder[int, struct{}]) { flow.MapFlow(f, "x", body, flow.Const([]int{1})) },
	} {
		f := flow.New[int, struct{}]("refused")
		declare(f)
		def, err := f.Build()
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, def, 1, runtime.WithID("refused"))
		require.ErrorIs(t, err, runtime.ErrNotInContract, want)
		require.ErrorContains(t, err, want)
		_, err = b.Client.Run("refused", "refused").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrRunNotFound)
	}

	b.Keeper(t)
	sleeps := activity.New("sleeps", func(ctx context.Context, n int) (int, error) { return n, activity.Sleep(ctx, "nap", time.Hour) })
	renews := activity.New("renews", func(_ context.Context, n int) (int, error) { return n, activity.ContinueAsNew(n) })
	b.Worker(t, []activity.Handler{sleeps, renews})
	for feature, a := range map[string]*activity.Activity[int, int]{"activity.Sleep": sleeps, "activity.ContinueAsNew": renews} {
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorContains(t, err, feature)
		require.ErrorContains(t, err, "contract")
		require.ErrorIs(t, run.SkipTimer(ctx, "only"), runtime.ErrNotInContract)
		require.ErrorIs(t, run.MoveTimer(ctx, "only", time.Now()), runtime.ErrNotInContract)
		_, err = run.Turns(ctx, "only")
		require.ErrorIs(t, err, runtime.ErrNotInContract)
	}
}
