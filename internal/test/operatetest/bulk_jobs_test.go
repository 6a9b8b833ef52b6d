package operatetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/runsearch"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// startWaiting starts runs that wait for the signal "go".
func startWaiting(t *testing.T, b *enginetest.Bench, from, to int) (runs []*runtime.RunRef) {
	t.Helper()
	f := flow.New[int, int]("wait")
	flow.Return(f, flow.Waitpoint[int](f, "gate", activity.Signals("go")))
	def, err := f.Build()
	require.NoError(t, err)
	for i := from; i < to; i++ {
		run, err := runtime.Start(enginetest.Context(t), b.Client, def, i, runtime.WithID(fmt.Sprintf("w-%02d", i)))
		require.NoError(t, err)
		runs = append(runs, b.Client.Run("wait", run.ID()))
	}
	return runs
}

// listed returns a run as a search for runs finds it.
func listed(t *testing.T, b *enginetest.Bench, ref *runtime.RunRef) enginerpc.Run {
	t.Helper()
	session, err := engine.SessionOf(b.Engine.Internal())
	require.NoError(t, err)
	index, err := session.Library("lists of runs")
	require.NoError(t, err)
	search, err := runsearch.New(t.Context(), session, index, runsearch.Query{Flow: "wait"}, "", 10)
	require.NoError(t, err)
	for {
		run, found, err := search.Next(enginetest.Context(t))
		require.NoError(t, err)
		require.True(t, found, "run %s is in no list", ref.ID())
		if run.RunID == ref.ID() {
			return run
		}
	}
}

// eventsOf counts the events of a kind in the log of a run.
func eventsOf(t *testing.T, run *runtime.RunRef, kind fabrictype.EventKind) (n int) {
	t.Helper()
	ctx, stop := context.WithCancel(enginetest.Context(t))
	defer stop()
	for event, err := range run.Watch(ctx, "") {
		require.NoError(t, err)
		if event.Kind == kind {
			n++
		}
	}
	return n
}

// requireStates compares the numbers of runs of a flow by state.
func requireStates(t *testing.T, b *enginetest.Bench, name string, want map[fabrictype.RunState]int) {
	t.Helper()
	got := make(map[fabrictype.RunState]int)
	for run, err := range b.Client.Runs(enginetest.Context(t), runtime.RunQuery{Flow: name}) {
		require.NoError(t, err)
		got[run.State]++
	}
	require.Equal(t, want, got)
}

func TestBulkCancel(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		runs := startWaiting(t, b, 0, 12)
		require.NoError(t, runs[0].Cancel(ctx, "before"))
		query := runtime.RunQuery{Flow: "wait"}
		action, options := fabrictype.BulkAction{Kind: "cancel", Reason: "enough"}, runtime.BulkOptions{ID: "clean", Actor: "ann"}

		preview, err := b.Client.PreviewBulkJob(ctx, query, action, options)
		require.NoError(t, err)
		require.Equal(t, 12, preview.Runs)
		require.Equal(t, map[fabrictype.RunState]int{fabrictype.RunRunning: 11, fabrictype.RunCancelled: 1}, preview.States)
		require.Len(t, preview.Sample, 12)
		require.False(t, preview.More)
		requireStates(t, b, "wait", preview.States)
		_, err = b.Client.BulkJob("clean").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrBulkJobNotFound)

		job, err := b.Client.StartBulkJob(ctx, query, action, options)
		require.NoError(t, err)
		require.Equal(t, fabrictype.BulkRunning, job.State)
		require.Equal(t, "flow=wait", job.Query)
		enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 0)
		startWaiting(t, b, 12, 14) // too late for the job
		b.Keeper(t)
		job = fixture.AwaitJob(t, b, "clean", fixture.IsOver)
		require.Equal(t, fabrictype.BulkCompleted, job.State)
		require.Equal(t, fabrictype.BulkProgress{Done: 11, Skipped: 1}, job.Progress)
		require.False(t, job.ClosedAt.Before(job.CreatedAt))
		requireStates(t, b, "wait", map[fabrictype.RunState]int{"running": 2, "cancelled": 12})

		again, err := b.Client.StartBulkJob(ctx, query, action, options)
		require.NoError(t, err)
		require.Equal(t, job, again)
		_, err = b.Client.StartBulkJob(ctx, query, fabrictype.BulkAction{Kind: "purge"}, options)
		require.ErrorIs(t, err, engine.ErrBulkJobConflict)
		require.NoError(t, b.Client.BulkJob("clean").Stop(ctx), "it is over")
		require.Equal(t, job, fixture.AwaitJob(t, b, "clean", fixture.IsOver))
		var listed []*fabrictype.BulkJob
		for job, err := range b.Client.BulkJobs(ctx) {
			require.NoError(t, err)
			listed = append(listed, job)
		}
		require.Equal(t, []*fabrictype.BulkJob{job}, listed)
	})
}

