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

// scheduleKeeper is the part of a keeper that starts what schedules say. The engine tells one keeper at a time of a schedule
// that is due, and every step is written only if nobody else took one; so no order of things, and no keeper that stops
// anywhere, starts a fire twice or loses one.
type scheduleKeeper struct {
	session *session
	client  *Client
	flows   compiledSchedules

	places chan struct{} // of the schedules that are worked on
	tasks  sync.WaitGroup

	mu       sync.Mutex
	watching map[watchedRun]bool // nil when nothing is to be watched
}

// newScheduleKeeper makes one that watches the runs that fires wait for, or one that only does what can be done at once.
func newScheduleKeeper(e *session, watch bool) *scheduleKeeper {
	k := &scheduleKeeper{session: e, client: newClientOf(e), places: make(chan struct{}, schedulesAtOnce)}
	if watch {
		k.watching = make(map[watchedRun]bool)
	}
	return k
}

// watchedRun is a run of a schedule whose end is waited for.
type watchedRun struct {
	schedule enginecore.ScheduleID
	run      string
}

// close waits for what is under way.
func (k *scheduleKeeper) close() {
	k.tasks.Wait()
	k.client.Close()
}

// begin works on the schedules of a partition that are due. It does not wait for that.
func (k *scheduleKeeper) begin(ctx context.Context, p enginecore.Partition, due []enginecore.ScheduleID) {
	for _, id := range due {
		k.tasks.Go(func() {
			select {
			case k.places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-k.places }()
			k.work(ctx, p, id)
		})
	}
}

// work takes the steps of one schedule that can be taken now. What fails is tried again, by any keeper, when the engine tells of
// it the next time.
func (k *scheduleKeeper) work(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID) {
	defer func() {
		if fault := recover(); fault != nil {
			k.session.logger.LogAttrs(ctx, slog.LevelError, "flowfabric: keeper panicked, it goes on", eventKeeperPanicked.attr(),
				slog.Any("duties", []Duty{DutySchedule}), slog.Any("panic", fault), slog.String("stack", string(debug.Stack())))
		}
	}()
	for ctx.Err() == nil {
		r, _, err := k.session.readSchedule(ctx, p, id, 0)
		if errors.Is(err, ErrScheduleNotFound) {
			return
		}
		more := false
		if err == nil {
			more, err = k.step(ctx, r)
		}
		switch {
		case errors.Is(err, enginecore.ErrScheduleChanged):
			// Somebody else was there.
		case err != nil:
			if ctx.Err() == nil {
				k.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: keeper could not do what a schedule says, it tries again",
					eventScheduleFailed.attr(), slog.String("schedule", string(id)), slog.Any("error", err))
			}
			return
		case !more:
			return
		}
	}
}

// step takes the next step of a schedule and tells whether there may be another one.
func (k *scheduleKeeper) step(ctx context.Context, r *scheduleRecord) (more bool, err error) {
	if r.state.Deleting && len(r.state.Waiting) == 0 {
		return false, k.session.removeSchedule(ctx, r)
	}
	r.rewind()
	if i := r.starting(); i >= 0 {
		if r.isStarting(r.state.Waiting[i]) {
			return false, nil // somebody is at it
		}
		return k.start(ctx, r, i)
	}
	open := false
	if r.spec.Overlap != OverlapAllow && (r.isRipe() || r.nextFire() >= 0) {
		if open, err = k.session.isRunOpen(ctx, r); err != nil {
			return false, err
		}
	}
	r.settle(open)
	if open && r.spec.Overlap == OverlapSkip {
		r.skipWaiting("run " + r.state.Last.Run + " was open")
	}
	next := r.nextFire()
	switch {
	case next < 0:
		return false, k.session.saveSchedule(ctx, r, nil, false)
	case !open || r.spec.Overlap == OverlapAllow:
		return k.start(ctx, r, next)
	}
	return k.await(ctx, r)
}

// await leaves fires waiting for the end of the run before, which it cancels if the policy says so.
func (k *scheduleKeeper) await(ctx context.Context, r *scheduleRecord) (more bool, err error) {
	last := r.state.Last
	if r.spec.Overlap == OverlapCancelPrevious && !last.Cancelled {
		if err := k.cancel(ctx, r); err != nil {
			return false, err
		}
		last.Cancelled = true
	}
	if err := k.session.saveSchedule(ctx, r, nil, false); err != nil {
		return false, err
	}
	// A run that ended before it was watched is found by another look.
	return k.watch(ctx, r)
}

