package limittest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// barrier makes functions wait for each other, as many at a time as there are places: each of them must be in use.
type barrier struct {
	mu      sync.Mutex
	size    int
	here    int
	left    int // of all who come
	all     chan struct{}
	begun   time.Time
	longest time.Duration
}

func newBarrier(size, runs int) *barrier {
	return &barrier{size: size, left: runs, all: make(chan struct{}), begun: time.Now()}
}

// join is closed when all are there. The last ones need not wait for more than there are.
func (m *barrier) join() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.here++
	all := m.all
	if m.here >= min(m.size, m.left) {
		m.longest, m.begun = max(m.longest, time.Since(m.begun)), time.Now()
		m.left -= m.here
		m.here, m.all = 0, make(chan struct{})
		close(all)
	}
	return all
}

func oneQuota(ctx context.Context, t *testing.T, c *runtime.Client) fabrictype.Limit {
	list, err := c.Limits(ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0]
}

// Many workers race for few places: never one too many, and all of them are in use again and again.
func TestLimitAtOnce(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const places = 7
		workers, runs := 20, 140
		if os.Getenv("FLOWFABRIC_SOAK") != "" {
			workers, runs = 200, 3003
		}
		var g fixture.Gauge
		m := newBarrier(places, runs)
		a := activity.New("measured", func(ctx context.Context, n int) (int, error) {
			g.Enter()
			defer g.Leave()
			select {
			case <-m.join():
				return n, nil
			case <-ctx.Done():
				return n, fmt.Errorf("some places are not in use: %w", context.Cause(ctx))
			}
		}, activity.Limit("seven", activity.LimitConfig{AtOnce: places}))
		for range workers {
			b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 10})
		}
		b.Keeper(t)
		begun := time.Now()
		fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, b.Client, fixture.Single(t, a), runs))
		t.Logf("%d runs in %s, by %d at a time; at most %s until all places were in use", runs, time.Since(begun), places, m.longest)
		require.Equal(t, places, g.Most)
		fixture.AtRest(ctx, t, b.Client)
		b.Settle(t)
	})
}

// Three full windows have to pass before the last of these may start.
func TestLimitAtMost(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const most, runs = 10, 35
		const window = 400 * time.Millisecond
		var g fixture.Gauge
		a := g.Measured("measured", 0)
		for range 3 {
			b.Worker(t, []activity.Handler{a})
		}
		b.Keeper(t)
		def := fixture.Single(t, a, activity.Limit("ten", activity.LimitConfig{AtMost: most, Per: window}))
		begun := time.Now()
		fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, b.Client, def, runs))
		took := time.Since(begun)
		t.Logf("%d runs in %s", runs, took)
		require.Greater(t, took, 3*window-50*time.Millisecond)
		b.Settle(t)
	})
}

// Each key has its own limit, and waiting executions of one do not keep others out.
func TestLimitByKey(t *testing.T) {
	t.Parallel()
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
		flow.Return(f, flow.Node(f, "hold", a, f.Input(), activity.Limit("tenant", activity.LimitConfig{AtOnce: 2, KeyFrom: []string{"tenant"}})))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 8})
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
			require.Contains(t, d.Nodes[0].Waiting.Sentence, `waits for room under limit "tenant" of "large": 2 at once`)
		}, enginetest.Patience, 10*time.Millisecond)
		close(gate)
		fixture.AwaitAll(ctx, t, large)
		_, err = runtime.Start(ctx, b.Client, def, job{})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		b.Settle(t)
	})
}

func TestMain(m *testing.M) { enginetest.Main(m) }
