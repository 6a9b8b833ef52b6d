package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/keeper"
)

// Keeper does what is due: it wakes delayed and retried executions, marks lost leases, ends what exceeded its time, works
// off what calls left for later, and mends what does not fit together. DutyTable lists all of it. At least one must run:
// workers run one beside them, with the default options, unless WithoutKeeper leaves it out. NewKeeper makes keepers with
// other options, or that run alone; any number may run, in any processes. Keepers of one engine share the partitions among
// them. Those of workers stand by while one made by NewKeeper is there.
type Keeper struct {
	keeper *keeper.Keeper // nil in one that only reports its fault
	fault  error          // of the engine or the options
}

// Defaults of keepers.
const (
	// DefaultCompactAfter is when keepers make the record of an ended run smaller, unless CompactAfter says otherwise.
	DefaultCompactAfter = time.Hour
	// DefaultHeartbeat is how often a keeper tells the others that it is there, unless Heartbeat says otherwise.
	DefaultHeartbeat = time.Second
	// DefaultReconcileEvery is how often keepers go through indexes and records, unless ReconcileEvery says otherwise.
	DefaultReconcileEvery = 10 * time.Minute
	// DefaultRetainExecutions is how long keepers keep executions outside managed flows after their end, unless
	// RetainExecutions or the execution's own policy says otherwise.
	DefaultRetainExecutions = 24 * time.Hour
)

const minReconcileEvery = 100 * time.Millisecond

// KeeperOption adjusts NewKeeper.
type KeeperOption func(*keeper.Config)

// KeeperLanes names lanes to look after besides "default" and those that flows use, for executions that other tools create.
// Without it, a lane that only such executions use is found by DutyIndexReconciliation.
func KeeperLanes(names ...string) KeeperOption {
	return func(c *keeper.Config) {
		for _, name := range names {
			c.Lanes = append(c.Lanes, enginecore.LaneID(name))
		}
	}
}

// CompactAfter is how long after the end of a run its record is made smaller: what is kept of attempts and leases, and of
// when each edge was satisfied, goes then; states, times, results, events and output of the run stay, and it can be run
// again. Defaults to DefaultCompactAfter; a negative time keeps the full record.
func CompactAfter(d time.Duration) KeeperOption {
	return func(c *keeper.Config) { c.CompactAfter = d }
}

// RetainExecutions is how long executions that belong to no managed flow are kept after their end, with payload, result,
// attempts, streams and all else that belongs to them: those that ff_create_execution or package admin has created. The
// retention_ttl_ms of the stream_policy in an execution's policy goes before. Runs have flow.Retention instead. Defaults to
// DefaultRetainExecutions; a negative time keeps those for ever whose policy says nothing. Without effect in contract mode.
func RetainExecutions(d time.Duration) KeeperOption {
	return func(c *keeper.Config) { c.RetainExecutions = d }
}

// ReconcileEvery is how often the keeper begins to go through the records and indexes of a partition, to mend what does not
// fit together. A partition with many records takes a few of these times; Client.RunDuty goes through all at once. Defaults
// to DefaultReconcileEvery, at least 100 ms. Without effect in contract mode.
func ReconcileEvery(d time.Duration) KeeperOption {
	return func(c *keeper.Config) { c.ReconcileEvery = max(d, minReconcileEvery) }
}

// Heartbeat is how often the keeper tells the other keepers of the engine that it is there, between 10 ms and a minute.
// When one dies, the others take over its partitions three to four of its heartbeats later; when it is stopped, at once.
// Defaults to DefaultHeartbeat.
func Heartbeat(d time.Duration) KeeperOption {
	return func(c *keeper.Config) { c.Heartbeat = d }
}

// NewKeeper returns a keeper of an engine.
func NewKeeper(e *Engine, opts ...KeeperOption) *Keeper {
	if err := e.open(); err != nil {
		_, fault := configureKeeper(opts)
		return &Keeper{fault: errors.Join(fault, err)}
	}
	return newKeeperOf(e.session, opts...)
}

// newKeeperOf returns a keeper of a session.
func newKeeperOf(s *engine.Session, opts ...KeeperOption) *Keeper {
	config, fault := configureKeeper(opts)
	return &Keeper{keeper: keeper.New(s, config), fault: fault}
}

// defaultKeeperConfig is the config of keepers without options.
func defaultKeeperConfig() keeper.Config {
	return keeper.Config{
		Lanes: []enginecore.LaneID{keeper.DefaultLane}, CompactAfter: DefaultCompactAfter, RetainExecutions: DefaultRetainExecutions,
		LibraryCheck: engine.LibraryCheck, ReconcileEvery: DefaultReconcileEvery, Heartbeat: DefaultHeartbeat,
	}
}

