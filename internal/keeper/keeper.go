package keeper

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/internal/bulkjob"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/schedule"
)

// Keeper runs the maintenance loops of an engine over the partitions that it owns. Keepers of one engine divide the
// partitions among themselves by heartbeats (see Membership). New makes one; the zero value is unusable. Run
// may be active once at a time; RunTask, TaskStats, Partitions and Ready may be called concurrently with it.
type Keeper struct {
	*maintainer
	Members *Membership
	stats   *taskCounters
	relay   childRelay
	Loops   []*MaintenanceLoop
	// noteRestart begins the reconciliation of a partition whose server has started; nil if the backend does not
	// report starts of a server.
	noteRestart func(ctx context.Context, p keyspace.Partition, needed bool)
	liveness    observe.Liveness
	// becameActive receives a value when a keeper of workers leaves standby; standbyBeat is SharedKeeper.StandbyBeat.
	becameActive chan struct{}
	standbyBeat  time.Duration
	// schedules starts the runs of due schedules, concurrently with the loops; nil unless work is running.
	schedules atomic.Pointer[schedule.Runner]
	// takeOvers are the partitions whose schedules and bulk jobs it has yet to take over from keepers before it.
	takeOvers takeOvers
	// bulkJobs takes the steps of bulk jobs in the same way.
	bulkJobs atomic.Pointer[bulkjob.Runner]
	// clockLogged is the time of the last log record about a clock that was set back; nil before the first.
	clockLogged atomic.Pointer[time.Time]
}

// keeperSilence is the time without a successful step or heartbeat after which Ready reports an error, or longer if
// heartbeats are rare.
const keeperSilence = 21 * time.Second

// New returns a keeper of a session. It does not validate the config: call Check before Run.
func New(s *engine.Session, config Config) *Keeper {
	k := &Keeper{
		maintainer: newMaintainer(s, config), stats: newTaskCounters(), relay: newChildRelay(s),
		Members: NewMembership(uuid.NewString(), config.Heartbeat), becameActive: make(chan struct{}, 1),
	}
	k.Loops = k.newLoops()
	for _, l := range k.Loops {
		if l.noteRestart != nil {
			k.noteRestart = l.noteRestart
		}
	}
	return k
}

// Run maintains the engine until ctx ends and then returns nil. The keeper that the workers of the session share is
// stopped until then. Run returns an error if metrics cannot be registered, or if the engine now requires a newer
// program.
func (k *Keeper) Run(ctx context.Context) error {
	if err := k.Session.ClosedErr(); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	defer k.liveness.Begin()()
	unwatch, err := k.watchMetrics()
	if err != nil {
		return err
	}
	defer unwatch()
	ctx, release := k.Session.WhileServed(ctx)
	defer release()
	defer k.Session.Keeper.Yield()()
	var running sync.WaitGroup
	running.Go(func() { k.announce(ctx) })
	running.Go(func() { k.Session.GuardLibrary(ctx, cmp.Or(k.intervals.LibraryCheck, engine.LibraryCheck)) })
	k.work(ctx)
	running.Wait()
	if err := k.Session.ServedErr(ctx); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	return nil
}

// work runs all loops until ctx ends.
func (k *Keeper) work(ctx context.Context) {
	ctx = enginerpc.ContinueUnreplicated(ctx) // work that a failover has undone is due again
	schedules := schedule.NewRunner(k.Session, true)
	defer schedules.Close()
	k.takeOvers.begin()
	k.schedules.Store(schedules)
	defer k.schedules.Store(nil)
	bulkJobs := bulkjob.NewRunner(k.Session, schedules.ID)
	defer bulkJobs.Close()
	k.bulkJobs.Store(bulkJobs)
	defer k.bulkJobs.Store(nil)
	var running sync.WaitGroup
	running.Go(func() { k.listen(ctx) })
	if follower, stepwise := k.Session.Stepwise(); stepwise {
		running.Go(func() { follower.FollowCompletions(ctx) })
	}
	for _, l := range k.Loops {
		running.Go(func() { k.runLoop(ctx, l) })
	}
	running.Wait()
}

// Ready returns nil if the keeper runs and its last step succeeded in some owned partition. Otherwise the error wraps
// observe.ErrNotReady. It sends nothing to the engine.
func (k *Keeper) Ready() error {
	if err := k.liveness.Check("keeper", max(keeperSilence, SilentBeats*k.Heartbeat)); err != nil {
		return err
	}
	if err := k.Loops[0].Timer.allFailing(); err != nil {
		return fmt.Errorf("keeper: %w: its last step failed in each of its partitions: %w", observe.ErrNotReady, err)
	}
	return nil
}

// listen receives the messages that an item of a partition is due at a time, by the engine's clock.
func (k *Keeper) listen(ctx context.Context) {
	channel := k.Session.Core.Keys().ChannelDue()
	subscribed := func() {
		for _, l := range k.Loops {
			if l.wakesOnDue {
				l.Timer.AllDue()
			}
		}
	}
	k.Session.Hub.Listen(ctx, []string{channel}, subscribed, func(_, message string) {
		due, ok := enginerpc.ParseDueMessage(message)
		if !ok {
			return
		}
		for _, l := range k.Loops {
			if l.wakesOnDue && l.family == due.Partition.Family {
				l.Timer.NoteDue(due.Partition, due.At)
			}
		}
	})
}

// TaskStats returns the counters of all tasks of the keeper since it was made, sorted by task.
func (k *Keeper) TaskStats() []TaskStats {
	k.stats.mu.Lock()
	defer k.stats.mu.Unlock()
	var list []TaskStats
	for _, l := range k.Loops {
		for _, task := range l.tasks {
			list = append(list, *k.stats.of(task))
		}
	}
	slices.SortFunc(list, func(a, b TaskStats) int { return cmp.Compare(a.Task, b.Task) })
	return list
}

// Siblings returns the number of processed upstreams that joins did not need, by their disposition.
func (k *Keeper) Siblings() map[string]int64 {
	k.stats.mu.Lock()
	defer k.stats.mu.Unlock()
	return maps.Clone(k.stats.siblings)
}

// siblingCancels returns the number of such upstreams that the keeper has begun to cancel, by the reason of the join,
// and the number of groups with open cancels that it has reconciled, by action.
func (k *Keeper) siblingCancels() (dispatched, reconciled map[string]int64) {
	k.stats.mu.Lock()
	defer k.stats.mu.Unlock()
	return maps.Clone(k.stats.dispatched), maps.Clone(k.stats.reconciled)
}

// Partitions returns the number of flow partitions that the keeper owns.
func (k *Keeper) Partitions() int { return k.Loops[0].Timer.ownedCount() }

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
