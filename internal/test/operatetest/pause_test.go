package operatetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// pausable is a deployment with one worker and an activity whose function can be held up.
type pausable struct {
	*enginetest.Bench
	ctx  context.Context
	add  *activity.Activity[int, int]
	runs atomic.Int64
	gate chan struct{} // nil: nothing is held up
}

func newPausable(t *testing.T, b *enginetest.Bench, gate chan struct{}) *pausable {
	p := &pausable{Bench: b, ctx: enginetest.Context(t), gate: gate}
	p.add = activity.New("add", func(ctx context.Context, n int) (int, error) {
		p.runs.Add(1)
		if p.gate != nil {
			select {
			case <-p.gate:
			case <-ctx.Done():
			}
		}
		return n + 1, nil
	})
	return p
}

func (p *pausable) start(t *testing.T, nodes int) *runtime.Run[int] {
	run, err := runtime.Start(p.ctx, p.Client, fixture.ChainOf(t, p.add, nodes), 0)
	require.NoError(t, err)
	return run
}

// probe runs a flow of another activity to its end. A worker that could have taken earlier work has taken it by then.
func (p *pausable) probe(t *testing.T, other *activity.Activity[int, int]) {
	run, err := runtime.Start(p.ctx, p.Client, fixture.Single(t, other), 1)
	require.NoError(t, err)
	_, err = run.Result(p.ctx)
	require.NoError(t, err)
}

func TestPausedLane(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		p := newPausable(t, b, nil)
		require.NoError(t, b.Client.Lane(activity.DefaultLane).Pause(p.ctx, "maintenance"))
		require.NoError(t, b.Client.Lane(activity.DefaultLane).Pause(p.ctx, "again"), "pausing twice is the same pause")
		run := p.start(t, 3)
		other := activity.New("other", func(_ context.Context, n int) (int, error) { return n, nil }, activity.Lane("open"))
		b.Worker(t, []activity.Handler{p.add, other}, runtime.WorkerConfig{Lanes: []string{"default", "open"}})
		p.probe(t, other)
		enginetest.Eventually(t, fixture.DescribedAs(p.ctx, run, "waiting", "lane default is paused: maintenance"))

		lanes, err := b.Client.Lanes(p.ctx)
		require.NoError(t, err)
		require.Len(t, lanes, 2)
		require.Equal(t, "default", lanes[0].Name)
		require.True(t, lanes[0].Paused())
		require.Equal(t, "maintenance", lanes[0].PauseReason)
		require.WithinDuration(t, time.Now(), lanes[0].PausedAt, time.Hour)
		require.Equal(t, 1, lanes[0].Eligible)
		require.Equal(t, 2, lanes[0].Blocked.Dependencies)
		require.WithinDuration(t, time.Now(), lanes[0].Oldest, time.Hour)
		require.False(t, lanes[1].Paused())
		pauses, err := b.Client.Pauses(p.ctx)
		require.NoError(t, err)
		require.Len(t, pauses, 1)
		require.Equal(t, "default", pauses[0].Lane)
		require.Zero(t, p.runs.Load())

		require.NoError(t, b.Client.Lane(activity.DefaultLane).Resume(p.ctx))
		out, err := run.Result(p.ctx)
		require.NoError(t, err)
		require.Equal(t, 3, out)
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: 2})
}

// A node of a paused activity does not hide others of the same lane, and does not time out.
func TestPausedActivity(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		p := newPausable(t, b, nil)
		other := activity.New("other", func(_ context.Context, n int) (int, error) { return n, nil })
		b.Worker(t, []activity.Handler{p.add, other})
		b.Keeper(t)
		const timeout = time.Second
		require.NoError(t, b.Client.Activity("add").Pause(p.ctx, ""))
		run, err := runtime.Start(p.ctx, b.Client, fixture.Single(t, p.add, activity.ScheduleToStart(timeout)), 1)
		require.NoError(t, err)
		enginetest.Eventually(t, fixture.DescribedAs(p.ctx, run, "rate_limited", `activity "add" is paused`))
		for range 4 {
			p.probe(t, other)
		}
		enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), timeout)
		_, err = b.RunKeeperTask(p.ctx, "start_deadline")
		require.NoError(t, err)
		require.Empty(t, fixture.DescribedAs(p.ctx, run, "rate_limited", `activity "add" is paused`)())
		require.NoError(t, b.Client.Activity("add").Resume(p.ctx))
		out, err := run.Result(p.ctx)
		require.NoError(t, err)
		require.Equal(t, 2, out)
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: 2})
}

// Running nodes continue when their run is paused; their downstreams wait.
func TestPausedRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		p := newPausable(t, b, make(chan struct{}))
		run := p.start(t, 3)
		b.Worker(t, []activity.Handler{p.add})
		enginetest.Eventually(t, func() string {
			if p.runs.Load() == 1 {
				return ""
			}
			return "the first node does not run"
		})
		require.NoError(t, run.Pause(p.ctx, "look at it"))
		require.NoError(t, run.Pause(p.ctx, "again"))
		close(p.gate)
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(p.ctx)
			require.NoError(t, err)
			require.Equal(t, "look at it", d.PauseReason)
			if d.Nodes[0].State == fabrictype.NodeSucceeded && d.Nodes[1].Waiting.Sentence == "the run is paused: look at it" {
				return ""
			}
			return d.Nodes[1].Waiting.Sentence
		})
		require.EqualValues(t, 1, p.runs.Load())
		require.NoError(t, run.Resume(p.ctx))
		out, err := run.Result(p.ctx)
		require.NoError(t, err)
		require.Equal(t, 3, out)
		require.NoError(t, run.Resume(p.ctx))
		require.ErrorIs(t, run.Pause(p.ctx, ""), engine.ErrRunOver)
		require.ErrorIs(t, b.Client.Run("none", "none").Pause(p.ctx, ""), engine.ErrRunNotFound)
		b.Settle(t)
	})
}

// A paused run can be cancelled, and a resumption that was cut short is completed by a keeper.
func TestPauses_EndInEveryWay(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		p := newPausable(t, b, nil)
		b.Worker(t, []activity.Handler{p.add})
		b.Keeper(t)
		cancelled, held := p.start(t, 2), p.start(t, 2)
		_, err := cancelled.Result(p.ctx)
		require.NoError(t, err)
		_, err = held.Result(p.ctx)
		require.NoError(t, err)
		require.NoError(t, b.Client.Activity("add").Pause(p.ctx, ""))
		cancelled, held = p.start(t, 2), p.start(t, 2)
		for _, run := range []*runtime.Run[int]{cancelled, held} {
			enginetest.Eventually(t, fixture.DescribedAs(p.ctx, run, "rate_limited", "paused"))
		}
		require.NoError(t, cancelled.Cancel(p.ctx, "enough"))
		_, err = cancelled.Result(p.ctx)
		require.Error(t, err)

		// Only the pause is deleted, as by a client that dies before it releases the held executions.
		keys := engine.ConnOf(b.Engine.Internal()).Keys()
		for _, part := range engine.ConnOf(b.Engine.Internal()).Partitioning().FlowPartitions() {
			wire := engine.ConnOf(b.Engine.Internal()).Client()
			require.NoError(t, wire.Do(p.ctx, wire.B().Del().Key(keys.FfxPauses(part)).Build()).Error())
		}
		out, err := held.Result(p.ctx)
		require.NoError(t, err)
		require.Equal(t, 2, out)
	}, runtime.OpenConfig{Partitions: 2})
}