// Every other action, one after the other.
func TestBulkActions(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		runs := startWaiting(t, b, 0, 3)
		b.Keeper(t)
		job := func(query runtime.RunQuery, a fabrictype.BulkAction) fabrictype.BulkProgress {
			started, err := b.Client.StartBulkJob(ctx, query, a, runtime.BulkOptions{Actor: "ann"})
			require.NoError(t, err)
			return fixture.AwaitJob(t, b, started.ID, fixture.IsOver).Progress
		}
		all := runtime.RunQuery{Flow: "wait"}
		require.Equal(t, fabrictype.BulkProgress{Done: 3}, job(all, fabrictype.BulkAction{Kind: "pause", Reason: "later"}))
		for _, run := range runs {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			require.False(t, d.PausedAt.IsZero())
			require.Equal(t, "ann", d.PausedBy)
		}
		require.Equal(t, fabrictype.BulkProgress{Done: 3}, job(all, fabrictype.BulkAction{Kind: "resume"}))
		require.Equal(t, fabrictype.BulkProgress{Done: 3}, job(all, fabrictype.BulkAction{Kind: "priority", Priority: 7}))
		for _, run := range runs {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			require.True(t, d.PausedAt.IsZero())
		}
		for _, run := range runs {
			enginetest.Eventually(t, func() string {
				waits, err := run.Waitpoints(ctx)
				require.NoError(t, err)
				if len(waits) != 1 {
					return "the run does not wait yet"
				}
				return ""
			})
		}
		require.Equal(t, fabrictype.BulkProgress{Skipped: 3}, job(all, fabrictype.BulkAction{Kind: "signal", Signal: "other"}))
		require.Equal(t, fabrictype.BulkProgress{Done: 3}, job(all, fabrictype.BulkAction{Kind: "signal", Signal: "go", Payload: []byte("5")}))
		for _, run := range runs {
			require.Equal(t, 0, eventsOf(t, run, "none"), "the run ends")
		}
		requireStates(t, b, "wait", map[fabrictype.RunState]int{"succeeded": 3})
		require.Equal(t, fabrictype.BulkProgress{Skipped: 3}, job(all, fabrictype.BulkAction{Kind: "cancel", Reason: "no"}))
		require.Equal(t, fabrictype.BulkProgress{Skipped: 3}, job(all, fabrictype.BulkAction{Kind: "rerun", Scope: fabrictype.RerunFailed}))
		failed := job(all, fabrictype.BulkAction{Kind: "rerun", Scope: fabrictype.RerunFrom("nobody")})
		require.Equal(t, 3, failed.Failed)
		require.Len(t, failed.Failures, 3)
		require.Contains(t, failed.Failures[0].Error, "no such node")
		require.Equal(t, fabrictype.BulkProgress{Done: 3}, job(all, fabrictype.BulkAction{Kind: "rerun", Scope: fabrictype.RerunAll}))
		requireStates(t, b, "wait", map[fabrictype.RunState]int{"running": 3})
		require.Equal(t, fabrictype.BulkProgress{Skipped: 3}, job(all, fabrictype.BulkAction{Kind: "purge"}))
		require.Equal(t, fabrictype.BulkProgress{Done: 3}, job(all, fabrictype.BulkAction{Kind: "cancel_pending", Reason: "enough"}))
		require.Equal(t, fabrictype.BulkProgress{Done: 3}, job(runtime.RunQuery{Flow: "wait", Sort: "finished"}, fabrictype.BulkAction{Kind: "purge"}))
		requireStates(t, b, "wait", map[fabrictype.RunState]int{})
	})
}

