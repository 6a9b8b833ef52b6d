package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/budget"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
	"github.com/flowfabric/flowfabric-go/internal/worker/permit"
	"github.com/flowfabric/flowfabric-go/internal/worker/renewal"
	"github.com/flowfabric/flowfabric-go/internal/worker/task"
)

const (
	// stopPatience is the time for functions to return after their contexts ended because the worker stops.
	stopPatience = 2 * time.Second
	// libraryCheck is the time between two checks of the server's library. Keepers check it more often.
	libraryCheck = 5 * engine.LibraryCheck
)

// Run is one run of a worker: its dispatch loop, its tasks and their leases, and the goroutines that
// serve them. NewRun makes one, Worker.Run runs it once.
type Run struct {
	task.Services
	worker  *Worker
	request enginerpc.ClaimRequest // of all claims; without claim id, lane and count
	queue   *dispatch.Queue
	peers   *dispatch.PeerSet
	// answering is set while an announcement to new peers is pending.
	answering atomic.Bool
	// left is set when the worker claims no more work.
	left          atomic.Bool
	ringListeners sync.WaitGroup // goroutines that listen to slots of the wake ring
	leases        *renewal.Manager
	tasks         sync.WaitGroup  // tasks, and goroutines of claims and permits
	ready         chan *task.Task // to one of the goroutines that wait for a task
	waiting       atomic.Int64    // the number of these
	drain         drainer
	reports       reporter
	starts        startCounts
	began         time.Time
	stopRing      context.CancelFunc // ends the listener to slots of the wake ring
}

// NewRun returns a run of a worker. base is the context of its calls and functions, and does not end
// before the run.
func NewRun(base context.Context, w *Worker) *Run {
	slots := w.config.Slots
	if w.handover != nil {
		slots = 0 // each call of Next adds one
	}
	r := &Run{
		worker: w,
		Services: task.Services{
			Shared: attempt.Shared{
				Session: w.session, Core: w.session.Core, Base: base, LeaseTTL: w.config.Lease,
				Doubt: lease.Uncertainty{Woken: make(chan struct{}, 1)}, Overstays: &w.Counts.OverstayCounts,
			},
			Around: w.config.Invoke, Logs: w.config.Logs, Budgets: budget.NewBatcher(w.session.Core),
		},
		queue: dispatch.NewQueue(slots), peers: dispatch.NewPeerSet(w.Instance),
		request: enginerpc.ClaimRequest{
			WorkerID: enginecore.WorkerID(w.config.ID), WorkerInstanceID: w.Instance, LeaseTTL: w.config.Lease,
			Kinds: w.kinds(), Capabilities: strings.Join(w.config.Capabilities, ","),
		},
		drain: drainer{calls: w.session.Backend, logger: w.session.Logger}, ready: make(chan *task.Task),
	}
	r.Use(w.handlers)
	r.Budgets.OnBreach = w.config.OnBudget
	r.starts = newStartCounts(r.lanes())
	r.leases = renewal.New(&r.Shared, renewal.Config{
		Instance: w.Instance, Manual: w.config.ManualRenewal, Liveness: &w.liveness, Resting: &w.resting,
	})
	r.Permits = permit.New(base, w.session, w.Instance, r.queue, r, r.leases.Known.Load)
	r.Completer = &completion.Completer{
		Session: r.Session, Base: base, Instance: w.Instance, ClaimRequest: r.claimRequest,
		MarkUncertain: r.Doubt.Mark,
	}
	r.Completer.Batch = completion.NewBatcher(r.Completer, w.config.Slots, r.Budgets.Adder)
	return r
}

// Run claims and runs executions until ctx ends. It can be called once. It returns nil after a clean stop,
// and the names of functions that did not return in time as an error. No call of the run to the engine outlives it,
// even if such a function returns later.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.session.ClosedErr(); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if err := w.begin(); err != nil {
		return err
	}
	defer w.liveness.Begin()()
	if w.handover != nil {
		defer w.handover.Close()
	}
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(engine.ErrStopping)
	return NewRun(base, w).run(ctx)
}

