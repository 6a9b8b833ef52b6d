package scheduletest

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/runsubmit"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A fire starts a run that names its schedule; only the program that made the schedule knows the flow.
func TestFireStartsRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		made := l.schedule(t, runtime.ScheduleConfig{
			FireTimeField: "at", Actor: "ann", Tags: map[string]string{"cost.centre": "7"},
		})
		hour := l.lastHour(t)
		require.Equal(t, hour.Add(time.Hour), made.NextFire)
		require.Zero(t, made.LastFire)
		b.Keeper(t)
		l.worker(t)
		l.fireAt(t, hour)
		run := "s@" + hour.Format(time.RFC3339)
		d := l.await(t, "started", func(d *fabrictype.Schedule) bool {
			return d.Started == 1 && d.LastRunState == fabrictype.RunSucceeded
		})
		require.Equal(t, run, d.LastRun)
		require.Equal(t, hour, d.LastFire)
		require.Equal(t, hour.Add(time.Hour), d.NextFire)
		require.Equal(t, "started", outcomes(d))
		require.Equal(t, run, d.History[0].Run)
		require.Equal(t, []string{run}, l.runs())
		require.Equal(t, job{Name: "nightly", At: hour}, l.input(run))
		about, err := b.Client.Run("report", run).Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, "s", about.Schedule)
		require.Equal(t, hour, about.FireAt)
		core := engine.ConnOf(b.Engine.Internal())
		p, err := core.FlowPartition(enginecore.FlowID(about.FlowID))
		require.NoError(t, err)
		tags, err := core.Client().Do(ctx, core.Client().B().Hgetall().Key(core.Keys().FlowTags(p, enginecore.FlowID(about.FlowID))).Build()).AsStrMap()
		require.NoError(t, err)
		require.Equal(t, map[string]string{"team.name": "finance", "cost.centre": "7", "flowfabric.schedule": "s"}, tags)
		b.Settle(t)
	})
}

// However many keepers race, are stopped anywhere and take over from each other, each fire has one run.
func TestEachFireOnce(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		l.worker(t)
		const fires = 25
		l.schedule(t, runtime.ScheduleConfig{CatchUp: catchUp, Overlap: fabrictype.OverlapAllow})
		var keepers [5]*enginetest.Running
		for i := range keepers {
			keepers[i] = b.Keeper(t)
		}
		// Keepers share the partitions among them; hands do not.
		ctx, stop := context.WithCancel(enginetest.Context(t))
		defer stop()
		var hands sync.WaitGroup
		defer hands.Wait()
		defer stop()
		for range 2 {
			hands.Go(func() {
				for ctx.Err() == nil {
					_, err := b.RunKeeperTask(ctx, "schedule")
					if ctx.Err() == nil && err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		times := l.lastHours(t, fires)
		l.fireAt(t, times[0])
		r := rand.New(rand.NewPCG(1, 7))
		enginetest.Eventually(t, func() string {
			if l.describe(t).Started >= fires {
				return ""
			}
			i := r.IntN(len(keepers))
			require.NoError(t, keepers[i].Stop())
			keepers[i] = b.Keeper(t)
			// The test dates begun fires back, whether or not their keepers still live.
			l.editState(t, func(state map[string]any) {
				waiting, _ := state["waiting"].([]any)
				for _, fire := range waiting {
					if fire := fire.(map[string]any); fire["start_before"] != nil && r.IntN(2) == 0 {
						fire["start_before"] = 1
					}
				}
			})
			return "fires without a run"
		})
		stop()
		hands.Wait()
		d := l.describe(t)
		told := make(map[string]int)
		for _, fire := range d.History {
			told[fire.Run]++
		}
		require.Len(t, told, len(d.History), "each fire is in the history once")
		require.Len(t, told, int(d.Started))
		require.EqualValues(t, fires, d.Started)
		require.Zero(t, d.Skipped+d.Missed+d.Failed)
		runs := l.awaitRuns(t, fires)
		for i, at := range times {
			require.Equal(t, runAt(at), runs[i])
		}
		require.Len(t, runs, fires)
		l.onceEach(t)
		b.Settle(t)
	})
}

// When a keeper stops between two steps, another one continues, and nothing is started twice.
func TestStoppedBetweenSteps(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{})
		hour := l.lastHour(t)
		run := "s@" + hour.Format(time.RFC3339)
		begun := func(serial int) func(map[string]any) {
			return func(state map[string]any) {
				state["serial"] = serial
				state["waiting"] = []any{map[string]any{"at": hour.UnixMilli(), "serial": serial, "start_before": 1, "plan": 1}}
			}
		}
		started := func(n int64) func(*fabrictype.Schedule) bool {
			return func(d *fabrictype.Schedule) bool { return d.Started == n && d.Waiting == 0 }
		}
		b.Keeper(t)

		l.editState(t, begun(1)) // before the run was submitted
		l.await(t, "started by the next keeper", started(1))
		l.awaitRuns(t, 1)

		l.editState(t, begun(1)) // after it was submitted, before that was written down
		l.await(t, "noted by the next keeper", started(2))

		_, err := runtime.Attach(b.Client.Run(l.def.Name(), run), l.def)
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			if err := b.Client.Run("report", run).Purge(ctx); err != nil {
				return err.Error()
			}
			return ""
		})
		l.editState(t, begun(1)) // the same, after a purge of the run
		d := l.await(t, "noted again", started(3))
		require.Empty(t, d.LastRunState, "it was purged")
		require.Equal(t, []string{run}, l.runs())
		l.onceEach(t)

		l.editState(t, begun(2)) // a later fire is not one of those
		l.await(t, "another fire", started(4))
		enginetest.Eventually(t, func() string {
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(l.ran[run]) == 2 {
				return ""
			}
			return "no second run"
		})
		b.Settle(t)
	})
}

