package runtime_test

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/internal/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Runs spread over a cluster, and go on while one of its slots moves under load and a primary loses the library.
func TestCluster(t *testing.T) {
	enginetest.Only(t, testserver.Valkey)
	ctx := enginetest.Context(t)
	cluster := testserver.StartCluster(t, testserver.Valkey, 3)
	b := enginetest.Open(t, testserver.Valkey, cluster.URL(), enginetest.NewPrefix(), runtime.Partitions(16))
	a, sum := addOne(), adder()
	for range 2 {
		b.Worker(t, []activity.Handler{a, sum})
	}
	b.Keeper(t)

	runAll := func(from, count int, meanwhile func()) {
		t.Helper()
		var group sync.WaitGroup
		for i := range count {
			group.Go(func() {
				run, err := runtime.Start(ctx, b.Client, wide(t, a, sum, 5), i, runtime.ID(fmt.Sprint("run-", from+i)))
				if err != nil {
					t.Error(err)
					return
				}
				out, err := run.Result(ctx)
				if err != nil || out != 5*(i+2) {
					t.Errorf("run %d: %d, %v", from+i, out, err)
				}
			})
		}
		meanwhile()
		group.Wait()
	}
	runAll(0, 60, func() {})
	require.Len(t, pages(t, b.Client, runtime.RunQuery{States: []runtime.RunState{runtime.RunSucceeded}}, 25), 60)
	executions := 0
	for _, err := range admin.New(b.Engine.Core()).Executions(ctx, admin.ExecutionQuery{}) {
		require.NoError(t, err)
		executions++
	}
	require.Equal(t, 60*7, executions)
	for i, node := range cluster.Nodes {
		require.NotEqual(t, "0", node.Command(t, "DBSIZE"), "node %d has nothing", i)
	}

	partition := b.Engine.Core().Partitioning().FlowPartitions()[0]
	moving := cluster.Nodes[0].Command(t, "CLUSTER", "KEYSLOT", partition.Tag())
	number, err := strconv.Atoi(moving)
	require.NoError(t, err)
	from := min(number*len(cluster.Nodes)/16384, len(cluster.Nodes)-1)
	to := (from + 1) % len(cluster.Nodes)
	runAll(100, 60, func() { moveSlot(t, cluster.Nodes[from], cluster.Nodes[to], moving) })

	cluster.Nodes[2].Command(t, "FUNCTION", "FLUSH", "SYNC")
	runAll(200, 60, func() {})
}

// moveSlot takes a slot with its keys from the primary that has it to another one.
func moveSlot(t *testing.T, source, target *testserver.Server, slot string) {
	t.Helper()
	ids := []string{source.Command(t, "CLUSTER", "MYID"), target.Command(t, "CLUSTER", "MYID")}
	target.Command(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
	source.Command(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
	node, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{source.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	defer node.Close()
	host, port, err := net.SplitHostPort(target.Addr())
	require.NoError(t, err)
	for {
		keys, err := node.Do(t.Context(), node.B().Arbitrary("CLUSTER", "GETKEYSINSLOT", slot, "100").Build()).AsStrSlice()
		require.NoError(t, err)
		if len(keys) == 0 {
			break
		}
		words := append([]string{"MIGRATE", host, port, "", "0", "5000", "REPLACE", "KEYS"}, keys...)
		require.NoError(t, node.Do(t.Context(), node.B().Arbitrary(words...).Build()).Error())
	}
	for _, s := range []*testserver.Server{target, source} {
		s.Command(t, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])
	}
}
