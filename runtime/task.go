package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// task is one claimed execution in a worker.
type task struct {
	shift   *shift
	spot    spot
	claimed enginecore.ClaimedExecution
	begun   time.Time

	ctx    context.Context
	cancel context.CancelCauseFunc

	// leaseEnds is the end of the lease, as a time.Duration after begun.
	leaseEnds atomic.Int64
	lastBeat  atomic.Pointer[time.Time]
	// lastProgress is when progress was recorded last; nil before.
	lastProgress atomic.Pointer[time.Time]
	// reportingProgress is full while a report is under way. It is there once lastProgress is, thanks to firstProgress.
	reportingProgress chan struct{}
	firstProgress     sync.Once
	settled           atomic.Bool // somebody has reported, or must report, how the attempt ended
	// journal is what the execution's steps and waits have brought.
	journal journal
	// unsure is set when the engine may not know that the attempt is over, so that its admissions are not given back.
	unsure atomic.Bool
	// frames sends what the function emits; nil before it emits something.
	frames atomic.Pointer[emitter]
	usage  budgetUse
	// exited is how an attempt ended whose function ended its goroutine; nil for others.
	exited   error
	overstay overstay
	// places tells whether the execution has got its places; nil when nobody has asked for them.
	places chan bool
	// placed tells that it has, by its own asking, block in whose places it takes its turn.
	placed bool
	block  *block
	noted  bool // its places are on their way back
}

func newTask(s *shift, from spot, claimed enginecore.ClaimedExecution, sentAt time.Time) *task {
	t := &task{shift: s, spot: from, claimed: claimed, begun: time.Now()}
	t.ctx, t.cancel = context.WithCancelCause(extractTrace(s.base, claimed.TraceContext))
	t.extendLease(sentAt)
	return t
}

// name is how the log calls the task.
func (t *task) name() string {
	return fmt.Sprintf("%s/%s/%s", t.claimed.FlowName, t.claimed.RunID, t.claimed.Node)
}

func (t *task) log(level slog.Level, event logEvent, message string, attrs ...slog.Attr) {
	attrs = append(attrs, event.attr(), slog.String("flow", t.claimed.FlowName), slog.String("run", t.claimed.RunID),
		slog.String("node", t.claimed.Node), slog.String("execution", string(t.claimed.ExecutionID)),
		slog.Int("attempt", int(t.claimed.AttemptIndex)+1))
	t.shift.session.logger.LogAttrs(t.ctx, level, "flowfabric: "+message, attrs...)
}

// ended measures the attempt.
func (t *task) ended(outcome string) {
	telemetry := t.shift.session.telemetry
	telemetry.record(t.shift.base, telemetry.attempts, time.Since(t.begun), labels{"activity", t.claimed.Kind, outcome})
}

// settle reports whether the caller is the one who may report the end of the attempt.
func (t *task) settle() bool { return t.settled.CompareAndSwap(false, true) }

// endedByEngine ends the function's context; there is nothing left to report.
func (t *task) endedByEngine(cause error) {
	t.settle()
	t.cancel(cause)
}

// leaseEnd is when the lease counts as lost here: a twentieth before the engine may give it away.
func (t *task) leaseEnd() time.Time { return t.begun.Add(time.Duration(t.leaseEnds.Load())) }

func (t *task) extendLease(sentAt time.Time) {
	t.leaseEnds.Store(int64(sentAt.Add(t.shift.worker.config.lease * 19 / 20).Sub(t.begun)))
}

