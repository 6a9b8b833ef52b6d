package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// clockTolerance is what a server's clock may lose between two looks without being set back.
	clockTolerance = time.Second
	// clockLogEvery bounds how often a keeper logs that a clock was set back: it notices in each partition by itself.
	clockLogEvery = 10 * time.Second
)

// clockSetBack brings the steps forward that depend on the clock of a partition's server, which has been set back: what it has put
// off is looked at now instead of with the next reconciliation.
func (k *keeper) clockSetBack(ctx context.Context, p enginecore.Partition, back time.Duration) {
	for _, l := range k.loops {
		if l.onClockSetBack {
			l.timer.advanceNow(p)
		}
	}
	now := time.Now()
	if last := k.clockLogged.Load(); last != nil && now.Sub(*last) < clockLogEvery {
		return
	}
	k.clockLogged.Store(&now)
	k.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the server's clock was set back: what waits for its time waits that much longer",
		eventClockSetBack.attr(), slog.Duration("by", back.Round(time.Millisecond)), slog.String("partition", p.Tag()))
}
