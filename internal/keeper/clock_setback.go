package keeper

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	// clockTolerance is the time that a server's clock may lose between two steps, compared with the local clock,
	// without counting as set back.
	clockTolerance = time.Second
	// clockLogEvery bounds how often a keeper logs that a clock was set back, which it detects in each partition
	// separately.
	clockLogEvery = 10 * time.Second
)

// clockSetBack advances the steps that depend on the clock of a partition's server, which was set back: the items
// that the clock has deferred are visited now instead of at the next reconciliation.
func (k *Keeper) clockSetBack(ctx context.Context, p keyspace.Partition, back time.Duration) {
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
	k.Session.Logger.LogAttrs(ctx, slog.LevelWarn,
		"flowfabric: the server's clock was set back; due times are delayed by as much",
		observe.EventClockSetBack.Attr(), slog.Duration("duration", back.Round(time.Millisecond)),
		slog.String("partition", p.Tag()))
}