// A keeper stops in the middle of a job, and another one continues it: each run is run again once.
func TestBulkJobSurvivesItsKeeper(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		refused := activity.New("refuse", func(context.Context, int) (int, error) {
			return 0, activity.NonRetryable(errors.New("no"))
		})
		def := fixture.ChainOf(t, refused, 1)
		b.Worker(t, []activity.Handler{refused})
		const count = 16
		for i := range count {
			run, err := runtime.Start(ctx, b.Client, def, i, runtime.WithID(fmt.Sprintf("r-%02d", i)))
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.ErrorIs(t, err, runtime.ErrRunFailed)
		}
		beginner := enginetest.NewClient(t, b.Engine)
		_, err := beginner.StartBulkJob(ctx, runtime.RunQuery{States: []fabrictype.RunState{fabrictype.RunFailed}},
			fabrictype.BulkAction{Kind: "rerun", Scope: fabrictype.RerunFailed}, runtime.BulkOptions{ID: "again", Rate: 20})
		require.NoError(t, err)
		beginner.Close()
		first := b.Keeper(t)
		fixture.AwaitJob(t, b, "again", func(job *fabrictype.BulkJob) bool { return job.Progress.Done > 0 })
		require.NoError(t, first.Stop()) // in mid-job unless the machine stalls for as long as the rate makes it last
		b.Keeper(t)
		job := fixture.AwaitJob(t, b, "again", fixture.IsOver)
		require.Equal(t, fabrictype.BulkProgress{Done: count}, job.Progress)
		for i := range count {
			run := b.Client.Run("chain", fmt.Sprintf("r-%02d", i))
			require.Equal(t, 1, eventsOf(t, run, fabrictype.EventRunRerun))
		}
	})
}

// A keeper is killed in the middle of a job: another one continues when the claim of the first has run out, and does
// not repeat the actions that the first has not recorded.
func TestBulkJobOfKilledKeeper(t *testing.T) {
	t.Parallel()
	b, clock := enginetest.WithClock(t)
	ctx := enginetest.Context(t)
	runs := startWaiting(t, b, 0, 5)
	_, err := b.Client.StartBulkJob(ctx, runtime.RunQuery{}, fabrictype.BulkAction{Kind: "cancel", Reason: "x"}, runtime.BulkOptions{ID: "j"})
	require.NoError(t, err)
	core := engine.ConnOf(b.Engine.Internal())
	id := keyspace.BulkJobIDFor("default", "j")
	p, err := core.Partitioning().BulkJobPartition(id)
	require.NoError(t, err)
	_, err = core.TakeBulkJob(ctx, enginerpc.TakeBulkJobCall{Partition: p, BulkJobID: id, Claimant: "killed"})
	require.NoError(t, err)
	require.NoError(t, runs[3].Cancel(ctx, "x")) // without saving it
	_, err = b.RunKeeperTask(ctx, "bulk_job")
	require.NoError(t, err)
	job, err := b.Client.BulkJob("j").Describe(ctx)
	require.NoError(t, err)
	require.Equal(t, 0, job.Progress.Handled())
	clock.Jump(21 * time.Second)
	_, err = b.RunKeeperTask(ctx, "bulk_job")
	require.NoError(t, err)
	job, err = b.Client.BulkJob("j").Describe(ctx)
	require.NoError(t, err)
	require.Equal(t, fabrictype.BulkCompleted, job.State)
	require.Equal(t, fabrictype.BulkProgress{Done: 4, Skipped: 1}, job.Progress)
	// The first one was only slow: it can no longer save anything.
	_, err = core.SaveBulkJob(ctx, enginerpc.SaveBulkJobCall{
		Partition: p, BulkJobID: id, Claimant: "killed", Progress: []byte("{}"),
	})
	require.ErrorIs(t, err, errorcode.BulkJobTaken)
	// A week later, the record goes.
	clock.Jump(7*24*time.Hour + time.Minute)
	_, err = b.RunKeeperTask(ctx, "bulk_job")
	require.NoError(t, err)
	_, err = b.Client.BulkJob("j").Describe(ctx)
	require.ErrorIs(t, err, engine.ErrBulkJobNotFound)
}

