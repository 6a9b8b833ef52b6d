package scheduletest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A pause stops the timetable but not manual triggers; fires during the pause are not caught up.
func TestPauseAndTrigger(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		b.Keeper(t)
		l.worker(t)
		d := l.schedule(t, runtime.ScheduleConfig{StartPaused: true, PauseReason: "not yet"})
		require.Equal(t, "not yet", d.PauseReason)
		require.False(t, d.PausedAt.IsZero())
		hour := l.lastHour(t)
		l.fireAt(t, hour.Add(-time.Hour))
		run, err := b.Client.Schedule("s").Trigger(ctx)
		require.NoError(t, err)
		require.Regexp(t, `^s@20.*#1$`, run)
		d = l.await(t, "triggered", isStarted(1))
		require.Equal(t, run, d.LastRun)
		require.Equal(t, hour.Add(time.Hour), d.NextFire, "the times of a pause pass")
		for listed, err := range b.Client.Schedules(ctx) {
			require.NoError(t, err)
			require.Equal(t, d.NextFire, listed.NextFire)
		}
		upcoming, err := b.Client.Schedule("s").Next(ctx, 1)
		require.NoError(t, err)
		require.Equal(t, []time.Time{d.NextFire}, upcoming)
		require.True(t, d.History[0].Triggered)
		require.Equal(t, []string{run}, l.awaitRuns(t, 1))
		require.NoError(t, b.Client.Schedule("s").Pause(ctx, "for good"))
		require.Equal(t, "for good", l.describe(t).PauseReason)
		require.NoError(t, b.Client.Schedule("s").Resume(ctx))
		require.NoError(t, b.Client.Schedule("s").Resume(ctx), "resuming it again succeeds")
		d = l.describe(t)
		require.True(t, d.PausedAt.IsZero())
		require.Equal(t, hour.Add(time.Hour), d.NextFire)
		require.Equal(t, int64(1), d.Started)
		require.Zero(t, d.Missed)
		// A fire that meets the triggered run is skipped.
		l.await(t, "ended", func(d *fabrictype.Schedule) bool { return d.LastRunState == fabrictype.RunSucceeded })
		l.fireAt(t, hour)
		l.await(t, "fires again", isStarted(2))
		b.Settle(t)
	})
}

// A schedule that is declared again is the same; a change counts from then on and keeps the rest.
func TestUpdate(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		b.Keeper(t)
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{})
		hour := l.lastHour(t)
		l.fireAt(t, hour)
		before := l.await(t, "started", isStarted(1))
		require.NoError(t, b.Client.Schedule("s").Pause(ctx, "audit"))

		again := l.schedule(t, runtime.ScheduleConfig{})
		require.Equal(t, before.UpdatedAt, again.UpdatedAt, "an equal schedule is not a change")

		other := activity.New("other", func(_ context.Context, in job) (string, error) { l.begin("other", in); return "", nil })
		def := l.define(t, "other", other)
		b.Worker(t, def.Handlers())
		changed, err := runtime.Schedule(ctx, b.Client, "s", def, job{Name: "changed"}, runtime.ScheduleConfig{
			Cron: "30 4 * * *", TimeZone: "Europe/Berlin", StartPaused: true, PauseReason: "ignored",
			Overlap: fabrictype.OverlapAllow, Retention: runtime.Retention{Default: time.Hour},
		})
		require.NoError(t, err)
		require.Equal(t, before.CreatedAt, changed.CreatedAt)
		require.Equal(t, int64(1), changed.Started)
		require.Equal(t, "audit", changed.PauseReason, "a pause stays as it is")
		require.Equal(t, "other", changed.Flow)
		require.Equal(t, "report", changed.LastRunFlow)
		require.Equal(t, "Europe/Berlin", changed.TimeZone)
		berlin, err := time.LoadLocation("Europe/Berlin")
		require.NoError(t, err)
		require.Equal(t, "04:30", changed.NextFire.In(berlin).Format("15:04"))
		require.Len(t, l.describe(t).History, 1)

		require.NoError(t, b.Client.Schedule("s").Resume(ctx))
		_, err = b.Client.Schedule("s").Trigger(ctx)
		require.NoError(t, err)
		l.await(t, "started", isStarted(2))
		enginetest.Eventually(t, func() string {
			if len(l.runs()) == 2 {
				return ""
			}
			return "the other flow runs"
		})
		require.Equal(t, "changed", l.input("other").Name)
		b.Settle(t)
	})
}

