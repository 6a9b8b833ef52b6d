package starttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/runcontrol"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// clockOf is an activity that returns when it ran, in milliseconds.
func clockOf() *activity.Activity[int, int64] {
	return activity.New("clock", func(context.Context, int) (int64, error) { return time.Now().UnixMilli(), nil })
}

// twoRoots has two roots, one of them a waitpoint, and a node after each; its result is the time at which the other
// root ran.
func twoRoots(t *testing.T, a *activity.Activity[int, int64], opts ...flow.Option) *flow.Definition[int, int64] {
	t.Helper()
	f := flow.New[int, int64]("later", opts...)
	first := flow.Node(f, "first", a, f.Input())
	asked := flow.Waitpoint[int](f, "asked", activity.Timeout(time.Millisecond, activity.ResumeOnTimeout))
	flow.Node(f, "behind", a, f.Input(), flow.After(first), flow.Always(asked))
	flow.Return(f, first)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// A run starts at its time and not before; its deadline counts from then on.
func TestStartAt(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := clockOf()
		def := twoRoots(t, a, flow.Deadline(time.Hour))
		b.Keeper(t)
		b.Worker(t, []activity.Handler{a})
		at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("one"), runtime.StartAt(at))
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunRunning, d.State)
		require.True(t, at.Equal(d.StartsAt), d.StartsAt)
		require.True(t, at.Add(time.Hour).Equal(d.DeadlineAt), d.DeadlineAt)
		listed, err := b.Client.ListRuns(ctx, runtime.RunQuery{Flow: def.Name()}, "", 0)
		require.NoError(t, err)
		require.Len(t, listed.Items, 1)
		require.True(t, at.Equal(listed.Items[0].StartsAt), listed.Items[0].StartsAt)
		again, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("one"))
		require.NoError(t, err)
		require.True(t, again.Existed())
		require.NoError(t, run.Cancel(ctx, "an hour is long"))
		at = time.Now().Add(300 * time.Millisecond).Truncate(time.Millisecond)
		soon, err := runtime.Start(ctx, b.Client, def, 1, runtime.StartAt(at))
		require.NoError(t, err)
		ran, err := soon.Result(ctx)
		require.NoError(t, err)
		require.GreaterOrEqual(t, ran, at.UnixMilli())
		b.Settle(t)

		// One whose time is over starts at once.
		late, err := runtime.Start(ctx, b.Client, def, 1, runtime.StartAt(time.Now().Add(-time.Hour)))
		require.NoError(t, err)
		d, err = late.Describe(ctx)
		require.NoError(t, err)
		require.Zero(t, d.StartsAt)
		_, err = late.Result(ctx)
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, def, 1, runtime.StartAt(time.Now().Add(11*366*24*time.Hour)))
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, "must be within 10 years")
		b.Settle(t)
	})
}

// The start of a run is moved to another time and to now, with its deadline, and not once it has started.
func TestMoveStart(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := clockOf()
		def := twoRoots(t, a, flow.Deadline(time.Hour))
		b.Keeper(t)
		b.Worker(t, []activity.Handler{a})
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.StartAt(time.Now().Add(24*time.Hour)))
		require.NoError(t, err)
		to := time.Now().Add(48 * time.Hour).Truncate(time.Millisecond)
		require.NoError(t, run.MoveStart(ctx, to))
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.True(t, to.Equal(d.StartsAt), d.StartsAt)
		require.True(t, to.Add(time.Hour).Equal(d.DeadlineAt), d.DeadlineAt)
		for _, n := range d.Nodes {
			if n.Name != "behind" {
				require.True(t, to.Equal(n.DueAt), "%s is due at %s", n.Name, n.DueAt)
			}
		}
		b.Check(t, 0)
		require.NoError(t, run.MoveStart(ctx, time.Time{}))
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.ErrorIs(t, run.MoveStart(ctx, to), engine.ErrRunOver)

		gate := make(chan struct{})
		open, err := runtime.Start(ctx, b.Client, fixture.Gated(t, gate, 1), 1)
		require.NoError(t, err)
		require.ErrorIs(t, open.MoveStart(ctx, to), runcontrol.ErrRunStarted)
		require.ErrorIs(t, open.MoveStart(ctx, time.Now().Add(11*366*24*time.Hour)), runtime.ErrInvalid)
		require.NoError(t, open.Cancel(ctx, "enough"))
		require.ErrorIs(t, b.Client.Run("later", "none").MoveStart(ctx, to), engine.ErrRunNotFound)
		b.Settle(t)
	})
}

// A run that has not started is cancelled, paused and purged like another.
func TestCancelBeforeTheStart(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := clockOf()
		def := twoRoots(t, a)
		b.Keeper(t)
		b.Worker(t, []activity.Handler{a})
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.StartAt(time.Now().Add(time.Hour)))
		require.NoError(t, err)
		require.NoError(t, run.Cancel(ctx, "not needed"))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		b.Settle(t)
		// A rerun does not wait for the time again.
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.NoError(t, run.Purge(ctx))

		paused, err := runtime.Start(ctx, b.Client, def, 1, runtime.StartAt(time.Now().Add(time.Hour)))
		require.NoError(t, err)
		require.NoError(t, paused.Pause(ctx, "wait"))
		require.NoError(t, paused.MoveStart(ctx, time.Time{}))
		require.NoError(t, paused.Resume(ctx))
		_, err = paused.Result(ctx)
		require.NoError(t, err)
		b.Settle(t)
	})
}

// Many roots are held, moved and released in several calls.
func TestStartOfManyRootsLater(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := clockOf()
		f := flow.New[int, int64]("roots")
		var first flow.Ref[int64]
		for i := range 600 {
			n := flow.Node(f, fmt.Sprintf("n%d", i), a, f.Input())
			if i == 0 {
				first = n
			}
		}
		flow.Return(f, first)
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 100})
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.StartAt(time.Now().Add(24*time.Hour)))
		require.NoError(t, err)
		b.Check(t, 0)
		to := time.Now().Add(500 * time.Millisecond).Truncate(time.Millisecond)
		require.NoError(t, run.MoveStart(ctx, to))
		ran, err := run.Result(ctx)
		require.NoError(t, err)
		require.GreaterOrEqual(t, ran, to.UnixMilli())
		b.Settle(t)
	})
}
