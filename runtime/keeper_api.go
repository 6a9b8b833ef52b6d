package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime/internal/keeper"
)

// Keeper does what is due: it wakes delayed and retried executions, marks lost leases, ends what exceeded its time,
// works off what calls left for later, and repairs indexes that do not match the records. admin.Client.KeeperTasks
// lists all of it. At least one must run: workers run one beside them, which OpenConfig.Keeper configures, unless
// WorkerConfig.NoKeeper leaves it out. NewKeeper makes keepers that run alone; any number may run, in any processes.
// Keepers of one engine share the partitions among them. Those of workers stand by while one made by NewKeeper is
// there.
type Keeper struct{ keeper *keeper.Keeper }

// NewKeeper returns a keeper of an engine. The error joins all faults of the config and matches ErrInvalid,
// or enginecore.ErrClosed for an engine that is closed.
func NewKeeper(e *Engine, config KeeperConfig) (*Keeper, error) {
	resolved, err := config.resolve("")
	if err := errors.Join(e.open(), err); err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	return &Keeper{keeper.New(e.session, resolved)}, nil
}

var errUnmadeKeeper = invalid("the keeper was not made by NewKeeper")

// check returns why the keeper cannot run.
func (k *Keeper) check() error {
	if k == nil || k.keeper == nil {
		return errUnmadeKeeper
	}
	return nil
}

// Run keeps until ctx ends and returns nil then. While the engine is away, it keeps trying. It returns
// enginecore.ErrClosed when the engine is closed first. It may run once at a time.
func (k *Keeper) Run(ctx context.Context) error {
	if err := k.check(); err != nil {
		return err
	}
	return k.keeper.Run(ctx)
}

// Check reports whether the keeper runs and does its work: it is not ready when the last step failed in each of its
// partitions, nor without a successful step for 21 s. It asks nobody and returns at once; the error matches
// ErrNotReady.
func (k *Keeper) Check(context.Context) error {
	if err := k.check(); err != nil {
		return err
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
			LastRun: t.LastRun, Steps: t.Steps, Done: t.Done, Errors: t.Errors, Panics: t.Panics, Lag: t.Lag,
			MaxLag: t.MaxLag,
		}
	}
	return stats
}