// A submission that arrives much too late creates nothing.
func TestLateSubmission(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		core := engine.ConnOf(b.Engine.Internal())
		now, err := core.Now(enginetest.Context(t))
		require.NoError(t, err)
		flowID := keyspace.FlowIDFor("default", "report", "late")
		p, err := core.FlowPartition(flowID)
		require.NoError(t, err)
		late := runsubmit.Run{
			Partition: p, FlowID: flowID, FlowName: "report", RunID: "late", Namespace: "default", GraphHash: "x", InputHash: "y",
			Definition: []byte("{}"), Nodes: []enginerpc.PutGraphNode{{Name: "n", Kind: "k", LaneID: "default", Policy: []byte("{}")}},
			Fires: []enginerpc.SubmitFire{{
				ScheduleID: keyspace.ScheduleIDFor("default", "s"), Name: "s", Incarnation: "1", Serial: 1, FireAt: now,
				StartBefore: now.Add(-time.Millisecond),
			}},
		}
		_, err = late.Submit(enginetest.Context(t), core)
		require.ErrorIs(t, err, errorcode.FireTooLate)
		require.Zero(t, b.Check(t, invariant.AnyTime).Check(invariant.Quiescent).Flows)
	})
}

// The latest fires are caught up; older ones than the window are missed, and all are counted.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		l.worker(t)
		hour := l.lastHour(t)
		const made = 3
		// It ends half-way between two times, whatever the minute.
		window := l.now(t).Sub(hour).Truncate(time.Millisecond) + (made-1)*time.Hour + 30*time.Minute
		l.schedule(t, runtime.ScheduleConfig{Overlap: fabrictype.OverlapAllow, CatchUp: window})
		l.fireAt(t, hour.Add(-9*time.Hour))
		b.Keeper(t)
		d := l.await(t, "made up", func(d *fabrictype.Schedule) bool { return d.Started+d.Missed == 10 && d.Waiting == 0 })
		require.Equal(t, int64(made), d.Started)
		missed := d.History[len(d.History)-1]
		require.Equal(t, fabrictype.FireMissed, missed.Outcome)
		require.Equal(t, int64(10-made), missed.Count)
		require.Equal(t, hour.Add(-9*time.Hour), missed.At)
		require.Equal(t, hour.Add(-time.Duration(made)*time.Hour), missed.Until)
		require.Equal(t, hour.Add(time.Hour), d.NextFire)
		l.awaitRuns(t, made)
		b.Settle(t)
	})
}

// madeUp is how many fires are made up at most.
const madeUp = 100

// No more than a number of fires is made up, however long the window.
func TestCatchUpBound(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, "embedded")
	l := newFixture(t, b)
	l.worker(t)
	l.schedule(t, runtime.ScheduleConfig{
		Every: time.Second, Overlap: fabrictype.OverlapAllow, CatchUp: 366 * 24 * time.Hour, EndingAt: l.now(t),
	})
	end := l.now(t).Truncate(time.Second)
	l.fireAt(t, end.Add(-300*24*time.Hour))
	b.Keeper(t)
	d := l.await(t, "made up", func(d *fabrictype.Schedule) bool { return d.Started+d.Missed > 0 && d.Waiting == 0 })
	require.Equal(t, int64(madeUp), d.Started)
	require.InDelta(t, 300*24*3600+1-madeUp, d.Missed, 1)
	require.Len(t, d.History, 50)
	require.Zero(t, d.NextFire, "the schedule has ended")
	l.awaitRuns(t, madeUp)
	l.onceEach(t)
	b.Settle(t)
}

// A keeper that dies while it starts a fire does not hold up its schedule: the next one continues at once, whatever the
// dead one had done, and however often that happens.
func TestNextKeeperContinuesAtOnce(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx, core := enginetest.Context(t), engine.ConnOf(b.Engine.Internal())
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{})
		hour := l.lastHour(t)
		p, id := l.place(t)
		told := func(keeper string) {
			reply, err := core.Keep(ctx, enginerpc.KeepCall{Partition: p, Limit: 16, Keeper: keeper, TakesOver: true})
			require.NoError(t, err)
			require.Contains(t, reply.Schedules, id)
		}
		begun := func(keeper string) {
			told(keeper)
			read, err := core.ReadSchedule(ctx, enginerpc.ReadScheduleCall{Partition: p, ScheduleID: id})
			require.NoError(t, err)
			state, until := decode(t, read.State), read.Now.Add(10*time.Second)
			delete(state, "due")
			state["serial"] = 2
			state["waiting"] = []any{map[string]any{"at": hour.UnixMilli(), "serial": 2, "start_before": until.UnixMilli(), "plan": 1}}
			text, err := json.Marshal(state)
			require.NoError(t, err)
			_, err = core.WriteSchedule(ctx, enginerpc.WriteScheduleCall{
				Partition: p, ScheduleID: id, Version: read.Version, WriteID: uuid.NewString(), State: text,
				DueAt: until.Add(time.Millisecond), Keeper: keeper,
			})
			require.NoError(t, err)
		}
		for i, die := range []func(keeper string){told, begun} {
			l.fireAt(t, hour)
			for _, keeper := range []string{"first", "second", "third"} {
				die(keeper)
			}
			before := l.now(t)
			keeper := b.Keeper(t)
			l.await(t, "started by the next keeper", func(d *fabrictype.Schedule) bool {
				return d.Started == int64(i)+1 && d.Waiting == 0
			})
			if b.Kind == testserver.Embedded { // its clock shows how long that took
				require.Less(t, l.now(t).Sub(before), 2*time.Second)
			}
			require.NoError(t, keeper.Stop())
		}
		b.Settle(t)
	})
}
