package scheduletest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func runAt(at time.Time) string { return "s@" + at.Format(time.RFC3339) }

func isStarted(n int64) func(*fabrictype.Schedule) bool {
	return func(d *fabrictype.Schedule) bool { return d.Started == n }
}

// Fires that meet an open run are skipped, and a later one starts again.
func TestOverlapSkip(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		l.holdRuns()
		b.Keeper(t)
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{CatchUp: catchUp})
		times := l.lastHours(t, 4)
		l.fireAt(t, times[0]) // and three more, at once
		d := l.await(t, "skipped", func(d *fabrictype.Schedule) bool { return d.Skipped == 3 })
		require.Equal(t, int64(1), d.Started)
		require.Equal(t, fabrictype.RunRunning, d.LastRunState)
		require.Equal(t, "started, skipped, skipped, skipped", outcomes(d))
		require.Contains(t, d.History[0].Reason, runAt(times[0]))
		require.Zero(t, d.Waiting)
		l.release(runAt(times[0]))
		l.await(t, "ended", func(d *fabrictype.Schedule) bool { return d.LastRunState == fabrictype.RunSucceeded })
		l.fireAt(t, times[3])
		l.await(t, "started again", isStarted(2))
		l.release(runAt(times[3]))
		l.onceEach(t)
		b.Settle(t)
	})
}

// Fires wait for the previous run, up to the queue limit, and start in order when they are notified of its end.
func TestOverlapQueue(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) { queueFires(t, b) })
}

// The engine notifies keepers of the end of a run: the next one starts before their next sweep. The clock is the test's
// own, so that a slow machine delays nothing.
func TestOverlapQueue_StartsAtEndOfRun(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	synctest.Test(t, func(t *testing.T) {
		require.Less(t, queueFires(t, enginetest.New(t, testserver.Embedded)), 28*time.Second)
	})
}

// queueFires lets three fires wait for each other, and returns how long it took from the first end of a run to the
// last.
func queueFires(t *testing.T, b *enginetest.Bench) time.Duration {
	t.Helper()
	l := newFixture(t, b)
	l.holdRuns()
	b.Keeper(t)
	b.Keeper(t)
	l.worker(t)
	l.schedule(t, runtime.ScheduleConfig{CatchUp: catchUp, Overlap: fabrictype.OverlapQueue, QueueLimit: 2})
	times := l.lastHours(t, 5)
	l.fireAt(t, times[0])
	d := l.await(t, "queued", func(d *fabrictype.Schedule) bool { return d.Started == 1 && d.Waiting == 2 })
	require.Equal(t, int64(2), d.Skipped)
	require.Contains(t, d.History[1].Reason, "3 fires waited already")
	began := time.Now()
	for i := range 3 {
		require.Equal(t, int64(i+1), l.await(t, "started", isStarted(int64(i+1))).Started)
		require.Len(t, l.awaitRuns(t, i+1), i+1)
		l.release(runAt(times[i]))
	}
	l.await(t, "all ended", func(d *fabrictype.Schedule) bool {
		return d.LastRunState == fabrictype.RunSucceeded && d.Waiting == 0
	})
	took := time.Since(began)
	require.Equal(t, []string{runAt(times[0]), runAt(times[1]), runAt(times[2])}, l.runs())
	l.onceEach(t)
	b.Settle(t)
	return took
}

// A fire ends the run before and starts when it has ended; of several, the last one does.
func TestOverlapCancelPrevious(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		l.holdRuns()
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{CatchUp: catchUp, Overlap: fabrictype.OverlapCancelPrevious, Actor: "nightly job"})
		times := l.lastHours(t, 4)
		l.editState(t, func(state map[string]any) { state["due"] = times[3].Add(time.Hour).UnixMilli() })
		b.Keeper(t)
		l.editState(t, func(state map[string]any) {
			state["serial"] = 1
			state["waiting"] = []any{map[string]any{"at": times[0].UnixMilli(), "serial": 1}}
		})
		l.awaitRuns(t, 1)
		l.fireAt(t, times[1]) // and two more
		d := l.await(t, "started in its place", isStarted(2))
		require.Equal(t, runAt(times[3]), d.LastRun)
		require.Equal(t, int64(2), d.Skipped)
		first, err := b.Client.Run("report", runAt(times[0])).Describe(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunCancelled, first.State)
		require.Equal(t, "nightly job", first.CancelledBy)
		require.Contains(t, first.CancelReason, "fired again")
		require.False(t, first.ClosedAt.IsZero(), "it has ended before the next one started")
		l.awaitRuns(t, 2)
		l.release(runAt(times[3]))
		l.onceEach(t)
		b.Settle(t)
	})
}

