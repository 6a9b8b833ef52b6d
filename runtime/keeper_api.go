package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
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

// Stats returns counts of the keeper's work. It may be called at any time.
func (k *Keeper) Stats() fabrictype.KeeperStats {
	if k == nil || k.keeper == nil {
		return fabrictype.KeeperStats{}
	}
	stats := fabrictype.KeeperStats{
		Keepers: k.keeper.Members.Size(), Partitions: k.keeper.Partitions(),
		Tasks:    make(map[string]fabrictype.KeeperTaskStats),
		Siblings: k.keeper.Siblings(),
	}
	for _, t := range k.keeper.TaskStats() {
		stats.Tasks[string(t.Task)] = fabrictype.KeeperTaskStats{
			LastRun: t.LastRun, Steps: t.Steps, Done: t.Done, Errors: t.Errors, Panics: t.Panics, Failed: t.Failed,
			Lag: fabrictype.Duration{Duration: t.Lag}, MaxLag: fabrictype.Duration{Duration: t.MaxLag},
		}
	}
	return stats
}