// A new keeper takes over the jobs that a killed one has taken, or was assigned, without waiting until its claim runs
// out: the clock does not advance in this test.
func TestBulkJobIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]bool{"told": true, "taken": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := enginetest.WithClock(t)
			ctx := enginetest.Context(t)
			startWaiting(t, b, 0, 3)
			_, err := b.Client.StartBulkJob(ctx, runtime.RunQuery{}, fabrictype.BulkAction{Kind: "cancel", Reason: "x"}, runtime.BulkOptions{ID: "j"})
			require.NoError(t, err)
			core := engine.ConnOf(b.Engine.Internal())
			id := keyspace.BulkJobIDFor("default", "j")
			p, err := core.Partitioning().BulkJobPartition(id)
			require.NoError(t, err)
			reply, err := core.Keep(ctx, enginerpc.KeepCall{Partition: p, Limit: 100, Keeper: "killed"})
			require.NoError(t, err)
			require.Equal(t, []keyspace.BulkJobID{id}, reply.BulkJobs)
			if !told {
				_, err = core.TakeBulkJob(ctx, enginerpc.TakeBulkJobCall{Partition: p, BulkJobID: id, Claimant: "killed"})
				require.NoError(t, err)
			}
			_, err = b.RunKeeperTask(ctx, "bulk_job") // takes nothing over
			require.NoError(t, err)
			job, err := b.Client.BulkJob("j").Describe(ctx)
			require.NoError(t, err)
			require.Equal(t, fabrictype.BulkRunning, job.State)
			b.Keeper(t)
			job = fixture.AwaitJob(t, b, "j", fixture.IsOver)
			require.Equal(t, fabrictype.BulkProgress{Done: 3}, job.Progress)
		})
	}
}

// A keeper is killed between acting on a run and counting it, so that the job does not find the run again: the run is
// counted once, and no more runs than the most are handled.
func TestBulkJobCountsTheRunOfAKilledKeeper(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		query  runtime.RunQuery
		action fabrictype.BulkAction
		act    func(ctx context.Context, run *runtime.RunRef) error
		// acted reports whether the keeper was killed after it had acted on the run.
		acted bool
	}{
		"purge": {
			action: fabrictype.BulkAction{Kind: "purge"}, acted: true,
			act: func(ctx context.Context, run *runtime.RunRef) error { return run.Purge(ctx) },
		},
		"purge before": {action: fabrictype.BulkAction{Kind: "purge"}},
		"cancel": {
			query: runtime.RunQuery{States: []fabrictype.RunState{fabrictype.RunRunning}}, action: fabrictype.BulkAction{Kind: "cancel", Reason: "x"},
			act:   func(ctx context.Context, run *runtime.RunRef) error { return run.Cancel(ctx, "x") },
			acted: true,
		},
		"cancel before": {
			query: runtime.RunQuery{States: []fabrictype.RunState{fabrictype.RunRunning}}, action: fabrictype.BulkAction{Kind: "cancel", Reason: "x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, clock := enginetest.WithClock(t)
			ctx := enginetest.Context(t)
			var runs []*runtime.RunRef
			for i := range 5 {
				runs = append(runs, startWaiting(t, b, i, i+1)...)
				if c.action.Kind == "purge" {
					require.NoError(t, runs[i].Cancel(ctx, "x"))
				}
				clock.Jump(time.Second)
			}
			_, err := b.Client.StartBulkJob(ctx, c.query, c.action, runtime.BulkOptions{ID: "j", Most: 3})
			require.NoError(t, err)
			core := engine.ConnOf(b.Engine.Internal())
			id := keyspace.BulkJobIDFor("default", "j")
			p, err := core.Partitioning().BulkJobPartition(id)
			require.NoError(t, err)
			_, err = core.TakeBulkJob(ctx, enginerpc.TakeBulkJobCall{Partition: p, BulkJobID: id, Claimant: "killed"})
			require.NoError(t, err)
			progress, err := json.Marshal(map[string]any{"acting": listed(t, b, runs[4])})
			require.NoError(t, err)
			_, err = core.SaveBulkJob(ctx, enginerpc.SaveBulkJobCall{
				Partition: p, BulkJobID: id, Claimant: "killed", Progress: progress,
			})
			require.NoError(t, err)
			if c.acted {
				require.NoError(t, c.act(ctx, runs[4]))
			}
			clock.Jump(21 * time.Second)
			_, err = b.RunKeeperTask(ctx, "bulk_job")
			require.NoError(t, err)
			job, err := b.Client.BulkJob("j").Describe(ctx)
			require.NoError(t, err)
			require.Equal(t, fabrictype.BulkCompleted, job.State)
			require.Equal(t, fabrictype.BulkProgress{Done: 3}, job.Progress)
			for i, run := range runs {
				d, err := run.Describe(ctx)
				switch {
				case i < 2:
					require.NoError(t, err)
					require.Equal(t, c.action.Kind == "purge", d.State == fabrictype.RunCancelled, "beyond the most")
				case c.action.Kind == "purge":
					require.ErrorIs(t, err, engine.ErrRunNotFound)
				default:
					require.NoError(t, err)
					require.Equal(t, fabrictype.RunCancelled, d.State)
				}
			}
		})
	}
}

