package worker

import (
	"context"
	"log/slog"
	"sync"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// drainer calls the tick of partitions in which a call left work that exceeded its size. Without it, a keeper
// would do that later.
type drainer struct {
	calls  engine.Backend
	logger *slog.Logger

	mu      sync.Mutex
	busy    map[keyspace.Partition]bool
	workers sync.WaitGroup
}

// start drains a partition in the background, unless that is under way.
func (d *drainer) start(ctx context.Context, p keyspace.Partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[p] {
		return
	}
	if d.busy == nil {
		d.busy = make(map[keyspace.Partition]bool)
	}
	d.busy[p] = true
	d.workers.Go(func() {
		defer func() {
			d.mu.Lock()
			delete(d.busy, p)
			d.mu.Unlock()
		}()
		for {
			reply, err := d.calls.Tick(ctx, enginerpc.TickCall{Partition: p, Limit: engine.TickLimit})
			if err != nil {
				d.logger.LogAttrs(ctx, slog.LevelWarn,
					"flowfabric: the worker could not drain a partition; a keeper completes it",
					observe.EventDrainFailed.Attr(),
					slog.String("partition", p.Tag()), slog.Any("error", err))
				return
			}
			if !reply.More {
				return
			}
		}
	})
}

// wait waits until no partition is being drained.
func (d *drainer) wait() { d.workers.Wait() }
