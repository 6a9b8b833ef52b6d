package replicationtest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/workload"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A primary of a cluster dies under load while its replica lags. Every start that was acknowledged before, during and
// after the failover exists once the replica has taken over.
func TestClusterFailoverKeepsAcknowledgedStarts(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		cluster := testserver.NewCluster(t, testserver.ClusterOptions{
			Kind: kind, Primaries: 3, Replicas: 1, NodeTimeout: time.Second,
		})
		prefix, def := enginetest.NewPrefix(), workload.Counting(t)
		safe := enginetest.Open(t, kind, cluster.URL(), prefix, one(100*time.Millisecond))
		const clients, before, after = 4, 8, 8
		var acknowledged sync.Map
		var unconfirmed atomic.Int64
		killed, came := make(chan struct{}), make(chan struct{}, clients)
		var starting sync.WaitGroup
		for c := range clients {
			starting.Go(func() {
				rest := after
				for i := 0; rest > 0; i++ {
					select {
					case <-killed:
						rest--
					default:
					}
					if i == before {
						came <- struct{}{}
					}
					id := fmt.Sprintf("%d-%d", c, i)
					if _, err := runtime.Start(ctx, safe.Client, def, i, runtime.WithID(id)); err == nil {
						acknowledged.Store(id, i)
					} else if errors.Is(err, enginecore.ErrNotReplicated) {
						unconfirmed.Add(1)
					}
				}
			})
		}
		for range clients {
			<-came
		}
		cluster.KillLagging(t, cluster.PrimariesNow(t)[0], 200*time.Millisecond)
		close(killed)
		starting.Wait()

		plain := enginetest.Open(t, kind, cluster.URL(), prefix)
		n := 0
		acknowledged.Range(func(id, _ any) bool {
			_, err := plain.Client.Run("counting", id.(string)).Describe(ctx)
			require.NoError(t, err, "run %s was acknowledged", id)
			n++
			return true
		})
		require.GreaterOrEqual(t, n, before)
		t.Logf("%d starts acknowledged, %d unconfirmed", n, unconfirmed.Load())
	})
}
