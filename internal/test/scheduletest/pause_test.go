package scheduletest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A fire that came due before a pause, and that no keeper has seen, is kept by the pause and starts after it.
func TestPauseKeepsDueFires(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{Overlap: fabrictype.OverlapAllow, CatchUp: 150 * time.Minute})
		hour := l.lastHour(t)
		l.fireAt(t, hour.Add(-9*time.Hour))
		require.NoError(t, b.Client.Schedule("s").Pause(ctx, "moving"))
		d := l.describe(t)
		kept := d.Waiting // 2 or 3 hours lie within the window
		require.InDelta(t, 2.5, kept, 0.5)
		require.EqualValues(t, 10-kept, d.Missed, "older than the catch-up window")
		require.Len(t, d.History, 1)
		require.Equal(t, fabrictype.FireMissed, d.History[0].Outcome)
		require.NotEmpty(t, d.History[0].Reason)
		require.Equal(t, hour, d.LastFire)
		require.Equal(t, hour.Add(time.Hour), d.NextFire)
		b.Check(t, invariant.AnyTime)

		require.NoError(t, b.Client.Schedule("s").Pause(ctx, "still moving"))
		require.Equal(t, kept, l.describe(t).Waiting)
		b.Keeper(t)
		require.Empty(t, l.runs(), "nothing starts during the pause")
		require.NoError(t, b.Client.Schedule("s").Resume(ctx))
		l.await(t, "started", isStarted(int64(kept)))
		for i, run := range l.awaitRuns(t, kept) {
			require.Equal(t, runAt(hour.Add(time.Duration(i+1-kept)*time.Hour)), run)
		}
		l.onceEach(t)
		b.Settle(t)
	})
}

// A due fire for which the overlap policy has no room is skipped by the pause, with the reason.
func TestPauseSkipsDueFire(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		l.worker(t)
		l.holdRuns()
		l.schedule(t, runtime.ScheduleConfig{})
		open, err := b.Client.Schedule("s").Trigger(ctx)
		require.NoError(t, err)
		l.awaitRuns(t, 1)
		hour := l.lastHour(t)
		l.fireAt(t, hour)
		require.NoError(t, b.Client.Schedule("s").Pause(ctx, ""))
		d := l.describe(t)
		require.Zero(t, d.Waiting)
		require.EqualValues(t, 1, d.Skipped)
		require.Equal(t, hour, d.History[0].At)
		require.Equal(t, "run "+open+" was open", d.History[0].Reason)
		l.release(open)
		b.Keeper(t)
		b.Settle(t)
	})
}

// A triggered fire starts ahead of fires that a pause holds back, and these have their runs after it.
func TestTriggerOvertakesHeldFires(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{Overlap: fabrictype.OverlapAllow, CatchUp: catchUp})
		times := l.lastHours(t, 2)
		l.fireAt(t, times[0])
		require.NoError(t, b.Client.Schedule("s").Pause(ctx, "moving"))
		require.Equal(t, 2, l.describe(t).Waiting)
		triggered, err := b.Client.Schedule("s").Trigger(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{triggered}, l.awaitRuns(t, 1))
		b.Check(t, invariant.AnyTime)
		require.NoError(t, b.Client.Schedule("s").Resume(ctx))
		b.Keeper(t)
		l.await(t, "started", isStarted(3))
		require.ElementsMatch(t, []string{triggered, runAt(times[0]), runAt(times[1])}, l.awaitRuns(t, 3))
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: 1})
}

// A changed timetable does not drop the fires that the former one made due before the change.
func TestChangeKeepsDueFires(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{})
		hour := l.lastHour(t)
		l.fireAt(t, hour)
		changed := l.schedule(t, runtime.ScheduleConfig{Every: 24 * time.Hour})
		require.Equal(t, 1, changed.Waiting)
		require.Equal(t, hour, changed.LastFire)
		require.Equal(t, hour.Add(24*time.Hour), changed.NextFire)
		b.Keeper(t)
		l.await(t, "started", isStarted(1))
		require.Equal(t, []string{runAt(hour)}, l.awaitRuns(t, 1))
		b.Settle(t)
	})
}

// A fire that the jitter delays is due at the end of the delay: a pause that is over by then does not concern it, and
// a change of the timetable before skips it with a reason.
func TestJitterAcrossPauseAndChange(t *testing.T) {
	b, clock := enginetest.WithClock(t)
	l := newFixture(t, b)
	ctx := enginetest.Context(t)
	l.worker(t)
	made := l.schedule(t, runtime.ScheduleConfig{Jitter: 59 * time.Minute})
	clock.Jump(made.NextFire.Sub(clock.Now()) + time.Millisecond)
	require.NoError(t, b.Client.Schedule("s").Pause(ctx, "short"))
	require.NoError(t, b.Client.Schedule("s").Resume(ctx))
	require.Equal(t, made.NextFire, l.describe(t).NextFire)
	clock.Jump(59 * time.Minute)
	l.do(t, "schedule")
	require.EqualValues(t, 1, l.describe(t).Started)
	l.over(t, 1)

	second := l.describe(t).NextFire
	clock.Jump(second.Sub(clock.Now()) + time.Millisecond)
	l.schedule(t, runtime.ScheduleConfig{Every: 24 * time.Hour})
	d := l.describe(t)
	require.EqualValues(t, 1, d.Skipped)
	require.Equal(t, second, d.History[0].At)
	require.Equal(t, second, d.LastFire)
	require.NotEmpty(t, d.History[0].Reason)
	b.Settle(t)
}
