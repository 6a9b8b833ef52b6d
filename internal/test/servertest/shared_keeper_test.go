package servertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// keeperMessages follows the messages of keepers.
type keeperMessages struct {
	mu     sync.Mutex
	active map[string]bool // by id: true for the keepers of workers
	ever   map[string]bool
}

// listenToKeepers subscribes to the messages of keepers until the returned function is called.
func listenToKeepers(t *testing.T, b *enginetest.Bench) (*keeperMessages, func()) {
	t.Helper()
	h := &keeperMessages{active: make(map[string]bool), ever: make(map[string]bool)}
	wire, release := engine.ConnOf(b.Engine.Internal()).Client().Dedicate()
	subscribed := make(chan struct{})
	wire.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(rueidis.PubSubSubscription) { close(subscribed) },
		OnMessage:      func(m rueidis.PubSubMessage) { h.receive(m.Message) },
	})
	command := wire.B().Subscribe().Channel(engine.ConnOf(b.Engine.Internal()).ChannelKeepers()).Build()
	require.NoError(t, wire.Do(enginetest.Context(t), command).Error())
	<-subscribed
	end := sync.OnceFunc(func() {
		wire.Close()
		release()
	})
	t.Cleanup(end)
	return h, end
}

func (h *keeperMessages) receive(message string) {
	words := strings.Fields(message)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch words[0] {
	case "here":
		builtIn := slices.Contains(words, "builtin")
		h.active[words[1]], h.ever[words[1]] = builtIn, builtIn
	case "gone":
		delete(h.active, words[1])
	}
}

// await waits until builtIn keepers of workers and made others have announced themselves.
func (h *keeperMessages) await(t *testing.T, builtIn, made int) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		h.mu.Lock()
		defer h.mu.Unlock()
		own := 0
		for _, ofWorkers := range h.active {
			if ofWorkers {
				own++
			}
		}
		if own != builtIn || len(h.active)-own != made {
			return fmt.Sprintf("%d keepers of workers and %d others", own, len(h.active)-own)
		}
		return ""
	})
}

func failsOnce(name string) *activity.Activity[int, int] {
	return activity.New(name, func(ctx context.Context, n int) (int, error) {
		if info, _ := activity.Info(ctx); info.Attempt == 1 {
			return 0, errors.New("not yet")
		}
		return n, nil
	})
}

func retriesAtOnce(t *testing.T, a *activity.Activity[int, int]) *flow.Definition[int, int] {
	return fixture.Single(t, a, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2}))
}

// working starts a worker and returns it when it has run an activity. Then it has joined the keeper that the workers of
// an engine share, which ends when the last worker that has joined leaves: one that only was started may join later.
func working(
	t *testing.T, b *enginetest.Bench,
	start func(testing.TB, []activity.Handler, ...runtime.WorkerConfig) *enginetest.Running, handlers ...activity.Handler,
) *enginetest.Running {
	t.Helper()
	own := activity.New(enginetest.NewPrefix(), func(_ context.Context, n int) (int, error) { return n, nil })
	w := start(t, append(handlers, own))
	run, err := runtime.Start(enginetest.Context(t), b.Client, fixture.Single(t, own), 1)
	require.NoError(t, err)
	_, err = run.Result(enginetest.Context(t))
	require.NoError(t, err)
	return w
}

// Workers run a keeper by default: due work is performed, by one keeper for all workers of an engine, and it ends with
// them.
func TestWorkers_RunAKeeper(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		received, _ := listenToKeepers(t, b)
		once := failsOnce("once")
		workers := make([]*enginetest.Running, 3)
		for i := range workers {
			workers[i] = working(t, b, b.KeepingWorker, once)
		}
		require.NoError(t, workers[0].Stop(), "the keeper stays for the others")
		received.await(t, 1, 0)
		run, err := runtime.Start(ctx, b.Client, retriesAtOnce(t, once), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.NoError(t, workers[1].Stop())
		require.NoError(t, workers[2].Stop())
		received.await(t, 0, 0)
		require.Len(t, received.ever, 1)
	})
}

// The keeper of workers makes room for one that is made on the same engine, and is back when that ends.
func TestBuiltInKeeperYieldsOnItsEngine(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		received, _ := listenToKeepers(t, b)
		b.KeepingWorker(t, []activity.Handler{failsOnce("once")})
		received.await(t, 1, 0)
		made := b.Keeper(t)
		received.await(t, 0, 1)
		require.NoError(t, made.Stop())
		received.await(t, 1, 0)
	})
}

// The keepers of workers are on standby while another program runs a keeper with its own options, and take over when
// that one is gone without notice.
func TestBuiltInKeepersAreStandbys(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		b := enginetest.New(t, kind, runtime.OpenConfig{Partitions: fixture.SharedPartitions})
		ctx := enginetest.Context(t)
		other := enginetest.Open(t, kind, b.URL, b.Prefix, runtime.OpenConfig{Partitions: fixture.SharedPartitions})
		received, _ := listenToKeepers(t, b)
		once := failsOnce("once")
		b.KeepingWorker(t, []activity.Handler{once})
		received.await(t, 1, 0)
		keeper := enginetest.NewKeeper(t, other.Engine, runtime.KeeperConfig{HeartbeatInterval: 100 * time.Millisecond})
		b.Run(t, "keeper", keeper.Run)
		received.await(t, 0, 1)
		require.Equal(t, fixture.SharedPartitions, keeper.Stats().Partitions)
		require.Equal(t, 1, keeper.Stats().Keepers)

		def := retriesAtOnce(t, once)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		received.await(t, 0, 1)

		require.NoError(t, other.Engine.Close())
		run, err = runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
	})
}

