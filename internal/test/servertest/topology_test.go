package servertest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A flow runs over TLS with an authority of one's own. Without it, the server's certificate is refused.
func TestTLS(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.StartTLS(t, kind)
		ctx := enginetest.Context(t)
		url := string(kind) + "s://" + server.TLSAddr
		if kind == testserver.Redis {
			url = "rediss://" + server.TLSAddr
		}
		enginetest.Eventually(t, func() string {
			_, err := runtime.Open(ctx, url, runtime.OpenConfig{})
			require.Error(t, err)
			if !strings.Contains(err.Error(), "certificate") {
				return err.Error() // the server had no time to show it
			}
			return ""
		})
		_, err := runtime.Open(ctx, server.URL(), runtime.OpenConfig{TLSConfig: &tls.Config{RootCAs: server.Roots}})
		require.ErrorIs(t, err, runtime.ErrInvalid, "a URL without TLS must not connect without encryption")

		b := enginetest.Open(t, kind, url, enginetest.NewPrefix(), runtime.OpenConfig{
			TLSConfig: &tls.Config{RootCAs: server.Roots},
		})
		a := fixture.AddOne()
		b.Worker(t, []activity.Handler{a})
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 3), 1)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 4, out)
		b.Settle(t)
	})
}

// A flow runs in a cluster over TLS, each of whose servers has a certificate for its own address alone. Redis before 7.2
// names ports with TLS only where its servers speak TLS with each other, too.
func TestTLSOfACluster(t *testing.T) {
	t.Parallel()
	authority := testserver.NewAuthority(t)
	cluster := testserver.NewCluster(t, testserver.ClusterOptions{Kind: testserver.Valkey, Primaries: 3, TLS: authority})
	ctx := enginetest.Context(t)
	_, err := runtime.Open(ctx, cluster.TLSURL(), runtime.OpenConfig{})
	require.ErrorContains(t, err, "certificate")

	b := enginetest.Open(t, testserver.Valkey, cluster.TLSURL(), enginetest.NewPrefix(), runtime.OpenConfig{
		TLSConfig: &tls.Config{RootCAs: authority.Roots},
	})
	a := fixture.AddOne()
	b.KeepingWorker(t, []activity.Handler{a}, runtime.WorkerConfig{})
	def := fixture.ChainOf(t, a, 3)
	for i := range 16 { // in partitions of all servers
		run, err := runtime.Start(ctx, b.Client, def, i)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, i+3, out)
	}
	b.Settle(t)
}

// The primary that a sentinel watches is killed under load. Clients, workers and keepers continue with the promoted
// replica.
func TestSentinelFailover(t *testing.T) {
	t.Parallel() // most of it is waiting
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		watched := testserver.StartSentinel(t, kind)
		b := enginetest.Open(t, kind, watched.URL(), enginetest.NewPrefix())
		ctx := enginetest.Context(t)
		a, sum := activity.New("add", func(_ context.Context, n int) (int, error) {
			time.Sleep(5 * time.Millisecond) //nolint:forbidigo // so that there is something to interrupt
			return n + 1, nil
		}), fixture.Adder()
		def := fixture.Wide(t, a, sum, 5)
		b.Worker(t, []activity.Handler{a, sum}, runtime.WorkerConfig{Lease: 2 * time.Second})
		b.Keeper(t)
		runAll := func(name string) {
			var group sync.WaitGroup
			for i := range 20 {
				group.Go(func() {
					out, err := untilResult(ctx, b, def, fmt.Sprint(name, i), i)
					if err != nil || out != 5*(i+2) {
						t.Errorf("run %s%d: %d, %v", name, i, out, err)
					}
				})
			}
			group.Wait()
		}
		runAll("before-")
		watched.InStep(t)
		var meanwhile sync.WaitGroup
		meanwhile.Go(func() { runAll("meanwhile-") })
		watched.KillPrimary(t)
		watched.Promoted(t)
		meanwhile.Wait()
		for i := range 20 {
			run, err := runtime.Start(ctx, b.Client, def, i, runtime.WithID(fmt.Sprint("before-", i)))
			require.NoError(t, err)
			require.True(t, run.Existed(), "the replicated run exists")
		}
		b.Settle(t)
	})
}

// untilResult runs a flow as a careful client does: it starts it under its own id until it has received its end.
func untilResult(ctx context.Context, b *enginetest.Bench, def *flow.Definition[int, int], id string, in int) (int, error) {
	for {
		run, err := runtime.Start(ctx, b.Client, def, in, runtime.WithID(id))
		var out int
		if err == nil {
			if out, err = run.Result(ctx); err == nil {
				return out, nil
			}
		}
		var over *runtime.RunError
		if errors.As(err, &over) || ctx.Err() != nil {
			return 0, err
		}
	}
}
