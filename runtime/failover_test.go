package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// failover is a cluster with replicas, and workers and keepers on it.
type failover struct {
	t       *testing.T
	ctx     context.Context
	cluster *testserver.Cluster
	bench   *enginetest.Bench
	def     *flow.Definition[int, int]

	mu    sync.Mutex
	again int // runs that were acknowledged and had to be started anew
}

// A primary is killed in the middle of the work, and its replica takes over. What had been replicated by then is there.
// What had not been is consistent, since a call is replicated whole, and starting a run again under its id completes it.
func TestFailover(t *testing.T) {
	enginetest.Only(t, testserver.Valkey)
	x := newFailover(t)
	x.runAll("before", nil)
	x.cluster.InStep(t)
	kills := 1
	if os.Getenv("FLOWFABRIC_SOAK") != "" {
		kills = 3
	}
	for i := range kills {
		x.runAll(fmt.Sprint("meanwhile-", i), func() {
			x.cluster.Nodes[i].Kill()
			replica := x.cluster.Nodes[x.cluster.Primaries+i]
			x.cluster.Promoted(t, replica)
			require.Contains(t, replica.Command(t, "INFO", "memory"), "number_of_libraries:1", "the library is replicated")
		})
	}
	for i := range failoverRuns {
		run, err := runtime.Start(x.ctx, x.bench.Client, x.def, i, runtime.ID(fmt.Sprint("before-", i)))
		require.NoError(t, err)
		require.True(t, run.Existed(), "what was replicated is there")
		x.judge(run.Result(x.ctx))(i)
	}
	x.moveToEmptyPrimary()
	x.bench.Settle(t)
	t.Logf("%d primaries killed; %d of %d runs were acknowledged, not yet replicated, and started again", kills, x.again, kills*failoverRuns)
}

const failoverRuns = 40

func newFailover(t *testing.T) *failover {
	ctx, cancel := context.WithTimeout(t.Context(), 3*enginetest.Patience)
	t.Cleanup(cancel)
	x := &failover{t: t, ctx: ctx, cluster: testserver.NewCluster(t, testserver.ClusterOptions{
		Kind: testserver.Valkey, Primaries: 3, Replicas: 1, NodeTimeout: time.Second,
	})}
	x.bench = enginetest.Open(t, testserver.Valkey, x.cluster.URL(), enginetest.NewPrefix(), runtime.Partitions(16))
	a := activity.New("add", func(_ context.Context, n int) (int, error) {
		time.Sleep(10 * time.Millisecond) // so that there is something to interrupt
		return n + 1, nil
	})
	sum := adder()
	x.def = wide(t, a, sum, 5)
	for range 2 {
		x.bench.Worker(t, []activity.Handler{a, sum}, runtime.Lease(2*time.Second))
		x.bench.Keeper(t)
	}
	return x
}

// runAll runs flows while something happens.
func (x *failover) runAll(name string, meanwhile func()) {
	x.t.Helper()
	var group sync.WaitGroup
	for i := range failoverRuns {
		group.Go(func() {
			out, err := x.run(fmt.Sprint(name, "-", i), i)
			x.judge(out, err)(i)
		})
	}
	if meanwhile != nil {
		meanwhile()
	}
	group.Wait()
}

// run runs a flow as a careful client does: it starts it under an id of its own until it has heard of its end.
func (x *failover) run(id string, in int) (int, error) {
	acknowledged := false
	for {
		run, err := runtime.Start(x.ctx, x.bench.Client, x.def, in, runtime.ID(id))
		if err == nil {
			if acknowledged && !run.Existed() {
				x.mu.Lock()
				x.again++
				x.mu.Unlock()
			}
			acknowledged = true
			var out int
			if out, err = run.Result(x.ctx); err == nil {
				return out, nil
			}
		}
		var over *runtime.RunError
		if errors.As(err, &over) || x.ctx.Err() != nil {
			return 0, err
		}
	}
}

func (x *failover) judge(out int, err error) func(in int) {
	return func(in int) {
		x.t.Helper()
		if err != nil || out != 5*(in+2) {
			x.t.Errorf("run with input %d: %d, %v", in, out, err)
		}
	}
}

// moveToEmptyPrimary adds a primary, which has no library, and gives it a partition under load.
func (x *failover) moveToEmptyPrimary() {
	t := x.t
	added := x.cluster.Add(t)
	require.Contains(t, added.Command(t, "INFO", "memory"), "number_of_libraries:0")
	partition := x.bench.Engine.Core().Partitioning().FlowPartitions()[0]
	slot := added.Command(t, "CLUSTER", "KEYSLOT", partition.Tag())
	var source *testserver.Server
	for _, s := range x.cluster.Nodes {
		if s != added && s.Alive() && s.Command(t, "CLUSTER", "COUNTKEYSINSLOT", slot) != "0" && strings.Contains(s.Command(t, "INFO", "replication"), "role:master") {
			source = s
		}
	}
	require.NotNil(t, source)
	x.runAll("moved", func() { moveSlot(t, source, added, slot) })
	require.Contains(t, added.Command(t, "INFO", "memory"), "number_of_libraries:1", "the library is loaded where it is missing")
}
