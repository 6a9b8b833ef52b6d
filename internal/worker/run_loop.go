package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
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
	services
	request enginerpc.ClaimRequest // of all claims; without claim id, lane and count
	queue   *dispatch.Queue
	peers   *dispatch.PeerSet
	// answering is set while an announcement to new peers is pending.
	answering atomic.Bool
	// left is set when the worker claims no more work.
	left          atomic.Bool
	ringListeners sync.WaitGroup // goroutines that listen to slots of the wake ring
	leases        *leaseManager
	tasks         sync.WaitGroup // goroutines of tasks, claims and permits
	drain         drainer
	returns       permitReturns
	limits        limitCache
	pools         permitPools
	reports       reporter
	starts        startCounts
	began         time.Time
	stopRing      context.CancelFunc // ends what listens to slots of the wake ring
}

// NewRun returns a run of a worker. base is the context of its calls and functions, and does not end
// before the run.
func NewRun(base context.Context, w *Worker) *Run {
	slots := w.config.Slots
	if w.handover != nil {
		slots = 0 // each call of Next adds one
	}
	s := &Run{
		services: services{
			worker: w, session: w.session, core: w.session.Core, base: base,
			woken:   make(chan struct{}, 1),
			budgets: newBudgetBatcher(w.session.Core.UseBudget), spanNames: spanNamesOf(w.handlers),
		},
		queue: dispatch.NewQueue(slots), peers: dispatch.NewPeerSet(w.Instance),
		request: enginerpc.ClaimRequest{
			WorkerID: enginecore.WorkerID(w.config.ID), WorkerInstanceID: w.Instance, LeaseTTL: w.config.Lease,
			Kinds: w.kinds(), Capabilities: strings.Join(w.config.Capabilities, ","),
		},
		drain: drainer{calls: w.session.Backend, logger: w.session.Logger},
	}
	s.leases, s.starts = newLeaseManager(&s.services), newStartCounts(s.lanes())
	s.pools = permitPools{
		run: &s.services, queue: s.queue, limits: &s.limits, slots: s, hasLiveKey: s.leases.known.Load,
	}
	s.permits = permitQueue{
		run: &s.services, pools: &s.pools, limits: &s.limits, slots: s, haste: haste{exact: s.session.Quiet},
	}
	s.returns = permitReturns{run: &s.services, queue: s.queue, limits: &s.limits, slots: s}
	s.completer = &completer{
		session: s.session, base: base, instance: w.Instance, claimRequest: s.claimRequest,
		markUncertain: s.markUncertain,
	}
	s.completer.batch = newCompletionBatcher(s.completer, w.config.Slots)
	return s
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
		defer w.handover.close()
	}
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(engine.ErrStopping)
	return NewRun(base, w).run(ctx)
}

// run claims and runs executions until ctx ends or the engine is closed or no longer serves this program. Then it waits
// for the tasks and ends the goroutines of the run. It returns nil after a clean stop.
func (s *Run) run(ctx context.Context) error {
	ctx, release := s.session.WhileServed(ctx)
	defer release()
	s.warnOfShortLease(ctx)
	if err := s.leases.register(ctx); err != nil {
		if ctx.Err() == nil {
			return fmt.Errorf("worker: %w", err)
		}
		if err := s.session.ServedErr(ctx); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		return nil
	}
	unwatch, err := s.worker.observe(s.leases.size)
	if err != nil {
		return fmt.Errorf("worker: metrics: %w", err)
	}
	defer unwatch()
	leaveKeeper := s.worker.JoinKeeper(s.worker.config.Keeperless)
	background, stop := context.WithCancel(s.base)
	listening, stopListening := context.WithCancel(background)
	s.stopRing, s.began = stopListening, time.Now()
	var loops sync.WaitGroup
	loops.Go(func() { s.leases.keep(background) })
	loops.Go(func() { s.listen(background) })
	loops.Go(func() { s.presenceLoop(background) })
	loops.Go(func() { s.session.GuardLibrary(background, libraryCheck) })
	loops.Go(func() { s.listenToRing(listening) })
	loops.Go(func() { // what a new worker could not take over
		if engine.Sleep(background, s.provenAfter()); background.Err() == nil {
			s.sweep(background)
		}
	})
	every := s.session.Backend.PollEvery()
	if s.worker.config.Through {
		every = grantPoll
	}
	if every > 0 {
		loops.Go(func() { s.pollLoop(background, every) })
	}

	if s.worker.handover != nil {
		s.worker.handover.begin(s)
	}
	s.dispatch(ctx)

	s.queue.Close()
	if s.worker.handover != nil {
		s.worker.handover.close()
	}
	s.publishLeaving()
	stopListening()
	err = s.finish()
	stop()
	loops.Wait()
	s.ringListeners.Wait()
	s.background.finish()
	s.leaveDirectory()
	s.reportStopped()
	s.drain.wait()
	s.leases.deregister()
	err = errors.Join(err, leaveKeeper())
	if unserved := s.session.ServedErr(ctx); unserved != nil {
		return errors.Join(fmt.Errorf("worker: %w", unserved), err)
	}
	return err
}

// dispatch claims work for free slots until ctx ends.
func (s *Run) dispatch(ctx context.Context) {
	for {
		for {
			v, ok := s.queue.Take()
			if !ok {
				break
			}
			s.tasks.Go(func() { s.claim(ctx, v) })
		}
		select {
		case <-ctx.Done():
			return
		case <-s.queue.Changed:
		}
	}
}

// finish waits for running functions within the grace time, then ends their contexts and releases the
// executions of those that do not return, which its error names. If the engine is closed, or no longer serves this
// program, nothing can be reported, and the contexts end at once.
func (s *Run) finish() error {
	s.batches.Stop()
	done := make(chan struct{})
	go func() {
		s.tasks.Wait()
		close(done)
	}()
	cause := engine.ErrStopping
	select {
	case <-s.core.Outdated():
		cause = engine.ErrLeaseLost
	case <-s.session.Closed().Done():
		cause = engine.ErrLeaseLost
	case <-done:
		return nil
	case <-time.After(s.worker.config.Grace):
	}
	s.leases.stopAll(cause)
	if waitFor(done, stopPatience) {
		return nil
	}
	names := s.leases.abandonAll()
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("worker: released executions whose functions still run after the end of their context: %s", strings.Join(names, ", "))
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
