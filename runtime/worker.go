package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/catalogue"
	"github.com/flowfabric/flowfabric-go/internal/failurehook"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker"
)

// Worker claims executions, runs the activities that are registered with it, renews the leases while they run, and
// reports how the executions end. NewWorker creates one. Any number of workers share an engine. The workers of an
// Engine also share a keeper, which OpenConfig.Keeper configures: it is on standby while keepers made by NewKeeper run,
// on this Engine or elsewhere, and WorkerConfig.NoKeeper leaves it out.
type Worker struct {
	worker *worker.Worker
	// publish publishes flows until its context ends; nil if there are none.
	publish func(context.Context)
	// onFailure calls OnRunFailed; nil if there is none.
	onFailure *failurehook.Hook
}

// NewWorker returns a worker of an engine. Register activities and call Run. The error joins all faults of the config
// and matches ErrInvalid, or enginecore.ErrClosed for an engine that is closed; it is ErrNotInContract for a worker
// with ClaimThrough on an engine that cannot grant.
func NewWorker(e *Engine, config WorkerConfig) (*Worker, error) {
	resolved, err := config.resolve("")
	if err := errors.Join(e.open(), err); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if err := config.checkLanes(e.session); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	resolved.About = aboutProgram()
	w := worker.New(e.session, resolved)
	w.JoinKeeper = e.session.Keeper.Join
	made := &Worker{worker: w}
	if len(config.Publish) > 0 {
		if _, err := e.session.Library("the catalogue of flows"); err != nil {
			return nil, fmt.Errorf("worker: Publish: %w", err)
		}
		entries := entriesOf(config.Publish, func(int, error) {}) // without a fault: the config was checked
		made.publish = func(ctx context.Context) { catalogue.PublishAll(ctx, e.session, entries) }
	}
	if config.OnRunFailed != nil {
		call := func(ctx context.Context, f *submit.RunFailure) error { return config.OnRunFailed(ctx, newRunError(f)) }
		name := cmp.Or(config.Name, defaultWorkerName)
		made.onFailure, err = failurehook.New(e.session, name, w.Instance, call)
		if err != nil {
			return nil, fmt.Errorf("worker: OnRunFailed: %w", err)
		}
	}
	return made, nil
}

var errUnmadeWorker = invalid("the worker was not made by NewWorker")

// Instance identifies this worker in the engine: its name, and a UUID that has a part for the build of the program and
// is random otherwise. It is empty for a worker that was not made by NewWorker.
func (w *Worker) Instance() enginecore.WorkerInstanceID {
	if w == nil || w.worker == nil {
		return ""
	}
	return w.worker.Instance
}

// Register adds activities. Call it before Run. The error matches ErrInvalid and names every activity that is faulty,
// and every one whose name or alias belongs to another activity.
func (w *Worker) Register(handlers ...activity.Handler) error {
	if w == nil || w.worker == nil {
		return errUnmadeWorker
	}
	return w.worker.Register(handlers)
}

// Run claims and runs executions until ctx ends. Then it claims no more, waits up to the grace time for running
// functions, releases the remaining executions without spending an attempt, and returns nil. A worker can be run only
// once. The keeper that the workers of an Engine share ends with the last of them.
//
// While the engine is away, it keeps trying; running functions continue until their leases are over. When the engine is
// closed before ctx ends, the contexts of functions end, and Run returns enginecore.ErrClosed.
//
// A worker that an operator drains (Client.DrainWorker) claims no more, and Next returns an error; running functions
// continue, and so does Run until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	if w == nil || w.worker == nil {
		return errUnmadeWorker
	}
	if err := checkContext(ctx); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if w.publish == nil && w.onFailure == nil {
		return w.worker.Run(ctx)
	}
	beside, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	if w.publish != nil {
		running.Go(func() { w.publish(beside) })
	}
	if w.onFailure != nil {
		running.Go(func() { w.onFailure.Run(beside) })
	}
	defer running.Wait()
	defer stop()
	return w.worker.Run(ctx)
}

// Check reports whether the worker runs, has reached the engine within the last two lease times, or six when it has had
// no work for three, and has a slot that is not occupied by a function that does not return although its context has
// ended (WorkerStats.Overstaying). It sends nothing and returns at once. The error matches ErrNotReady. Check does not
// cover the worker's keeper, because other keepers take over from one that fails.
func (w *Worker) Check(context.Context) error {
	if w == nil || w.worker == nil {
		return errUnmadeWorker
	}
	return w.worker.Check()
}

// Stats returns counts of the worker's calls and executions. It may be called at any time.
func (w *Worker) Stats() fabrictype.WorkerStats {
	if w == nil || w.worker == nil {
		return fabrictype.WorkerStats{}
	}
	c := &w.worker.Counts
	return fabrictype.WorkerStats{
		Claims: c.Claims.Load(), EmptyClaims: c.EmptyClaims.Load(), Executions: c.Executions.Load(),
		Overstays: c.Overstays.Load(), Overstaying: c.Overstaying.Load(),
	}
}
