package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Keeper does what is due: it wakes delayed and retried executions, marks lost leases, ends what exceeded its time, works
// off what calls left for later, and mends what does not fit together. DutyTable lists all of it. At least one must run:
// workers run one beside them, with the default options, unless WithoutKeeper leaves it out. NewKeeper makes keepers with
// other options, or that run alone; any number may run, in any processes. Keepers of one engine share the partitions among
// them. Those of workers stand by while one made by NewKeeper is there.
type Keeper struct {
	session      *session
	lanes        []enginecore.LaneID
	compactAfter time.Duration
	// retainExecutions is how long executions outside managed flows are kept.
	retainExecutions time.Duration
	// libraryCheck is how often the server's library is looked at.
	libraryCheck time.Duration
	// reconcileEvery is how often a partition's indexes are looked at.
	reconcileEvery time.Duration
	fleet          *fleet
	stats          *keeperStats
	quotas         admitter
	courier        courier
	rounds         []*round
	restarts       *restarts // nil where servers do not tell of a start
	vitals         vitals
	fault          error // of the options
	// schedules starts what is due beside the rounds, as long as Run does.
	schedules atomic.Pointer[scheduleRunner]
	// clockTold is when the keeper told last that a server's clock was set back.
	clockTold atomic.Pointer[time.Time]
}

// defaultLane is where executions are that were created without a lane.
const defaultLane enginecore.LaneID = "default"

// DefaultCompactAfter is when keepers make the record of an ended run smaller, unless CompactAfter says otherwise.
const DefaultCompactAfter = time.Hour

// KeeperOption adjusts NewKeeper.
type KeeperOption func(*Keeper)

// KeeperLanes names lanes to look after besides "default" and those that flows use, for executions that other tools create.
// Without it, a lane that only such executions use is found by DutyIndexReconciliation.
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

// ReconcileEvery is how often the keeper begins to go through the records and indexes of a partition, to mend what does not
// fit together. A partition with many records takes a few of these times; Client.RunDuty goes through all at once. Defaults
// to DefaultReconcileEvery, at least 100 ms. Without effect in contract mode.
func ReconcileEvery(d time.Duration) KeeperOption {
	return func(k *Keeper) { k.reconcileEvery = max(d, minReconcileEvery) }
}

// Heartbeat is how often the keeper tells the other keepers of the engine that it is there, between 10 ms and a minute.
// When one dies, the others take over its partitions three to four of its heartbeats later; when it is stopped, at once.
// Defaults to DefaultHeartbeat.
func Heartbeat(d time.Duration) KeeperOption {
	return func(k *Keeper) { k.fleet.beat = d }
}

// NewKeeper returns a keeper of an engine.
func NewKeeper(e *Engine, opts ...KeeperOption) *Keeper {
	var s *session
	err := e.open()
	if err == nil {
		s = e.session
	}
	k := newKeeperOf(s, opts...)
	k.fault = errors.Join(k.fault, err)
	return k
}

// newKeeperOf returns a keeper of a session, nil for one that only reports its fault.
func newKeeperOf(s *session, opts ...KeeperOption) *Keeper {
	k := &Keeper{
		session: s, compactAfter: DefaultCompactAfter, retainExecutions: DefaultRetainExecutions, reconcileEvery: DefaultReconcileEvery,
		libraryCheck: libraryCheck, stats: newKeeperStats(), quotas: admitter{s}, courier: courier{s},
		fleet: newFleet(uuid.NewString()), lanes: []enginecore.LaneID{defaultLane},
	}
	k.fault = apply(k, opts)
	if s == nil {
		return k
	}
	k.rounds = k.newRounds()
	for _, r := range k.rounds {
		k.restarts = cmp.Or(k.restarts, r.restarts)
	}
	return k
}

// keeperSweep is how often every partition is looked at, whatever is known of it. The engine sends no message for what is
// due later than that.
const keeperSweep = 9 * time.Second

var errUnmadeKeeper = fmt.Errorf("%w: the keeper was not made by NewKeeper", ErrWorkerConfig)

func (k *Keeper) check() error {
	if k == nil || k.fleet == nil {
		return errUnmadeKeeper
	}
	if k.fault != nil {
		return fmt.Errorf("keeper: %w: %w", ErrWorkerConfig, k.fault)
	}
	for _, lane := range k.lanes {
		if _, err := enginecore.ParseLaneID(string(lane)); err != nil {
			return fmt.Errorf("keeper: %w: %w", ErrWorkerConfig, err)
		}
	}
	if k.fleet.beat < minHeartbeat || k.fleet.beat > maxHeartbeat {
		return fmt.Errorf("keeper: %w: heartbeat %s: must be between %s and %s", ErrWorkerConfig, k.fleet.beat, minHeartbeat, maxHeartbeat)
	}
	return nil
}

// Run keeps until ctx ends and returns nil then. While the engine is away, it keeps trying. It may run once at a time.
func (k *Keeper) Run(ctx context.Context) error {
	if err := k.check(); err != nil {
		return err
	}
	defer k.vitals.begin()()
	unwatch, err := k.watchMetrics()
	if err != nil {
		return err
	}
	defer unwatch()
	ctx, release := k.session.whileServed(ctx)
	defer release()
	defer k.session.builtIn.yield()()
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

// work goes all rounds until ctx ends.
func (k *Keeper) work(ctx context.Context) {
	schedules := newScheduleRunner(k.session, true)
	defer schedules.close()
	k.schedules.Store(schedules)
	defer k.schedules.Store(nil)
	var running sync.WaitGroup
	running.Go(func() { k.listen(ctx) })
	running.Go(func() { k.session.calls.attend(ctx) })
	for _, r := range k.rounds {
		running.Go(func() { k.walk(ctx, r) })
	}
	running.Wait()
}

// listen hears "<partition> <unix ms>": something is due in a partition earlier than its keepers may know. A letter before
// the number says that it is a partition of another family than that of flows.
func (k *Keeper) listen(ctx context.Context) {
	channel := k.session.core.Keys().ChannelDue()
	subscribed := func() {
		for _, r := range k.rounds {
			if r.hears {
				r.agenda.allDue()
			}
		}
	}
	k.session.hub.listen(ctx, []string{channel}, subscribed, func(_, message string) {
		p, at, ok := parseDue(message)
		if !ok {
			return
		}
		for _, r := range k.rounds {
			if r.hears && r.family == p.Family {
				r.agenda.note(p, at)
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
