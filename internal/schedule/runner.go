package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

const (
	// startPatience is how long a keeper may take to start a run before another one takes over, and patiencePerCall
	// the time that each call of a large flow adds.
	startPatience   = 10 * time.Second
	patiencePerCall = 100 * time.Millisecond
	// latestStart is how long after that a submission is still accepted. It is less than the time for which the
	// engine remembers started fires, and more than the difference between clocks of servers.
	latestStart = 12 * time.Hour
	// schedulesAtOnce bounds the schedules that a runner works on at a time.
	schedulesAtOnce = 16
)

// Runner starts the runs of due schedules, for keepers and for clients that declare, trigger or delete a schedule. The
// engine reports a due schedule to one keeper at a time, and a step is written only if no other process has written
// one since the record was read. So a fire is neither started twice nor lost, for any order of the processes and
// wherever one stops.
//
// NewRunner makes one, Close ends it. It is safe for concurrent use.
type Runner struct {
	// ID names the runner among all keepers of an engine.
	ID        string
	session   *engine.Session
	store     Store
	submitter *submit.Submitter
	flows     compiledSchedules

	slots chan struct{} // bounds the schedules that are worked on at a time
	tasks sync.WaitGroup

	mu       sync.Mutex
	watching map[watchedRun]bool // nil when nothing is to be watched
}

// NewRunner returns a runner; the caller must Close it. With watch, it waits for the end of the runs that
// fires wait for; without, it only takes the steps that are possible at once.
func NewRunner(e *engine.Session, watch bool) *Runner {
	s := &Runner{
		ID: uuid.NewString(), session: e, store: Store{e}, submitter: submit.NewSubmitter(e),
		slots: make(chan struct{}, schedulesAtOnce),
	}
	if watch {
		s.watching = make(map[watchedRun]bool)
	}
	return s
}

// watchedRun is a run of a schedule whose end the runner waits for.
type watchedRun struct {
	schedule keyspace.ScheduleID
	run      string
}

// Close waits for the steps under way. To end those that wait for a run, end the ctx of Begin first.
func (s *Runner) Close() {
	s.tasks.Wait()
	s.submitter.Close()
}

// Begin works on the due schedules of a partition in the background, up to schedulesAtOnce at a time. It logs
// failures; the engine reports such a schedule again. With takesOver, it continues at once with a fire that another
// runner has begun to start.
func (s *Runner) Begin(ctx context.Context, p keyspace.Partition, due []keyspace.ScheduleID, takesOver bool) {
	for _, id := range due {
		s.tasks.Go(func() {
			select {
			case s.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-s.slots }()
			s.work(ctx, p, id, takesOver)
		})
	}
}

// work takes the possible steps of one schedule. A failed step is repeated, by any keeper, when the engine reports
// the schedule again.
func (s *Runner) work(ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID, takesOver bool) {
	defer func() {
		if fault := recover(); fault != nil {
			s.session.Logger.LogAttrs(ctx, slog.LevelError,
				"flowfabric: the keeper recovered from a panic and continues",
				observe.EventKeeperPanicked.Attr(),
				slog.Any("tasks", []string{"schedule"}), slog.Any("panic", fault),
				slog.String("stack", string(debug.Stack())))
		}
	}()
	for ctx.Err() == nil {
		r, _, err := s.store.Read(ctx, p, id, 0)
		if errors.Is(err, engine.ErrScheduleNotFound) {
			return
		}
		more := false
		if err == nil {
			r.keeper = s.ID
			more, err = s.step(ctx, r, takesOver)
			takesOver = false
		}
		switch {
		case errors.Is(err, errorcode.ScheduleChanged):
			// Another process has taken a step: read again.
		case err != nil:
			if ctx.Err() == nil {
				s.session.Logger.LogAttrs(ctx, slog.LevelWarn,
					"flowfabric: the keeper could not process a schedule and retries",
					observe.EventScheduleFailed.Attr(), slog.String("schedule_id", string(id)), slog.Any("error", err))
			}
			return
		case !more:
			return
		}
	}
}

