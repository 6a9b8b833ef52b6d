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
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Past times of a schedule get their runs: one after the other or all at once, each once, also while the schedule
// fires.
func TestScheduleBackfill(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var running, most, calls atomic.Int32
		report := activity.New("report", func(_ context.Context, in fixture.Hour) (string, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			calls.Add(1)
			return in.Customer + " " + in.At.Format("15:04"), nil
		})
		last := fixture.Hourly(ctx, t, b, report, fabrictype.OverlapSkip)
		b.Worker(t, []activity.Handler{report})
		b.Keeper(t)
		done := func() *fabrictype.Schedule {
			var d *fabrictype.Schedule
			enginetest.Eventually(t, func() string {
				var err error
				d, err = b.Client.Schedule("hourly").Describe(ctx)
				if err != nil || len(d.Backfills) > 0 {
					return fmt.Sprintf("backfills %+v, %v", d, err)
				}
				return ""
			})
			return d
		}
		count, err := b.Client.Schedule("hourly").Backfill(ctx, fabrictype.Backfill{
			From: last.Add(-4 * time.Hour), Until: last.Add(time.Minute),
		})
		require.NoError(t, err)
		require.Equal(t, 5, count)
		d := done()
		require.EqualValues(t, 5, d.Started)
		require.True(t, d.History[0].Backfilled)
		require.Equal(t, last, d.History[0].At)
		for i := range 5 {
			at := last.Add(time.Duration(-i) * time.Hour)
			run, err := runtime.Attach(b.Client.Run("report", "hourly@"+at.Format(time.RFC3339Nano)), fixture.OneNode(t, "report", report))
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, "acme "+at.Format("15:04"), out)
		}
		require.EqualValues(t, 1, most.Load())

		count, err = b.Client.Schedule("hourly").Backfill(ctx, fabrictype.Backfill{
			From: last.Add(-9 * time.Hour), Until: last, Overlap: fabrictype.OverlapAllow,
		})
		require.NoError(t, err)
		require.Equal(t, 10, count)
		d = done()
		require.EqualValues(t, 10, d.Started)
		require.EqualValues(t, 5, d.Skipped)
		require.Equal(t, "the time has its run already", d.History[0].Reason)
		enginetest.Eventually(t, func() string {
			if n := calls.Load(); n != 10 {
				return fmt.Sprintf("%d calls", n)
			}
			return ""
		})
		id, err := b.Client.Schedule("hourly").Trigger(ctx) // its own overlap policy knows nothing of backfills
		require.NoError(t, err)
		require.NotEmpty(t, id)

		for text, backfill := range map[string]fabrictype.Backfill{
			`Overlap "skip": must be "queue" or "allow"`: {From: last, Until: last, Overlap: fabrictype.OverlapSkip},
			"both must be set":                           {From: last},
			"Until is before From":                       {From: last, Until: last.Add(-time.Hour)},
			"the interval must have passed":              {From: last, Until: last.Add(48 * time.Hour)},
			"has no time in the interval":                {From: last.Add(-59 * time.Minute), Until: last.Add(-time.Minute)},
			"has more than 1000 times":                   {From: last.Add(-2000 * time.Hour), Until: last},
		} {
			_, err := b.Client.Schedule("hourly").Backfill(ctx, backfill)
			require.ErrorContains(t, err, text)
		}
		_, err = b.Client.Schedule("none").Backfill(ctx, fabrictype.Backfill{From: last, Until: last})
		require.ErrorIs(t, err, engine.ErrScheduleNotFound)
		b.Settle(t)
	})
}

// A backfill is held up by a pause of its schedule, and waits for its runs.
func TestScheduleBackfillIsPaused(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		proceed := make(chan struct{})
		report := activity.New("report", func(ctx context.Context, in fixture.Hour) (string, error) {
			select {
			case <-proceed:
				return "", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
		last := fixture.Hourly(ctx, t, b, report, fabrictype.OverlapAllow)
		b.Worker(t, []activity.Handler{report})
		b.Keeper(t)
		require.NoError(t, b.Client.Schedule("hourly").Pause(ctx, "wait"))
		_, err := b.Client.Schedule("hourly").Backfill(ctx, fabrictype.Backfill{From: last.Add(-time.Hour), Until: last})
		require.NoError(t, err)
		d, err := b.Client.Schedule("hourly").Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, []fabrictype.Backfill{
			{From: last.Add(-time.Hour), Until: last, Overlap: fabrictype.OverlapQueue},
		}, d.Backfills)
		require.Zero(t, d.Started)
		require.NoError(t, b.Client.Schedule("hourly").Resume(ctx))
		proceed <- struct{}{} // the first run runs
		proceed <- struct{}{}
		enginetest.Eventually(t, func() string {
			d, err := b.Client.Schedule("hourly").Describe(ctx)
			if err != nil || len(d.Backfills) > 0 || d.Started != 2 {
				return fmt.Sprintf("%+v, %v", d, err)
			}
			return ""
		})
	})
}

