package servertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A server of a cluster that falls silent delays the due work of its own partitions, and of no others: the keeper marks
// an expired lease elsewhere while its call to that server is not answered and is repeated.
func TestSilentServerDelaysItsPartitionsOnly(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Valkey)
	ctx := enginetest.Context(t)
	cluster := testserver.StartCluster(t, testserver.Valkey, 3)
	networks := make(map[*testserver.Server]*proxy.Proxy)
	var addresses []string
	for _, node := range cluster.Nodes {
		networks[node] = proxy.Start(t, node.Addr())
		addresses = append(addresses, networks[node].Addr())
	}
	cluster.Announce(t, addresses)
	b := enginetest.Open(t, testserver.OnCluster, cluster.URL(), enginetest.NewPrefix(), enginetest.RetryFor(time.Hour))
	core := engine.ConnOf(b.Engine.Internal())
	serverOf := func(p keyspace.Partition) *testserver.Server { return cluster.Owner(t, cluster.SlotOf(t, p.Tag())) }
	silent := serverOf(core.Partitioning().Of(keyspace.FlowFamily)[0])
	def := fixture.Single(t, fixture.Passing("work"))
	start := func() keyspace.Partition {
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		at, err := core.FlowPartition(run.FlowID())
		require.NoError(t, err)
		return at
	}
	at := start()
	for serverOf(at) == silent {
		at = start()
	}

	stalled := make(chan struct{})
	networks[silent].Intercept(proxy.StallAfter("ffx3_keep", 1, stalled))
	b.Keeper(t)
	<-stalled
	for _, worker := range []enginecore.WorkerInstanceID{"lost", "other"} {
		enginetest.Eventually(t, func() string {
			reply, err := core.Claim(ctx, enginerpc.ClaimCall{Partition: at, Alone: true, ClaimRequest: enginerpc.ClaimRequest{
				LaneID: "default", WorkerID: "worker", WorkerInstanceID: worker, ClaimID: uuid.NewString(), Count: 1,
				LeaseTTL: 5 * time.Millisecond, Kinds: "\nwork\n",
			}})
			if err != nil || len(reply.Executions) == 0 {
				return fmt.Sprintf("%s has claimed nothing: %v", worker, err)
			}
			return ""
		})
	}
}
