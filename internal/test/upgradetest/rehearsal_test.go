package upgradetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// traffic starts runs all the time and waits for their results, as careful clients do.
type traffic struct {
	ended atomic.Int64
	stop  context.CancelFunc
	group sync.WaitGroup
}

// begin starts the traffic of some clients. An error fails the test.
func begin(t *testing.T, c *runtime.Client, def *flow.Definition[int, int], clients int) *traffic {
	load, stop := context.WithCancel(context.Background())
	tr := &traffic{stop: stop}
	ctx := enginetest.Context(t)
	for n := range clients {
		tr.group.Go(func() {
			for i := 0; load.Err() == nil; i++ {
				id := fmt.Sprintf("run-%d-%d", n, i)
				if got, err := untilResult(ctx, c, def, id, i); err != nil || got != i+2 {
					t.Errorf("%s: %d, %v", id, got, err)
					return
				}
				tr.ended.Add(1)
			}
		})
	}
	return tr
}

// more waits until the given number of further runs have ended.
func (tr *traffic) more(t *testing.T, runs int64) {
	t.Helper()
	until := tr.ended.Load() + runs
	enginetest.Eventually(t, func() string {
		if n := tr.ended.Load(); n < until && !t.Failed() {
			return fmt.Sprintf("%d of %d runs have ended", n, until)
		}
		return ""
	})
}

// untilResult starts a run under one id until its end is known.
func untilResult(ctx context.Context, c *runtime.Client, def *flow.Definition[int, int], id string, in int) (int, error) {
	for {
		run, err := runtime.Start(ctx, c, def, in, runtime.WithID(id))
		var out int
		if err == nil {
			if out, err = run.Result(ctx); err == nil {
				return out, nil
			}
		}
		if over := (*runtime.RunError)(nil); errors.As(err, &over) || ctx.Err() != nil {
			return 0, err
		}
	}
}

// The steps of docs/how-to/upgrade-without-downtime.md, under traffic that never stops: the server is replaced by one of
// another product and later version, the library by a later one, and the workers by others. Each run has its result, and
// no function has run more than once.
func TestUpgradeWithoutDowntime(t *testing.T) {
	t.Parallel()
	kinds := testserver.Servers(t)
	if !slices.Contains(kinds, testserver.Redis) || !slices.Contains(kinds, testserver.Valkey) {
		t.Skip("it goes from Redis 7 to Valkey 8")
	}
	ctx := enginetest.Context(t)
	former := testserver.Redis
	info := testserver.Shared(t, former).Query(t, "INFO", "server")
	if !strings.Contains(info, "redis_version:7.0.") && !strings.Contains(info, "redis_version:7.2.") {
		former = testserver.Valkey // which reads no snapshots of later versions of Redis
	}
	w := testserver.StartSentinelOf(t, former, testserver.Valkey)
	b := enginetest.Open(t, testserver.Valkey, w.URL(), enginetest.NewPrefix())
	var functions atomic.Int64
	add := activity.New("add", func(_ context.Context, n int) (int, error) {
		functions.Add(1)
		return n + 1, nil
	})
	f := flow.New[int, int]("adding")
	flow.Return(f, flow.Node(f, "b", add, flow.Node(f, "a", add, f.Input())))
	def, err := f.Build()
	require.NoError(t, err)
	old := b.KeepingWorker(t, []activity.Handler{add})
	tr := begin(t, b.Client, def, 4)
	tr.more(t, 40)

	w.HandOver(t)
	w.Primary.Kill() // which ends its connections, and the pause
	tr.more(t, 40)

	load(t, b.Engine, library(t, "999999-abc", lualib.Protocol, lualib.MinProtocol))
	tr.more(t, 40)
	version, err := engine.ConnOf(b.Engine.Internal()).Version(ctx, enginerpc.VersionCall{})
	require.NoError(t, err)
	require.Equal(t, "999999-abc", version.Build)

	later := enginetest.Open(t, testserver.Valkey, w.URL(), b.Prefix)
	later.KeepingWorker(t, []activity.Handler{add})
	tr.more(t, 40)
	require.NoError(t, old.Stop())
	tr.more(t, 40)
	tr.stop()
	tr.group.Wait()
	require.EqualValues(t, 2*tr.ended.Load(), functions.Load())
	later.Settle(t)
}

func TestMain(m *testing.M) {
	enginetest.Main(m)
}
