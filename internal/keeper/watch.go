package keeper

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

const (
	// keeperLookEvery is the default of SharedKeeper.LookEvery.
	keeperLookEvery = 2 * ShortSweep
	// keeperLooks is the number of unsuccessful checks in a row after which they warn.
	keeperLooks = 2
	// keeperWarnEvery is the least time between two warnings.
	keeperWarnEvery = time.Minute
)

// watchForKeepers warns while the engine has no keeper, until ctx ends.
func (b *SharedKeeper) watchForKeepers(ctx context.Context) {
	var warned time.Time
	missed := 0
	for sleep.For(ctx, b.LookEvery); ctx.Err() == nil; sleep.For(ctx, b.LookEvery) {
		if seen, known := b.session.KeepersSeen(ctx); seen > 0 || !known {
			missed = 0
			continue
		}
		missed++
		if missed < keeperLooks || !warned.IsZero() && time.Since(warned) < keeperWarnEvery {
			continue
		}
		warned = time.Now()
		b.session.Logger.LogAttrs(ctx, slog.LevelWarn,
			"flowfabric: the process detects no keeper: retries, delays, timeouts and expired leases wait for one; "+
				"leave WorkerConfig.NoKeeper unset, or run a keeper", observe.EventKeeperMissing.Attr())
	}
}
