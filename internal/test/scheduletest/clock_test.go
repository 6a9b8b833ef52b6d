package scheduletest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// do runs one keeper task.
func (l *fixture) do(t *testing.T, task string) admin.KeeperTaskReport {
	t.Helper()
	report, err := l.RunKeeperTask(enginetest.Context(t), task)
	require.NoError(t, err)
	return report
}

// over waits for the end of runs, so that none loses its lease when the clock jumps.
func (l *fixture) over(t *testing.T, runs int) []string {
	t.Helper()
	begun := l.awaitRuns(t, runs)
	for _, id := range begun {
		run, err := runtime.Attach(l.Client.Run(l.def.Name(), id), l.def)
		require.NoError(t, err)
		_, err = run.Result(enginetest.Context(t))
		require.NoError(t, err)
	}
	return begun
}

// A clock that was ahead for a while and has been set back delays nothing, and no time is fired twice.
func TestClockSetForwardAndBack(t *testing.T) {
	t.Parallel()
	b, clock := enginetest.WithClock(t)
	l := newFixture(t, b)
	l.worker(t)
	made := l.schedule(t, runtime.ScheduleConfig{Overlap: fabrictype.OverlapAllow})
	hour := func(n int) time.Time { return made.NextFire.Add(time.Duration(n-1) * time.Hour) }

	clock.Jump(10 * time.Hour)
	l.do(t, "schedule")
	d := l.describe(t)
	require.EqualValues(t, 1, d.Started, "the one within the window")
	require.EqualValues(t, 9, d.Missed)
	require.Equal(t, hour(11), d.NextFire)
	l.over(t, 1)

	clock.Jump(-10 * time.Hour)
	require.EqualValues(t, 1, l.do(t, "schedule_reconciliation").Done)
	require.Equal(t, hour(1), l.describe(t).NextFire)
	require.Zero(t, l.do(t, "schedule_reconciliation").Done, "it is in order now")

	for n := 1; n <= 12; n++ {
		clock.Jump(time.Hour)
		l.do(t, "schedule")
		l.over(t, min(n+1, max(n, 10)))
	}
	d = l.describe(t)
	require.EqualValues(t, 12, d.Started)
	require.EqualValues(t, 9, d.Missed)
	require.Equal(t, hour(13), d.NextFire)
	runs := l.over(t, 12)
	for n := 1; n <= 12; n++ {
		require.Equal(t, runAt(hour(n)), runs[n-1])
	}
	l.onceEach(t)
	b.Settle(t)
}

// A clock that was right and is set back fires none of its times again, also when their runs are gone.
func TestClockSetBackFiresNothingAgain(t *testing.T) {
	t.Parallel()
	b, clock := enginetest.WithClock(t)
	l := newFixture(t, b)
	l.worker(t)
	made := l.schedule(t, runtime.ScheduleConfig{Overlap: fabrictype.OverlapAllow})
	for n := range 3 {
		clock.Jump(time.Hour)
		l.do(t, "schedule")
		l.over(t, n+1)
	}
	for _, run := range l.runs() {
		require.NoError(t, b.Client.Run("report", run).Purge(enginetest.Context(t)))
	}
	clock.Jump(-2 * time.Hour)
	l.do(t, "schedule_reconciliation")
	require.Equal(t, made.NextFire.Add(3*time.Hour), l.describe(t).NextFire)
	for range 3 {
		clock.Jump(time.Hour)
		l.do(t, "schedule")
	}
	require.EqualValues(t, 4, l.describe(t).Started)
	l.awaitRuns(t, 4)
	l.onceEach(t)
	b.Settle(t)
}

// A keeper notices that the clock was set back, logs it, and continues with schedules that it has postponed: schedules
// with a next time far ahead, and schedules with a fire that another keeper has begun to start.
func TestKeeperNoticesClockSetBack(t *testing.T) {
	t.Parallel()
	b, clock := enginetest.WithClock(t)
	l := newFixture(t, b)
	l.worker(t)
	made := l.schedule(t, runtime.ScheduleConfig{})
	b.Keeper(t)
	await := func(what string, holds func(*fabrictype.Schedule) bool) {
		t.Helper()
		l.await(t, what, func(d *fabrictype.Schedule) bool {
			b.Look(t)
			return holds(d)
		})
	}
	clock.Jump(5 * time.Hour)
	await("fired ahead", func(d *fabrictype.Schedule) bool { return d.Started == 1 && d.Waiting == 0 })
	require.NotContains(t, b.Log(), "engine.clock_set_back")
	l.editState(t, func(state map[string]any) {
		state["serial"] = 9
		state["waiting"] = []any{map[string]any{
			"at": made.NextFire.UnixMilli(), "serial": 9, "start_before": clock.Now().Add(time.Minute).UnixMilli(), "plan": 1,
		}}
	})
	clock.Jump(-5 * time.Hour)
	await("goes on", func(d *fabrictype.Schedule) bool {
		return d.Started == 2 && d.Waiting == 0 && d.NextFire.Equal(made.NextFire)
	})
	require.Contains(t, b.Log(), "engine.clock_set_back")
	b.Settle(t)
}
