package runtime

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
)

const (
	// stopPatience is how long functions get to return after their context ended at a stop.
	stopPatience = 2 * time.Second
)

// workerRun is one run of a worker.
type workerRun struct {
	worker  *worker
	session *session
	core    *enginerpc.Conn
	request enginerpc.ClaimRequest // without claim id, lane and count
	queue   *dispatchQueue
	peers   *peerSet
	// answering is set while an answer to newcomers is under way.
	answering atomic.Bool
	// left is set when the worker takes no more work.
	left          atomic.Bool
	ringListeners sync.WaitGroup // goroutines that hear places of the rota
	leases        *leaseManager
	// completer reports how executions end.
	completer *completer
	plans     planCache
	// base carries the values of Run's context but does not end with it.
	base  context.Context
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

func newWorkerRun(w *worker) *workerRun {
	return &workerRun{
		worker: w, session: w.session, core: w.session.core, queue: newDispatchQueue(w.config.slots), peers: newPeerSet(w.instance),
		request: enginerpc.ClaimRequest{
			WorkerID: enginecore.WorkerID(w.config.id), WorkerInstanceID: w.instance, LeaseTTL: w.config.lease,
			Kinds: w.kinds(), Capabilities: strings.Join(w.config.capabilities, ","),
		},
		drain:     drainer{calls: w.session.backend, logger: w.session.logger},
		mayChoose: !w.config.through && w.session.isOneServer(),
	}
}

func (s *workerRun) run(ctx context.Context) error {
	s.base = context.WithoutCancel(ctx)
	ctx, release := s.session.whileServed(ctx)
	defer release()
	s.leases = newLeaseManager(s)
	s.budgets = newBudgetBatcher(s.core.UseBudget)
	s.permits.run, s.pools.run = s, s
	s.completer = s.newCompleter()
	s.completer.batch = newCompletionBatcher(s.completer, s.worker.config.slots)
	s.warnOfShortLease(ctx)
	if err := s.leases.register(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("worker: %w", err)
	}
	unwatch, err := s.worker.observe(s.leases.size)
	if err != nil {
		return fmt.Errorf("worker: metrics: %w", err)
	}
	defer unwatch()
	leaveKeeper := s.worker.joinKeeper(s.worker.config.keeperless)
	background, stop := context.WithCancel(s.base)
	var services sync.WaitGroup
	services.Go(func() { s.leases.keep(background) })
	services.Go(func() { s.listen(background) })
	services.Go(func() { s.presenceLoop(background) })
	services.Go(func() { s.session.guardLibrary(background, libraryCheck) })
	duty, offDuty := context.WithCancel(background)
	services.Go(func() { s.listenToRing(duty) })
	every := s.session.backend.pollEvery()
	if s.worker.config.through {
		every = grantPoll
	}
	if every > 0 {
		services.Go(func() { s.pollLoop(background, every) })
	}

	s.dispatch(ctx)

	s.queue.close()
	s.publishLeaving()
	offDuty()
	err = s.finish()
	stop()
	services.Wait()
	s.ringListeners.Wait()
	s.background.finish()
	s.drain.wait()
	s.leases.deregister()
	err = errors.Join(err, leaveKeeper())
	if outdated := s.core.OutdatedErr(); outdated != nil {
		return errors.Join(fmt.Errorf("worker: %w", outdated), err)
	}
	return err
}

// newCompleter returns a completer that sends completions one by one.
func (s *workerRun) newCompleter() *completer {
	return &completer{session: s.session, base: s.base, claimRequest: s.claimRequest, markUncertain: s.leases.markUncertain}
}

// dispatch claims work for free slots until ctx ends.
func (s *workerRun) dispatch(ctx context.Context) {
	for {
		for {
			v, ok := s.queue.take(s.mayChoose && s.peers.size() > 0)
			if !ok {
				break
			}
			s.tasks.Go(func() { s.claim(ctx, v) })
		}
		select {
		case <-ctx.Done():
			return
		case <-s.queue.changed:
		}
	}
}

// finish lets running functions end within the grace time, then ends their contexts and gives the rest back. When the engine
// does not serve this program any more, nothing of them can be reported, and their contexts end at once.
func (s *workerRun) finish() error {
	done := make(chan struct{})
	go func() {
		s.tasks.Wait()
		close(done)
	}()
	cause := ErrStopping
	select {
	case <-s.core.Outdated():
		cause = ErrLeaseLost
	case <-done:
		return nil
	case <-time.After(s.worker.config.grace):
	}
	s.leases.stopAll(cause)
	if waitFor(done, stopPatience) {
		return nil
	}
	names := s.leases.abandonAll()
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
