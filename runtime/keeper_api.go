package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/keeper"
)

// Keeper performs work that is due by time: it makes delayed and retried executions eligible, recovers lost leases,
// ends executions and runs whose time is up, finishes large operations that calls left incomplete, and repairs indexes
// that do not match the records. admin.Client.KeeperTasks lists its tasks.
//
// At least one keeper must run. Workers run one, which OpenConfig.Keeper configures, unless WorkerConfig.NoKeeper is
// set. NewKeeper creates keepers that run without workers. Any number may run, in any processes; the keepers of one
// engine divide the partitions among themselves. Keepers of workers are on standby while a keeper made by NewKeeper
// runs.
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

// Internal has the keeper for packages of this module; programs can do nothing with it, and it may change.
func (k *Keeper) Internal() keeper.Handle { return keeper.HandleOf(k.keeper) }

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
	if err := checkContext(ctx); err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	return k.keeper.Run(ctx)
}

// Check reports whether the keeper runs and makes progress. It fails when the last step failed in every partition of
// the keeper, or when no step succeeded for 21 s. It sends nothing and returns at once. The error matches ErrNotReady.
func (k *Keeper) Check(context.Context) error {
	if err := k.check(); err != nil {
		return err
	}
	return k.keeper.Ready()
}

// KeeperStats counts a keeper's work since it was created.
type KeeperStats struct {
	// Keepers is the number of keepers of the engine that this keeper knows, including itself.
	Keepers int
	// Partitions is the number of flow partitions that this keeper serves.
	Partitions int
	// Tasks are the keeper tasks of this keeper, by name, such as "lease_expiry".
	Tasks map[string]KeeperTaskStats
	// Siblings counts the upstreams that decided joins did not need and that the keeper task sibling_cancel_dispatch
	// processed, by their outcome: "cancelled"; "already_terminal", they had ended; "not_found"; "needed", by another
	// node. Most upstreams in runs are cancelled by the call that decides the join, and not counted here.
	Siblings map[string]int64
}

// KeeperTaskStats counts a keeper's work for one keeper task.
type KeeperTaskStats struct {
	// LastRun is when the task last ran; zero before the first time.
	LastRun time.Time
	// Steps counts calls for one partition, and Done the items that they processed: executions, runs, edges or
	// waitpoints.
	Steps, Done int64
	// Errors counts steps that failed, Panics steps that panicked. Failed counts how often a single item could not be
	// worked on, such as one with a damaged record. The keeper puts such an item off, tries it again after at most a
	// minute, and works on the others.
	Errors, Panics, Failed int64
	// Lag is how late the last due item was processed, by the engine's clock, and MaxLag the largest lag so far. Both
	// are zero for tasks without due times.
	Lag, MaxLag time.Duration
}

// Stats returns counts of the keeper's work. It may be called at any time.
func (k *Keeper) Stats() KeeperStats {
	if k == nil || k.keeper == nil {
		return KeeperStats{}
	}
	stats := KeeperStats{
		Keepers: k.keeper.Members.Size(), Partitions: k.keeper.Partitions(), Tasks: make(map[string]KeeperTaskStats),
		Siblings: k.keeper.Siblings(),
	}
	for _, t := range k.keeper.TaskStats() {
		stats.Tasks[string(t.Task)] = KeeperTaskStats{
			LastRun: t.LastRun, Steps: t.Steps, Done: t.Done, Errors: t.Errors, Panics: t.Panics, Failed: t.Failed,
			Lag: t.Lag, MaxLag: t.MaxLag,
		}
	}
	return stats
}
