package starttest

import (
	"context"
	"math"
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

// Names that no URL can have are refused at every door: of runs, flows, nodes, activities, schedules, limits and lanes.
func TestNamesOfPaths(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		def := fixture.OneNode(t, "plain", double)
		for _, bad := range []string{"/", ".", ".."} {
			refused := func(err error, what string) {
				t.Helper()
				require.ErrorIs(t, err, runtime.ErrInvalid, what)
				require.ErrorContains(t, err, `"`+bad+`"`, what)
				require.ErrorContains(t, err, "cannot be part of a URL", what)
			}
			_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID(bad))
			refused(err, "start")
			_, err = runtime.Do(ctx, b.Client, double, 1, runtime.WithID(bad))
			refused(err, "do")
			started, err := runtime.StartMany(ctx, b.Client, def, []runtime.NewRun[int]{
				{Input: 1, Options: []runtime.StartOption{runtime.WithID(bad)}},
			})
			require.NoError(t, err)
			refused(started[0].Err, "start many")
			_, err = b.Client.Run("plain", bad).Describe(ctx)
			refused(err, "describe")
			refused(b.Client.Lane(bad).Pause(ctx, ""), "lane")
			_, err = runtime.NewWorker(b.Engine, runtime.WorkerConfig{Lanes: []string{bad}})
			refused(err, "worker")
		}
		_, err := runtime.NewWorker(b.Engine, runtime.WorkerConfig{Lanes: []string{"a lane"}})
		require.ErrorContains(t, err, `Lanes: lane "a lane" has other than printable ASCII characters, or a space`)
		for _, bad := range []string{".", ".."} {
			_, err := flow.New[int, int](bad).Build()
			require.ErrorContains(t, err, `name "`+bad+`" cannot be part of a URL`)
			require.ErrorContains(t, activity.New(bad, double.Call).Err(), `name "`+bad+`" cannot be part of a URL`)
			_, err = runtime.Schedule(ctx, b.Client, bad, def, 1, runtime.ScheduleConfig{Every: time.Hour})
			require.ErrorContains(t, err, `name "`+bad+`" cannot be part of a URL`)
			require.ErrorIs(t, b.Client.Activity(bad).Pause(ctx, ""), runtime.ErrInvalid)
		}
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{}, "", 0)
		require.NoError(t, err)
		require.Empty(t, page.Items)
	})
}

// A time that has no form as text is refused before it is stored.
func TestTimesWithoutText(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		never := time.UnixMilli(math.MaxInt64)
		later := activity.New("later", func(_ context.Context, n int) (int, error) {
			switch n {
			case 0:
				return 0, activity.DelayUntil(never)
			case 1:
				return 0, activity.DelayUntil(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
			}
			return n, nil
		})
		def := fixture.OneNode(t, "far", later)
		b.Worker(t, []activity.Handler{later})
		run, err := runtime.Start(ctx, b.Client, def, 0)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorContains(t, err, "delay until 292278994-08-17T07:12:55Z: must be of the years 1 to 9999")
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, d.Nodes[0].Attempts)

		run, err = runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if d.Nodes[0].State != fabrictype.NodeDelayed {
				return "the node is " + string(d.Nodes[0].State)
			}
			return ""
		})
		_, err = runtime.Start(ctx, b.Client, def, 2, runtime.StartAt(never))
		require.ErrorIs(t, err, runtime.ErrInvalid)
		_, err = runtime.Schedule(ctx, b.Client, "s", def, 2, runtime.ScheduleConfig{Every: time.Hour, EndingAt: never})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, "EndingAt 292278994-08-17T07:12:55Z: must be")
	})
}
