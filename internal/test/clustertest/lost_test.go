package clustertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Work whose message was lost, since the link between two servers was down, is found by the sweep of the only worker,
// without a keeper.
func TestSweepFindsWorkOfLostMessage(t *testing.T) {
	onCluster(t)
	t.Parallel()
	ctx := enginetest.Context(t)
	cluster := testserver.StartCluster(t, testserver.Valkey, 3)
	b := enginetest.Open(t, testserver.OnCluster, cluster.URL(), enginetest.NewPrefix())
	f := flow.New[int, int]("found")
	flow.Return(f, flow.Node(f, "same", activity.New("same", func(_ context.Context, n int) (int, error) { return n, nil }), f.Input()))
	def, err := f.Build()
	require.NoError(t, err)

	lost, err := runtime.Start(ctx, b.Client, def, 1)
	require.NoError(t, err)
	core := engine.ConnOf(b.Engine.Internal())
	client := core.Client()
	place := b.Locate(t, def.Name(), lost.ID())
	key := core.Keys().LaneEligible(place.Partition, "default")
	entry := string(b.Node(t, place, "same"))
	score, err := client.Do(ctx, client.B().Zscore().Key(key).Member(entry).Build()).AsFloat64()
	require.NoError(t, err)
	require.NoError(t, client.Do(ctx, client.B().Zrem().Key(key).Member(entry).Build()).Error())

	b.Worker(t, def.Handlers())
	heard, err := runtime.Start(ctx, b.Client, def, 2)
	require.NoError(t, err)
	_, err = heard.Result(ctx)
	require.NoError(t, err)

	require.NoError(t, client.Do(ctx, client.B().Zadd().Key(key).ScoreMember().ScoreMember(score, entry).Build()).Error())
	since := time.Now()
	_, err = lost.Result(ctx)
	require.NoError(t, err)
	t.Logf("found after %v", time.Since(since))
	b.Settle(t)
}
