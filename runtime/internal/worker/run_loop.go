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
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

const (
	// stopPatience is the time for functions to return after their contexts ended because the worker stops.
	stopPatience = 2 * time.Second
)

// WorkerRun is one run of a worker: its dispatch loop, its tasks and their leases, and the goroutines that
// serve them. NewWorkerRun makes one, Worker.Run runs it once.
type WorkerRun struct {
	// Worker is the worker that runs, Session its connection to the engine.
	Worker  *Worker
	Session *engine.Session
	core    *enginerpc.Conn
	request enginerpc.ClaimRequest // of all claims; without claim id, lane and count
	queue   *dispatch.DispatchQueue
	peers   *dispatch.PeerSet
	// answering is set while an announcement to new peers is pending.
	answering atomic.Bool
	// left is set when the worker claims no more work.
	left          atomic.Bool
	ringListeners sync.WaitGroup // goroutines that listen to slots of the wake ring
	// Leases renews the leases of the run's tasks; nil before the run begins.
	Leases *leaseManager
	// Completer reports how executions end; nil before the run begins.
	Completer *completer
	plans     submit.PlanCache
	// Base has the values of the context of Run, but does not end with it.
	Base  context.Context
	tasks sync.WaitGroup // goroutines of tasks, claims and permits
	drain drainer
	// background runs calls that messages and replies trigger.
	background backgroundTasks
	returns    permitReturns
	limits     limitCache
	permits    permitQueue
	pools      permitPools
	// mayChoose is set if one server has all partitions, so that it can choose which of them a claim takes
	// work from.
	mayChoose bool
	// budgets sends what activities use of budgets.
	budgets *budgetBatcher
}

// backgroundTasks are goroutines that can be started until finish is called. The zero value is ready.
type backgroundTasks struct {
	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

// start runs a function in a goroutine, unless finish was called.
func (e *backgroundTasks) start(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.running.Go(do)
	}
}

// finish waits for the running goroutines; start starts none from now on.
func (e *backgroundTasks) finish() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.running.Wait()
}

// NewWorkerRun returns a run of a worker. Its leases, permits and completer are set when it begins.
func NewWorkerRun(w *Worker) *WorkerRun {
	return &WorkerRun{
		Worker: w, Session: w.session, core: w.session.Core, queue: dispatch.NewDispatchQueue(w.Config.Slots), peers: dispatch.NewPeerSet(w.Instance),
		request: enginerpc.ClaimRequest{
			WorkerID: enginecore.WorkerID(w.Config.Id), WorkerInstanceID: w.Instance, LeaseTTL: w.Config.Lease,
			Kinds: w.kinds(), Capabilities: strings.Join(w.Config.Capabilities, ","),
		},
		drain:     drainer{calls: w.session.Backend, logger: w.session.Logger},
		mayChoose: !w.Config.Through && w.session.IsOneServer(),
	}
}

// run claims and runs executions until ctx ends or the engine no longer serves this program. Then it waits
// for the tasks and ends the goroutines of the run. It returns nil after a clean stop.
func (s *WorkerRun) run(ctx context.Context) error {
	s.Base = context.WithoutCancel(ctx)
	ctx, release := s.Session.WhileServed(ctx)
	defer release()
	s.Leases = NewLeaseManager(s)
	s.budgets = newBudgetBatcher(s.core.UseBudget)
	s.permits.run, s.pools.run = s, s
	s.Completer = s.NewCompleter()
	s.Completer.batch = newCompletionBatcher(s.Completer, s.Worker.Config.Slots)
	s.warnOfShortLease(ctx)
	if err := s.Leases.register(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("worker: %w", err)
	}
	unwatch, err := s.Worker.observe(s.Leases.size)
	if err != nil {
		return fmt.Errorf("worker: metrics: %w", err)
	}
	defer unwatch()
	leaveKeeper := s.Worker.JoinKeeper(s.Worker.Config.Keeperless)
	background, stop := context.WithCancel(s.Base)
	var services sync.WaitGroup
	services.Go(func() { s.Leases.keep(background) })
	services.Go(func() { s.listen(background) })
	services.Go(func() { s.presenceLoop(background) })
	services.Go(func() { s.Session.GuardLibrary(background, engine.LibraryCheck) })
	listening, stopListening := context.WithCancel(background)
	services.Go(func() { s.listenToRing(listening) })
	every := s.Session.Backend.PollEvery()
	if s.Worker.Config.Through {
		every = grantPoll
	}
	if every > 0 {
		services.Go(func() { s.pollLoop(background, every) })
	}

	s.dispatch(ctx)

	s.queue.Close()
	s.publishLeaving()
	stopListening()
	err = s.finish()
	stop()
	services.Wait()
	s.ringListeners.Wait()
	s.background.finish()
	s.drain.wait()
	s.Leases.deregister()
	err = errors.Join(err, leaveKeeper())
	if outdated := s.core.OutdatedErr(); outdated != nil {
		return errors.Join(fmt.Errorf("worker: %w", outdated), err)
	}
	return err
}

// NewCompleter returns a completer that sends completions one by one. It requires Base and Leases.
func (s *WorkerRun) NewCompleter() *completer {
	return &completer{session: s.Session, base: s.Base, claimRequest: s.claimRequest, markUncertain: s.Leases.markUncertain}
}

// dispatch claims work for free slots until ctx ends.
func (s *WorkerRun) dispatch(ctx context.Context) {
	for {
		for {
			v, ok := s.queue.Take(s.mayChoose && s.peers.Size() > 0)
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
// executions of those that do not return, which its error names. If the engine no longer serves this program,
// nothing can be reported, and the contexts end at once.
func (s *WorkerRun) finish() error {
	done := make(chan struct{})
	go func() {
		s.tasks.Wait()
		close(done)
	}()
	cause := engine.ErrStopping
	select {
	case <-s.core.Outdated():
		cause = engine.ErrLeaseLost
	case <-done:
		return nil
	case <-time.After(s.Worker.Config.Grace):
	}
	s.Leases.stopAll(cause)
	if waitFor(done, stopPatience) {
		return nil
	}
	names := s.Leases.abandonAll()
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("worker: gave back what still runs after its context ended: %s", strings.Join(names, ", "))
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
