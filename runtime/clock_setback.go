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
	// clockTellEvery bounds how often a keeper tells of clocks: it notices in each partition by itself.
	clockTellEvery = 10 * time.Second
)

// clockSetBack has what the clock of a partition's server has put off looked at now instead of with the next reconciliation.
func (k *keeper) clockSetBack(ctx context.Context, p enginecore.Partition, back time.Duration) {
	for _, l := range k.loops {
		if l.onClockSetBack {
			l.timer.advanceNow(p)
		}
	}
	now := time.Now()
	if told := k.clockTold.Load(); told != nil && now.Sub(*told) < clockTellEvery {
		return
	}
	k.clockTold.Store(&now)
	k.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the server's clock was set back: what waits for its time waits that much longer",
		eventClockSetBack.attr(), slog.Duration("by", back.Round(time.Millisecond)), slog.String("partition", p.Tag()))
}