// All fires start, regardless of open runs.
func TestOverlapAllow(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		l.holdRuns()
		b.Keeper(t)
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{CatchUp: catchUp, Overlap: fabrictype.OverlapAllow})
		times := l.lastHours(t, 3)
		l.fireAt(t, times[0])
		l.await(t, "all started", isStarted(3))
		l.awaitRuns(t, 3)
		for _, at := range times {
			l.release(runAt(at))
		}
		l.onceEach(t)
		b.Settle(t)
	})
}

// The jitter delays a fire, by the same duration on every keeper; the run is named by the time in the timetable.
func TestJitter(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		b.Keeper(t)
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{Every: 2 * time.Hour, Jitter: time.Hour})
		due := l.lastHour(t)               // also by a timetable of every other hour
		l.fireAt(t, due.Add(-2*time.Hour)) // its jitter is over
		l.await(t, "fired", func(d *fabrictype.Schedule) bool { return d.Started+d.Missed >= 1 })
		d := l.describe(t)
		// The last time may be delayed.
		want := due.Add(2 * time.Hour)
		if d.LastFire.Before(due) {
			want = due
		}
		require.Equal(t, want, d.NextFire)
		require.Zero(t, d.Failed+d.Skipped)
		for _, run := range l.awaitRuns(t, int(d.Started)) {
			require.Contains(t, []string{runAt(due), runAt(due.Add(-2 * time.Hour))}, run)
		}
		b.Settle(t)
	})
}

// A manually triggered run counts as the previous run.
func TestTriggeredRunCountsForOverlap(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	synctest.Test(t, func(t *testing.T) { // a slow machine makes nothing late
		b := enginetest.New(t, testserver.Embedded)
		l := newFixture(t, b)
		l.holdRuns()
		b.Keeper(t)
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{Overlap: fabrictype.OverlapQueue, QueueLimit: 2})
		ctx := enginetest.Context(t)
		var ids []string
		for i := range 3 {
			id, err := b.Client.Schedule("s").Trigger(ctx)
			require.NoError(t, err)
			ids = append(ids, id)
			d := l.describe(t)
			require.Equal(t, int64(1), d.Started, "the first one has been started when the call returns, the others wait")
			require.Equal(t, i, d.Waiting)
			require.Equal(t, ids[0], d.LastRun)
		}
		_, err := b.Client.Schedule("s").Trigger(ctx)
		require.NoError(t, err, "when it is written, the end of the first run is unknown")
		_, err = b.Client.Schedule("s").Trigger(ctx)
		require.ErrorIs(t, err, runtime.ErrScheduleFull)
		begun := time.Now()
		for i := range 4 {
			runs := l.awaitRuns(t, i+1)
			for _, run := range runs {
				l.mu.Lock()
				open := l.gates[run]
				l.mu.Unlock()
				select {
				case <-open:
				default:
					l.release(run)
				}
			}
		}
		l.await(t, "all ended", func(d *fabrictype.Schedule) bool {
			return d.Started == 4 && d.LastRunState == fabrictype.RunSucceeded
		})
		require.Len(t, l.runs(), 4, fmt.Sprint(l.runs()))
		require.Less(t, time.Since(begun), 28*time.Second, "a keeper has been notified to watch the run")
		l.onceEach(t)
		b.Settle(t)
	})
}

// If the policy starts no run, the trigger returns this outcome.
func TestTriggerSkipped(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		l.holdRuns()
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{})
		ctx := enginetest.Context(t)
		id, err := b.Client.Schedule("s").Trigger(ctx)
		require.NoError(t, err, "it takes no keeper")
		run, err := runtime.Attach(b.Client.Run(l.def.Name(), id), l.def)
		require.NoError(t, err)
		_, err = run.Describe(ctx)
		require.NoError(t, err, "the run has been started when the call returns")
		_, err = b.Client.Schedule("s").Trigger(ctx)
		require.ErrorIs(t, err, runtime.ErrFireSkipped)
		require.ErrorContains(t, err, id)
		require.Equal(t, "started, skipped", outcomes(l.describe(t)))
		l.release(id)
		b.Settle(t)
	})
}
