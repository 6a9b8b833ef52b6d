package propertytest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// One round of each of the tests with random flows, on a cluster: runs that are cancelled and operated on, joins and
// reruns, waits and signals, and a limit whose permits are in another slot than the executions that request them. All
// shared tests run on a cluster with FLOWFABRIC_TEST_ENGINES=cluster.
func TestRandomFlowsOnACluster(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Valkey)
	cluster := testserver.StartCluster(t, testserver.Valkey, 3)
	open := func(t *testing.T) *enginetest.Bench {
		return enginetest.Open(t, testserver.OnCluster, cluster.URL(), enginetest.NewPrefix(), runtime.OpenConfig{
			Partitions: 4,
		})
	}
	seed := randseed.Of(t, 0)
	t.Run("flows", func(t *testing.T) {
		workerPool := newWorkerPool(t, open(t))
		workerPool.round(t, seed)
		workerPool.stop(t)
	})
	t.Run("joins", func(t *testing.T) {
		workerPool := newWorkerPool(t, open(t))
		workerPool.randomDAGRound(t, seed)
		workerPool.stop(t)
	})
	t.Run("waits", func(t *testing.T) { perform(t, open(t), activity.New("scene", sceneRun), seed) })
	t.Run("limit", func(t *testing.T) {
		b := open(t)
		ctx := enginetest.Context(t)
		var g fixture.Gauge
		a := g.Measured("measured", 0, activity.Limit("two", activity.LimitConfig{AtOnce: 2}))
		for range 2 {
			b.Worker(t, []activity.Handler{a})
			b.Keeper(t)
		}
		fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, b.Client, fixture.Single(t, a), 20))
		require.LessOrEqual(t, g.Most, 2)
		b.Settle(t)
	})
}