// step takes the next step of a schedule and reports whether another one may be possible.
func (s *Runner) step(ctx context.Context, r *Record, takesOver bool) (more bool, err error) {
	if r.State.Deleting && len(r.State.Waiting) == 0 {
		return false, s.store.remove(ctx, r)
	}
	r.rewind()
	if i := r.starting(); i >= 0 {
		if r.isStarting(r.State.Waiting[i]) && !takesOver {
			return false, nil // a keeper is starting it
		}
		return s.start(ctx, r, i)
	}
	open := false
	if r.Spec.Overlap != fabrictype.OverlapAllow && (r.isRipe() || r.nextFire() >= 0) {
		if open, err = s.store.isLastRunOpen(ctx, r); err != nil {
			return false, err
		}
	}
	r.settle(open)
	if open && r.Spec.Overlap == fabrictype.OverlapSkip {
		r.skipWaiting("run " + r.State.Last.Run + " was open")
	}
	next := r.nextFire()
	if b := r.backfill(); b != nil && (next < 0 || open && r.Spec.Overlap != fabrictype.OverlapAllow) {
		if waits, err := s.store.waitsForRun(ctx, r, b); err != nil || !waits {
			return s.startBackfill(ctx, r, b, err)
		}
		if next < 0 {
			return s.awaitBackfill(ctx, r, b)
		}
	}
	switch {
	case next < 0:
		return false, s.store.save(ctx, r, nil, false)
	case !open || r.Spec.Overlap == fabrictype.OverlapAllow:
		return s.start(ctx, r, next)
	}
	return s.await(ctx, r)
}

// await leaves fires waiting for the end of the previous run, which it cancels if the overlap policy demands it.
func (s *Runner) await(ctx context.Context, r *Record) (more bool, err error) {
	last := r.State.Last
	if r.Spec.Overlap == fabrictype.OverlapCancelPrevious && !last.Cancelled {
		if err := s.cancel(ctx, r); err != nil {
			return false, err
		}
		last.Cancelled = true
	}
	if err := s.store.save(ctx, r, nil, false); err != nil {
		return false, err
	}
	// Another step detects a run that ended before it was watched.
	return s.watch(ctx, r, r.State.Last)
}

// cancel cancels the last started run of the schedule.
func (s *Runner) cancel(ctx context.Context, r *Record) error {
	id, p, err := s.store.LocateLastRun(r)
	if err != nil {
		return err
	}
	err = submit.CancelRun(ctx, s.session, enginerpc.CancelFlowCall{
		Partition: p, FlowID: id, Reason: "schedule " + r.Spec.Name + " fired again", Actor: r.Spec.Creator,
		Policy: submit.CancelAll,
	})
	if errors.Is(err, enginecore.ErrFlowNotFound) || errors.Is(err, enginecore.ErrFlowAlreadyTerminal) {
		return nil
	}
	return err
}

// watch works on the schedule again when a run that it has started has ended. It reports whether it has newly begun to
// wait; from then on it cannot miss the end.
func (s *Runner) watch(ctx context.Context, r *Record, last *StartedRun) (bool, error) {
	if s.watching == nil {
		return false, nil
	}
	run := watchedRun{r.id, last.Run}
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
	id, p, err := s.store.locateRun(r, last)
	if err != nil {
		forget()
		return false, err
	}
	wait, err := s.submitter.Watch(ctx, id, p)
	if err != nil {
		forget()
		return false, err
	}
	s.tasks.Go(func() {
		defer s.submitter.Completions.Release(wait)
		timer := time.NewTimer(s.store.Session.LookEvery(lookAgain))
		defer timer.Stop()
		select {
		case <-wait.Completed:
			forget()
			s.work(ctx, r.part, r.id, false)
			return
		case <-timer.C: // the engine reports the schedule to some keeper again
		case <-ctx.Done():
		}
		forget()
	})
	return true, nil
}

// start starts the run of a fire: it records the intent, submits the run, and records the outcome. If a keeper stops
// in between, another one continues, and the engine gives the fire one run however often it is submitted.
func (s *Runner) start(ctx context.Context, r *Record, i int) (more bool, err error) {
	isNew := r.State.Waiting[i].StartBefore == 0
	if isNew {
		i = r.passHeld(i)
		r.State.Waiting[i].Plan = r.State.Plan
	}
	fire := &r.State.Waiting[i]
	flowName, plan, failure := s.plan(ctx, r, fire)
	if errors.Is(failure, errorcode.ScheduleNotFound) {
		return false, s.store.missingPlan(ctx, r, failure)
	}
	if failure != nil && !isFinal(failure) {
		return false, failure
	}
	serial, at, existed := fire.Serial, UnixTime(fire.At), false
	if failure == nil {
		calls := 2 + len(plan.Compiled.Nodes)/submit.NodesPerPut
		fire.StartBefore = r.now.Add(startPatience + time.Duration(calls)*patiencePerCall).UnixMilli()
		plan.Fires[0].StartBefore = UnixTime(fire.StartBefore).Add(latestStart)
		if err := s.store.save(ctx, r, nil, false); err != nil {
			return false, err
		}
		if existed, failure = s.submitter.Submit(ctx, plan); failure != nil && !isFinal(failure) {
			return false, failure
		}
	}
	existed = existed && isNew // not by another keeper that began this fire
	if failure != nil {
		s.session.Logger.LogAttrs(ctx, slog.LevelError, "flowfabric: the keeper cannot start a fire of a schedule",
			observe.EventFireFailed.Attr(),
			slog.String("schedule", r.Spec.Name), slog.Time("fire", at), slog.Any("error", failure))
	}
	if !r.finish(serial, flowName, existed, failure) {
		return true, nil
	}
	err = s.store.save(ctx, r, nil, false)
	if errors.Is(err, errorcode.ScheduleChanged) {
		r, err = s.store.change(ctx, r.part, r.id, func(r *Record) (bool, error) {
			return r.finish(serial, flowName, existed, failure), nil
		})
		if errors.Is(err, engine.ErrScheduleNotFound) {
			return false, nil
		}
	}
	return err == nil && (r.nextFire() >= 0 || r.isRipe() || r.backfill() != nil || r.State.Deleting), err
}

