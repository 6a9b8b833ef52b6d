package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// submitter starts runs from plans, hears when runs end, and purges them. Clients, schedules and nodes that stand for runs of
// their own use one. It may be used by several goroutines.
type submitter struct {
	session *session
	// runIDs makes the ids of runs that are started without one.
	runIDs      *runIDAllocator
	completions *completionListener
	// starts is nil when runs are submitted one by one.
	starts   *startBatcher
	rechecks timerPool
}

// newSubmitter returns a submitter to be closed before the session. It listens to nothing before the first wait.
func newSubmitter(s *session) *submitter {
	return &submitter{
		session: s, runIDs: newRunIDAllocator(s), completions: newCompletionListener(s), starts: newStartBatcher(s),
	}
}

// close ends what the submitter listens to. Waits for the end of a run return an error.
func (s *submitter) close() { s.completions.close() }

// submit sends a plan and reports whether the run existed.
func (s *submitter) submit(ctx context.Context, plan *runPlan) (existed bool, err error) {
	telemetry := s.session.telemetry
	ctx, span := telemetry.tracer.Start(ctx, "flowfabric.start "+plan.Flow, telemetry.producer,
		trace.WithAttributes(attribute.String("flowfabric.flow", plan.Flow), attribute.String("flowfabric.run", plan.Run),
			attribute.String("flowfabric.flow_id", string(plan.FlowID))))
	begun := time.Now()
	defer func() {
		endSpan(span, err)
		s.measure(ctx, plan, begun, existed, err)
	}()
	plan.trace = injectTrace(ctx)
	s.completions.track(plan.FlowID, plan.Partition)
	defer func() {
		if existed || err != nil {
			s.completions.untrack(plan.FlowID)
		}
	}()
	if err = s.checkBudgets(ctx, plan); err != nil {
		return false, err
	}
	existed, err = s.starts.submit(ctx, plan, func() (bool, error) { return s.send(ctx, plan) })
	if errors.Is(err, enginecore.ErrFlowPurging) {
		// The id may be used again once the run that had it is gone.
		err = s.purge(ctx, plan.Flow, plan.Run, plan.FlowID, plan.Partition)
		if err == nil || errors.Is(err, ErrRunNotFound) {
			existed, err = s.send(ctx, plan)
		}
	}
	return existed, err
}

// measure records how long a submission took and what came of it.
func (s *submitter) measure(ctx context.Context, plan *runPlan, begun time.Time, existed bool, err error) {
	outcome := outcomeStarted
	switch {
	case err != nil:
		outcome = outcomeFailed
	case existed:
		outcome = outcomeExisted
	}
	telemetry := s.session.telemetry
	telemetry.record(ctx, telemetry.starts, time.Since(begun), labels{"flow", plan.Flow, outcome})
}

// checkBudgets refuses a run that names a budget which nobody has created.
func (s *submitter) checkBudgets(ctx context.Context, plan *runPlan) error {
	for i := range plan.budgets {
		b := &plan.budgets[i]
		if b.declares() {
			continue
		}
		states, err := readBudgets(ctx, s.session.core, []storedBudget{*b})
		if err == nil && states[0] == nil {
			err = fmt.Errorf("budget %s: %w", budgetRef{Name: b.Name, Key: b.Key}, ErrBudgetNotFound)
		}
		if err != nil {
			return fmt.Errorf("start run %s of flow %s: %w", plan.Run, plan.Flow, err)
		}
	}
	return nil
}

// send sends the calls of a plan by themselves, not together with those of other runs.
func (s *submitter) send(ctx context.Context, plan *runPlan) (existed bool, err error) {
	for call := range plan.calls() {
		for {
			reply, err := s.sendOne(ctx, plan, call)
			if err != nil {
				return false, submitError(plan, err)
			}
			if reply.Status == enginerpc.StatusAlreadySatisfied {
				return true, nil
			}
			if !reply.More {
				break
			}
		}
	}
	return false, nil
}

// sendOne sends one call of a plan, with the signing secret in the partition if the flow has waitpoints.
func (s *submitter) sendOne(ctx context.Context, plan *runPlan, call enginerpc.SubmitFlowCall) (reply enginerpc.SubmitFlowReply, err error) {
	if !plan.compiled.waits {
		return s.session.backend.SubmitFlow(ctx, call)
	}
	err = s.session.secrets.with(ctx, plan.Partition, func() error {
		reply, err = s.session.backend.SubmitFlow(ctx, call)
		return err
	})
	return reply, err
}

func submitError(plan *runPlan, err error) error {
	var refusal *enginecore.Error
	if errors.As(err, &refusal) && refusal.Code == enginecore.ErrFlowIDConflict {
		return fmt.Errorf("start run %s of flow %s: %w: it has another %s", plan.Run, plan.Flow, ErrRunConflict,
			refusal.Detail("what"))
	}
	return fmt.Errorf("start run %s of flow %s: %w", plan.Run, plan.Flow, err)
}

// purge removes a run that is over with everything that belongs to it. Its error wraps ErrRunOpen or ErrRunNotFound.
func (s *submitter) purge(ctx context.Context, flowName, runID string, id enginecore.FlowID, p enginecore.Partition) error {
	core, err := capability[runControl](s.session.backend)
	if err != nil {
		return fmt.Errorf("purge run %s of flow %s: %w", runID, flowName, err)
	}
	s.completions.untrack(id)
	for first := true; ; first = false {
		reply, err := core.PurgeFlow(ctx, enginerpc.PurgeFlowCall{Partition: p, FlowID: id})
		switch {
		case errors.Is(err, enginecore.ErrFlowNotTerminal):
			return fmt.Errorf("purge run %s of flow %s: %w", runID, flowName, ErrRunOpen)
		case err != nil:
			return fmt.Errorf("purge run %s of flow %s: %w", runID, flowName, err)
		case first && reply.Status == enginerpc.StatusAlreadySatisfied:
			return fmt.Errorf("purge run %s of flow %s: %w", runID, flowName, ErrRunNotFound)
		case !reply.More:
			s.removeBudgets(ctx, id, reply.Budgets)
			return nil
		}
	}
}

// removeBudgets removes the budgets that a purged run had to itself. Keepers remove what is left.
func (s *submitter) removeBudgets(ctx context.Context, id enginecore.FlowID, stored string) {
	list, _ := decodeBudgets(stored)
	for _, b := range list {
		p, err := s.session.core.Partitioning().BudgetPartition(b.ID)
		if err != nil || b.Scope != flowgraph.ScopeRun || b.ScopeID != string(id) {
			continue
		}
		gate := gateUpdate{session: s.session, partition: p, budget: b.ID}
		if !b.Wide {
			gate.flow = id
		}
		_ = gate.remove(ctx) // see above
	}
}