// run runs the function and reports how it ended. It returns the next task when the engine handed one on; wantNext tells
// then whether it is wanted.
func (t *task) run(wantNext func() bool) (next *task) {
	defer t.cancel(nil)
	held := t.shift.leases.add(t)
	if held {
		defer t.shift.leases.remove(t)
	}
	placed := t.awaitPlaces()
	if !held {
		t.giveBack()
		return nil
	}
	if t.settled.Load() {
		t.ended(outcomeEndedByEngine)
		t.log(slog.LevelDebug, eventAttemptEnded, "execution ended before its function began", slog.Any("cause", context.Cause(t.ctx)))
		return nil
	}
	if !placed || t.shift.board.isClosed() {
		if t.settle() {
			t.giveBackFor(whyReturned(placed))
		}
		return nil
	}
	ctx, span := t.shift.session.telemetry.tracer.Start(t.ctx, "flowfabric.activity "+t.claimed.Kind,
		t.shift.session.telemetry.consumer, trace.WithAttributes(
			attribute.String("flowfabric.flow", t.claimed.FlowName), attribute.String("flowfabric.run", t.claimed.RunID),
			attribute.String("flowfabric.node", t.claimed.Node), attribute.Int("flowfabric.attempt", int(t.claimed.AttemptIndex)+1)))
	defer func() {
		// Nothing can bring a goroutine back that a function has ended, but what is deferred still runs.
		if t.exited != nil {
			t.finishUp()
			t.report(ctx, nil, t.exited, false)
			endSpan(span, t.exited)
		}
	}()
	for again := true; again; {
		result, err := t.execute(ctx)
		t.finishUp()
		next, again = t.report(ctx, result, err, wantNext())
		if !again {
			endSpan(span, spanError(err))
		}
	}
	return next
}

// finishUp completes what the function has begun, before the end of the attempt is reported.
func (t *task) finishUp() {
	t.awaitProgress()
	t.finishFrames()
	t.releaseReservations()
}

// spanError is what a span shows of how a function ended: that it waits is no error.
func spanError(err error) error {
	if suspensionIn(err) != nil || childWaitIn(err) != nil {
		return nil
	}
	return err
}

// execute prepares the input, runs the function within its limits, and returns its encoded result.
func (t *task) execute(ctx context.Context) ([]byte, error) {
	handler := t.shift.worker.handlers[t.claimed.Kind]
	if handler == nil && t.claimed.Kind != mapKind && t.claimed.Kind != subKind {
		return nil, fmt.Errorf("activity %q is not registered with this worker", t.claimed.Kind)
	}
	plan, err := t.shift.plans.decode(t.claimed.Policy)
	if err != nil {
		return nil, undecodable(t.locate(err))
	}
	input, err := t.input(ctx, plan)
	if err != nil {
		return nil, err
	}
	if plan.child != nil {
		return t.runChild(ctx, *plan.child, input)
	}
	if err := t.readJournal(ctx); err != nil {
		return nil, err
	}
	limits := t.limits(plan)
	ctx, cancel := limits.context(ctx)
	defer cancel()
	if plan.heartbeat > 0 {
		stop := t.watchHeartbeat(plan.heartbeat)
		defer stop()
	}
	e := &execution{task: t, until: limits.until}
	t.functionBegins(limits.until)
	result, err := invoke(activitycontext.With(ctx, e), handler, input, t)
	if err != nil && ctx.Err() != nil {
		return nil, interrupted(context.Cause(ctx), err)
	}
	if _, undecoded := errors.AsType[*activity.DecodeError](err); undecoded {
		return nil, t.locate(err)
	}
	if err := e.checkSuspension(err); err != nil {
		return nil, err
	}
	if err == nil && len(result) > MaxResult {
		return nil, activity.NonRetryable(activity.Category(fmt.Errorf("%w: the result of node %s has %d bytes, at most %d are allowed",
			ErrTooLarge, t.claimed.Node, len(result), MaxResult), CategoryTooLarge))
	}
	return result, err
}

// CategoryWorkerLost is the category of a node that has failed because too many workers were lost while they ran it.
const CategoryWorkerLost = "worker_lost"

// CategoryTooLarge is the category of a result above MaxResult, which is not retried. The other categories that a worker
// gives are those of package activity.
const CategoryTooLarge = "too_large"

