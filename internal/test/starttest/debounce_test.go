package starttest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A throttle puts starts off, in their order, or refuses them.
func TestThrottle(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		b.Worker(t, []activity.Handler{g.act})
		b.Keeper(t)
		g.open(1)
		limit := runtime.Throttle{Starts: 2, Per: 200 * time.Millisecond}
		var runs []*runtime.Run[int]
		for range 6 {
			run, err := runtime.Start(ctx, b.Client, g.def, 1, runtime.WithThrottle("", limit))
			require.NoError(t, err)
			runs = append(runs, run)
		}
		var starts []time.Time
		for _, run := range runs {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			at := d.StartsAt
			if at.IsZero() {
				at = d.CreatedAt
			}
			starts = append(starts, at)
		}
		for i := 2; i < len(starts); i++ {
			require.False(t, starts[i].Before(starts[i-2].Add(limit.Per)), "%v", starts)
		}
		g.results(t, runs...)
		reject := runtime.Throttle{Starts: 1, Per: time.Hour, Reject: true}
		_, err := runtime.Start(ctx, b.Client, g.def, 1, runtime.WithThrottle("a", reject))
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, g.def, 1, runtime.WithThrottle("a", reject))
		require.ErrorIs(t, err, &fabrictype.ThrottledError{})
		var refused *fabrictype.ThrottledError
		require.ErrorAs(t, err, &refused)
		require.WithinDuration(t, time.Now().Add(time.Hour), refused.Until, time.Minute)
		state, err := b.Client.Flow("gated").RunKey(ctx, "a")
		require.NoError(t, err)
		require.Len(t, state.Starts, 1)
		b.Settle(t)
	})
}

// Calls that come close to each other become one run with the latest input.
func TestDebounce(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t, flow.Deadline(time.Hour))
		b.Worker(t, []activity.Handler{g.act})
		b.Keeper(t)
		hour := runtime.DebouncePolicy{Quiet: time.Hour, AtMost: 90 * time.Minute}
		first, err := runtime.Start(ctx, b.Client, g.def, 1, runtime.WithDebounce("k", hour))
		require.NoError(t, err)
		require.False(t, first.Existed())
		d, err := first.Describe(ctx)
		require.NoError(t, err)
		second, err := runtime.Start(ctx, b.Client, g.def, 2, runtime.WithDebounce("k", hour))
		require.NoError(t, err)
		require.True(t, second.Existed())
		require.Equal(t, first.ID(), second.ID())
		moved, err := first.Describe(ctx)
		require.NoError(t, err)
		require.False(t, moved.StartsAt.Before(d.StartsAt))
		require.Equal(t, moved.StartsAt.Add(time.Hour), moved.DeadlineAt)
		require.Equal(t, "k", moved.Key)
		require.Equal(t, waitreason.Start, moved.Nodes[0].Waiting.Reason)
		late, err := runtime.Start(ctx, b.Client, g.def, 3, runtime.WithDebounce("k", runtime.DebouncePolicy{Quiet: 2 * time.Hour, AtMost: 3 * time.Hour}))
		require.NoError(t, err)
		require.Equal(t, first.ID(), late.ID())
		state, err := b.Client.Flow("gated").RunKey(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, first.ID(), state.Debounced.Run)
		last, err := runtime.Start(ctx, b.Client, g.def, 4, runtime.WithDebounce("k", runtime.DebouncePolicy{Quiet: 50 * time.Millisecond}))
		require.NoError(t, err)
		require.Equal(t, first.ID(), last.ID())
		g.open(4)
		result, err := first.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 4, result)
		require.Equal(t, []int{4}, g.order())
		next, err := runtime.Start(ctx, b.Client, g.def, 4, runtime.WithDebounce("k", runtime.DebouncePolicy{Quiet: time.Hour}))
		require.NoError(t, err)
		require.NotEqual(t, first.ID(), next.ID())
		require.NoError(t, next.MoveStart(ctx, time.Time{}))
		_, err = next.Result(ctx)
		require.NoError(t, err)
		b.Settle(t)
	})
}

// All inputs of the calls come to one run in their order, each once, up to a bound.
func TestDebounceCollect(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("join", func(_ context.Context, in []string) (string, error) { return strings.Join(in, ","), nil })
		f := flow.New[[]string, string]("collect")
		flow.Return(f, flow.Node(f, "join", a, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{a})
		b.Keeper(t)
		hour := runtime.DebouncePolicy{Quiet: time.Hour, MaxInputs: 4}
		var run *runtime.Run[string]
		for _, text := range []string{"a", "b,", `"]`, "d"} {
			run, err = runtime.Start(ctx, b.Client, def, []string{text}, runtime.WithDebounce("k", hour))
			require.NoError(t, err)
		}
		_, err = runtime.Start(ctx, b.Client, def, []string{"e"}, runtime.WithDebounce("k", hour))
		require.ErrorIs(t, err, runtime.ErrTooLarge)
		require.ErrorContains(t, err, `run `+run.ID()+` of key "k" has 4 inputs`)
		d, err := run.Describe(ctx, runtime.DescribeOptions{Values: true})
		require.NoError(t, err)
		require.Equal(t, `["a","b,","\"]","d"]`, string(d.Input.JSON))
		large := strings.Repeat("x", 600<<10)
		one, err := runtime.Start(ctx, b.Client, def, []string{large}, runtime.WithDebounce("large", hour))
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, def, []string{large}, runtime.WithDebounce("large", hour))
		require.ErrorIs(t, err, runtime.ErrTooLarge)
		require.NoError(t, one.Cancel(ctx, "too large"))
		require.NoError(t, run.MoveStart(ctx, time.Time{}))
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, `a,b,,"],d`, result)
		b.Settle(t)
	})
}
