package viewtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// awaitHealth waits until a lane has a health, and checks that the inspection has the same verdict.
func awaitHealth(ctx context.Context, t *testing.T, b *enginetest.Bench, lane, state, code string) fabrictype.LaneHealth {
	t.Helper()
	var h fabrictype.LaneHealth
	enginetest.Eventually(t, func() string {
		list, err := b.Client.Lanes(ctx)
		require.NoError(t, err)
		for _, l := range list {
			if l.Name == lane {
				h = l.Health
			}
		}
		if h.State != state {
			return lane + " is " + h.State + ": " + h.Reason
		}
		report, err := b.Engine.Inspect(ctx)
		require.NoError(t, err)
		for _, f := range report.Findings {
			if f.Code == code && f.Subject == "lane "+lane && (state == "ok" || f.Found == h.Reason) {
				return ""
			}
		}
		return "no finding " + code
	})
	return h
}

// The health of a lane is one verdict, which the inspection repeats: no worker, none that has the activity, a pause, a
// budget that is used up.
func TestLaneHealth(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		mail := activity.New("mail", func(_ context.Context, n int) (int, error) { return n, nil }, activity.Lane("mail"))
		other := activity.New("other", func(_ context.Context, n int) (int, error) { return n, nil }, activity.Lane("mail"))
		def := fixture.Single(t, mail)
		first, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		h := awaitHealth(ctx, t, b, "mail", "unserved", "worker.none")
		require.Equal(t, "1 node waits, and no worker serves the lane", h.Reason)
		require.Equal(t, 1, h.Nodes)
		require.True(t, h.Stuck())
		require.False(t, h.Since.IsZero())
		require.Contains(t, h.Remedy, `"mail" among WorkerConfig.Lanes`)

		lane := b.Client.Lane("mail")
		require.NoError(t, b.Client.As("ann").Lane("mail").Pause(ctx, "release"))
		h = awaitHealth(ctx, t, b, "mail", "paused", "lane.paused")
		require.Equal(t, "the lane is paused by ann: release; 1 node waits", h.Reason)
		require.NoError(t, lane.Resume(ctx))

		b.Worker(t, []activity.Handler{other}, runtime.WorkerConfig{Lanes: []string{"mail"}, NoKeeper: true})
		h = awaitHealth(ctx, t, b, "mail", "unserved", "worker.none")
		enginetest.Eventually(t, func() string {
			h = awaitHealth(ctx, t, b, "mail", "unserved", "worker.none")
			if h.Programs != 1 {
				return h.Reason
			}
			return ""
		})
		require.Equal(t, "1 node waits for an activity or a capability that no worker of the lane has", h.Reason)

		b.Worker(t, []activity.Handler{mail}, runtime.WorkerConfig{Lanes: []string{"mail"}, NoKeeper: true})
		_, err = first.Result(ctx)
		require.NoError(t, err)
		h = awaitHealth(ctx, t, b, "mail", "ok", "workers")
		require.False(t, h.Stuck())

		require.NoError(t, b.Client.Activity("mail").Pause(ctx, "quiet"))
		_, err = runtime.Start(ctx, b.Client, def, 2)
		require.NoError(t, err)
		h = awaitHealth(ctx, t, b, "mail", "blocked", "lane.blocked")
		require.Equal(t, "1 node waits for the end of a pause of a run or an activity", h.Reason)
	})
}
