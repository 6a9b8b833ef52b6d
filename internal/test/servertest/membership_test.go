package servertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// keeperPool are several keepers of one keyspace, each with a separate connection if the engine is a server.
type keeperPool struct {
	keepers []*runtime.Keeper
	running []*enginetest.Running
	benches []*enginetest.Bench
}

func startKeepers(t *testing.T, b *enginetest.Bench, count int, beat time.Duration) *keeperPool {
	c := &keeperPool{}
	for range count {
		own := b
		if b.Kind != testserver.Embedded {
			own = enginetest.Open(t, b.Kind, b.URL, b.Prefix, runtime.OpenConfig{Partitions: fixture.SharedPartitions})
		}
		k := enginetest.NewKeeper(t, own.Engine, runtime.KeeperConfig{HeartbeatInterval: beat})
		c.keepers, c.benches = append(c.keepers, k), append(c.benches, own)
		c.running = append(c.running, b.Run(t, "keeper", k.Run))
	}
	return c
}

// shared waits until the living keepers know of each other and have all partitions among them.
func (c *keeperPool) shared(t *testing.T, living ...int) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		sum := 0
		for _, i := range living {
			stats := c.keepers[i].Stats()
			if stats.Keepers != len(living) {
				return fmt.Sprintf("keeper %d knows of %d", i, stats.Keepers)
			}
			sum += stats.Partitions
		}
		if sum != fixture.SharedPartitions {
			return fmt.Sprintf("%d partitions are owned", sum)
		}
		return ""
	})
}

func (c *keeperPool) promotions(i int) fabrictype.KeeperTaskStats {
	return c.keepers[i].Stats().Tasks["delayed_promotion"]
}

// Keepers share the partitions: due work is performed by one of them. When one dies, the others perform all of it
// within seconds.
func TestKeepersShare(t *testing.T) {
	t.Parallel()
	const beat = 150 * time.Millisecond
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		failFirst := activity.New("failFirst", func(ctx context.Context, n int) (int, error) {
			if info, _ := activity.Info(ctx); info.Attempt == 1 {
				return 0, errors.New("not yet")
			}
			return n, nil
		})
		b.Worker(t, []activity.Handler{failFirst})
		def := fixture.Single(t, failFirst, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2}))
		var next atomic.Int64
		runs := func(count int) {
			var started []*runtime.Run[int]
			for range count {
				run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID(fmt.Sprint("run", next.Add(1))))
				require.NoError(t, err)
				started = append(started, run)
			}
			for _, run := range started {
				_, err := run.Result(ctx)
				require.NoError(t, err)
			}
		}
		c := startKeepers(t, b, 3, beat)
		c.shared(t, 0, 1, 2)

		// Each reads all partitions when it begins, and learns of the others in the meantime.
		enginetest.Eventually(t, func() string {
			before := []fabrictype.KeeperTaskStats{c.promotions(0), c.promotions(1), c.promotions(2)}
			runs(1)
			looked, done := 0, int64(0)
			for i := range c.keepers {
				now := c.promotions(i)
				done += now.Done - before[i].Done
				if now.Steps > before[i].Steps {
					looked++
				}
			}
			if looked != 1 || done != 1 {
				return fmt.Sprintf("%d keepers read the partition of a run, %d promotions", looked, done)
			}
			return ""
		})

		if b.Kind == testserver.Embedded {
			require.NoError(t, c.running[2].Stop())
		} else {
			// It is gone without a word, as a process that is killed.
			require.NoError(t, c.benches[2].Engine.Close())
		}
		died := time.Now()
		runs(3 * fixture.SharedPartitions)
		t.Logf("all was done %s after the keeper was gone, heartbeats every %s", time.Since(died), beat)
		c.shared(t, 0, 1)
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: fixture.SharedPartitions})
}

// A keeper that comes takes its share, and one that is stopped hands it back at once.
func TestKeepersComeAndGo(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		c := startKeepers(t, b, 2, 20*time.Second)
		// The first one has announced itself before the second listened, or the other way round: one of them at least
		// receives the announcement of the other, and answers.
		c.shared(t, 0, 1)
		require.NoError(t, c.running[0].Stop())
		c.shared(t, 1)
	}, runtime.OpenConfig{Partitions: fixture.SharedPartitions})
}

// Intervals that make no sense are refused.
func TestBadHeartbeat(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	for _, beat := range []time.Duration{-time.Second, time.Millisecond, time.Hour} {
		_, err := runtime.NewKeeper(b.Engine, runtime.KeeperConfig{HeartbeatInterval: beat})
		require.ErrorIs(t, err, runtime.ErrInvalid)
	}
}
