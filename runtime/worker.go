package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/worker"
)

// Worker runs the activities that are registered with it, and is made by NewWorker. It claims executions, keeps their
// leases, and reports how they end; the functions see none of that. Any number of workers share an engine. They share a
// keeper, too, which OpenConfig.Keeper configures: it stands by while keepers made by NewKeeper run, on this engine or
// elsewhere, and WorkerConfig.NoKeeper leaves it out.
type Worker struct{ worker *worker.Worker }

// NewWorker returns a worker of an engine. Register activities and call Run. The error joins all faults of the config
// and matches ErrInvalid, or enginecore.ErrClosed for an engine that is closed; it is ErrNotInContract for a worker
// with ClaimThrough on an engine that cannot grant.
func NewWorker(e *Engine, config WorkerConfig) (*Worker, error) {
	resolved, err := config.resolve("")
	if err := errors.Join(e.open(), err); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if resolved.Through {
		if _, err := engine.Capability[engine.GrantedClaims](e.session.Backend); err != nil {
			return nil, fmt.Errorf("worker: ClaimThrough: %w", err)
		}
	}
	w := worker.New(e.session, resolved)
	w.JoinKeeper = e.session.Keeper.Join
	return &Worker{w}, nil
}

var errUnmadeWorker = invalid("the worker was not made by NewWorker")

// Instance identifies this worker in the engine. It is random; empty for a worker that was not made by NewWorker.
func (w *Worker) Instance() enginecore.WorkerInstanceID {
	if w == nil || w.worker == nil {
		return ""
	}
	return w.worker.Instance
}

// Register adds activities, before Run. The error matches ErrInvalid and names every activity that is faulty, whose
// name or old name is taken by another one, or that came too late.
func (w *Worker) Register(handlers ...activity.Handler) error {
	if w == nil || w.worker == nil {
		return errUnmadeWorker
	}
	return w.worker.Register(handlers)
}

// Run works until ctx ends. Then it claims no more, lets what runs finish within the grace time, and gives the rest
// back without spending an attempt. It returns nil after such a stop. A worker runs once. The keeper that the workers
// of an engine share ends with the last of them.
//
// While the engine is away, it keeps trying; what runs goes on until its lease is over. When the engine is closed
// before ctx ends, the contexts of functions end, and Run returns enginecore.ErrClosed.
func (w *Worker) Run(ctx context.Context) error {
	if w == nil || w.worker == nil {
		return errUnmadeWorker
	}
	return w.worker.Run(ctx)
}

// Check tells whether the worker runs, has reached the engine within the last two lease times, and has a slot that is
// not held by a function which does not return though its context has ended (WorkerStats.Overstaying). It asks nobody
// and returns at once; the error matches ErrNotReady. It says nothing about the keeper beside the worker: others take
// over from one that fails.
func (w *Worker) Check(context.Context) error {
	if w == nil || w.worker == nil {
		return errUnmadeWorker
	}
	return w.worker.Check()
}

// WorkerStats counts what a worker has done since it was made.
type WorkerStats struct {
	// Claims is the number of calls that asked for work, EmptyClaims that of those that brought none, because others
	// had been faster. What a completion hands on costs no claim.
	Claims, EmptyClaims int64
	// Executions is the number of attempts that were begun, handed on ones included.
	Executions int64
	// Overstays is the number of functions that had not returned one lease time after their context had ended,
	// Overstaying that of those that still have not. Each keeps a slot.
	Overstays, Overstaying int64
}

// Stats counts what the worker has done. It may be called at any time.
func (w *Worker) Stats() WorkerStats {
	if w == nil || w.worker == nil {
		return WorkerStats{}
	}
	c := &w.worker.Counts
	return WorkerStats{
		Claims: c.Claims.Load(), EmptyClaims: c.EmptyClaims.Load(), Executions: c.Executions.Load(),
		Overstays: c.Overstays.Load(), Overstaying: c.Overstaying.Load(),
	}
}
