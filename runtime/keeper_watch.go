package runtime

import (
	"context"
	"log/slog"
	"time"
)

const (
	// keeperLookEvery is how often workers without a keeper look whether there is one.
	keeperLookEvery = 2 * keeperSweep
	// keeperLooks is after how many looks in vain in a row they warn.
	keeperLooks = 2
	// keeperWarnEvery is how often they warn at most.
	keeperWarnEvery = time.Minute
)

// watchForKeepers warns when there is no keeper, until ctx ends.
func (b *workersKeeper) watchForKeepers(ctx context.Context) {
	var warned time.Time
	missed := 0
	for pause(ctx, b.lookEvery); ctx.Err() == nil; pause(ctx, b.lookEvery) {
		if seen, known := b.session.keepersSeen(ctx); seen > 0 || !known {
			missed = 0
			continue
		}
		missed++
		if missed < keeperLooks || !warned.IsZero() && time.Since(warned) < keeperWarnEvery {
			continue
		}
		warned = time.Now()
		b.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: no keeper is seen: retries, delays, timeouts and what dead workers leave wait for one; "+
			"leave out WithoutKeeper, or run a keeper", eventKeeperMissing.attr())
	}
}
