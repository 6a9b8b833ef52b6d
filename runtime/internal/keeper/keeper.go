package keeper

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/schedule"
)

// keeper runs the maintenance loops of an engine over the partitions that it owns, and shares the partitions with the other
// keepers of the engine.
type Keeper struct {
	KeeperConfig
	Session *engine.Session
	// maintenance is nil where the backend lacks it: what needs it is left to the server's own scanners then.
	maintenance engine.Maintenance
	Members     *Membership
	stats       *keeperStats
	quotas      admission.Admitter
	relay       childRelay
	Loops       []*MaintenanceLoop
	restarts    *restarts // nil where servers do not tell of a start
	liveness    engine.Liveness
	// schedules starts what is due beside the loops, as long as run does.
	schedules atomic.Pointer[schedule.ScheduleRunner]
	// clockLogged is when the keeper logged last that a server's clock was set back.
	clockLogged atomic.Pointer[time.Time]
}

// keeperConfig is what options of keepers set.
type KeeperConfig struct {
	// lanes are looked after besides those that flows use.
	Lanes []enginecore.LaneID
	// compactAfter is how long after the end of a run its record is made smaller; negative is never.
	CompactAfter time.Duration
	// retainExecutions is how long executions outside managed flows are kept; negative is for ever.
	RetainExecutions time.Duration
	// libraryCheck is how often the server's library is looked at.
	LibraryCheck time.Duration
	// reconcileEvery is how often a partition's indexes are looked at.
	ReconcileEvery time.Duration
	// heartbeat is how often the keeper tells the others that it is there.
	Heartbeat time.Duration
}

// defaultLane is where executions are that were created without a lane.
const DefaultLane enginecore.LaneID = "default"

// keeperSweep is how often every partition is looked at, whatever is known of it. The engine sends no message for what is
// due later than that.
const KeeperSweep = 9 * time.Second

// keeperSilence is after which time without a successful step a keeper is not ready: two sweeps, and some time for the steps.
const keeperSilence = 2*KeeperSweep + 3*time.Second

// newKeeper returns a keeper of a session. The config must have passed its check.
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

// check returns what is wrong with the options.
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

// run keeps until ctx ends and returns nil then. The keeper that workers share makes room for it meanwhile.
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

// ready returns nil when the keeper runs and its steps succeed in some partition.
func (k *Keeper) Ready() error {
	if err := k.liveness.Check("keeper", keeperSilence); err != nil {
		return err
	}
	if err := k.Loops[0].Timer.allFailing(); err != nil {
		return fmt.Errorf("keeper: %w: its last step failed in each of its partitions: %w", engine.ErrNotReady, err)
	}
	return nil
}

// listen receives "<partition> <unix ms>": something is due in a partition earlier than its keepers may know. A letter before
// the number says that it is a partition of another family than that of flows.
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
		p, at, ok := parseDue(message)
		if !ok {
			return
		}
		for _, l := range k.Loops {
			if l.hearsDue && l.family == p.Family {
				l.Timer.NoteDue(p, at)
			}
		}
	})
}

// parseDue reads a message that something is due.
func parseDue(message string) (enginecore.Partition, time.Time, bool) {
	number, at, _ := strings.Cut(message, " ")
	family := enginecore.FlowFamily
	if rest, ok := strings.CutPrefix(number, "q"); ok {
		number, family = rest, enginecore.QuotaFamily
	} else if rest, ok := strings.CutPrefix(number, "b"); ok {
		number, family = rest, enginecore.BudgetFamily
	}
	index, err := strconv.ParseUint(number, 10, 16)
	ms, err2 := strconv.ParseInt(at, 10, 64)
	if err != nil || err2 != nil {
		return enginecore.Partition{}, time.Time{}, false
	}
	return enginecore.Partition{Family: family, Index: uint16(index)}, time.UnixMilli(ms), true
}
