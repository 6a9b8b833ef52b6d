package clustertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A primary without a replica is unavailable. Scans of the keys of all servers report it, and process the other
// servers.
func TestKeysOfOtherServers(t *testing.T) {
	onCluster(t)
	t.Parallel()
	ctx := enginetest.Context(t)
	cluster := testserver.StartCluster(t, testserver.Valkey, 3)
	for _, s := range cluster.Nodes {
		s.Command(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	b := enginetest.Open(t, testserver.OnCluster, cluster.URL(), enginetest.NewPrefix(), runtime.OpenConfig{Partitions: 32})
	core := engine.ConnOf(b.Engine.Internal())
	client := core.Client()
	keys := make(map[*testserver.Server][]string) // of lists that no longer contain a run, by server
	for _, p := range core.Partitioning().FlowPartitions() {
		key := core.Keys().FfxRuns(p, "gone")
		require.NoError(t, client.Do(ctx, client.B().Zadd().Key(key).ScoreMember().
			ScoreMember(5, "00000000-0000-0000-0000-000000000001").Build()).Error())
		owner := cluster.Owner(t, cluster.SlotOf(t, p.Tag()))
		keys[owner] = append(keys[owner], key)
	}
	require.Len(t, keys, 3)
	cluster.Nodes[1].Kill()
	report, err := b.RunKeeperTask(ctx, "key_reconciliation")
	require.ErrorIs(t, err, enginecore.ErrNotReachable)
	require.EqualValues(t, len(keys[cluster.Nodes[0]])+len(keys[cluster.Nodes[2]]), report.Done)
	require.Equal(t, 1, report.Remaining)
}
