package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/keeper"
)

// KeeperConfig configures a keeper. The zero value suits most programs.
type KeeperConfig struct {
	// Lanes are lanes to serve in addition to "default" and the lanes that the engine knows from workers, runs and
	// creations of this module. Name lanes here on which only other tools create executions: executions that were
	// delayed there before a program of this module used the engine are otherwise found by index_reconciliation only,
	// and in contract mode not at all. In contract mode, all keepers of the engine serve them. Defaults to none.
	Lanes []string
	// HeartbeatInterval is how often the keeper announces itself to the other keepers of the engine, 10 ms to 1 min.
	// When a keeper dies, the others take over its partitions after three to four of its heartbeat intervals; when it
	// is stopped, at once. Defaults to 1 s.
	HeartbeatInterval time.Duration
	// ReconcileEvery is how often the keeper starts to check the records and indexes of a partition and repairs
	// mismatches. A partition with many records takes several of these intervals; admin.Client.RunKeeperTask checks all
	// of it in one call. At least 100 ms. Defaults to 10 min. Without effect in contract mode.
	ReconcileEvery time.Duration
	// RetainExecutions is how long the keeper keeps executions that do not belong to a flow, counted from their end.
	// These are the executions that other tools create with ff_create_execution, or that package admin creates. The
	// keeper then deletes each with its payload, result, attempts and streams. A retention_ttl_ms in the stream_policy
	// of an execution overrides this time. Runs have flow.Retention instead. Defaults to 24 h; a negative duration
	// keeps executions that have no retention_ttl_ms. Without effect in contract mode.
	RetainExecutions time.Duration
	// SiblingNamespace and SiblingTag restrict the keeper task sibling_cancel_dispatch to joins whose execution has the
	// namespace, and the tag with the value SiblingTagValue. They concern flows that other tools created call by call;
	// use them when a dispatcher of another program serves the other joins. The others are left to keepers without the
	// filter. Both default to "", which does not restrict it.
	SiblingNamespace, SiblingTag, SiblingTagValue string
}

const (
	defaultHeartbeatInterval = time.Second
	defaultReconcileEvery    = 10 * time.Minute
	defaultRetainExecutions  = 24 * time.Hour
)

// resolve returns the config of the keeper itself, with the defaults in place. The error joins all faults; in goes
// before the names of the fields.
func (c KeeperConfig) resolve(in string) (keeper.Config, error) {
	config := keeper.Config{
		Lanes:            []enginecore.LaneID{keeper.DefaultLane},
		RetainExecutions: cmp.Or(c.RetainExecutions, defaultRetainExecutions),
		ReconcileEvery:   cmp.Or(c.ReconcileEvery, defaultReconcileEvery),
		SiblingNamespace: c.SiblingNamespace, SiblingTag: c.SiblingTag, SiblingTagValue: c.SiblingTagValue,
		Heartbeat: cmp.Or(c.HeartbeatInterval, defaultHeartbeatInterval),
	}
	for _, name := range c.Lanes {
		config.Lanes = append(config.Lanes, enginecore.LaneID(name))
	}
	return config, config.Check(in)
}

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