// Of many worker processes only a few keep, however many come and go.
func TestFewBuiltInKeepersAreActive(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		b := enginetest.New(t, kind)
		received, _ := listenToKeepers(t, b)
		noop := activity.New("noop", func(context.Context, int) (int, error) { return 0, nil })
		workers := make([]*enginetest.Running, 7)
		for i := range workers {
			workers[i] = enginetest.Open(t, kind, b.URL, b.Prefix).KeepingWorker(t, []activity.Handler{noop})
		}
		for i, w := range workers {
			received.await(t, min(2, len(workers)-i), 0)
			require.NoError(t, w.Stop())
		}
		received.await(t, 0, 0)
	})
}

// Of many worker processes, only the active keepers and two hot standbys follow the heartbeats. One of the others takes
// over when all of these vanish without a word.
func TestHotStandbys(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		b := enginetest.New(t, kind)
		once := failsOnce("once")
		others := make([]*enginetest.Bench, 7)
		for i := range others {
			others[i] = enginetest.Open(t, kind, b.URL, b.Prefix)
			enginetest.AnnounceStandbyEvery(t, others[i].Engine, 100*time.Millisecond)
			others[i].KeepingWorker(t, []activity.Handler{once})
		}
		following := func(want int64) {
			t.Helper()
			enginetest.Eventually(t, func() string {
				if n, _ := enginetest.KeepersSeen(t.Context(), t, b.Engine); n != want {
					return fmt.Sprintf("%d keepers follow the heartbeats", n)
				}
				return ""
			})
		}
		following(4)
		var closing sync.WaitGroup
		for _, other := range others[1:] {
			closing.Go(func() { assert.NoError(t, other.Engine.Close()) })
		}
		closing.Wait()
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, retriesAtOnce(t, once), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		following(1)
	})
}

// Workers that have no keeper say that there is none, once.
func TestMissingKeeperIsLogged(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		enginetest.LookForKeepersEvery(t, b.Engine, 5*time.Millisecond)
		noop := activity.New("noop", func(context.Context, int) (int, error) { return 0, nil })
		first, second := working(t, b, b.Worker, noop), working(t, b, b.Worker, noop)
		enginetest.Eventually(t, func() string {
			if !strings.Contains(b.Log(), "keeper.missing") {
				return "a warning"
			}
			return ""
		})
		require.NoError(t, errors.Join(first.Stop(), second.Stop()))
		require.Equal(t, 1, strings.Count(b.Log(), "keeper.missing"))
	})
}

// A program that listens as a keeper does is counted, and other programs are not.
func TestKeepersAreSeen(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		seen := func(want int64) {
			t.Helper()
			enginetest.Eventually(t, func() string {
				if n, known := enginetest.KeepersSeen(t.Context(), t, b.Engine); n != want || !known {
					return fmt.Sprintf("%d keepers are seen, %t", n, known)
				}
				return ""
			})
		}
		noop := activity.New("noop", func(context.Context, int) (int, error) { return 0, nil })
		b.Worker(t, []activity.Handler{noop})
		seen(0)
		keeper := b.Keeper(t)
		seen(1)
		require.NoError(t, keeper.Stop())
		seen(0)
		worker := b.KeepingWorker(t, []activity.Handler{noop})
		seen(1)
		require.NoError(t, worker.Stop())
		seen(0)
	})
}

// If the server may not be queried, it is not known whether there are keepers, and no reason mentions them.
func TestKeepersSeen_WithoutTheRight(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		b := enginetest.New(t, kind)
		ctx, core := enginetest.Context(t), engine.ConnOf(b.Engine.Internal()).Client()
		user := enginetest.NewPrefix()
		require.NoError(t, core.Do(ctx, core.B().Arbitrary("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", "-pubsub").Build()).Error())
		defer func() { require.NoError(t, core.Do(ctx, core.B().Arbitrary("ACL", "DELUSER", user).Build()).Error()) }()
		own := enginetest.Open(t, kind, fmt.Sprintf("%s://%s:secret@%s", kind, user, testserver.Shared(t, kind).Addr()), b.Prefix)
		_, known := enginetest.KeepersSeen(ctx, t, own.Engine)
		require.False(t, known)
		once := failsOnce("once")
		own.KeepingWorker(t, []activity.Handler{once})
		run, err := runtime.Start(ctx, own.Client, retriesAtOnce(t, once), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
	})
}

// The keeper of workers has the config that the engine was opened with.
func TestConfigOfWorkersKeeper(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c, err := admin.New(b.Engine)
		require.NoError(t, err)
		id, _, err := c.CreateExecution(ctx, admin.ExecutionSpec{Kind: "nobody"})
		require.NoError(t, err)
		_, err = c.CancelExecution(ctx, id, "enough")
		require.NoError(t, err)
		b.KeepingWorker(t, []activity.Handler{fixture.AddOne()})
		enginetest.Eventually(t, func() string {
			if _, err := c.Execution(ctx, id); !errors.Is(err, enginecore.ErrExecutionNotFound) {
				return fmt.Sprintf("the execution is kept, or: %v", err)
			}
			return ""
		})
	}, runtime.OpenConfig{Keeper: runtime.KeeperConfig{RetainExecutions: time.Nanosecond}})
}