// cancel cancels the run that the schedule started last.
func (k *scheduleKeeper) cancel(ctx context.Context, r *scheduleRecord) error {
	id, p, err := k.session.locateStarted(r)
	if err != nil {
		return err
	}
	call := enginecore.CancelFlowCall{
		Partition: p, FlowID: id, Reason: "schedule " + r.spec.Name + " fired again", Actor: r.spec.Creator, Policy: cancelAll,
	}
	for {
		reply, err := k.session.calls.CancelFlow(ctx, call)
		switch {
		case errors.Is(err, enginecore.ErrFlowNotFound), errors.Is(err, enginecore.ErrFlowAlreadyTerminal):
			return nil
		case err != nil:
			return err
		case !reply.More:
			return nil
		}
	}
}

// watch works on the schedule again when the run that it started last has ended. It tells whether it does so newly, from
// when on the end cannot be missed.
func (k *scheduleKeeper) watch(ctx context.Context, r *scheduleRecord) (bool, error) {
	if k.watching == nil {
		return false, nil
	}
	run := watchedRun{r.id, r.state.Last.Run}
	k.mu.Lock()
	watched := k.watching[run]
	k.watching[run] = true
	k.mu.Unlock()
	if watched {
		return false, nil
	}
	forget := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.watching, run)
	}
	id, p, err := k.session.locateStarted(r)
	if err != nil {
		forget()
		return false, err
	}
	wait, err := k.client.done.wait(ctx, id, p)
	if err != nil {
		forget()
		return false, err
	}
	k.tasks.Go(func() {
		defer k.client.done.release(wait)
		timer := time.NewTimer(lookAgain)
		defer timer.Stop()
		select {
		case <-wait.heard:
			forget()
			k.work(ctx, r.part, r.id)
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
func (k *scheduleKeeper) start(ctx context.Context, r *scheduleRecord, i int) (more bool, err error) {
	fire := &r.state.Waiting[i]
	if fire.StartBefore == 0 {
		fire.Plan = r.state.Plan
	}
	flowName, plan, failure := k.plan(ctx, r, fire)
	if failure != nil && !isFinal(failure) {
		return false, failure
	}
	serial, at := fire.Serial, unixTime(fire.At)
	if failure == nil {
		calls := 2 + len(plan.compiled.nodes)/nodesPerCall + plan.compiled.edges/edgesPerCall
		fire.StartBefore = r.now.Add(startPatience + time.Duration(calls)*patiencePerCall).UnixMilli()
		plan.fires[0].StartBefore = unixTime(fire.StartBefore).Add(latestStart)
		if err := k.session.saveSchedule(ctx, r, nil, false); err != nil {
			return false, err
		}
		if _, failure = k.client.submit(ctx, plan); failure != nil && !isFinal(failure) {
			return false, failure
		}
	}
	if failure != nil {
		k.session.logger.LogAttrs(ctx, slog.LevelError, "flowfabric: a fire of a schedule cannot be started", eventFireFailed.attr(),
			slog.String("schedule", r.spec.Name), slog.Time("fire", at), slog.Any("error", failure))
	}
	if !r.finish(serial, flowName, failure) {
		return true, nil
	}
	err = k.session.saveSchedule(ctx, r, nil, false)
	if errors.Is(err, enginecore.ErrScheduleChanged) {
		r, err = k.session.changeSchedule(ctx, r.part, r.id, func(r *scheduleRecord) (bool, error) {
			return r.finish(serial, flowName, failure), nil
		})
		if errors.Is(err, ErrScheduleNotFound) {
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
func (k *scheduleKeeper) plan(ctx context.Context, r *scheduleRecord, fire *pendingFire) (string, *Plan, error) {
	key := scheduledPlan{r.id, r.state.CreatedAt, fire.Plan}
	compiled := k.flows.get(key)
	reply, err := k.session.core.ReadSchedulePlan(ctx, enginecore.ReadSchedulePlanCall{
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
		k.flows.put(key, compiled)
	}
	plan, err := planFire(k.session, &spec, compiled, reply.Input, r.state.CreatedAt, *fire)
	return spec.Flow, plan, err
}

// planFire is the run of one fire.
func planFire(e *session, spec *scheduleSpec, compiled *compiledFlow, input []byte, incarnation int64, fire pendingFire) (*Plan, error) {
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
	tags[ScheduleTag] = spec.Name
	if plan.tags, err = tagsOf(compiled, tags); err != nil {
		return nil, err
	}
	plan.fires = []enginecore.SubmitFlowFire{{
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
