package starttest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// startsWithin returns the most starts that lie in any span of a length.
func startsWithin(starts []time.Time, per time.Duration) int {
	most := 0
	for i := range starts {
		n := 0
		for _, at := range starts {
			if d := at.Sub(starts[i]); d >= 0 && d < per {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// Throttles of one key with other numbers and times hold each by itself, whatever comes in between: none forgets starts
// that another one counts, and none waits for starts that another one has put off where there is room before.
func TestThrottlesOfOneKey(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		start := func(key string, limit runtime.Throttle) (time.Time, error) {
			run, err := runtime.Start(ctx, b.Client, g.def, 1, runtime.WithThrottle(key, limit))
			if err != nil {
				return time.Time{}, err
			}
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if d.StartsAt.IsZero() {
				return d.CreatedAt, nil
			}
			return d.StartsAt, nil
		}
		hour := runtime.Throttle{Starts: 5, Per: time.Hour, Reject: true}
		moment := runtime.Throttle{Starts: 1, Per: time.Millisecond}
		for range 5 {
			_, err := start("a", hour)
			require.NoError(t, err)
		}
		_, err := start("a", moment)
		require.NoError(t, err)
		for range 3 {
			_, err = start("a", hour)
			require.ErrorIs(t, err, &fabrictype.ThrottledError{})
		}
		state, err := b.Client.Flow("gated").RunKey(ctx, "a")
		require.NoError(t, err)
		require.Len(t, state.Starts, 6)

		// One start a day, of which many are put off, leave room for others at once: five in an hour.
		daily := runtime.Throttle{Starts: 1, Per: 24 * time.Hour}
		for range 4 {
			_, err := start("b", daily)
			require.NoError(t, err)
		}
		for range 4 {
			at, err := start("b", hour)
			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), at, 10*time.Minute)
		}
		_, err = start("b", hour)
		require.ErrorIs(t, err, &fabrictype.ThrottledError{})
		state, err = b.Client.Flow("gated").RunKey(ctx, "b")
		require.NoError(t, err)
		require.Len(t, state.Starts, 8)
		for _, bad := range []runtime.Throttle{{Starts: 1, Per: time.Hour, Reject: true}, {Starts: 0, Per: time.Hour}, {Starts: 1}} {
			_, err := start("b", runtime.Throttle{Starts: 1, Per: time.Second, Also: []runtime.Throttle{bad}})
			require.ErrorIs(t, err, runtime.ErrInvalid)
			require.ErrorContains(t, err, "throttle: also 1: ")
		}
		require.True(t, slices.IsSortedFunc(state.Starts, func(a, b time.Time) int { return b.Compare(a) }), "the latest first: %v", state.Starts)

		// A start has room in all windows of its throttle.
		both := runtime.Throttle{Starts: 2, Per: time.Minute, Also: []runtime.Throttle{{Starts: 5, Per: time.Hour}}}
		var starts []time.Time
		for range 14 {
			at, err := start("c", both)
			require.NoError(t, err)
			starts = append(starts, at)
		}
		require.Equal(t, 2, startsWithin(starts, time.Minute))
		require.Equal(t, 5, startsWithin(starts, time.Hour))
		require.WithinDuration(t, starts[0].Add(2*time.Hour), starts[10], time.Minute)

		// Random throttles side by side: each start is held to its own, and 200 of them are listed.
		r := rand.New(rand.NewPCG(randseed.Of(t, 0), 7))
		limits := []runtime.Throttle{{Starts: 3, Per: time.Minute}, {Starts: 20, Per: time.Hour}, {Starts: 1, Per: 10 * time.Second}, {Starts: 7, Per: 5 * time.Minute}}
		starts = nil
		for range 220 {
			limit := limits[r.IntN(len(limits))]
			at, err := start("d", limit)
			require.NoError(t, err)
			starts = append(starts, at)
			n := 0 // of the starts that are in one span with it
			for _, other := range starts {
				from := other
				if from.Before(at.Add(-limit.Per)) || from.Equal(at.Add(-limit.Per)) || from.After(at) {
					continue
				}
				n = 0
				for _, third := range starts {
					if d := third.Sub(from); d >= 0 && d < limit.Per {
						n++
					}
				}
				require.LessOrEqual(t, n, limit.Starts, "%v: %v", limit, at)
			}
		}
		state, err = b.Client.Flow("gated").RunKey(ctx, "d")
		require.NoError(t, err)
		require.Len(t, state.Starts, 200)
		b.Wipe(t)
	})
}

// Debounces of one key with other times hold each by itself: none starts the run before its own calls were quiet, nor
// later after the first call than each of them wants.
func TestDebouncesOfOneKey(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, g := enginetest.Context(t), newKeyedFlow(t)
		call := func(key string, p runtime.DebouncePolicy) time.Time {
			run, err := runtime.Start(ctx, b.Client, g.def, 1, runtime.WithDebounce(key, p))
			require.NoError(t, err)
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			return d.StartsAt
		}
		long := runtime.DebouncePolicy{Quiet: time.Hour, AtMost: 3 * time.Hour}
		short := runtime.DebouncePolicy{Quiet: time.Minute, AtMost: 5 * time.Hour}
		first := call("quiet", long)
		require.Equal(t, first, call("quiet", short), "the first call is to be quiet for an hour")
		first = call("bound", runtime.DebouncePolicy{Quiet: time.Minute, AtMost: 10 * time.Minute})
		at := call("bound", runtime.DebouncePolicy{Quiet: 2 * time.Hour, AtMost: 5 * time.Hour})
		require.WithinDuration(t, first.Add(9*time.Minute), at, time.Second, "the first call wants the start within ten minutes")
		b.Wipe(t)
	})
}

// Each call decides by its own UniqueFor whether a key is unique, whatever UniqueFor earlier calls had.
func TestUniqueTimesOfOneKey(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		g := newKeyedFlow(t)
		hour, moment := runtime.KeyPolicy{UniqueFor: time.Hour}, runtime.KeyPolicy{UniqueFor: time.Millisecond}
		first := g.start(t, b, 1, hour)
		require.Equal(t, first.ID(), g.start(t, b, 1, hour).ID())
		enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 2*time.Millisecond)
		second := g.start(t, b, 1, moment)
		require.NotEqual(t, first.ID(), second.ID())
		enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 2*time.Millisecond)
		require.Equal(t, second.ID(), g.start(t, b, 1, hour).ID(), "it was started within the last hour")
		require.NotEqual(t, second.ID(), g.start(t, b, 1, moment).ID())
		b.Wipe(t)
	})
}