// A fire that a keeper has begun to start is unaffected by a change of the schedule, so that another keeper can
// continue it.
func TestUpdateWhileStarting(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{})
		hour := l.lastHour(t)
		l.editState(t, func(state map[string]any) {
			state["serial"] = 1
			state["waiting"] = []any{map[string]any{
				"at": hour.UnixMilli(), "serial": 1, "plan": 1, "start_before": l.now(t).Add(time.Hour).UnixMilli(),
			}}
		})
		_, err := runtime.Schedule(ctx, b.Client, "s", l.def, job{Name: "changed"},
			l.config(runtime.ScheduleConfig{Every: 2 * time.Hour}))
		require.NoError(t, err)
		b.Check(t, invariant.AnyTime)
		l.editState(t, func(state map[string]any) {
			state["waiting"].([]any)[0].(map[string]any)["start_before"] = 1
		})
		b.Keeper(t)
		l.await(t, "started", isStarted(1))
		require.Equal(t, "nightly", l.input(l.awaitRuns(t, 1)[0]).Name)
		b.Settle(t) // the unused revision has been removed
	})
}

// A schedule that is deleted leaves nothing but its runs, also when a keeper was just starting one.
func TestDelete(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		l.worker(t)
		b.Keeper(t)
		before := b.Check(t, invariant.AnyTime).KeyNames()
		l.schedule(t, runtime.ScheduleConfig{})
		hour := l.lastHour(t)
		l.fireAt(t, hour)
		l.await(t, "started", isStarted(1))
		l.editState(t, func(state map[string]any) { // a keeper has stopped in the middle
			state["serial"] = 2
			state["waiting"] = []any{
				map[string]any{"at": hour.Add(-time.Hour).UnixMilli(), "serial": 2, "plan": 1, "start_before": 1},
			}
		})
		require.NoError(t, b.Client.Schedule("s").Delete(ctx))
		_, err := b.Client.Schedule("s").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrScheduleNotFound)
		for name, do := range map[string]func() error{
			"delete": func() error { return b.Client.Schedule("s").Delete(ctx) },
			"pause":  func() error { return b.Client.Schedule("s").Pause(ctx, "") },
			"resume": func() error { return b.Client.Schedule("s").Resume(ctx) },
			"trigger": func() error {
				_, err := b.Client.Schedule("s").Trigger(ctx)
				return err
			},
		} {
			err := do()
			require.ErrorIs(t, err, engine.ErrScheduleNotFound, name)
			require.ErrorContains(t, err, name+` schedule "s"`)
		}
		for _, run := range l.awaitRuns(t, 2) {
			enginetest.Eventually(t, func() string {
				if err := b.Client.Run("report", run).Purge(ctx); err != nil {
					return err.Error()
				}
				return ""
			})
		}
		b.Settle(t)
		var left []string
		for _, key := range b.Check(t, invariant.Quiescent).KeyNames() {
			if strings.Contains(key, "schedule") || !contains(before, key) && strings.Contains(key, "flow:") {
				left = append(left, key)
			}
		}
		require.Empty(t, left)

		l.schedule(t, runtime.ScheduleConfig{}) // a new one of that name has nothing of the old
		d := l.describe(t)
		require.Zero(t, d.Started)
		require.Empty(t, d.History)
		l.fireAt(t, hour)
		l.await(t, "started", isStarted(1))
		enginetest.Eventually(t, func() string {
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(l.ran[runAt(hour)]) != 2 {
				return "the new schedule's run"
			}
			return ""
		})
		b.Settle(t)
	})
}

func contains(list []string, key string) bool {
	for _, x := range list {
		if x == key {
			return true
		}
	}
	return false
}

// A list has every schedule of the namespace and no other.
func TestList(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		const n = 150
		for i := range n {
			_, err := runtime.Schedule(ctx, b.Client, fmt.Sprintf("s-%d", i), l.def, job{},
				l.config(runtime.ScheduleConfig{}))
			require.NoError(t, err)
		}
		if b.Kind != testserver.Embedded {
			other := enginetest.Open(t, b.Kind, b.URL, b.Prefix, runtime.OpenConfig{Namespace: "other"})
			_, err := runtime.Schedule(ctx, other.Client, "s-1", l.def, job{}, l.config(runtime.ScheduleConfig{}))
			require.NoError(t, err)
			// A keeper serves all namespaces, and the run belongs to the one of its schedule.
			b.Keeper(t)
			l.worker(t)
			run, err := other.Client.Schedule("s-1").Trigger(ctx)
			require.NoError(t, err)
			enginetest.Eventually(t, func() string {
				if about, err := other.Client.Run("report", run).Describe(ctx); err != nil || about.State != fabrictype.RunSucceeded {
					return fmt.Sprint(about, err)
				}
				return ""
			})
			_, err = b.Client.Run("report", run).Describe(ctx)
			require.ErrorIs(t, err, engine.ErrRunNotFound)
		}
		seen := make(map[string]int)
		for d, err := range b.Client.Schedules(ctx) {
			require.NoError(t, err)
			require.False(t, d.NextFire.IsZero())
			seen[d.Name]++
		}
		require.Len(t, seen, n)
		for d, err := range b.Client.Schedules(ctx) {
			require.NoError(t, err)
			require.NotNil(t, d)
			break
		}
		b.Settle(t)
	})
}

