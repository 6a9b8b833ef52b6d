package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

const (
	// startPatience is how long a keeper may take to start a run before another one takes over, and patiencePerCall what each
	// call of a large flow adds to it.
	startPatience   = 10 * time.Second
	patiencePerCall = 100 * time.Millisecond
	// latestStart is how long after that a submission may still arrive. It is less than the time for which the engine knows
	// which fires it has started, and more than clocks of servers differ.
	latestStart = 12 * time.Hour
	// schedulesAtOnce bounds the schedules that a keeper works on at a time.
	schedulesAtOnce = 16
)

// scheduleRunner starts the runs of due schedules, for keepers and for clients that trigger or delete a schedule. The engine
// reports a due schedule to one keeper at a time, and each step is written only if no other process has written one since the
// record was read. So a fire is neither started twice nor lost, in whatever order processes work and wherever one stops.
type scheduleRunner struct {
	session   *session
	store     scheduleStore
	submitter *submitter
	flows     compiledSchedules

	slots chan struct{} // bounds the schedules that are worked on at a time
	tasks sync.WaitGroup

	mu       sync.Mutex
	watching map[watchedRun]bool // nil when nothing is to be watched
}

// newScheduleRunner returns a runner to be closed. With watch, it waits for the runs that fires wait for; without, it only
// takes the steps that can be taken at once.
func newScheduleRunner(e *session, watch bool) *scheduleRunner {
	s := &scheduleRunner{session: e, store: scheduleStore{e}, submitter: newSubmitter(e), slots: make(chan struct{}, schedulesAtOnce)}
	if watch {
		s.watching = make(map[watchedRun]bool)
	}
	return s
}

// watchedRun is a run of a schedule whose end is waited for.
type watchedRun struct {
	schedule enginecore.ScheduleID
	run      string
}

// close waits for the steps under way.
func (s *scheduleRunner) close() {
	s.tasks.Wait()
	s.submitter.close()
}

// begin works on the schedules of a partition that are due. It does not wait for that.
func (s *scheduleRunner) begin(ctx context.Context, p enginecore.Partition, due []enginecore.ScheduleID) {
	for _, id := range due {
		s.tasks.Go(func() {
			select {
			case s.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-s.slots }()
			s.work(ctx, p, id)
		})
	}
}

// work takes the steps of one schedule that can be taken now. What fails is tried again, by any keeper, when the engine tells of
// it the next time.
func (s *scheduleRunner) work(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID) {
	defer func() {
		if fault := recover(); fault != nil {
			s.session.logger.LogAttrs(ctx, slog.LevelError, "flowfabric: keeper panicked, it goes on", eventKeeperPanicked.attr(),
				slog.Any("duties", []string{"schedule"}), slog.Any("panic", fault), slog.String("stack", string(debug.Stack())))
		}
	}()
	for ctx.Err() == nil {
		r, _, err := s.store.read(ctx, p, id, 0)
		if errors.Is(err, errScheduleNotFound) {
			return
		}
		more := false
		if err == nil {
			more, err = s.step(ctx, r)
		}
		switch {
		case errors.Is(err, enginecore.ErrScheduleChanged):
			// Somebody else was there.
		case err != nil:
			if ctx.Err() == nil {
				s.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: keeper could not do what a schedule says, it tries again",
					eventScheduleFailed.attr(), slog.String("schedule", string(id)), slog.Any("error", err))
			}
			return
		case !more:
			return
		}
	}
}

// step takes the next step of a schedule and tells whether there may be another one.
func (s *scheduleRunner) step(ctx context.Context, r *scheduleRecord) (more bool, err error) {
	if r.state.Deleting && len(r.state.Waiting) == 0 {
		return false, s.store.remove(ctx, r)
	}
	r.rewind()
	if i := r.starting(); i >= 0 {
		if r.isStarting(r.state.Waiting[i]) {
			return false, nil // somebody is at it
		}
		return s.start(ctx, r, i)
	}
	open := false
	if r.spec.Overlap != overlapAllow && (r.isRipe() || r.nextFire() >= 0) {
		if open, err = s.store.isLastRunOpen(ctx, r); err != nil {
			return false, err
		}
	}
	r.settle(open)
	if open && r.spec.Overlap == overlapSkip {
		r.skipWaiting("run " + r.state.Last.Run + " was open")
	}
	next := r.nextFire()
	switch {
	case next < 0:
		return false, s.store.save(ctx, r, nil, false)
	case !open || r.spec.Overlap == overlapAllow:
		return s.start(ctx, r, next)
	}
	return s.await(ctx, r)
}

