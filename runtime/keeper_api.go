package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keepertask"
	"github.com/flowfabric/flowfabric-go/runtime/internal/contractmode"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/keeper"
)

// Keeper does what is due: it wakes delayed and retried executions, marks lost leases, ends what exceeded its time,
// works off what calls left for later, and mends what does not fit together. admin.Client.KeeperTasks lists all of it.
// At least one must run: workers run one beside them, with the default options, unless WithoutKeeper leaves it out.
// NewKeeper makes keepers with other options, or that run alone; any number may run, in any processes. Keepers of one
// engine share the partitions among them. Those of workers stand by while one made by NewKeeper is there.
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

// KeeperLanes names lanes to look after besides "default" and those that flows use, for executions that other tools
// create. Without it, a lane that only such executions use is found by index_reconciliation.
func KeeperLanes(names ...string) KeeperOption {
	return func(c *keeper.Config) {
		for _, name := range names {
			c.Lanes = append(c.Lanes, enginecore.LaneID(name))
		}
	}
}

// CompactAfter is how long after the end of a run its record is made smaller: what is kept of attempts and leases, and
// of when each edge was satisfied, goes then; states, times, results, events and output of the run stay, and it can be
// run again. Defaults to DefaultCompactAfter; a negative time keeps the full record.
func CompactAfter(d time.Duration) KeeperOption {
	return func(c *keeper.Config) { c.CompactAfter = d }
}

// RetainExecutions is how long executions that belong to no managed flow are kept after their end, with payload,
// result, attempts, streams and all else that belongs to them: those that ff_create_execution or package admin has
// created. The retention_ttl_ms of the stream_policy in an execution's policy goes before. Runs have flow.Retention
// instead. Defaults to DefaultRetainExecutions; a negative time keeps those for ever whose policy says nothing. Without
// effect in contract mode.
func RetainExecutions(d time.Duration) KeeperOption {
	return func(c *keeper.Config) { c.RetainExecutions = d }
}

// ReconcileEvery is how often the keeper begins to go through the records and indexes of a partition, to mend what does
// not fit together. A partition with many records takes a few of these times; admin.Client.RunKeeperTask goes through
// all at once. Defaults to DefaultReconcileEvery, at least 100 ms. Without effect in contract mode.
func ReconcileEvery(d time.Duration) KeeperOption {
	return func(c *keeper.Config) { c.ReconcileEvery = max(d, minReconcileEvery) }
}

// Heartbeat is how often the keeper tells the other keepers of the engine that it is there, between 10 ms and a minute.
// When one dies, the others take over its partitions three to four of its heartbeats later; when it is stopped, at
// once. Defaults to DefaultHeartbeat.
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

// Check tells whether the keeper runs, and does its work: it is not ready when the last step failed in each of its
// partitions, nor without a successful step for 21 s. It asks nobody and returns at once; the error matches
// ErrNotReady.
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
	// Tasks are the keeper tasks of this keeper, by name, such as "lease_expiry".
	Tasks map[string]KeeperTaskStats
}

// KeeperTaskStats is what a keeper has done of one task.
type KeeperTaskStats struct {
	// LastRun is when it was last carried out; zero before the first time.
	LastRun time.Time
	// Steps counts looks at partitions, Done what was worked on in them: executions, runs, edges, waitpoints.
	Steps, Done int64
	// Errors counts partitions in which a step failed, Panics steps that panicked.
	Errors, Panics int64
	// Lag is how late the last item was that was due, by the engine's clock; MaxLag is the longest of all. Both are
	// zero for tasks that nothing is due for.
	Lag, MaxLag time.Duration
}

// Stats tells what the keeper has done so far. It may be called at any time.
func (k *Keeper) Stats() KeeperStats {
	if k == nil || k.keeper == nil {
		return KeeperStats{}
	}
	stats := KeeperStats{
		Keepers: k.keeper.Members.Size(), Partitions: k.keeper.Partitions(), Tasks: make(map[string]KeeperTaskStats),
	}
	for _, t := range k.keeper.TaskStats() {
		stats.Tasks[string(t.Task)] = KeeperTaskStats{
			LastRun: t.LastRun, Steps: t.Steps, Done: t.Done, Errors: t.Errors, Panics: t.Panics, Lag: t.Lag, MaxLag: t.MaxLag,
		}
	}
	return stats
}

// Tasks describes the tasks of keepers for admin.Client.KeeperTasks, which is the call for programs: its type is
// internal, and may change with any version. A keeper that cannot run has none.
func (k *Keeper) Tasks() []keepertask.Task {
	if k.check() != nil {
		return nil
	}
	return k.keeper.Tasks(contractmode.ContractTasks)
}

// RunTask is admin.Client.RunKeeperTask, which is the call for programs, with this keeper's configuration: its type is
// internal, and may change with any version.
func (k *Keeper) RunTask(ctx context.Context, name string) (keepertask.Report, error) {
	if err := k.check(); err != nil {
		return keepertask.Report{Task: name}, err
	}
	return k.keeper.RunTask(ctx, name)
}
