package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/keeper"
)

// Keeper does what is due: it wakes delayed and retried executions, marks lost leases, ends what exceeded its time, works
// off what calls left for later, and mends what does not fit together. DutyTable lists all of it. At least one must run:
// workers run one beside them, which OpenConfig.Keeper configures, unless WorkerConfig.NoKeeper leaves it out.
// NewKeeper makes keepers that run alone; any number may run, in any processes. Keepers of one engine share the
// partitions among them. Those of workers stand by while one made by NewKeeper is there.
type Keeper struct{ keeper *keeper.Keeper }

// NewKeeper returns a keeper of an engine. The error joins all faults of the config and matches ErrInvalid.
func NewKeeper(e *Engine, config KeeperConfig) (*Keeper, error) {
	resolved, err := config.resolve("")
	if err := errors.Join(e.open(), err); err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	return &Keeper{keeper.NewKeeper(e.session, resolved)}, nil
}

var errUnmadeKeeper = invalid("the keeper was not made by NewKeeper")

// check returns why the keeper cannot run.
func (k *Keeper) check() error {
	if k == nil || k.keeper == nil {
		return errUnmadeKeeper
	}
	return nil
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

// RunDuty sees to one duty of the keepers by hand, on all partitions, as Keeper.RunOnce of a keeper with this config does.
func (c *Client) RunDuty(ctx context.Context, duty Duty, config KeeperConfig) (DutyReport, error) {
	resolved, err := config.resolve("")
	if err := errors.Join(c.ready(), err); err != nil {
		return DutyReport{Duty: duty}, err
	}
	k := &Keeper{keeper.NewKeeper(c.session, resolved)}
	return k.RunOnce(ctx, duty)
}