// await leaves fires waiting for the end of the run before, which it cancels if the policy says so.
func (s *scheduleRunner) await(ctx context.Context, r *scheduleRecord) (more bool, err error) {
	last := r.state.Last
	if r.spec.Overlap == overlapCancelPrevious && !last.Cancelled {
		if err := s.cancel(ctx, r); err != nil {
			return false, err
		}
		last.Cancelled = true
	}
	if err := s.store.save(ctx, r, nil, false); err != nil {
		return false, err
	}
	// A run that ended before it was watched is found by another look.
	return s.watch(ctx, r)
}

// cancel cancels the run that the schedule started last.
func (s *scheduleRunner) cancel(ctx context.Context, r *scheduleRecord) error {
	id, p, err := s.store.locateLastRun(r)
	if err != nil {
		return err
	}
	err = cancelRun(ctx, s.session, enginerpc.CancelFlowCall{
		Partition: p, FlowID: id, Reason: "schedule " + r.spec.Name + " fired again", Actor: r.spec.Creator, Policy: cancelAll,
	})
	if errors.Is(err, enginecore.ErrFlowNotFound) || errors.Is(err, enginecore.ErrFlowAlreadyTerminal) {
		return nil
	}
	return err
}

// watch works on the schedule again when the run that it started last has ended. It tells whether it does so newly, from
// when on the end cannot be missed.
func (s *scheduleRunner) watch(ctx context.Context, r *scheduleRecord) (bool, error) {
	if s.watching == nil {
		return false, nil
	}
	run := watchedRun{r.id, r.state.Last.Run}
	s.mu.Lock()
	watched := s.watching[run]
	s.watching[run] = true
	s.mu.Unlock()
	if watched {
		return false, nil
	}
	forget := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watching, run)
	}
	id, p, err := s.store.locateLastRun(r)
	if err != nil {
		forget()
		return false, err
	}
	wait, err := s.submitter.completions.wait(ctx, id, p)
	if err != nil {
		forget()
		return false, err
	}
	s.tasks.Go(func() {
		defer s.submitter.completions.release(wait)
		timer := time.NewTimer(lookAgain)
		defer timer.Stop()
		select {
		case <-wait.completed:
			forget()
			s.work(ctx, r.part, r.id)
			return
		case <-timer.C: // the engine tells some keeper of it
		case <-ctx.Done():
		}
		forget()
	})
	return true, nil
}

// start starts the run of a fire: it says so, submits the run, and says that it has. Whoever comes after a keeper that stopped
// between two of these goes on, and the engine gives the fire one run whoever submits it.
func (s *scheduleRunner) start(ctx context.Context, r *scheduleRecord, i int) (more bool, err error) {
	fire := &r.state.Waiting[i]
	if fire.StartBefore == 0 {
		fire.Plan = r.state.Plan
	}
	flowName, plan, failure := s.plan(ctx, r, fire)
	if failure != nil && !isFinal(failure) {
		return false, failure
	}
	serial, at := fire.Serial, unixTime(fire.At)
	if failure == nil {
		calls := 2 + len(plan.compiled.nodes)/nodesPerCall + plan.compiled.edges/edgesPerCall
		fire.StartBefore = r.now.Add(startPatience + time.Duration(calls)*patiencePerCall).UnixMilli()
		plan.fires[0].StartBefore = unixTime(fire.StartBefore).Add(latestStart)
		if err := s.store.save(ctx, r, nil, false); err != nil {
			return false, err
		}
		if _, failure = s.submitter.submit(ctx, plan); failure != nil && !isFinal(failure) {
			return false, failure
		}
	}
	if failure != nil {
		s.session.logger.LogAttrs(ctx, slog.LevelError, "flowfabric: a fire of a schedule cannot be started", eventFireFailed.attr(),
			slog.String("schedule", r.spec.Name), slog.Time("fire", at), slog.Any("error", failure))
	}
	if !r.finish(serial, flowName, failure) {
		return true, nil
	}
	err = s.store.save(ctx, r, nil, false)
	if errors.Is(err, enginecore.ErrScheduleChanged) {
		r, err = s.store.change(ctx, r.part, r.id, func(r *scheduleRecord) (bool, error) {
			return r.finish(serial, flowName, failure), nil
		})
		if errors.Is(err, errScheduleNotFound) {
			return false, nil
		}
	}
	return err == nil && (r.nextFire() >= 0 || r.isRipe() || r.state.Deleting), err
}

