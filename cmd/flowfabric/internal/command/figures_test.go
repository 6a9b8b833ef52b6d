package command

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A run that failed, and two hours later is run again with success, took the time of its rerun, in all lists and
// statistics. It has ended twice, and is one run.
func TestFiguresAfterRerun(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	b, clock := enginetest.WithClock(t)
	x, ctx := onServer(t, b), enginetest.Context(t)
	var works atomic.Bool
	charge := activity.New("charge", func(context.Context, string) (string, error) {
		if !works.Load() {
			return "", activity.NonRetryable(errors.New("card declined"))
		}
		clock.Jump(time.Second)
		return "paid", nil
	})
	f := flow.New[string, string]("order")
	flow.Return(f, flow.Node(f, "charge", charge, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	b.Worker(t, def.Handlers())
	run, err := runtime.Start(ctx, b.Client, def, "4711", runtime.WithID("o-1"))
	require.NoError(t, err)
	_, err = run.Result(ctx)
	require.Error(t, err)
	first, err := run.Describe(ctx)
	require.NoError(t, err)
	require.Equal(t, first.CreatedAt, first.BeganAt)

	clock.Jump(2 * time.Hour)
	works.Store(true)
	require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
	result, err := run.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "paid", result)
	tookOf := func(from, to time.Time) {
		t.Helper()
		require.GreaterOrEqual(t, to.Sub(from), time.Second)
		require.Less(t, to.Sub(from), time.Hour)
	}
	d, err := run.Describe(ctx)
	require.NoError(t, err)
	require.Equal(t, first.CreatedAt, d.CreatedAt)
	require.Equal(t, d.LastRerun.At, d.BeganAt)
	tookOf(d.BeganAt, d.ClosedAt)
	tookOf(d.Nodes[0].StartedAt, d.Nodes[0].CompletedAt)
	page, err := b.Client.ListRuns(ctx, runtime.RunQuery{}, "", 10)
	require.NoError(t, err)
	require.Equal(t, d.BeganAt, page.Items[0].BeganAt)
	tookOf(page.Items[0].BeganAt, page.Items[0].ClosedAt)

	hour := clock.Now().Truncate(time.Hour)
	require.Equal(t, []map[string]any{{"flow": "order", "state": "succeeded", "runs": 1.}}, x.lines("run", "count"))
	ends, err := b.Client.Counts(ctx, runtime.RunQuery{
		FinishedFrom: hour.Add(-5 * time.Hour), FinishedBefore: hour.Add(time.Hour),
	}, "state")
	require.NoError(t, err)
	require.Equal(t, []fabrictype.RunCount{{State: fabrictype.RunFailed, Ends: 1}, {State: fabrictype.RunSucceeded, Ends: 1}}, ends)
	require.Regexp(t, `^HOUR +FLOW +STATE +ENDS\b`, x.ok("run", "count", "--hours", "5"))

	const took = `\b[1-9][0-9.]*s\b`
	require.Regexp(t, `o-1 .*succeeded .*`+took, x.ok("run", "list", "--since", "1d"))
	shown := x.ok("run", "show", "order/o-1")
	require.Regexp(t, `ended .*, took `+took, shown)
	require.Contains(t, shown, "run again 1 time")
	for _, text := range []string{shown, x.ok("run", "list"), x.ok("flow", "statistics", "order")} {
		require.NotContains(t, text, "2h")
	}
	statistics := x.lines("flow", "statistics", "order")[0]["nodes"].([]any)[0].(map[string]any)
	require.Nil(t, statistics["retried"], "a rerun is no retry")
	for _, of := range []string{"median", "slowest"} {
		took, err := time.ParseDuration(statistics[of].(string))
		require.NoError(t, err)
		tookOf(time.Time{}, time.Time{}.Add(took))
	}
}