// With a rate of one run an hour, a run is handled each hour and no sooner; the job can be stopped in between.
func TestBulkJobRateAndStop(t *testing.T) {
	t.Parallel()
	b, clock := enginetest.WithClock(t)
	ctx := enginetest.Context(t)
	startWaiting(t, b, 0, 4)
	_, err := b.Client.StartBulkJob(ctx, runtime.RunQuery{Sort: "created"}, fabrictype.BulkAction{Kind: "cancel", Reason: "x"},
		runtime.BulkOptions{ID: "slow", Rate: 1.0 / 3600})
	require.NoError(t, err)
	_, err = b.Client.StartBulkJob(ctx, runtime.RunQuery{}, fabrictype.BulkAction{Kind: "pause", Reason: "x"}, runtime.BulkOptions{ID: "two", Most: 2})
	require.NoError(t, err)
	for hour := range 3 {
		for range 3 {
			_, err = b.RunKeeperTask(ctx, "bulk_job")
			require.NoError(t, err)
			job, err := b.Client.BulkJob("slow").Describe(ctx)
			require.NoError(t, err)
			require.Equal(t, fabrictype.BulkProgress{Done: hour + 1}, job.Progress)
		}
		clock.Jump(time.Hour + time.Second)
	}
	two, err := b.Client.BulkJob("two").Describe(ctx)
	require.NoError(t, err)
	require.Equal(t, fabrictype.BulkCompleted, two.State)
	require.Equal(t, fabrictype.BulkProgress{Done: 2}, two.Progress)

	require.NoError(t, b.Client.BulkJob("slow").Stop(ctx, runtime.WithActor("bob")))
	_, err = b.RunKeeperTask(ctx, "bulk_job")
	require.NoError(t, err)
	job, err := b.Client.BulkJob("slow").Describe(ctx)
	require.NoError(t, err)
	require.Equal(t, fabrictype.BulkStopped, job.State)
	require.Equal(t, "bob", job.StoppedBy)
	require.Equal(t, fabrictype.BulkProgress{Done: 3}, job.Progress)
	requireStates(t, b, "wait", map[fabrictype.RunState]int{"running": 1, "cancelled": 3})
	require.ErrorIs(t, b.Client.BulkJob("none").Stop(ctx), engine.ErrBulkJobNotFound)
}

// A job that was stopped while a keeper has it gets the last counts, and stays stopped.
func TestBulkJobStoppedWhileTaken(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		_, err := b.Client.StartBulkJob(ctx, runtime.RunQuery{}, fabrictype.BulkAction{Kind: "purge"}, runtime.BulkOptions{ID: "j"})
		require.NoError(t, err)
		core := engine.ConnOf(b.Engine.Internal())
		id := keyspace.BulkJobIDFor("default", "j")
		p, err := core.Partitioning().BulkJobPartition(id)
		require.NoError(t, err)
		_, err = core.TakeBulkJob(ctx, enginerpc.TakeBulkJobCall{Partition: p, BulkJobID: id, Claimant: "one"})
		require.NoError(t, err)
		_, err = core.TakeBulkJob(ctx, enginerpc.TakeBulkJobCall{Partition: p, BulkJobID: id, Claimant: "two"})
		require.ErrorIs(t, err, errorcode.BulkJobTaken)
		require.NoError(t, b.Client.BulkJob("j").Stop(ctx))
		reply, err := core.SaveBulkJob(ctx, enginerpc.SaveBulkJobCall{
			Partition: p, BulkJobID: id, Claimant: "one", Progress: []byte(`{"done":1}`), Completed: true,
		})
		require.NoError(t, err)
		require.Equal(t, "stopped", reply.State)
		_, err = core.TakeBulkJob(ctx, enginerpc.TakeBulkJobCall{Partition: p, BulkJobID: id, Claimant: "one"})
		require.ErrorIs(t, err, errorcode.BulkJobOver)
		job, err := b.Client.BulkJob("j").Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.BulkStopped, job.State)
		require.Equal(t, 1, job.Progress.Done)
		_, err = b.Client.StartBulkJob(ctx, runtime.RunQuery{}, fabrictype.BulkAction{Kind: "purge"}, runtime.BulkOptions{ID: "running"})
		require.NoError(t, err)
		b.Settle(t)
	})
}