// isFinal reports whether a fire has no run because of its flow, input or options, so that another try would fail as
// well.
func isFinal(err error) bool {
	for _, target := range []error{engine.ErrRunConflict, engine.ErrTooLarge, engine.ErrInvalid,
		errorcode.InvalidInput} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// plan returns the run to submit for a fire, and the name of its flow. Both are of the revision with which the fire
// was begun, also if the schedule has changed since.
func (s *Runner) plan(ctx context.Context, r *Record, fire *PendingFire) (string, *submit.RunPlan, error) {
	key := scheduledPlan{r.id, r.State.CreatedAt, fire.Plan}
	compiled := s.flows.get(key)
	reply, err := s.session.Core.ReadSchedulePlan(ctx, enginerpc.ReadSchedulePlanCall{
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
		if compiled, err = CompileStored(reply.Definition, spec.GraphHash); err != nil {
			return spec.Flow, nil, err
		}
		s.flows.put(key, compiled)
	}
	plan, err := PlanFire(s.session, &spec, compiled, reply.Input, r.State.CreatedAt, *fire)
	return spec.Flow, plan, err
}

// PlanFire returns the run to submit for one fire: with the fire time in the input if the spec demands it, and the
// tag ScheduleTag. The incarnation is the schedule's time of creation in Unix ms, which distinguishes schedules that
// were deleted and created again.
func PlanFire(
	e *engine.Session, spec *Spec, compiled *submit.CompiledFlow, input []byte, incarnation int64, fire PendingFire,
) (*submit.RunPlan, error) {
	var err error
	if spec.FireField != "" {
		if input, err = WithFireTime(input, spec.FireField, UnixTime(fire.At)); err != nil {
			return nil, err
		}
	}
	plan, err := submit.NewPlanIn(e, keyspace.Namespace(spec.Namespace), compiled, RunOf(spec.Name, fire), input)
	if err != nil {
		return nil, err
	}
	plan.Retention, plan.Creator, plan.Carried = spec.Retention, spec.Creator, spec.Carried
	tags := maps.Clone(spec.Tags)
	if tags == nil {
		tags = make(map[string]string)
	}
	tags[ScheduleTag] = spec.Name
	plan.OwnTags = true
	if plan.Tags, err = submit.TagsOf(compiled, tags); err != nil {
		return nil, err
	}
	plan.Fires = []enginerpc.SubmitFire{{
		ScheduleID: spec.ID(), Name: spec.Name, Incarnation: fmt.Sprint(incarnation), Serial: fire.Serial,
		FireAt: UnixTime(fire.At),
	}}
	return plan, nil
}

// CompileStored compiles a stored definition with the given hash, whose flow need not be known to this program. The
// result keeps the stored bytes of the definition.
func CompileStored(definition []byte, hash string) (*submit.CompiledFlow, error) {
	graph, err := flowgraph.ParseGraph(definition)
	if err != nil {
		return nil, err
	}
	compiled, err := submit.CompileFlow(graph, hash)
	if err != nil {
		return nil, err
	}
	compiled.Definition = definition
	return compiled, nil
}

// scheduledPlan identifies a revision of a schedule. A schedule that was deleted and created again has another
// createdAt.
type scheduledPlan struct {
	id        keyspace.ScheduleID
	createdAt int64
	revision  int
}

// compiledSchedules caches the compiled flows of recent fires.
type compiledSchedules struct {
	mu    sync.Mutex
	plans map[scheduledPlan]*submit.CompiledFlow
}

func (c *compiledSchedules) get(key scheduledPlan) *submit.CompiledFlow {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plans[key]
}

func (c *compiledSchedules) put(key scheduledPlan, compiled *submit.CompiledFlow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plans == nil || len(c.plans) >= submit.MaxCompiled {
		c.plans = make(map[scheduledPlan]*submit.CompiledFlow)
	}
	c.plans[key] = compiled
}