// An invalid declaration is refused with all its faults, and nothing is written.
func TestInvalidSchedulesAreRefused(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		make := func(name string, config runtime.ScheduleConfig) error {
			_, err := runtime.Schedule(ctx, b.Client, name, l.def, job{}, config)
			return err
		}
		hourly := func(config runtime.ScheduleConfig) error {
			config.Every = time.Hour
			return make("s", config)
		}
		for text, err := range map[string]error{
			`Cron "every day"`:                    make("s", runtime.ScheduleConfig{Cron: "every day"}),
			"Cron, Every: one of":                 make("s", runtime.ScheduleConfig{}),
			"Cron, Every: only one of":            make("s", runtime.ScheduleConfig{Cron: "@daily", Every: time.Hour}),
			`TimeZone "UTC": must be empty`:       hourly(runtime.ScheduleConfig{TimeZone: "UTC"}),
			`TimeZone "Mars/Olympus"`:             make("s", runtime.ScheduleConfig{Cron: "@daily", TimeZone: "Mars/Olympus"}),
			"Every 999ms":                         make("s", runtime.ScheduleConfig{Every: 999 * time.Millisecond}),
			"Every -1h0m0s":                       make("s", runtime.ScheduleConfig{Every: -time.Hour}),
			"name is empty":                       make("", runtime.ScheduleConfig{Every: time.Hour}),
			`has the character ' '`:               make("nightly report", runtime.ScheduleConfig{Every: time.Hour}),
			"is 129 bytes long":                   make(strings.Repeat("x", 129), runtime.ScheduleConfig{Every: time.Hour}),
			"CatchUp 9s":                          hourly(runtime.ScheduleConfig{CatchUp: 9 * time.Second}),
			"to 366 days":                         hourly(runtime.ScheduleConfig{CatchUp: 367 * 24 * time.Hour}),
			"Every 1h0m0.0000005s: must be whole": make("s", runtime.ScheduleConfig{Every: time.Hour + 500}),
			"CatchUp 10.0000005s: must be whole":  hourly(runtime.ScheduleConfig{CatchUp: 10*time.Second + 500}),
			"Jitter 1h0m0s: must be less":         hourly(runtime.ScheduleConfig{Jitter: time.Hour}),
			"QueueLimit 101":                      hourly(runtime.ScheduleConfig{Overlap: fabrictype.OverlapQueue, QueueLimit: 101}),
			"QueueLimit -1":                       hourly(runtime.ScheduleConfig{Overlap: fabrictype.OverlapQueue, QueueLimit: -1}),
			"QueueLimit 3: must be 0":             hourly(runtime.ScheduleConfig{QueueLimit: 3}),
			`Overlap "later"`:                     hourly(runtime.ScheduleConfig{Overlap: "later"}),
			"EndingAt 1970-01-01T00:00:10Z: must not be": hourly(runtime.ScheduleConfig{
				StartingAt: time.Unix(20, 0), EndingAt: time.Unix(10, 0),
			}),
			`FireTimeField "when"`:               hourly(runtime.ScheduleConfig{FireTimeField: "when"}),
			`PauseReason "later": must be empty`: hourly(runtime.ScheduleConfig{PauseReason: "later"}),
			"Retention: bad retention: -2h":      hourly(runtime.ScheduleConfig{Retention: runtime.Retention{Failed: -2 * time.Hour}}),
			`Actor "two`:                         hourly(runtime.ScheduleConfig{Actor: "two\nlines"}),
			"Every 1ns: must be 1s to ten years": make("s", runtime.ScheduleConfig{Every: 1}),
			`Tags: bad tag: key "Cost"`:          hourly(runtime.ScheduleConfig{Tags: map[string]string{"Cost": "7"}}),
		} {
			require.ErrorIs(t, err, runtime.ErrInvalid, text)
			require.ErrorContains(t, err, text)
		}
		err := make("a b", runtime.ScheduleConfig{Cron: "x", TimeZone: "Mars", CatchUp: 1, Overlap: "x"})
		for _, text := range []string{"character", "Cron", "TimeZone", "CatchUp", "Overlap"} {
			require.ErrorContains(t, err, text, "everything at once")
		}
		for line := range strings.Lines(err.Error()) {
			require.True(t, strings.HasPrefix(line, `schedule "a b": invalid argument: `), line)
		}
		require.ErrorContains(t, make("s", runtime.ScheduleConfig{Cron: "@daily", Every: 1}), "only one of them may be set")
		echo := activity.New("echo", func(_ context.Context, text string) (string, error) { return text, nil })
		f := flow.New[string, string]("text")
		flow.Return(f, flow.Node(f, "echo", echo, f.Input()))
		texts, err := f.Build()
		require.NoError(t, err)
		_, err = runtime.Schedule(ctx, b.Client, "s", texts, "x", runtime.ScheduleConfig{Every: time.Hour, FireTimeField: "when"})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, `FireTimeField "when": the input is not a JSON object`)
		big := job{Name: strings.Repeat("x", 1<<20)}
		_, err = runtime.Schedule(ctx, b.Client, "s", l.def, big, runtime.ScheduleConfig{Every: time.Hour})
		require.ErrorIs(t, err, runtime.ErrTooLarge)
		_, err = runtime.Schedule(ctx, nil, "s", l.def, job{}, runtime.ScheduleConfig{Every: time.Hour})
		require.ErrorContains(t, err, "client is nil")
		for _, key := range b.Check(t, invariant.Quiescent).KeyNames() {
			require.NotContains(t, key, "schedule")
		}
	})
}

