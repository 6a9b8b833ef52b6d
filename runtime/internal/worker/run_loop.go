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
	// stopPatience is how long functions get to return after their context ended at a stop.
	stopPatience = 2 * time.Second
)

// workerRun is one run of a worker.
type WorkerRun struct {
	Worker  *Worker
	Session *engine.Session
	core    *enginerpc.Conn
	request enginerpc.ClaimRequest // without claim id, lane and count
	queue   *dispatch.DispatchQueue
	peers   *dispatch.PeerSet
	// answering is set while an answer to newcomers is under way.
	answering atomic.Bool
	// left is set when the worker takes no more work.
	left          atomic.Bool
	ringListeners sync.WaitGroup // goroutines that hear places of the rota
	Leases        *leaseManager
	// completer reports how executions end.
	Completer *completer
	plans     submit.PlanCache
	// base carries the values of Run's context but does not end with it.
	Base  context.Context
	tasks sync.WaitGroup // executions and claims
	drain drainer
	// background runs what messages ask for.
	background backgroundTasks
	returns    permitReturns
	limits     limitCache
	permits    permitQueue
	pools      permitPools
	// mayChoose is set when one server has all partitions, so that it can choose which one a claim visits.
	mayChoose bool
	// budgets takes what is used of budgets.
	budgets *budgetBatcher
}

// backgroundTasks are goroutines that messages start, which may come until the last moment.
type backgroundTasks struct {
	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

func (e *backgroundTasks) start(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.running.Go(do)
	}
}

// finish waits for what runs; nothing is started any more.
func (e *backgroundTasks) finish() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.running.Wait()
}

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
	duty, offDuty := context.WithCancel(background)
	services.Go(func() { s.listenToRing(duty) })
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
	offDuty()
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

// newCompleter returns a completer that sends completions one by one.
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

// finish lets running functions end within the grace time, then ends their contexts and gives the rest back. When the engine
// does not serve this program any more, nothing of them can be reported, and their contexts end at once.
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
