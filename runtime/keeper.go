package runtime

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
)

// keeper runs the maintenance loops of an engine over the partitions that it owns, and shares the partitions with the other
// keepers of the engine.
type keeper struct {
	keeperConfig
	session *session
	// maintenance is nil where the backend lacks it: what needs it is left to the server's own scanners then.
	maintenance maintenance
	members     *membership
	stats       *keeperStats
	quotas      admitter
	relay       childRelay
	loops       []*maintenanceLoop
	restarts    *restarts // nil where servers do not tell of a start
	liveness    liveness
	// schedules starts what is due beside the loops, as long as run does.
	schedules atomic.Pointer[scheduleRunner]
	// clockLogged is when the keeper logged last that a server's clock was set back.
	clockLogged atomic.Pointer[time.Time]
}

// keeperConfig is what options of keepers set.
type keeperConfig struct {
	// lanes are looked after besides those that flows use.
	lanes []enginecore.LaneID
	// compactAfter is how long after the end of a run its record is made smaller; negative is never.
	compactAfter time.Duration
	// retainExecutions is how long executions outside managed flows are kept; negative is for ever.
	retainExecutions time.Duration
	// libraryCheck is how often the server's library is looked at.
	libraryCheck time.Duration
	// reconcileEvery is how often a partition's indexes are looked at.
	reconcileEvery time.Duration
	// heartbeat is how often the keeper tells the others that it is there.
	heartbeat time.Duration
}

// defaultLane is where executions are that were created without a lane.
const defaultLane enginecore.LaneID = "default"

// keeperSweep is how often every partition is looked at, whatever is known of it. The engine sends no message for what is
// due later than that.
const keeperSweep = 9 * time.Second

// keeperSilence is after which time without a successful step a keeper is not ready: two sweeps, and some time for the steps.
const keeperSilence = 2*keeperSweep + 3*time.Second

// newKeeper returns a keeper of a session. The config must have passed its check.
func newKeeper(s *session, config keeperConfig) *keeper {
	k := &keeper{
		keeperConfig: config, session: s, stats: newKeeperStats(), quotas: admitter{s}, relay: newChildRelay(s),
		members: newMembership(uuid.NewString(), config.heartbeat),
	}
	k.maintenance, _ = capability[maintenance](s.backend)
	k.loops = k.newLoops()
	for _, l := range k.loops {
		k.restarts = cmp.Or(k.restarts, l.restarts)
	}
	return k
}

// check returns what is wrong with the options.
func (c *keeperConfig) check() error {
	for _, lane := range c.lanes {
		if _, err := enginecore.ParseLaneID(string(lane)); err != nil {
			return fmt.Errorf("keeper: %w: %w", ErrWorkerConfig, err)
		}
	}
	if c.heartbeat < minHeartbeat || c.heartbeat > maxHeartbeat {
		return fmt.Errorf("keeper: %w: heartbeat %s: must be between %s and %s", ErrWorkerConfig, c.heartbeat, minHeartbeat, maxHeartbeat)
	}
	return nil
}

// run keeps until ctx ends and returns nil then. The keeper that workers share makes room for it meanwhile.
func (k *keeper) run(ctx context.Context) error {
	defer k.liveness.begin()()
	unwatch, err := k.watchMetrics()
	if err != nil {
		return err
	}
	defer unwatch()
	ctx, release := k.session.whileServed(ctx)
	defer release()
	defer k.session.keeper.yield()()
	var running sync.WaitGroup
	running.Go(func() { k.announce(ctx) })
	running.Go(func() { k.session.guardLibrary(ctx, k.libraryCheck) })
	k.work(ctx)
	running.Wait()
	if err := k.session.core.OutdatedErr(); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	return nil
}

// work runs all loops until ctx ends.
func (k *keeper) work(ctx context.Context) {
	schedules := newScheduleRunner(k.session, true)
	defer schedules.close()
	k.schedules.Store(schedules)
	defer k.schedules.Store(nil)
	var running sync.WaitGroup
	running.Go(func() { k.listen(ctx) })
	if follower, err := capability[completionFollower](k.session.backend); err == nil {
		running.Go(func() { follower.followCompletions(ctx) })
	}
	for _, l := range k.loops {
		running.Go(func() { k.runLoop(ctx, l) })
	}
	running.Wait()
}

// ready returns nil when the keeper runs and its steps succeed in some partition.
func (k *keeper) ready() error {
	if err := k.liveness.check("keeper", keeperSilence); err != nil {
		return err
	}
	if err := k.loops[0].timer.allFailing(); err != nil {
		return fmt.Errorf("keeper: %w: its last step failed in each of its partitions: %w", ErrNotReady, err)
	}
	return nil
}

// listen receives "<partition> <unix ms>": something is due in a partition earlier than its keepers may know. A letter before
// the number says that it is a partition of another family than that of flows.
func (k *keeper) listen(ctx context.Context) {
	channel := k.session.core.Keys().ChannelDue()
	subscribed := func() {
		for _, l := range k.loops {
			if l.hearsDue {
				l.timer.allDue()
			}
		}
	}
	k.session.hub.listen(ctx, []string{channel}, subscribed, func(_, message string) {
		p, at, ok := parseDue(message)
		if !ok {
			return
		}
		for _, l := range k.loops {
			if l.hearsDue && l.family == p.Family {
				l.timer.noteDue(p, at)
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
