package operatetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A rerun that is requested again under the same id is the same rerun: while it runs, and after its end.
func TestRepeatedRequestOfRerun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := fixture.NewShop()
		def := s.Flow(t, "shop", "a:", "b: a")
		b.KeepingWorker(t, []activity.Handler{s.Act})
		run, err := runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithID("one"))
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"a": 1, "b": 1}, s.Called())

		gate := s.Gate("b")
		again := runtime.WithRequestID("again")
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll, again))
		s.AwaitCall(t, "b")
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll, again), "the rerun is under way")
		require.ErrorIs(t, run.Rerun(ctx, fabrictype.RerunAll, runtime.WithRequestID("other")), runtime.ErrRunOpen)
		close(gate)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll, again), "the rerun is over")
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed, again), "the first call counts")
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, d.Reruns)
		require.Equal(t, map[string]int{"a": 1, "b": 1}, s.Called())

		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll, runtime.WithRequestID("third")))
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"a": 1, "b": 1}, s.Called())
		require.ErrorIs(t, run.Rerun(ctx, fabrictype.RerunAll, runtime.WithRequestID("")), runtime.ErrInvalid)
		require.ErrorIs(t, run.Rerun(ctx, fabrictype.RerunAll, runtime.WithRequestID(string(make([]byte, 129)))),
			runtime.ErrInvalid)
	})
}

// A schedule knows the requests that have triggered it and added backfills.
func TestRepeatedRequestOfSchedule(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		report := activity.New("report", func(_ context.Context, in fixture.Hour) (string, error) { return in.Customer, nil })
		last := fixture.Hourly(ctx, t, b, report, fabrictype.OverlapAllow)
		b.KeepingWorker(t, []activity.Handler{report})
		id := runtime.WithRequestID("once")

		run, err := b.Client.Schedule("hourly").Trigger(ctx, id)
		require.NoError(t, err)
		again, err := b.Client.Schedule("hourly").Trigger(ctx, id)
		require.NoError(t, err)
		require.Equal(t, run, again)
		other, err := b.Client.Schedule("hourly").Trigger(ctx, runtime.WithRequestID("other"))
		require.NoError(t, err)
		require.NotEqual(t, run, other)

		past := fabrictype.Backfill{From: last.Add(-2 * time.Hour), Until: last}
		for range 2 {
			count, err := b.Client.Schedule("hourly").Backfill(ctx, past, runtime.WithRequestID("past"))
			require.NoError(t, err)
			require.Equal(t, 3, count)
		}
		enginetest.Eventually(t, func() string {
			d, err := b.Client.Schedule("hourly").Describe(ctx)
			if err != nil || len(d.Backfills) > 0 {
				return "backfills are open"
			}
			return ""
		})
		d, err := b.Client.Schedule("hourly").Describe(ctx)
		require.NoError(t, err)
		triggered, backfilled := 0, 0
		for _, fire := range d.History {
			if fire.Triggered {
				triggered++
			}
			if fire.Backfilled {
				backfilled++
			}
		}
		require.Equal(t, 2, triggered)
		require.Equal(t, 3, backfilled, "the second call has added no backfill")
	})
}
