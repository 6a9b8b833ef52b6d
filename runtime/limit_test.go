package runtime_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// gauge counts how many functions run at a time.
type gauge struct {
	mu              sync.Mutex
	now, most, ends int
}

// watchIdle measures for how long at a stretch fewer functions run than there are places, while more have to. The returned
// function ends it.
func (g *gauge) watchIdle(places, runs int) (longest func() time.Duration) {
	done, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		var since time.Time
		var most time.Duration
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				result <- most
				return
			case now := <-tick.C:
				g.mu.Lock()
				idle := g.now < places && runs-g.ends > places
				g.mu.Unlock()
				switch {
				case !idle:
					since = time.Time{}
				case since.IsZero():
					since = now
				default:
					most = max(most, now.Sub(since))
				}
			}
		}
	}()
	return func() time.Duration {
		close(done)
		return <-result
	}
}

func (g *gauge) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	g.most = max(g.most, g.now)
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now--
	g.ends++
}

// measured is an activity that holds its place for a time.
func (g *gauge) measured(name string, hold time.Duration, opts ...activity.Option) *activity.Activity[int, int] {
	return activity.New(name, func(ctx context.Context, n int) (int, error) {
		g.enter()
		defer g.leave()
		select {
		case <-time.After(hold):
		case <-ctx.Done():
		}
		return n, nil
	}, opts...)
}

func startAll(ctx context.Context, t *testing.T, c *runtime.Client, def *flow.Definition[int, int], n int) []*runtime.Run[int] {
	runs := make([]*runtime.Run[int], n)
	var wait sync.WaitGroup
	for i := range runs {
		wait.Go(func() {
			run, err := runtime.Start(ctx, c, def, i)
			if err != nil {
				t.Error(err)
				return
			}
			runs[i] = run
		})
	}
	wait.Wait()
	require.False(t, t.Failed())
	return runs
}

func awaitAll(ctx context.Context, t *testing.T, runs []*runtime.Run[int]) {
	for _, run := range runs {
		_, err := run.Result(ctx)
		require.NoError(t, err)
	}
}

func oneQuota(ctx context.Context, t *testing.T, c *runtime.Client) runtime.QuotaState {
	list, err := c.Quotas(ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0]
}

// Many workers race for few places: never one too many, and no place stays free while work waits.
func TestLimitAtOnce(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const places = 7
		workers, runs := 20, 140
		if os.Getenv("FLOWFABRIC_SOAK") != "" {
			workers, runs = 200, 3000
		}
		var g gauge
		a := g.measured("measured", 20*time.Millisecond, activity.Limit("seven", activity.AtOnce(places)))
		for range workers {
			b.Worker(t, []activity.Handler{a}, runtime.Concurrency(10))
		}
		b.Keeper(t)
		begun := time.Now()
		started := startAll(ctx, t, b.Client, single(t, a), runs)
		idle := g.watchIdle(places, runs)
		awaitAll(ctx, t, started)
		longest := idle()
		t.Logf("%d runs in %s, at best %s; at most %s with a free place while runs waited", runs, time.Since(begun),
			20*time.Millisecond*time.Duration(runs)/places, longest)
		// A place is free for as long as it takes to tell the next one; keepers repair what was lost within two seconds or so.
		require.Less(t, longest, soon)
		require.Equal(t, places, g.most)
		atRest(ctx, t, b.Client)
		b.Settle(t)
	})
}

// Three full windows have to pass before the last of these may start.
func TestLimitAtMost(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const most, runs = 10, 35
		const window = 400 * time.Millisecond
		var g gauge
		a := g.measured("measured", 0)
		for range 3 {
			b.Worker(t, []activity.Handler{a})
		}
		b.Keeper(t)
		def := single(t, a, flow.Limit("ten", activity.AtMost(most, window)))
		begun := time.Now()
		awaitAll(ctx, t, startAll(ctx, t, b.Client, def, runs))
		took := time.Since(begun)
		t.Logf("%d runs in %s", runs, took)
		require.Greater(t, took, 3*window-50*time.Millisecond)
		b.Settle(t)
	})
}

// Each key has its own limit, and waiting executions of one do not keep others out.
func TestLimitByKey(t *testing.T) {
	type job struct {
		Tenant string `json:"tenant"`
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		gate := make(chan struct{})
		a := activity.New("hold", func(ctx context.Context, j job) (int, error) {
			if j.Tenant == "small" {
				return 1, nil
			}
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return 0, nil
		})
		f := flow.New[job, int]("tenants")
		flow.Return(f, flow.Node(f, "hold", a, f.Input(), flow.Limit("tenant", activity.AtOnce(2), activity.KeyFrom("tenant"))))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{a}, runtime.Concurrency(8))
		b.Keeper(t)
		var large []*runtime.Run[int]
		for range 60 {
			run, err := runtime.Start(ctx, b.Client, def, job{"large"})
			require.NoError(t, err)
			large = append(large, run)
		}
		run, err := runtime.Start(ctx, b.Client, def, job{"small"})
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.EventuallyWithT(t, func(t *assert.CollectT) { // a claim has to meet it first
			d, err := large[59].Describe(ctx)
			require.NoError(t, err)
			require.Equal(t, `waits for room under limit "tenant" of "large": 2 at once`, d.Nodes[0].Why)
		}, 20*time.Second, 10*time.Millisecond)
		close(gate)
		awaitAll(ctx, t, large)
		_, err = runtime.Start(ctx, b.Client, def, job{})
		require.ErrorIs(t, err, runtime.ErrLimitKey)
		b.Settle(t)
	})
}
