package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// claimPause is how long a spot rests after a claim that failed.
	claimPause = 200 * time.Millisecond
	// stopPatience is how long functions get to return after their context ended at a stop.
	stopPatience = 2 * time.Second
)

// shift is one run of a worker.
type shift struct {
	worker  *Worker
	session *session
	core    *enginecore.Engine
	request enginecore.ClaimRequest // without claim id, lane and count
	board   *board
	crowd   *crowd
	// greeting is set while an answer to newcomers is under way.
	greeting atomic.Bool
	// left is set when the worker takes no more work.
	left   atomic.Bool
	onDuty sync.WaitGroup // goroutines that hear places of the rota
	leases *leaseBook
	// commits is nil when completions go one by one.
	commits *commits
	plans   planCache
	// base carries the values of Run's context but does not end with it.
	base  context.Context
	tasks sync.WaitGroup // executions and claims
	drain drainer
	// errands are what messages ask for.
	errands errands
	debts   debts
	limits  limitBook
	permits permits
	blocks  blocks
	// mayChoose is set when one server has all partitions, so that it can choose which one a claim visits.
	mayChoose bool
	// budgetCalls take what is used of budgets there.
	budgetCalls *budgetCalls
}

// errands are goroutines that messages start, which may come until the last moment.
type errands struct {
	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

func (e *errands) start(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.running.Go(do)
	}
}

// finish waits for what runs; nothing is started any more.
func (e *errands) finish() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.running.Wait()
}

func newShift(w *Worker) *shift {
	return &shift{
		worker: w, session: w.session, core: w.session.core, board: newBoard(w.config.slots), crowd: newCrowd(w.instance),
		request: enginecore.ClaimRequest{
			WorkerID: enginecore.WorkerID(w.config.id), WorkerInstanceID: w.instance, LeaseTTL: w.config.lease,
			Kinds: w.kinds(), Capabilities: strings.Join(w.config.capabilities, ","),
		},
		drain:     drainer{calls: w.session.backend, logger: w.session.logger},
		mayChoose: !w.config.through && w.session.isOneServer(),
	}
}

func (s *shift) run(ctx context.Context) error {
	s.base = context.WithoutCancel(ctx)
	ctx, release := s.session.whileServed(ctx)
	defer release()
	s.leases = newLeaseBook(s)
	s.budgetCalls = newBudgetCalls(s.core)
	s.permits.shift, s.blocks.shift = s, s
	s.commits = newCommits(s)
	s.warnOfShortLease(ctx)
	if err := s.leases.register(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("worker: %w", err)
	}
	unwatch, err := s.watchMetrics()
	if err != nil {
		return fmt.Errorf("worker: metrics: %w", err)
	}
	defer unwatch()
	leaveKeeper := s.session.keeper.join(s.worker.config.keeperless)
	background, stop := context.WithCancel(s.base)
	var services sync.WaitGroup
	services.Go(func() { s.leases.keep(background) })
	services.Go(func() { s.listen(background) })
	services.Go(func() { s.patrol(background) })
	services.Go(func() { s.session.guardLibrary(background, libraryCheck) })
	duty, offDuty := context.WithCancel(background)
	services.Go(func() { s.keepRota(duty) })
	every := s.session.backend.pollEvery()
	if s.worker.config.through {
		every = grantPoll
	}
	if every > 0 {
		services.Go(func() { s.poll(background, every) })
	}

	s.dispatch(ctx)

	s.board.close()
	s.leave()
	offDuty()
	err = s.finish()
	stop()
	services.Wait()
	s.onDuty.Wait()
	s.errands.finish()
	s.drain.wait()
	s.leases.deregister()
	err = errors.Join(err, leaveKeeper())
	if outdated := s.core.OutdatedErr(); outdated != nil {
		return errors.Join(fmt.Errorf("worker: %w", outdated), err)
	}
	return err
}

// dispatch claims work for free slots until ctx ends.
func (s *shift) dispatch(ctx context.Context) {
	for {
		for {
			v, ok := s.board.take(s.mayChoose && s.crowd.size() > 0)
			if !ok {
				break
			}
			s.tasks.Go(func() { s.claim(ctx, v) })
		}
		select {
		case <-ctx.Done():
			return
		case <-s.board.changed:
		}
	}
}