// A schedule is changed without the definition of its flow; its history stays. Its next fires follow its new config.
func TestEditSchedule(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		report := activity.New("report", func(_ context.Context, in fixture.Hour) (string, error) { return in.Customer, nil })
		def := fixture.OneNode(t, "report", report)
		fixture.Hourly(ctx, t, b, report, fabrictype.OverlapQueue)
		b.Worker(t, []activity.Handler{report})
		b.Keeper(t)
		fire := func() string {
			id, err := b.Client.Schedule("hourly").Trigger(ctx)
			require.NoError(t, err)
			run, err := runtime.Attach(b.Client.Run("report", id), def)
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			return out
		}
		require.Equal(t, "acme", fire())
		before, err := b.Client.Schedule("hourly").Describe(ctx)
		require.NoError(t, err)

		d, err := b.Client.Schedule("hourly").Edit(ctx, func(e *runtime.ScheduleEdit) error {
			require.Equal(t, time.Hour, e.Config.Every)
			require.Equal(t, 10, e.Config.QueueLimit)
			require.JSONEq(t, `{"customer":"acme"}`, string(e.Input))
			e.Config.Every, e.Config.Cron, e.Config.TimeZone = 0, "30 2 * * *", "Europe/Berlin"
			e.Config.Tags = map[string]string{"team.name": "finance"}
			e.Input = []byte(`{"customer":"other"}`)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, "30 2 * * *", d.Cron)
		require.Equal(t, fabrictype.OverlapQueue, d.Overlap)
		require.Equal(t, before.CreatedAt, d.CreatedAt)
		require.EqualValues(t, 1, d.Started)
		require.Equal(t, "other", fire())
		after, err := b.Client.Schedule("hourly").Describe(ctx)
		require.NoError(t, err)
		require.Len(t, after.History, 2)

		times, err := b.Client.Schedule("hourly").Next(ctx, 40)
		require.NoError(t, err)
		require.Len(t, times, 40)
		want, err := runtime.ScheduleConfig{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"}.Times(times[0].Add(-time.Second), 40)
		require.NoError(t, err)
		require.Equal(t, want, times)
		require.Equal(t, after.NextFire, times[0])

		same, err := b.Client.Schedule("hourly").Edit(ctx, func(*runtime.ScheduleEdit) error { return nil })
		require.NoError(t, err)
		require.Equal(t, after.UpdatedAt, same.UpdatedAt)
		refuse := errors.New("no")
		_, err = b.Client.Schedule("hourly").Edit(ctx, func(*runtime.ScheduleEdit) error { return refuse })
		require.ErrorIs(t, err, refuse)
		_, err = b.Client.Schedule("hourly").Edit(ctx, func(e *runtime.ScheduleEdit) error {
			e.Config.Cron, e.Config.QueueLimit = "x", 1000
			return nil
		})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, "QueueLimit 1000")
		require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: def}))
		for _, input := range []string{"{", `{"customer":7}`} {
			_, err = b.Client.Schedule("hourly").Edit(ctx, func(e *runtime.ScheduleEdit) error {
				e.Input = []byte(input)
				return nil
			})
			require.ErrorIs(t, err, runtime.ErrInvalid)
		}
		_, err = b.Client.Schedule("none").Edit(ctx, func(*runtime.ScheduleEdit) error { return nil })
		require.ErrorIs(t, err, engine.ErrScheduleNotFound)
		_, err = b.Client.Schedule("none").Next(ctx, 3)
		require.ErrorIs(t, err, engine.ErrScheduleNotFound)
		_, err = b.Client.Schedule("hourly").Next(ctx, 1001)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		_, err = runtime.ScheduleConfig{}.Times(time.Now(), 1)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		b.Settle(t)
	})
}

// Contract mode has no schedules to edit or to backfill.
func TestContractEditsNoSchedules(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		_, err := b.Client.Schedule("s").Next(ctx, 1)
		require.ErrorIs(t, err, enginecore.ErrContractOnly)
		_, err = b.Client.Schedule("s").Edit(ctx, func(*runtime.ScheduleEdit) error { return nil })
		require.ErrorIs(t, err, enginecore.ErrContractOnly)
		now := time.Now()
		_, err = b.Client.Schedule("s").Backfill(ctx, fabrictype.Backfill{From: now, Until: now})
		require.ErrorIs(t, err, enginecore.ErrContractOnly)
	})
}

// The input of a schedule is read as it was given, and as it was edited.
func TestScheduleInput(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		_, err := b.Client.Schedule("hourly").Input(ctx)
		require.ErrorIs(t, err, engine.ErrScheduleNotFound)
		report := activity.New("report", func(_ context.Context, in fixture.Hour) (string, error) { return in.Customer, nil })
		fixture.Hourly(ctx, t, b, report, fabrictype.OverlapSkip)
		v, err := b.Client.Schedule("hourly").Input(ctx)
		require.NoError(t, err)
		require.Equal(t, "json", v.Codec)
		require.JSONEq(t, `{"customer": "acme"}`, string(v.JSON))
		_, err = b.Client.Schedule("hourly").Edit(ctx, func(e *runtime.ScheduleEdit) error {
			e.Input = []byte(`{"customer": "borealis"}`)
			return nil
		})
		require.NoError(t, err)
		v, err = b.Client.Schedule("hourly").Input(ctx)
		require.NoError(t, err)
		require.JSONEq(t, `{"customer": "borealis"}`, string(v.JSON))
		require.NoError(t, b.Client.Schedule("hourly").Delete(ctx))
		_, err = b.Client.Schedule("hourly").Input(ctx)
		require.ErrorIs(t, err, engine.ErrScheduleNotFound)
	})
}