// A schedule and its started fires survive a killed server.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true})
			b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
			l := newFixture(t, b)
			b.Keeper(t)
			b.Keeper(t)
			l.worker(t)
			const fires = 20
			l.schedule(t, runtime.ScheduleConfig{CatchUp: catchUp, Overlap: fabrictype.OverlapAllow})
			times := l.lastHours(t, fires)
			l.fireAt(t, times[0])
			enginetest.Eventually(t, func() string {
				if len(l.runs()) > 2 {
					return ""
				}
				return "a few runs"
			})
			server.Kill()
			server.Restart()
			// A keeper that got no reply to its submission continues after the retry time.
			enginetest.Eventually(t, func() string {
				d, err := b.Client.Schedule("s").Describe(context.Background())
				if err == nil && d.Started >= fires {
					return ""
				}
				return fmt.Sprint(d, err)
			})
			require.Equal(t, runAt(times[fires-1]), l.awaitRuns(t, fires)[fires-1])
		})
	}
}

// Schedules are kept in a directory like everything else.
func TestDirectory(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	url := "embedded:" + t.TempDir()
	ctx := enginetest.Context(t)
	prefix := enginetest.NewPrefix()
	t.Run("made", func(t *testing.T) {
		l := newFixture(t, enginetest.Open(t, testserver.Embedded, url, prefix))
		l.schedule(t, runtime.ScheduleConfig{FireTimeField: "at"})
		l.fireAt(t, l.lastHour(t))
	})
	t.Run("kept", func(t *testing.T) {
		l := newFixture(t, enginetest.Open(t, testserver.Embedded, url, prefix))
		l.worker(t)
		report, err := l.RunKeeperTask(ctx, "schedule")
		require.NoError(t, err)
		require.Equal(t, int64(1), report.Done, "a task that is seen to by hand has done it when it returns")
		require.Equal(t, int64(1), l.describe(t).Started)
		l.awaitRuns(t, 1)
		l.Settle(t)
	})
}

