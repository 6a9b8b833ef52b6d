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

// keepersSeen counts the connections on which keepers hear each other, which those have as well that stand by. It is not
// known where the server may not be asked (PUBSUB NUMSUB), or cannot be. A keeper whose machine is gone without a word counts
// until the server notices, which is what its tcp-keepalive says.
func (e *session) keepersSeen(ctx context.Context) (seen int64, known bool) {
	channel := e.core.Keys().ChannelKeepers()
	counts, known := e.listeners(ctx, channel)
	return counts[channel], known || counts[channel] > 0
}

// watchForKeepers warns when there is no keeper, until ctx ends.
func (e *session) watchForKeepers(ctx context.Context) {
	var warned time.Time
	missed := 0
	for pause(ctx, e.keeperLook); ctx.Err() == nil; pause(ctx, e.keeperLook) {
		if seen, known := e.keepersSeen(ctx); seen > 0 || !known {
			missed = 0
			continue
		}
		missed++
		if missed < keeperLooks || !warned.IsZero() && time.Since(warned) < keeperWarnEvery {
			continue
		}
		warned = time.Now()
		e.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: no keeper is seen: retries, delays, timeouts and what dead workers leave wait for one; "+
			"leave out WithoutKeeper, or run a keeper", eventKeeperMissing.attr())
	}
}