// isFinal tells whether a fire has no run because of what is to be started, so that another try would fail as well.
func isFinal(err error) bool {
	for _, target := range []error{ErrRunConflict, ErrTooLarge, ErrLimitKey, ErrFairKey, ErrRunID, enginecore.ErrInvalidInput} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// plan is what a fire starts, and the name of the flow. All of it is of one revision, also when the schedule has changed since
// a keeper began to start the fire.
func (s *scheduleRunner) plan(ctx context.Context, r *scheduleRecord, fire *pendingFire) (string, *runPlan, error) {
	key := scheduledPlan{r.id, r.state.CreatedAt, fire.Plan}
	compiled := s.flows.get(key)
	reply, err := s.session.core.ReadSchedulePlan(ctx, enginerpc.ReadSchedulePlanCall{
		Partition: r.part, ScheduleID: r.id, Plan: fmt.Sprint(fire.Plan), WithDefinition: compiled == nil,
	})
	if err != nil {
		return "", nil, err
	}
	spec, err := readSpec(r.id, reply.Spec)
	if err != nil {
		return "", nil, err
	}
	if compiled == nil {
		if compiled, err = compileStored(reply.Definition, spec.GraphHash); err != nil {
			return spec.Flow, nil, err
		}
		s.flows.put(key, compiled)
	}
	plan, err := planFire(s.session, &spec, compiled, reply.Input, r.state.CreatedAt, *fire)
	return spec.Flow, plan, err
}

// planFire is the run of one fire.
func planFire(e *session, spec *scheduleSpec, compiled *compiledFlow, input []byte, incarnation int64, fire pendingFire) (*runPlan, error) {
	var err error
	if spec.FireField != "" {
		if input, err = withFireTime(input, spec.FireField, unixTime(fire.At)); err != nil {
			return nil, err
		}
	}
	plan, err := newPlanIn(e, enginecore.Namespace(spec.Namespace), compiled, runOf(spec.Name, fire), input)
	if err != nil {
		return nil, err
	}
	plan.retention, plan.creator = spec.Retention, spec.Creator
	tags := maps.Clone(spec.Tags)
	if tags == nil {
		tags = make(map[string]string)
	}
	tags[scheduleTag] = spec.Name
	if plan.tags, err = tagsOf(compiled, tags); err != nil {
		return nil, err
	}
	plan.fires = []enginerpc.SubmitFlowFire{{
		ScheduleID: spec.id(), Name: spec.Name, Incarnation: fmt.Sprint(incarnation), Serial: fire.Serial, FireAt: unixTime(fire.At),
	}}
	return plan, nil
}

// compileStored compiles a flow that this program need not know. The stored definition stays as it is.
func compileStored(definition []byte, hash string) (*compiledFlow, error) {
	graph, err := flowgraph.ParseGraph(definition)
	if err != nil {
		return nil, err
	}
	compiled, err := compileFlow(graph, hash)
	if err != nil {
		return nil, err
	}
	compiled.definition = definition
	return compiled, nil
}

// scheduledPlan names what a revision of a schedule starts. A schedule that is made anew has another time of making.
type scheduledPlan struct {
	id        enginecore.ScheduleID
	createdAt int64
	revision  int
}

// compiledSchedules keeps what was started last.
type compiledSchedules struct {
	mu    sync.Mutex
	plans map[scheduledPlan]*compiledFlow
}

func (c *compiledSchedules) get(key scheduledPlan) *compiledFlow {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plans[key]
}

func (c *compiledSchedules) put(key scheduledPlan, compiled *compiledFlow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plans == nil || len(c.plans) >= maxCompiled {
		c.plans = make(map[scheduledPlan]*compiledFlow)
	}
	c.plans[key] = compiled
}
