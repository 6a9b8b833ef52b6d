package submit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
)

// Submitter starts runs from plans, waits for their end, and purges them. Clients, schedules, and map and sub-flow
// nodes use one. It is safe for concurrent use. [NewSubmitter] makes one.
type Submitter struct {
	session *engine.Session
	// RunIDs makes the ids of runs that are started without one.
	RunIDs      *runIDAllocator
	Completions *CompletionListener
	// Starts is nil if the backend stores no graphs.
	Starts *starter
	// StillOpen is called by waits for a run that is still open, first after recheck and then less and less often. It
	// gets and returns the text that it has logged last. Nil: nothing is called. It must be set before the first wait.
	StillOpen func(ctx context.Context, flow, run, logged string) string
	rechecks  timerPool
}

// NewSubmitter returns a submitter, which must be closed before the session. It subscribes to nothing before the first
// wait.
func NewSubmitter(s *engine.Session) *Submitter {
	completions := newCompletionListener(s)
	return &Submitter{
		session: s, RunIDs: newRunIDAllocator(s), Completions: completions, Starts: NewStarter(s, completions),
	}
}

// Close ends the subscriptions of the submitter, and the contexts of WhileOpen. Waits for the end of a run return
// enginecore.ErrClosed.
func (s *Submitter) Close() { s.Completions.close() }

// Closed reports whether the submitter or its session is closed.
func (s *Submitter) Closed() bool { return s.Completions.closed.Err() != nil }

// WhileOpen returns a context that ends with ctx, or when the submitter or the session is closed; its cause is then
// enginecore.ErrClosed. The caller must call the returned function.
func (s *Submitter) WhileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	leave := context.AfterFunc(s.Completions.closed, func() { end(enginecore.ErrClosed) })
	return ctx, func() {
		leave()
		end(nil)
	}
}

// Submit starts the run of a plan and reports whether it existed with the same flow and input. Its error wraps
// [engine.ErrRunConflict] if the id belongs to another run, and [engine.ErrBudgetNotFound] if a budget does not exist.
// Submitting the same plan again is safe. If the former run of that id is being purged, Submit completes the purge
// first.
func (s *Submitter) Submit(ctx context.Context, plan *RunPlan) (existed bool, err error) {
	ctx, span := s.startSpan(ctx, plan)
	begun := time.Now()
	defer func() {
		observe.EndSpan(span, err)
		s.measure(ctx, plan, begun, existed, err)
	}()
	if plan.trace, err = s.carry(ctx, plan, observe.InjectTrace(ctx)); err != nil {
		return false, submitError(plan, err)
	}
	s.Completions.listenFor(ctx, plan)
	tracking := s.Completions.track(plan.FlowID)
	defer func() { s.Completions.settle(plan.FlowID, tracking, !existed && err == nil) }()
	if err = s.checkBudgets(ctx, plan); err != nil {
		return false, err
	}
	existed, err = s.Send(ctx, plan)
	if errors.Is(err, errorcode.FlowPurging) {
		// The id may be used again once the run that had it is gone.
		err = s.Purge(ctx, plan.Flow, plan.Run, plan.FlowID, plan.Partition, time.Time{})
		if err == nil || errors.Is(err, engine.ErrRunNotFound) {
			existed, err = s.Send(ctx, plan)
		}
	}
	if err != nil {
		existed, err = s.settleConflict(ctx, plan, err)
	}
	return existed, err
}

// startSpan starts the span of a submission.
func (s *Submitter) startSpan(ctx context.Context, plan *RunPlan) (context.Context, trace.Span) {
	telemetry := s.session.Telemetry
	if !telemetry.Traces() {
		return ctx, noop.Span{}
	}
	return telemetry.Tracer.Start(ctx, "flowfabric.start "+plan.Flow, telemetry.Producer,
		trace.WithAttributes(attribute.String("flowfabric.flow", plan.Flow),
			attribute.String("flowfabric.run", plan.Run),
			attribute.String("flowfabric.flow_id", string(plan.FlowID))))
}

// carry encodes the trace context and the propagated values of a run, which come from its plan if set, otherwise from
// ctx.
func (s *Submitter) carry(ctx context.Context, plan *RunPlan, trace string) (string, error) {
	carried, err := plan.Carried, error(nil)
	if carried == "" {
		carried, err = s.session.Carried(ctx)
	}
	return engine.WithCarried(trace, carried), err
}

// measure records the duration and the outcome of a submission.
func (s *Submitter) measure(ctx context.Context, plan *RunPlan, begun time.Time, existed bool, err error) {
	outcome := observe.OutcomeStarted
	switch {
	case err != nil:
		outcome = observe.OutcomeFailed
	case existed:
		outcome = observe.OutcomeExisted
	}
	telemetry := s.session.Telemetry
	telemetry.Record(ctx, telemetry.Starts, time.Since(begun),
		observe.Labels{Key: "flow", Value: plan.Flow, Outcome: outcome})
}

// checkBudgets refuses a run that names a budget which was not created and which its flow does not declare.
func (s *Submitter) checkBudgets(ctx context.Context, plan *RunPlan) error {
	for i := range plan.Budgets {
		b := &plan.Budgets[i]
		if b.Declares() {
			continue
		}
		states, err := ReadBudgets(ctx, s.session.Core, []StoredBudget{*b})
		if err == nil && states[0] == nil {
			err = fmt.Errorf("budget %s: %w", fabrictype.BudgetName{Name: b.Name, Key: b.Key}, engine.ErrBudgetNotFound)
		}
		if err != nil {
			return fmt.Errorf("start run %s of flow %s: %w", plan.Run, plan.Flow, err)
		}
	}
	return nil
}

// Send submits the run of a plan and reports whether it existed.
func (s *Submitter) Send(ctx context.Context, plan *RunPlan) (existed bool, err error) {
	if s.Starts == nil {
		return s.sendSteps(ctx, plan)
	}
	if !plan.Compiled.waits && plan.Signal == nil {
		return s.Starts.submit(ctx, plan)
	}
	// A partition with waitpoints needs a signing secret.
	err = s.session.Secrets.With(ctx, plan.Partition, func() error {
		existed, err = s.Starts.submit(ctx, plan)
		return err
	})
	return existed, err
}

// sendSteps creates the run node by node.
func (s *Submitter) sendSteps(ctx context.Context, plan *RunPlan) (existed bool, err error) {
	backend, _ := s.session.Stepwise() // only its plans are sent in steps
	for step := range plan.steps() {
		existed, err := backend.SubmitFlow(ctx, step)
		if err != nil {
			return false, submitError(plan, err)
		}
		if existed {
			return true, nil
		}
	}
	return false, nil
}

func submitError(plan *RunPlan, err error) error {
	var refusal *enginecore.Error
	if errors.As(err, &refusal) && refusal.Code == errorcode.FlowIDConflict {
		return conflict(plan, refusal.Detail("what"))
	}
	if errors.Is(err, enginecore.ErrNotReplicated) {
		return fmt.Errorf("run %s of flow %s has been started, start it again under the same id: %w", plan.Run,
			plan.Flow, err)
	}
	return fmt.Errorf("start run %s of flow %s: %w", plan.Run, plan.Flow, err)
}