// run claims and runs executions until ctx ends or the engine is closed or no longer serves this program. Then it waits
// for the tasks and ends the goroutines of the run. It returns nil after a clean stop.
func (r *Run) run(ctx context.Context) error {
	ctx, release := r.Session.WhileServed(ctx)
	defer release()
	r.warnOfShortLease(ctx)
	if err := r.leases.Register(ctx); err != nil {
		if ctx.Err() == nil {
			return fmt.Errorf("worker: %w", err)
		}
		if err := r.Session.ServedErr(ctx); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		return nil
	}
	unwatch, err := r.worker.observe(r.leases.Size)
	if err != nil {
		return fmt.Errorf("worker: metrics: %w", err)
	}
	defer unwatch()
	r.logStart(ctx)
	leaveKeeper := r.worker.JoinKeeper(r.worker.config.Keeperless)
	background, stop := context.WithCancel(r.Base)
	listening, stopListening := context.WithCancel(background)
	r.stopRing, r.began = stopListening, time.Now()
	var loops sync.WaitGroup
	loops.Go(func() { r.leases.Keep(background) })
	loops.Go(func() { r.listen(background) })
	loops.Go(func() { r.presenceLoop(background) })
	loops.Go(func() { r.Session.GuardLibrary(background, libraryCheck) })
	loops.Go(func() { r.listenToRing(listening) })
	loops.Go(func() { // executions that a new worker could not take over
		if sleep.For(background, r.provenAfter()); background.Err() == nil {
			r.sweep(background)
		}
	})
	every := r.Session.Backend.PollEvery()
	if r.worker.config.Through {
		every = grantPoll
	}
	if every > 0 {
		loops.Go(func() { r.pollLoop(background, every) })
	}

	if r.worker.handover != nil {
		r.worker.handover.Begin(r)
	}
	withdraw := r.Session.Workers.Add(r)
	r.dispatch(ctx)

	withdraw()
	r.queue.Close()
	if r.worker.handover != nil {
		r.worker.handover.Close()
	}
	r.publishLeaving()
	stopListening()
	err = r.finish()
	stop()
	loops.Wait()
	r.ringListeners.Wait()
	r.Background.Finish()
	r.leaveDirectory()
	r.reportStopped()
	r.drain.wait()
	r.leases.Deregister()
	err = errors.Join(err, leaveKeeper())
	if unserved := r.Session.ServedErr(ctx); unserved != nil {
		return errors.Join(fmt.Errorf("worker: %w", unserved), err)
	}
	return err
}

// dispatch claims work for free slots until ctx ends.
func (r *Run) dispatch(ctx context.Context) {
	for {
		for {
			v, ok := r.queue.Take()
			if !ok {
				break
			}
			r.tasks.Go(func() { r.claim(ctx, v) })
		}
		select {
		case <-ctx.Done():
			return
		case <-r.queue.Changed:
		}
	}
}

// finish waits for running functions within the grace time, then ends their contexts and releases the
// executions of those that do not return, which its error names. If the engine is closed, or no longer serves this
// program, nothing can be reported, and the contexts end at once.
func (r *Run) finish() error {
	r.Batches.Stop()
	done := make(chan struct{})
	go func() {
		r.tasks.Wait()
		close(done)
	}()
	cause := engine.ErrStopping
	select {
	case <-r.Core.Outdated():
		cause = engine.ErrLeaseLost
	case <-r.Session.Closed().Done():
		cause = engine.ErrLeaseLost
	case <-done:
		return nil
	case <-time.After(r.worker.config.Grace):
	}
	r.leases.StopAll(cause)
	if waitFor(done, stopPatience) {
		return nil
	}
	names := r.leases.AbandonAll()
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("worker: released executions whose functions still run after the end of their context: %s",
		strings.Join(names, ", "))
}

// waitFor reports whether done is closed within limit.
func waitFor(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// logStart logs the lanes, activities and slots of the worker.
func (r *Run) logStart(ctx context.Context) {
	r.Session.Logger.LogAttrs(ctx, slog.LevelInfo, "flowfabric: the worker takes work",
		observe.EventWorkerStarted.Attr(), slog.String("worker", string(r.worker.Instance)),
		slog.Any("lanes", r.lanes()), slog.Any("activities", slices.DeleteFunc(r.worker.activities(), isComposite)),
		slog.Int("slots", r.worker.config.Slots), slog.Any("capabilities", r.worker.config.Capabilities))
}

func isComposite(kind string) bool { return kind == submit.MapKind || kind == submit.SubKind }

// warnOfShortLease logs a warning if a lease can expire before a silent connection is closed.
func (r *Run) warnOfShortLease(ctx context.Context) {
	if lease, silence := r.LeaseTTL, r.Session.Silence; 3*silence > lease {
		r.Session.Logger.LogAttrs(ctx, slog.LevelWarn,
			"flowfabric: the worker's lease is short: a silent connection may cost it its leases; "+
				"a smaller write_timeout in the engine's URL closes such a connection sooner",
			observe.EventLeaseShort.Attr(), slog.Duration("lease", lease), slog.Duration("detection_time", silence))
	}
}
