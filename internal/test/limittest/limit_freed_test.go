package limittest

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// While work waits for a limit, each freed permit is taken again because it was freed: nothing else in the test could
// cause a claim. The running functions keep running, no keeper runs, and no sweep of a worker comes within the time of
// the test.
func TestFreedPermitIsTakenAgain(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		const places, rounds = 7, 40
		workers, slots := 20, 10
		if os.Getenv("FLOWFABRIC_SOAK") != "" {
			workers, slots = 200, 1
		}
		ctx := enginetest.Context(t)
		begun, over := make(chan chan struct{}, workers*slots), make(chan struct{})
		a := activity.New("hold", func(ctx context.Context, n int) (int, error) {
			end := make(chan struct{})
			begun <- end
			select {
			case <-end:
			case <-over:
			case <-ctx.Done():
			}
			return n, nil
		}, activity.Limit("seven", activity.LimitConfig{AtOnce: places}))
		for range workers {
			b.MessageWorker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: slots})
		}
		const most = places + rounds*(places+1)/2 // that a test may end
		runs := fixture.StartAll(ctx, t, b.Client, fixture.Single(t, a), most+places)
		var running []chan struct{}
		fill := func() {
			t.Helper()
			for len(running) < places {
				select {
				case end := <-begun:
					running = append(running, end)
				case <-ctx.Done():
					require.Fail(t, "places stay free", "%d of %d are in use", len(running), places)
				}
			}
			require.Empty(t, begun, "more run than there are places")
		}
		fill()
		var longest time.Duration
		for round := range rounds {
			// One at a time mostly, else some, up to all of them.
			ends := 1
			if round%4 == 3 {
				ends = 1 + rand.IntN(places)
			}
			rand.Shuffle(places, func(i, j int) { running[i], running[j] = running[j], running[i] })
			for _, end := range running[:ends] {
				close(end)
			}
			running = running[ends:]
			since := time.Now()
			fill()
			longest = max(longest, time.Since(since))
		}
		t.Logf("a place was free for %s at most", longest)
		b.Keeper(t)
		close(over)
		fixture.AwaitAll(ctx, t, runs)
		fixture.AtRest(ctx, t, b.Client)
		b.Settle(t)
	})
}
