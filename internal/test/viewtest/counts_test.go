package viewtest

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
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// countByListing returns the expected result of Counts, by reading every run.
func countByListing(t testing.TB, c *runtime.Client, q runtime.RunQuery) map[fabrictype.RunCount]int {
	t.Helper()
	counts := make(map[fabrictype.RunCount]int)
	for run, err := range c.Runs(enginetest.Context(t), q) {
		require.NoError(t, err)
		counts[fabrictype.RunCount{Flow: run.Flow, State: run.State}]++
	}
	return counts
}

// requireCounted compares the counts with all runs.
func requireCounted(t testing.TB, c *runtime.Client, q runtime.RunQuery) {
	t.Helper()
	list, err := c.Counts(enginetest.Context(t), q, "flow", "state")
	require.NoError(t, err)
	got := make(map[fabrictype.RunCount]int)
	for _, n := range list {
		got[fabrictype.RunCount{Flow: n.Flow, State: n.State}] = n.Runs
	}
	require.Equal(t, countByListing(t, c, q), got)
}

func runsCounted(t testing.TB, c *runtime.Client, q runtime.RunQuery) int {
	t.Helper()
	list, err := c.Counts(enginetest.Context(t), q)
	require.NoError(t, err)
	sum := 0
	for _, n := range list {
		sum += n.Runs + n.Ends
	}
	return sum
}

func TestRunsAreCounted(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		before := time.Now().Add(-time.Minute).Truncate(time.Hour) // the server's clock is the clock of this machine
		set := startRunSet(t, b, 60)
		for _, q := range []runtime.RunQuery{
			{}, {Flow: "bad"}, {Flow: "none"}, {States: []fabrictype.RunState{fabrictype.RunRunning, fabrictype.RunFailed}},
		} {
			requireCounted(t, b.Client, q)
		}
		require.Equal(t, 60, runsCounted(t, b.Client, runtime.RunQuery{}))
		require.Equal(t, 60, runsCounted(t, b.Client, runtime.RunQuery{CreatedFrom: before}))
		ended := runsCounted(t, b.Client, runtime.RunQuery{States: []fabrictype.RunState{fabrictype.RunSucceeded, fabrictype.RunFailed, fabrictype.RunCancelled}})
		require.Equal(t, ended, runsCounted(t, b.Client, runtime.RunQuery{FinishedFrom: before}))
		// A rerun is open, a purged run is no longer counted except in the hours.
		for _, run := range set.runs {
			switch d, err := run.Describe(ctx); {
			case err == nil && d.State == fabrictype.RunFailed:
				require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
				_, _ = run.Result(ctx)
			case err == nil && d.State == fabrictype.RunSucceeded:
				require.NoError(t, run.Purge(ctx))
			}
		}
		requireCounted(t, b.Client, runtime.RunQuery{})
		require.Equal(t, 40, runsCounted(t, b.Client, runtime.RunQuery{}))
		require.Equal(t, 20, runsCounted(t, b.Client, runtime.RunQuery{FinishedFrom: before, Flow: "good"}))
		require.Equal(t, 40, runsCounted(t, b.Client, runtime.RunQuery{FinishedFrom: before, Flow: "bad"}))
		list, err := b.Client.Counts(ctx, runtime.RunQuery{FinishedFrom: before, Flow: "bad"}, "hour", "state")
		require.NoError(t, err)
		require.NotEmpty(t, list)
		for _, n := range list {
			require.EqualValues(t, string(fabrictype.RunFailed), n.State)
			require.Zero(t, n.Runs, "ends are not runs")
			require.Positive(t, n.Ends)
			require.False(t, n.Hour.Before(before))
		}
		b.Check(t, invariant.AnyTime)
	}, runtime.OpenConfig{Partitions: 3})
}

func flowPartitions(n int) (list []keyspace.Partition) {
	for i := range n {
		list = append(list, keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(i)})
	}
	return list
}

// Child runs are counted apart, and with the name of their flow.
func TestChildRunsAreCounted(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		a := fixture.AddOne()
		f := flow.New[[]int, []int]("wide")
		flow.Return(f, flow.Map(f, "each", a, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{a})
		b.Keeper(t)
		run, err := runtime.Start(enginetest.Context(t), b.Client, def, []int{1, 2})
		require.NoError(t, err)
		_, err = run.Result(enginetest.Context(t))
		require.NoError(t, err)
		for _, q := range []runtime.RunQuery{{}, {Children: true}, {Flow: "wide.each"}} {
			requireCounted(t, b.Client, q)
		}
		require.Equal(t, 2, runsCounted(t, b.Client, runtime.RunQuery{Children: true}))
	})
}