// claim fills slots from one spot, and works in one of them.
func (s *shift) claim(ctx context.Context, v visit) {
	if s.worker.config.through {
		s.claimGranted(ctx, v)
		return
	}
	call := enginecore.ClaimCall{
		Partition: v.partition, ClaimRequest: s.claimRequest(v.lane, v.slots), TellNone: v.heard, TellEmpty: v.first,
		TellMore: v.place != "", Place: v.place, List: v.list, Places: v.places,
	}
	call.Aside = v.aside
	if s.crowd.size() == 0 {
		call.TellNone, call.TellEmpty, call.TellMore = false, false, false
	}
	sentAt := time.Now()
	reply, err := s.session.backend.Claim(s.base, call)
	for errors.Is(err, enginecore.ErrOutcomeUnknown) && ctx.Err() == nil {
		s.leases.doubt()
		call.Repeated = true
		pause(ctx, claimPause)
		sentAt = time.Now()
		reply, err = s.session.backend.Claim(s.base, call)
	}
	if err != nil {
		s.measureClaim(sentAt, v, outcomeUnanswered)
		s.leases.doubt()
		s.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: claim failed", eventClaimFailed.attr(), slog.String("lane", string(v.lane)),
			slog.String("partition", v.partition.Tag()), slog.Any("error", err))
		pause(ctx, claimPause)
		s.board.notVisited(v)
		s.board.claimed(v.slots)
		if call.Aside {
			s.board.addAside(v.spot)
		} else {
			s.board.add(v.spot)
		}
		return
	}
	at := v.spot
	if v.list != "" {
		at.partition.Index = uint16(reply.Visited)
	}
	aside := s.board.visited(v, at)
	s.crowd.claimTook(time.Since(sentAt))
	s.worker.counts.claimed(len(reply.Executions))
	if len(reply.Executions) > 0 {
		s.measureClaim(sentAt, v, outcomeFound)
	} else {
		s.measureClaim(sentAt, v, outcomeEmpty)
	}
	tasks := make([]*task, len(reply.Executions))
	for i, claimed := range reply.Executions {
		tasks[i] = newTask(s, at, claimed, sentAt)
	}
	s.permits.ask(tasks...)
	// The first task runs in this goroutine, when nothing is left to do that takes long.
	var first *task
	if len(tasks) > 0 && len(reply.Candidates) == 0 {
		first, tasks = tasks[0], tasks[1:]
	}
	s.launch(tasks)
	unused := v.slots - len(reply.Executions)
	if len(reply.Candidates) > 0 {
		unused -= s.admit(v.lane, reply.Candidates, unused)
	}
	s.board.claimed(unused)
	switch {
	case aside && len(reply.Executions) == v.slots:
		s.board.addAside(at)
	case reply.Remaining > 0:
		s.board.add(at)
	}
	if first != nil {
		s.work(first)
	}
}

func (s *shift) measureClaim(sentAt time.Time, v visit, outcome string) {
	telemetry := s.session.telemetry
	telemetry.record(s.base, telemetry.claims, time.Since(sentAt), labels{"lane", string(v.lane), outcome})
}

func (s *shift) claimRequest(lane enginecore.LaneID, count int) enginecore.ClaimRequest {
	request := s.request
	request.LaneID, request.Count, request.ClaimID = lane, int64(count), randomUUID().String()
	if count > 0 && !s.worker.config.through {
		request.Rooms = s.limits.rooms(s.blocks.surplus)
	}
	return request
}

// maxRow bounds for how long a slot may run executions of one spot in a row while other spots wait. Short ones are worth
// more than a few in a row, since each that is not handed on costs a claim; after a long one, the others come first.
const maxRow = 20 * time.Millisecond

// work occupies a slot: it runs a task and those that its completions hand on, then frees the slot.
func (s *shift) work(t *task) {
	until := time.Now().Add(maxRow)
	another := func() bool {
		return !s.worker.config.through && (time.Now().Before(until) || !s.board.crowded())
	}
	var ended *task
	// A function may end its goroutine, so this is deferred. The slot is free before others learn of the places, so that this
	// worker can take one.
	defer func() {
		s.board.release()
		s.owe(ended)
	}()
	for t != nil {
		s.worker.counts.executions.Add(1)
		ended = t
		if t = t.run(another); t != nil {
			s.owe(ended)
		}
	}
}

// finish lets running functions end within the grace time, then ends their contexts and gives the rest back. When the engine
// does not serve this program any more, nothing of them can be reported, and their contexts end at once.
func (s *shift) finish() error {
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
