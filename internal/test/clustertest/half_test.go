package clustertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// While a slot migrates, a call runs on all of its data or waits: it never treats keys that have not arrived as
// missing.
func TestSlotMigration_CallsWaitForKeys(t *testing.T) {
	onCluster(t)
	t.Parallel()
	for _, kind := range []testserver.Kind{testserver.Redis, testserver.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			testHalfMovedSlot(t, kind)
		})
	}
}

func testHalfMovedSlot(t *testing.T, kind testserver.Kind) {
	cluster := testserver.StartCluster(t, kind, 3)
	b := enginetest.Open(t, kind, cluster.URL(), enginetest.NewPrefix(), runtime.OpenConfig{Partitions: 1})
	ctx := enginetest.Context(t)
	add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	f := flow.New[int, int]("adding")
	flow.Return(f, flow.Node(f, "second", add, flow.Node(f, "first", add, f.Input())))
	def, err := f.Build()
	require.NoError(t, err)
	worker := b.Worker(t, def.Handlers())
	run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("r"))
	require.NoError(t, err)
	_, err = run.Result(ctx)
	require.NoError(t, err)
	require.NoError(t, worker.Stop())
	ops, err := admin.New(b.Engine)
	require.NoError(t, err)
	idle, _, err := ops.CreateExecution(ctx, admin.ExecutionSpec{Kind: "idle", Lane: "idle"})
	require.NoError(t, err)

	partition := engine.ConnOf(b.Engine.Internal()).Partitioning().FlowPartitions()[0]
	source := cluster.Owner(t, cluster.SlotOf(t, partition.Tag()))
	target := cluster.Nodes[0]
	if target == source {
		target = cluster.Nodes[1]
	}
	waited, done := 0, 0
	// whole records the outcome of a call with a short timeout.
	whole := func(err error) bool {
		t.Helper()
		if errors.Is(err, enginecore.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			waited++
			return false
		}
		require.NoError(t, err)
		done++
		return true
	}
	soon := func(call func(ctx context.Context) error) bool {
		t.Helper()
		short, cancel := context.WithTimeout(ctx, 25*time.Millisecond)
		defer cancel()
		return whole(call(short))
	}
	look := func() {
		if again := (*runtime.Run[int])(nil); soon(func(ctx context.Context) (err error) {
			again, err = runtime.Start(ctx, b.Client, def, 1, runtime.WithID("r"))
			return err
		}) {
			require.True(t, again.Existed())
		}
		if d := (*runtime.RunDescription)(nil); soon(func(ctx context.Context) (err error) { d, err = run.Describe(ctx); return err }) {
			require.Len(t, d.Nodes, 2)
		}
		var page fabrictype.Page[fabrictype.Run]
		if soon(func(ctx context.Context) (err error) {
			page, err = b.Client.ListRuns(ctx, runtime.RunQuery{}, "", 0)
			return err
		}) {
			require.Len(t, page.Items, 1)
		}
		soon(func(ctx context.Context) error { _, err := ops.Execution(ctx, idle); return err })
		soon(func(ctx context.Context) error { _, err := ops.ChangePriority(ctx, idle, 7); return err })
		refusedByImporter(t, target, engine.ConnOf(b.Engine.Internal()), partition)
	}
	cluster.Move(t, partition.Tag(), target, 4, look)
	require.Positive(t, waited)
	require.Positive(t, done)
	t.Logf("%d calls waited, %d were done", waited, done)
	_, err = run.Describe(ctx)
	require.NoError(t, err)
	_, err = ops.CancelExecution(ctx, idle, "the test is over")
	require.NoError(t, err)
	b.Settle(t)
}

// refusedByImporter sends the importing server a call with only the key that never exists, as a redirected client may.
func refusedByImporter(t *testing.T, target *testserver.Server, core *enginerpc.Conn, p keyspace.Partition) {
	t.Helper()
	node, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{target.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	defer node.Close()
	key := core.Keys().Prefix() + ":ffx:" + p.Tag()
	results := node.DoMulti(t.Context(), node.B().Asking().Build(),
		node.B().Fcall().Function(enginerpc.FunctionName(enginerpc.LanesCall{})).Numkeys(1).Key(key).Build())
	require.Error(t, results[1].Error())
	require.NotContains(t, results[1].Error().Error(), "Function not found")
}

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
	received, err := runtime.Start(ctx, b.Client, def, 2)
	require.NoError(t, err)
	_, err = received.Result(ctx)
	require.NoError(t, err)

	require.NoError(t, client.Do(ctx, client.B().Zadd().Key(key).ScoreMember().ScoreMember(score, entry).Build()).Error())
	since := time.Now()
	_, err = lost.Result(ctx)
	require.NoError(t, err)
	t.Logf("found after %v", time.Since(since))
	b.Settle(t)
}