// Whatever has become of the counts, the keeper's repair finds the truth, also while runs start, end and go.
func TestCountsAreRepaired(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		set := startRunSet(t, b, 120)
		client, keys := engine.ConnOf(b.Engine.Internal()).Client(), engine.ConnOf(b.Engine.Internal()).Keys()
		for i, p := range flowPartitions(3) {
			cmd := client.B().Hincrby().Key(keys.FfxRunCounts(p)).Field("started good default").Increment(7).Build()
			if i == 0 {
				cmd = client.B().Del().Key(keys.FfxRunCounts(p)).Build()
			}
			require.NoError(t, client.Do(ctx, cmd).Error())
		}
		require.NotEqual(t, 120, runsCounted(t, b.Client, runtime.RunQuery{}))
		changed := 0
		for _, p := range flowPartitions(3) {
			for cursor := ""; ; {
				reply, err := engine.ConnOf(b.Engine.Internal()).Reconcile(ctx, enginerpc.ReconcileCall{Partition: p, Limit: 7, Cursor: cursor})
				require.NoError(t, err)
				if cursor = reply.NextCursor; cursor == "" {
					break
				}
				if changed < len(set.runs) {
					run := set.runs[changed]
					switch d, err := run.Describe(ctx); {
					case err != nil: // purged
					case d.State == fabrictype.RunFailed:
						require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
					case d.State == fabrictype.RunSucceeded:
						require.NoError(t, run.Purge(ctx))
					case d.State == fabrictype.RunRunning:
						require.NoError(t, run.Cancel(ctx, "enough"))
					}
					changed++
				}
			}
		}
		require.Positive(t, changed)
		for _, run := range set.runs {
			if d, err := run.Describe(ctx); err == nil && d.Flow == "bad" {
				_, _ = run.Result(ctx)
			}
		}
		requireCounted(t, b.Client, runtime.RunQuery{})
		b.Check(t, invariant.AnyTime)
	}, runtime.OpenConfig{Partitions: 3})
}

// The counts of an hour go into the totals when another one begins.
func TestCounts_ContinueOverHours(t *testing.T) {
	t.Parallel()
	b, clock := enginetest.WithClock(t)
	first := clock.Now().Truncate(time.Hour).Add(time.Hour)
	clock.Jump(first.Add(30 * time.Minute).Sub(clock.Now())) // the tests do not take half an hour
	ctx := enginetest.Context(t)
	c := fixture.NewCourse()
	def := oneWay(t, c, "hourly", "ok")
	b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{})
	for i := range 5 {
		for j := range 2 + i {
			run, err := runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithID(fmt.Sprint(i, "-", j)))
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err)
			if i == 3 {
				require.NoError(t, run.Purge(ctx))
			}
		}
		requireCounted(t, b.Client, runtime.RunQuery{})
		clock.Jump(time.Hour)
	}
	list, err := b.Client.Counts(ctx, runtime.RunQuery{CreatedFrom: first, CreatedBefore: first.Add(5 * time.Hour)}, "hour")
	require.NoError(t, err)
	var want []fabrictype.RunCount
	for i := range 5 {
		want = append(want, fabrictype.RunCount{Hour: first.Add(time.Duration(i) * time.Hour).UTC(), Runs: 2 + i})
	}
	require.Equal(t, want, list)
	require.Equal(t, 15, runsCounted(t, b.Client, runtime.RunQuery{}))
	clock.Jump(9 * 24 * time.Hour)
	_, err = b.Client.Counts(ctx, runtime.RunQuery{CreatedFrom: first, CreatedBefore: first.Add(time.Hour)})
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.ErrorContains(t, err, "counts are kept from")
}

func TestCounts_RefusesInvalidQueries(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := context.Background()
		hour := time.Now().Truncate(time.Hour)
		_, err := b.Client.Counts(ctx, runtime.RunQuery{})
		if b.Contract() {
			require.ErrorIs(t, err, runtime.ErrNotInContract)
			return
		}
		require.NoError(t, err)
		for want, bad := range map[string]struct {
			query runtime.RunQuery
			by    []string
		}{
			"Tags: runs are not counted":   {runtime.RunQuery{Tags: map[string]string{"a.b": ""}}, nil},
			"Key: runs are not counted":    {runtime.RunQuery{Key: "k"}, nil},
			"Queued: runs are not counted": {runtime.RunQuery{Queued: true}, nil},
			"Text: runs are not counted":   {runtime.RunQuery{Text: "x"}, nil},
			"Sort: runs are not counted":   {runtime.RunQuery{Sort: "created"}, nil},
			"must be one of flow, state":   {runtime.RunQuery{}, []string{"lane"}},
			"is named twice":               {runtime.RunQuery{}, []string{"flow", "flow"}},
			"grouped by hour with":         {runtime.RunQuery{}, []string{"hour"}},
			"starts have no states":        {runtime.RunQuery{CreatedFrom: hour}, []string{"state"}},
			"beginning of an hour":         {runtime.RunQuery{CreatedFrom: hour.Add(time.Second)}, nil},
			"needs its beginning":          {runtime.RunQuery{FinishedBefore: hour}, nil},
			"at most 192 hours":            {runtime.RunQuery{FinishedFrom: hour.Add(-1000 * time.Hour)}, nil},
		} {
			_, err := b.Client.Counts(ctx, bad.query, bad.by...)
			require.ErrorIs(t, err, runtime.ErrInvalid, want)
			require.ErrorContains(t, err, want)
		}
	})
}