// Keepers perform the jobs of all namespaces, each on the runs of its namespace.
func TestBulkJobOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, ours *enginetest.Bench) {
		if ours.Kind == testserver.Embedded {
			t.Skip("an engine in memory has one namespace")
		}
		ctx := enginetest.Context(t)
		theirs := enginetest.Open(t, ours.Kind, ours.URL, ours.Prefix, runtime.OpenConfig{Namespace: "theirs"})
		startWaiting(t, ours, 0, 2)
		startWaiting(t, theirs, 0, 2)
		_, err := theirs.Client.StartBulkJob(ctx, runtime.RunQuery{}, fabrictype.BulkAction{Kind: "cancel", Reason: "x"}, runtime.BulkOptions{ID: "j"})
		require.NoError(t, err)
		ours.Keeper(t)
		require.Equal(t, fabrictype.BulkProgress{Done: 2}, fixture.AwaitJob(t, theirs, "j", fixture.IsOver).Progress)
		requireStates(t, ours, "wait", map[fabrictype.RunState]int{"running": 2})
		requireStates(t, theirs, "wait", map[fabrictype.RunState]int{"cancelled": 2})
	})
}

func TestBulkJobRefused(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	ok := fabrictype.BulkAction{Kind: "purge"}
	for want, c := range map[string]struct {
		query   runtime.RunQuery
		action  fabrictype.BulkAction
		options runtime.BulkOptions
	}{
		`state "gone"`:                    {runtime.RunQuery{States: []fabrictype.RunState{"gone"}}, ok, runtime.BulkOptions{}},
		`action ""`:                       {runtime.RunQuery{}, fabrictype.BulkAction{}, runtime.BulkOptions{}},
		`action "purge": has fields`:      {runtime.RunQuery{}, fabrictype.BulkAction{Kind: "purge", Reason: "x"}, runtime.BulkOptions{}},
		`priority -1`:                     {runtime.RunQuery{}, fabrictype.BulkAction{Kind: "priority", Priority: -1}, runtime.BulkOptions{}},
		`scope "some"`:                    {runtime.RunQuery{}, fabrictype.BulkAction{Kind: "rerun", Scope: "some"}, runtime.BulkOptions{}},
		`reason`:                          {runtime.RunQuery{}, fabrictype.BulkAction{Kind: "cancel", Reason: "a\x00b"}, runtime.BulkOptions{}},
		`signal "go": the payload is not`: {runtime.RunQuery{}, fabrictype.BulkAction{Kind: "signal", Signal: "go", Payload: []byte("{")}, runtime.BulkOptions{}},
		`signal ""`:                       {runtime.RunQuery{}, fabrictype.BulkAction{Kind: "signal", Signal: ""}, runtime.BulkOptions{}},
		`rate -1`:                         {runtime.RunQuery{}, ok, runtime.BulkOptions{Rate: -1}},
		`most -1`:                         {runtime.RunQuery{}, ok, runtime.BulkOptions{Most: -1}},
		`bulk job id`:                     {runtime.RunQuery{}, ok, runtime.BulkOptions{ID: strings.Repeat("x", 257)}},
		`actor`:                           {runtime.RunQuery{}, ok, runtime.BulkOptions{Actor: "a\nb"}},
	} {
		_, err := b.Client.StartBulkJob(ctx, c.query, c.action, c.options)
		require.ErrorIs(t, err, runtime.ErrInvalid, want)
		require.ErrorContains(t, err, want)
		_, err = b.Client.PreviewBulkJob(ctx, c.query, c.action, c.options)
		require.ErrorIs(t, err, runtime.ErrInvalid, want)
	}
	_, err := b.Client.BulkJob("").Describe(ctx)
	require.ErrorIs(t, err, runtime.ErrInvalid)
	for range b.Client.BulkJobs(ctx) {
		t.Fatal("there is a job")
	}
}