// configureKeeper applies options to the defaults.
func configureKeeper(opts []KeeperOption) (keeper.Config, error) {
	config := defaultKeeperConfig()
	fault := apply(&config, opts)
	return config, fault
}

var errUnmadeKeeper = fmt.Errorf("%w: the keeper was not made by NewKeeper", engine.ErrWorkerConfig)

// check returns why the keeper cannot run.
func (k *Keeper) check() error {
	switch {
	case k == nil || k.keeper == nil && k.fault == nil:
		return errUnmadeKeeper
	case k.fault != nil:
		return fmt.Errorf("keeper: %w: %w", engine.ErrWorkerConfig, k.fault)
	}
	return k.keeper.Check()
}

// Run keeps until ctx ends and returns nil then. While the engine is away, it keeps trying. It may run once at a time.
func (k *Keeper) Run(ctx context.Context) error {
	if err := k.check(); err != nil {
		return err
	}
	return k.keeper.Run(ctx)
}

// Check tells whether the keeper runs, and does its work: it is not ready when the last step failed in each of its partitions,
// nor without a successful step for 21 s. It asks nobody and returns at once; the error matches ErrNotReady.
func (k *Keeper) Check(context.Context) error {
	if k == nil || k.keeper == nil {
		return errUnmadeKeeper
	}
	return k.keeper.Ready()
}

// KeeperStats is what a keeper has done since it was made.
type KeeperStats struct {
	// Keepers counts the keepers of the engine that this one knows of, with itself.
	Keepers int
	// Partitions counts those of flows that this one sees to.
	Partitions int
	// Duties are in the order of their names.
	Duties []DutyStats
}

// DutyStats is what a keeper has done of one duty.
type DutyStats struct {
	Duty Duty
	// LastRun is when it was last seen to; zero when that has not been yet.
	LastRun time.Time
	// Steps counts looks at partitions, Done what was worked on in them: executions, runs, edges, waitpoints.
	Steps, Done int64
	// Errors counts partitions in which a step failed, Panics steps that panicked.
	Errors, Panics int64
	// Lag is how late the last item was that was due, by the engine's clock; MaxLag is the longest of all. Both are zero for
	// duties that nothing is due for.
	Lag, MaxLag time.Duration
}

// Stats tells what the keeper has done so far. It may be called at any time.
func (k *Keeper) Stats() KeeperStats {
	if k == nil || k.keeper == nil {
		return KeeperStats{}
	}
	tasks := k.keeper.TaskStats()
	stats := KeeperStats{Keepers: k.keeper.Members.Size(), Partitions: k.keeper.Partitions()}
	for _, t := range tasks {
		stats.Duties = append(stats.Duties, DutyStats{
			Duty: Duty(t.Task), LastRun: t.LastRun, Steps: t.Steps, Done: t.Done, Errors: t.Errors, Panics: t.Panics, Lag: t.Lag, MaxLag: t.MaxLag,
		})
	}
	return stats
}

// DutyReport is what RunOnce has done.
type DutyReport struct {
	Duty Duty
	// Partitions counts those that were looked at, Steps the looks.
	Partitions, Steps int
	// Done counts what was worked on: executions, runs, edges, waitpoints.
	Done int64
	// Lag is how late the latest item was, by the engine's clock.
	Lag time.Duration
	// Remaining counts partitions where more is to do, or may be, because a step failed or the context ended.
	Remaining int
	// Repaired counts, by index, the entries that did not match the records; nil for duties that do not repair indexes.
	Repaired map[string]int64
	// Took is how long it took.
	Took time.Duration
}

// RunOnce performs one duty in all partitions until no work is left, whether or not this keeper or others run. It skips partitions
// in which a step fails and continues with the others. The report is valid also with an error, which joins the errors of the
// partitions. RunOnce returns ErrUnknownDuty, and does nothing, for a duty that does not exist or that contract mode lacks.
func (k *Keeper) RunOnce(ctx context.Context, duty Duty) (DutyReport, error) {
	if err := k.check(); err != nil {
		return DutyReport{Duty: duty}, err
	}
	if _, err := ParseDuty(string(duty)); err != nil {
		return DutyReport{Duty: duty}, fmt.Errorf("keeper: %w", err)
	}
	r, err := k.keeper.RunTask(ctx, engine.TaskID(duty))
	return DutyReport{
		Duty: duty, Partitions: r.Partitions, Steps: r.Steps, Done: r.Done, Lag: r.Lag, Remaining: r.Remaining, Repaired: r.Repaired, Took: r.Took,
	}, err
}

// RunDuty sees to one duty of the keepers by hand, on all partitions, as Keeper.RunOnce does.
func (c *Client) RunDuty(ctx context.Context, duty Duty, opts ...KeeperOption) (DutyReport, error) {
	if err := c.ready(); err != nil {
		return DutyReport{}, err
	}
	return newKeeperOf(c.session, opts...).RunOnce(ctx, duty)
}
