package keeper

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	// clockTolerance is what a server's clock may lose between two looks without being set back.
	clockTolerance = time.Second
	// clockLogEvery bounds how often a keeper logs that a clock was set back: it notices in each partition by itself.
	clockLogEvery = 10 * time.Second
)

// clockSetBack brings the steps forward that depend on the clock of a partition's server, which has been set back: what it has put
// off is looked at now instead of with the next reconciliation.
func (k *Keeper) clockSetBack(ctx context.Context, p enginecore.Partition, back time.Duration) {
	for _, l := range k.Loops {
		if l.onClockSetBack {
			l.Timer.advanceNow(p)
		}
	}
	now := time.Now()
	if last := k.clockLogged.Load(); last != nil && now.Sub(*last) < clockLogEvery {
		return
	}
	k.clockLogged.Store(&now)
	k.Session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the server's clock was set back: what waits for its time waits that much longer",
		engine.EventClockSetBack.Attr(), slog.Duration("by", back.Round(time.Millisecond)), slog.String("partition", p.Tag()))
}