// A large flow, which takes many calls, and one with a waitpoint are started by a keeper that knows neither.
func TestKeeperStartsUnknownFlows(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Keeper(t)
		step := activity.New("step", func(context.Context, struct{}) (int, error) { return 1, nil })
		large := flow.New[struct{}, []int]("large")
		sum := activity.New("sum", func(_ context.Context, in []int) ([]int, error) { return in[:1], nil })
		var refs []flow.Ref[int]
		for i := range 200 {
			refs = append(refs, flow.Node(large, fmt.Sprintf("n%d", i), step, large.Input()))
		}
		flow.Return(large, flow.Node(large, "sum", sum, flow.List(refs...)))
		def, err := large.Build()
		require.NoError(t, err)
		waiting := flow.New[struct{}, string]("waiting")
		flow.Return(waiting, flow.Waitpoint[string](waiting, "ok", activity.Signals("ok")))
		gate, err := waiting.Build()
		require.NoError(t, err)
		_, err = runtime.Schedule(ctx, b.Client, "large", def, struct{}{}, runtime.ScheduleConfig{Every: time.Hour})
		require.NoError(t, err)
		_, err = runtime.Schedule(ctx, b.Client, "gate", gate, struct{}{}, runtime.ScheduleConfig{Every: time.Hour})
		require.NoError(t, err)
		runID, err := b.Client.Schedule("large").Trigger(ctx)
		require.NoError(t, err)
		gateID, err := b.Client.Schedule("gate").Trigger(ctx)
		require.NoError(t, err)
		b.Worker(t, def.Handlers())
		run, err := runtime.Attach(b.Client.Run(def.Name(), runID), def)
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			for _, id := range [][2]string{{"large", runID}, {"waiting", gateID}} {
				if _, err := b.Client.Run(id[0], id[1]).Describe(ctx); err != nil {
					return err.Error()
				}
			}
			return ""
		})
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []int{1}, out)
		waits, err := runtime.Attach(b.Client.Run(gate.Name(), gateID), gate)
		require.NoError(t, err)
		points, err := waits.Waitpoints(ctx)
		require.NoError(t, err)
		require.Len(t, points, 1)
		_, err = b.Client.Signal(ctx, points[0].Token, runtime.Signal{Name: "ok", Payload: "yes"})
		require.NoError(t, err)
		b.Settle(t)
	})
}

// A fire whose run cannot be started is reported as failed, and the timetable continues.
func TestFailedFire(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		l.worker(t)
		l.schedule(t, runtime.ScheduleConfig{})
		hour := l.lastHour(t)
		// Another run has the id.
		taken, err := runtime.Start(ctx, b.Client, l.def, job{Name: "mine"}, runtime.WithID(runAt(hour)))
		require.NoError(t, err)
		_, err = taken.Result(ctx)
		require.NoError(t, err)
		b.Keeper(t)
		l.fireAt(t, hour)
		d := l.await(t, "failed", func(d *fabrictype.Schedule) bool { return d.Failed == 1 })
		require.Equal(t, fabrictype.FireFailed, d.History[0].Outcome)
		require.Contains(t, d.History[0].Reason, engine.ErrRunConflict.Error())
		require.Empty(t, d.LastRun)
		require.Equal(t, hour.Add(time.Hour), d.NextFire)
		l.onceEach(t)
		b.Settle(t)
	})
}

// Contract mode does not support schedules.
func TestContractMode(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		if !b.Contract() {
			t.Skip("the other mode")
		}
		l := newFixture(t, b)
		ctx := enginetest.Context(t)
		_, err := runtime.Schedule(ctx, b.Client, "s", l.def, job{}, runtime.ScheduleConfig{Every: time.Hour})
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		_, err = b.Client.Schedule("s").Describe(ctx)
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		require.ErrorIs(t, b.Client.Schedule("s").Pause(ctx, ""), runtime.ErrNotInContract)
		require.ErrorIs(t, b.Client.Schedule("s").Delete(ctx), runtime.ErrNotInContract)
		for _, err := range b.Client.Schedules(ctx) {
			require.ErrorIs(t, err, runtime.ErrNotInContract)
		}
	})
}

// A keeper that does not know the stored form leaves the schedule to others.
func TestKeeperSkipsUnknownStoredForm(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded, runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)})
	l := newFixture(t, b)
	ctx := enginetest.Context(t)
	l.schedule(t, runtime.ScheduleConfig{})
	p, id := l.place(t)
	key := engine.ConnOf(b.Engine.Internal()).Keys().FfxSchedule(p, id)
	client := engine.ConnOf(b.Engine.Internal()).Client()
	spec, err := client.Do(ctx, client.B().Hget().Key(key).Field("spec").Build()).ToString()
	require.NoError(t, err)
	later := strings.Replace(spec, `"version":1`, `"version":2`, 1)
	require.NoError(t, client.Do(ctx, client.B().Hset().Key(key).FieldValue().FieldValue("spec", later).Build()).Error())
	client.Do(ctx, client.B().Zadd().Key(engine.ConnOf(b.Engine.Internal()).Keys().FfxSchedulesDue(p)).ScoreMember().ScoreMember(1, string(id)).Build())
	_, err = b.RunKeeperTask(ctx, "schedule")
	require.NoError(t, err)
	_, err = b.Client.Schedule("s").Describe(ctx)
	require.ErrorContains(t, err, "later release")
	reply, err := engine.ConnOf(b.Engine.Internal()).ReadSchedule(ctx, enginerpc.ReadScheduleCall{Partition: p, ScheduleID: id})
	require.NoError(t, err)
	require.Equal(t, int64(1), reply.Version, "it was left alone")
	for range b.Client.Schedules(ctx) {
		t.Fatal("it is left out of lists")
	}
}
