package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/keeper"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// TokenSecret returns the part of a token that the engine signed. Texts and logs must not contain it either.
func TokenSecret(tb testing.TB, token activity.Token) string {
	tb.Helper()
	parts, err := engine.OpenToken(token)
	require.NoError(tb, err)
	return parts.Signature
}

// AnnounceStandbyEvery sets how often keepers of workers on hot standby announce themselves. Workers must not run yet.
func AnnounceStandbyEvery(tb testing.TB, e *runtime.Engine, d time.Duration) {
	tb.Helper()
	sharedKeeper(tb, e).StandbyBeat = d
}

// LookForKeepersEvery sets how often workers without a keeper check whether one runs. Workers must not run yet.
func LookForKeepersEvery(tb testing.TB, e *runtime.Engine, d time.Duration) {
	tb.Helper()
	sharedKeeper(tb, e).LookEvery = d
}

// HoldWatches sets how long the engine holds a read of a watch that waits for news.
func HoldWatches(tb testing.TB, e *runtime.Engine, d time.Duration) {
	tb.Helper()
	session(tb, e).Watches.Held = d
}

// MessageWorker is Worker for one that for an hour acts on messages only: it neither sweeps nor renews leases before. A
// test with it needs no bound of time: work that is not announced does not happen within the test. It has subscribed
// when MessageWorker returns: before that it would miss messages that it does not make up for.
func (b *Bench) MessageWorker(tb testing.TB, handlers []activity.Handler, config ...runtime.WorkerConfig) *Running {
	tb.Helper()
	c := atMostOne(tb, config)
	c.Lease = time.Hour
	defer b.set(tb, engine.Intervals{WorkerSweep: time.Hour})()
	orders := engine.ConnOf(b.Engine.Internal()).Keys().ChannelWorker("")
	before := b.subscribed(tb, orders)
	running := b.Worker(tb, handlers, c)
	b.awaitSubscribed(tb, orders, before)
	return running
}

// AwaitSubscribed waits until a channel with a prefix has subscribers.
func (b *Bench) AwaitSubscribed(tb testing.TB, prefix string) {
	tb.Helper()
	b.awaitSubscribed(tb, prefix, nil)
}

// awaitSubscribed waits until a channel with a prefix has subscribers, apart from the channels in before.
func (b *Bench) awaitSubscribed(tb testing.TB, prefix string, before map[string]bool) {
	tb.Helper()
	Eventually(tb, func() string {
		for channel := range b.subscribed(tb, prefix) {
			if !before[channel] {
				return ""
			}
		}
		return "no process subscribes to " + prefix + "*"
	})
}

// subscribed returns the channels with a prefix that have subscribers.
func (b *Bench) subscribed(tb testing.TB, prefix string) map[string]bool {
	tb.Helper()
	found := make(map[string]bool)
	for _, node := range engine.ConnOf(b.Engine.Internal()).Client().Nodes() {
		channels, err := node.Do(Context(tb), node.B().PubsubChannels().Pattern(prefix+"*").Build()).AsStrSlice()
		require.NoError(tb, err)
		for _, channel := range channels {
			found[channel] = true
		}
	}
	return found
}

// SweepingWorker is Worker for one that searches for work at an interval, also without messages.
func (b *Bench) SweepingWorker(tb testing.TB, every time.Duration, handlers []activity.Handler) *Running {
	tb.Helper()
	defer b.set(tb, engine.Intervals{WorkerSweep: every})()
	return b.Worker(tb, handlers)
}

// FailureWorker is Worker for one that holds OnRunFailed for so long without renewal.
func (b *Bench) FailureWorker(
	tb testing.TB, hold time.Duration, handlers []activity.Handler, config runtime.WorkerConfig,
) *Running {
	tb.Helper()
	defer b.set(tb, engine.Intervals{FailureHold: hold})()
	return b.Worker(tb, handlers, config)
}

// SweepingKeeper is Keeper for one that reads each of its partitions at an interval, also without messages.
func (b *Bench) SweepingKeeper(tb testing.TB, every time.Duration) *Running {
	tb.Helper()
	defer b.set(tb, engine.Intervals{KeeperSweep: every})()
	return b.Keeper(tb)
}

// GuardingKeeper is Keeper for one that checks the server's library at an interval.
func (b *Bench) GuardingKeeper(tb testing.TB, every time.Duration) *Running {
	tb.Helper()
	defer b.set(tb, engine.Intervals{LibraryCheck: every})()
	return b.Keeper(tb)
}

// set sets the intervals of the workers and keepers that are made before reset is called.
func (b *Bench) set(tb testing.TB, i engine.Intervals) (reset func()) {
	tb.Helper()
	s := session(tb, b.Engine)
	s.Intervals = i
	return func() { s.Intervals = engine.Intervals{} }
}

// RetryFor is the config of an engine whose calls are sent again for d before they fail.
func RetryFor(d time.Duration) runtime.OpenConfig {
	return runtime.OpenConfig{Internal: enginelink.HandleOf(&enginelink.Link{RetryFor: d})}
}

// KeepersSeen returns the number of keepers that are connected, and false when it is unknown.
func KeepersSeen(ctx context.Context, tb testing.TB, e *runtime.Engine) (int64, bool) {
	tb.Helper()
	return session(tb, e).KeepersSeen(ctx)
}

func session(tb testing.TB, e *runtime.Engine) *engine.Session {
	tb.Helper()
	s, err := engine.SessionOf(e.Internal())
	require.NoError(tb, err)
	return s
}

func sharedKeeper(tb testing.TB, e *runtime.Engine) *keeper.SharedKeeper {
	tb.Helper()
	k, ok := session(tb, e).Keeper.(*keeper.SharedKeeper)
	require.True(tb, ok, "the engine's workers share a keeper")
	return k
}
