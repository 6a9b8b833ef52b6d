package keeper

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/schedule"
)

// Keeper runs the maintenance loops of an engine over the partitions that it owns. Keepers of one engine divide the
// partitions among themselves by heartbeats (see Membership). NewKeeper makes one; the zero value is unusable. Run
// may be active once at a time; RunTask, TaskStats, Partitions and Ready may be called concurrently with it.
type Keeper struct {
	KeeperConfig
	Session *engine.Session
	// maintenance carries out the maintenance calls of the library; nil in contract mode, where the scanners of the
	// server do that work.
	maintenance engine.Maintenance
	Members     *Membership
	stats       *keeperStats
	quotas      admission.Admitter
	relay       childRelay
	Loops       []*MaintenanceLoop
	restarts    *restarts // nil if the backend does not report starts of a server
	liveness    engine.Liveness
	// schedules starts the runs of due schedules beside the loops; nil unless work is running.
	schedules atomic.Pointer[schedule.ScheduleRunner]
	// clockLogged is the time of the last log record about a clock that was set back; nil before the first.
	clockLogged atomic.Pointer[time.Time]
}

// KeeperConfig is the configuration of a keeper. The public options of keepers set its fields; Check validates them.
// It has no usable zero value: the public package fills in the defaults.
type KeeperConfig struct {
	// Lanes names lanes to maintain in addition to those that flows use.
	Lanes []enginecore.LaneID
	// CompactAfter is the time from the end of a run to the compaction of its records; negative disables compaction.
	CompactAfter time.Duration
	// RetainExecutions is how long executions outside managed flows are kept after their end; negative keeps them for
	// ever.
	RetainExecutions time.Duration
	// LibraryCheck is the interval of the checks that the server still has the library.
	LibraryCheck time.Duration
	// ReconcileEvery is the interval at which the keeper begins to reconcile the indexes of a partition.
	ReconcileEvery time.Duration
	// Heartbeat is the interval of the messages by which the keeper announces itself to the other keepers.
	Heartbeat time.Duration
}

// DefaultLane is the lane of executions that were created without one.
const DefaultLane enginecore.LaneID = "default"

// KeeperSweep is the longest time between two ticks of an owned partition. The engine publishes messages only about
// what is due earlier than the next sweep.
const KeeperSweep = 9 * time.Second

// keeperSilence is the time without a successful step after which Ready reports an error: two sweeps and an allowance
// for the steps themselves.
const keeperSilence = 2*KeeperSweep + 3*time.Second

// NewKeeper returns a keeper of a session. It does not validate the config: call Check before Run.
func NewKeeper(s *engine.Session, config KeeperConfig) *Keeper {
	k := &Keeper{
		KeeperConfig: config, Session: s, stats: newKeeperStats(), quotas: admission.Admitter{Session: s}, relay: newChildRelay(s),
		Members: NewMembership(uuid.NewString(), config.Heartbeat),
	}
	k.maintenance, _ = engine.Capability[engine.Maintenance](s.Backend)
	k.Loops = k.newLoops()
	for _, l := range k.Loops {
		k.restarts = cmp.Or(k.restarts, l.restarts)
	}
	return k
}

// Check validates the config. Its errors wrap engine.ErrWorkerConfig.
func (c *KeeperConfig) Check() error {
	for _, lane := range c.Lanes {
		if _, err := enginecore.ParseLaneID(string(lane)); err != nil {
			return fmt.Errorf("keeper: %w: %w", engine.ErrWorkerConfig, err)
		}
	}
	if c.Heartbeat < minHeartbeat || c.Heartbeat > maxHeartbeat {
		return fmt.Errorf("keeper: %w: heartbeat %s: must be between %s and %s", engine.ErrWorkerConfig, c.Heartbeat, minHeartbeat, maxHeartbeat)
	}
	return nil
}

// Run maintains the engine until ctx ends and then returns nil. The keeper that the workers of the session share is
// stopped meanwhile. Run returns an error if metrics cannot be registered, or if the engine has come to require a
// newer program.
func (k *Keeper) Run(ctx context.Context) error {
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
	running.Go(func() { k.Session.GuardLibrary(ctx, k.LibraryCheck) })
	k.work(ctx)
	running.Wait()
	if err := k.Session.Core.OutdatedErr(); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	return nil
}

// work runs all loops until ctx ends.
func (k *Keeper) work(ctx context.Context) {
	schedules := schedule.NewScheduleRunner(k.Session, true)
	defer schedules.Close()
	k.schedules.Store(schedules)
	defer k.schedules.Store(nil)
	var running sync.WaitGroup
	running.Go(func() { k.listen(ctx) })
	if follower, err := engine.Capability[engine.CompletionFollower](k.Session.Backend); err == nil {
		running.Go(func() { follower.FollowCompletions(ctx) })
	}
	for _, l := range k.Loops {
		running.Go(func() { k.runLoop(ctx, l) })
	}
	running.Wait()
}

// Ready returns nil if the keeper runs and its last step succeeded in some owned partition. Otherwise the error wraps
// engine.ErrNotReady. It sends nothing to the engine.
func (k *Keeper) Ready() error {
	if err := k.liveness.Check("keeper", keeperSilence); err != nil {
		return err
	}
	if err := k.Loops[0].Timer.allFailing(); err != nil {
		return fmt.Errorf("keeper: %w: its last step failed in each of its partitions: %w", engine.ErrNotReady, err)
	}
	return nil
}

// listen receives the messages that an item of a partition is due at a time, by the engine's clock.
func (k *Keeper) listen(ctx context.Context) {
	channel := k.Session.Core.Keys().ChannelDue()
	subscribed := func() {
		for _, l := range k.Loops {
			if l.hearsDue {
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
			if l.hearsDue && l.family == due.Partition.Family {
				l.Timer.NoteDue(due.Partition, due.At)
			}
		}
	})
}