// locate says where something went wrong that the stored data are to blame for.
func (t *task) locate(err error) error {
	return fmt.Errorf("run %s, node %s: %w", t.claimed.RunID, t.claimed.Node, err)
}

func undecodable(err error) error {
	return activity.NonRetryable(activity.Category(err, activity.CategoryDecode))
}

// interrupted joins the error of a function whose context ended with the cause.
func interrupted(cause, err error) error {
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// errExited is the failure of a function that has ended its goroutine, as testing's FailNow does.
var errExited = activity.Category(errors.New("the function ended its goroutine (runtime.Goexit)"), activity.CategoryPanic)

// invoke runs the function and turns a panic into an error. When the function ends the goroutine, invoke does not return;
// what is deferred finds the error in t.exited.
func invoke(ctx context.Context, h activity.Handler, input []byte, t *task) (result []byte, err error) {
	returned := false
	defer func() {
		t.functionEnded()
		r := recover()
		switch {
		case r != nil:
			t.log(slog.LevelError, eventActivityPanicked, "activity panicked", slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
			result, err = nil, activity.Category(fmt.Errorf("panic: %v", r), activity.CategoryPanic)
		case !returned:
			t.log(slog.LevelError, eventActivityPanicked, "activity ended its goroutine", slog.Any("panic", errExited), slog.String("stack", string(debug.Stack())))
			t.exited = errExited
			if ctx.Err() != nil {
				t.exited = interrupted(context.Cause(ctx), errExited)
			}
		}
	}()
	if result, err = h.Invoke(ctx, input); err != nil {
		_ = err.Error() // the error is the function's as well: what it does here is not done where nobody expects it
	}
	returned = true
	return result, err
}

// limits are the times that bound an attempt; zero is no limit.
type limits struct {
	startToClose time.Time
	deadline     time.Time
	until        time.Time // the earlier one
}

func (t *task) limits(plan nodePlan) limits {
	l := limits{deadline: t.claimed.DeadlineAt}
	if plan.startToClose > 0 {
		l.startToClose = t.begun.Add(plan.startToClose)
	}
	l.until = l.deadline
	if l.until.IsZero() || (!l.startToClose.IsZero() && l.startToClose.Before(l.until)) {
		l.until = l.startToClose
	}
	return l
}

func (l limits) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.until.IsZero() {
		return ctx, func() {}
	}
	cause := ErrDeadline
	if l.until.Equal(l.startToClose) {
		cause = ErrStartToClose
	}
	return context.WithDeadlineCause(ctx, l.until, cause)
}

// input composes the node's input from the flow's input and the results of its upstreams.
func (t *task) input(ctx context.Context, plan nodePlan) ([]byte, error) {
	if plan.input == nil {
		return t.claimed.Payload, nil
	}
	results := make(map[string][]byte, len(t.claimed.Inputs))
	for _, in := range t.claimed.Inputs {
		results[in.Name] = in.Result
	}
	if !t.claimed.InputsComplete {
		if err := t.readInputs(ctx, results); err != nil {
			return nil, err
		}
	}
	input, err := plan.input.Resolve(t.claimed.FlowInput, results)
	if err != nil {
		return nil, undecodable(t.locate(fmt.Errorf("input: %w", err)))
	}
	if plan.input.Kind == flowgraph.ExprConst {
		input = bytes.Clone(input) // the plan is shared
	}
	return input, nil
}

// readInputs reads the results that were too many or too large to come with the claim.
func (t *task) readInputs(ctx context.Context, results map[string][]byte) error {
	call := enginecore.ReadInputsCall{Partition: t.spot.partition, ExecutionID: t.claimed.ExecutionID}
	for {
		reply, err := t.shift.session.calls.ReadInputs(ctx, call)
		if err != nil {
			return fmt.Errorf("read the inputs of node %s: %w", t.claimed.Node, err)
		}
		for _, in := range reply.Inputs {
			results[in.Name] = in.Result
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return nil
		}
	}
}

// watchHeartbeat fails the attempt when the function does not call Heartbeat often enough, also when it never returns.
func (t *task) watchHeartbeat(limit time.Duration) (stop func()) {
	begun := time.Now()
	t.lastBeat.Store(&begun)
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		timer := time.NewTimer(limit)
		defer timer.Stop()
		for {
			select {
			case <-done:
				return
			case <-timer.C:
			}
			if left := limit - time.Since(*t.lastBeat.Load()); left > 0 {
				timer.Reset(left)
				continue
			}
			if t.settle() {
				err := activity.Category(fmt.Errorf("%w: none for %s", ErrHeartbeatTimeout, limit), activity.CategoryTimeout)
				t.log(slog.LevelWarn, eventAttemptFailed, "attempt failed", slog.Any("error", err), slog.String("category", activity.CategoryTimeout))
				t.cancel(ErrHeartbeatTimeout)
				t.fail(err)
			}
			return
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}

// execution is what the functions of package activity see of a task.
type execution struct {
	stepCounts
	task  *task
	until time.Time
	// waiting is the first wait that the function was told to suspend for.
	waiting atomic.Pointer[activitycontext.Suspension]
}

// Info is what activity.Info tells.
func (e *execution) Info() activitycontext.Info {
	c := &e.task.claimed
	return activitycontext.Info{
		Flow: c.FlowName, FlowID: string(c.FlowID), RunID: c.RunID, Node: c.Node, ExecutionID: string(c.ExecutionID),
		Attempt: int(c.AttemptIndex) + 1, StartedAt: e.task.begun, Deadline: e.until,
	}
}

// LeaseHealthy is what activity.LeaseHealthy tells.
func (e *execution) LeaseHealthy() bool {
	return !e.task.settled.Load() && time.Now().Before(e.task.leaseEnd())
}

// Heartbeat does what activity.Heartbeat asks for.
func (e *execution) Heartbeat(ctx context.Context) error {
	now := time.Now()
	e.task.lastBeat.Store(&now)
	return context.Cause(ctx)
}

// Progress does what activity.Progress asks for.
func (e *execution) Progress(ctx context.Context, percent float64, message string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	e.task.firstProgress.Do(func() { e.task.reportingProgress = make(chan struct{}, 1) })
	now := time.Now()
	last := e.task.lastProgress.Load()
	if last != nil && now.Sub(*last) < progressPause || !e.task.lastProgress.CompareAndSwap(last, &now) {
		return nil
	}
	// The function does not wait for the engine, which may be away; while a report is under way, others are dropped.
	select {
	case e.task.reportingProgress <- struct{}{}:
		e.task.shift.errands.start(func() {
			defer func() { <-e.task.reportingProgress }()
			e.task.recordProgress(percent, message)
		})
	default:
	}
	return nil
}

// awaitProgress lets a last report go out before the end of the attempt is reported, but does not wait for an engine that
// is away.
func (t *task) awaitProgress() {
	if t.lastProgress.Load() == nil {
		return
	}
	timer := time.NewTimer(progressPause)
	defer timer.Stop()
	select {
	case t.reportingProgress <- struct{}{}:
	case <-timer.C:
	}
}

func (t *task) recordProgress(percent float64, message string) {
	_, err := t.shift.session.calls.UpdateProgress(t.ctx, enginecore.UpdateProgressCall{
		ExecutionID: t.claimed.ExecutionID, LeaseID: t.claimed.LeaseID, LeaseEpoch: t.claimed.LeaseEpoch,
		ProgressPct: formatPercent(percent), ProgressMessage: message,
	})
	if err != nil && t.ctx.Err() == nil {
		t.log(slog.LevelDebug, eventProgressLost, "progress was not recorded", slog.Any("error", err))
	}
}

// progressPause is the shortest time between two recorded reports, so that a loop may report in every round.
const progressPause = 100 * time.Millisecond
