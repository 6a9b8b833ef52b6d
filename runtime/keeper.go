package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Keeper does what is due: it wakes delayed and retried executions, marks lost leases, ends what exceeded its time, and
// works off what calls left for later. At least one must run; any number may, in any processes.
type Keeper struct {
	engine       *Engine
	lanes        []enginecore.LaneID
	compactAfter time.Duration
	vitals       vitals
}

// DefaultCompactAfter is when keepers make the record of an ended run smaller, unless CompactAfter says otherwise.
const DefaultCompactAfter = time.Hour

// KeeperOption adjusts NewKeeper.
type KeeperOption func(*Keeper)

// KeeperLanes names lanes to look after besides those that flows use, for executions that other tools create.
func KeeperLanes(names ...string) KeeperOption {
	return func(k *Keeper) {
		for _, name := range names {
			k.lanes = append(k.lanes, enginecore.LaneID(name))
		}
	}
}

// CompactAfter is how long after the end of a run its record is made smaller: what is kept of attempts and leases, and of
// when each edge was satisfied, goes then; states, times, results, events and output of the run stay, and it can be run
// again. Defaults to DefaultCompactAfter; a negative time keeps the full record.
func CompactAfter(d time.Duration) KeeperOption {
	return func(k *Keeper) { k.compactAfter = d }
}

// NewKeeper returns a keeper of an engine.
func NewKeeper(e *Engine, opts ...KeeperOption) *Keeper {
	k := &Keeper{engine: e, compactAfter: DefaultCompactAfter}
	for _, opt := range opts {
		opt(k)
	}
	return k
}

const (
	// keeperSweep is how often every partition is looked at, whatever is known of it. The engine sends no message for
	// what is due later than that.
	keeperSweep = 9 * time.Second
	// keeperBatch bounds the partitions that are ticked in one round trip.
	keeperBatch = 64
)

// Run keeps until ctx ends and returns nil then. While the engine is away, it keeps trying.
func (k *Keeper) Run(ctx context.Context) error {
	for _, lane := range k.lanes {
		if _, err := enginecore.ParseLaneID(string(lane)); err != nil {
			return fmt.Errorf("keeper: %w: %w", ErrWorkerConfig, err)
		}
	}
	defer k.vitals.begin()()
	unwatch, err := k.engine.telemetry.watchLanes(k.engine.lanes)
	if err != nil {
		return fmt.Errorf("keeper: metrics: %w", err)
	}
	defer unwatch()
	agenda := newAgenda(k.engine.partitions())
	quotas := newQuotaKeeper(k.engine)
	var listening sync.WaitGroup
	listening.Go(func() { k.listen(ctx, agenda, quotas) })
	listening.Go(func() { quotas.run(ctx) })
	listening.Go(func() { k.engine.calls.attend(ctx) })
	// Contract mode has no calls for it.
	if _, composite := k.engine.calls.(composites); composite && k.compactAfter >= 0 {
		listening.Go(func() { k.compact(ctx) })
	}
	defer listening.Wait()
	for {
		due, wait := agenda.due(time.Now())
		if len(due) > 0 {
			k.tick(ctx, agenda, quotas, due)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-agenda.changed:
			timer.Stop()
		}
	}
}

// listen hears "<partition> <unix ms>": something is due in a partition earlier than its keepers may know. A q before the
// number says that it is a partition of quotas.
func (k *Keeper) listen(ctx context.Context, agenda *agenda, quotas *quotaKeeper) {
	channel := k.engine.core.Keys().ChannelDue()
	subscribed := func() {
		agenda.allDue()
		quotas.agenda.allDue()
	}
	k.engine.hub.listen(ctx, []string{channel}, subscribed, func(_, message string) {
		number, at, _ := strings.Cut(message, " ")
		number, isQuota := strings.CutPrefix(number, "q")
		index, err := strconv.ParseUint(number, 10, 16)
		ms, err2 := strconv.ParseInt(at, 10, 64)
		switch {
		case err != nil || err2 != nil:
		case isQuota:
			quotas.agenda.note(enginecore.Partition{Family: enginecore.QuotaFamily, Index: uint16(index)}, time.UnixMilli(ms))
		default:
			agenda.note(enginecore.Partition{Family: enginecore.FlowFamily, Index: uint16(index)}, time.UnixMilli(ms))
		}
	})
}

// tick does what is due in some partitions.
func (k *Keeper) tick(ctx context.Context, agenda *agenda, quotas *quotaKeeper, due []enginecore.Partition) {
	ticks := make([]enginecore.TickCall, len(due))
	for i, p := range due {
		ticks[i] = enginecore.TickCall{Partition: p, Limit: tickLimit, Lanes: k.lanes}
	}
	answers, err := k.engine.calls.tickAll(ctx, ticks)
	if err != nil && ctx.Err() == nil {
		k.engine.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: keeper could not do what is due, it tries again", eventTickFailed.attr(),
			slog.Any("error", err))
		pause(ctx, time.Second)
	}
	if err == nil {
		k.vitals.touch()
	}
	for i, p := range due {
		reply, err := answers[i].reply, answers[i].err
		if len(reply.Candidates) > 0 {
			quotas.admit(ctx, reply.Candidates)
		}
		switch {
		case err != nil:
			agenda.ticked(p, time.Now().Add(time.Second))
		case reply.More:
			agenda.ticked(p, time.Now())
		case reply.NextDueAt.IsZero():
			agenda.ticked(p, time.Time{})
		default:
			// The engine's clock decides what is due; only the distance is used here.
			agenda.ticked(p, time.Now().Add(reply.NextDueAt.Sub(reply.Now)))
		}
	}
}

// agenda knows when to look at which partition.
type agenda struct {
	changed chan struct{}

	mu   sync.Mutex
	next map[enginecore.Partition]time.Time
}

func newAgenda(partitions []enginecore.Partition) *agenda {
	a := &agenda{changed: make(chan struct{}, 1), next: make(map[enginecore.Partition]time.Time, len(partitions))}
	for _, p := range partitions {
		a.next[p] = time.Time{}
	}
	return a
}

// due returns the partitions to look at now, or how long there is nothing to do.
func (a *agenda) due(now time.Time) ([]enginecore.Partition, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []enginecore.Partition
	wait := keeperSweep
	for p, at := range a.next {
		left := at.Sub(now)
		if left > 0 {
			wait = min(wait, left)
			continue
		}
		if len(list) < keeperBatch {
			list = append(list, p)
			a.next[p] = now.Add(keeperSweep)
		}
	}
	return list, wait
}

// ticked notes when a partition that was just looked at is due again; zero is at the next sweep.
func (a *agenda) ticked(p enginecore.Partition, at time.Time) {
	if !at.IsZero() {
		a.note(p, at)
	}
}

// note brings the next look at a partition forward.
func (a *agenda) note(p enginecore.Partition, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if next, known := a.next[p]; known && at.Before(next) {
		a.next[p] = at
		notify(a.changed)
	}
}

// allDue makes every partition due, because messages may have been lost.
func (a *agenda) allDue() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.next {
		a.next[p] = time.Time{}
	}
	notify(a.changed)
}
