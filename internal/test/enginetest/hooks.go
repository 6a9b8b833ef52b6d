package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
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
