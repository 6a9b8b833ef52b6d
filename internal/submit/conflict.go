package submit

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Differences between a run that exists and the run to be started, as the engine names them. Backends compare hashes of
// whole graphs, options included.
const (
	differsInGraph         = "graph"
	differsInInput         = "input"
	differsInGraphAndInput = "graph and input"
)

// conflict returns why the id of a plan belongs to another run.
func conflict(plan *RunPlan, what string) error {
	kind := engine.ErrRunConflict
	switch what {
	case differsInInput:
		kind = engine.ErrOtherInput
	case differsInGraph, differsInGraphAndInput:
		kind = engine.ErrOtherGraph
	}
	return &conflictError{plan: plan, what: what, kind: kind}
}

// conflictError is the refusal of a plan whose run id is taken.
type conflictError struct {
	plan *RunPlan
	what string
	kind error
}

// Error names the run and the difference.
func (e *conflictError) Error() string {
	text := fmt.Sprintf("start run %s of flow %s: %v", e.plan.Run, e.plan.Flow, e.kind)
	if e.kind == engine.ErrRunConflict {
		text += ": it has another " + e.what
	}
	return text
}

// Unwrap returns engine.ErrOtherGraph, engine.ErrOtherInput or engine.ErrRunConflict.
func (e *conflictError) Unwrap() error { return e.kind }

// settleConflict checks a refusal for another graph once more: if the graph of the run that exists has the structure of
// the plan's graph and differs in options alone, the start succeeds with the existing run, or, if the input differs,
// fails because of the input. It reads the run's graph, at the cost of refused starts only.
func (s *Submitter) settleConflict(ctx context.Context, plan *RunPlan, err error) (existed bool, _ error) {
	var refusal *conflictError
	// The run of a node is of the graph that its parent's run has.
	if !errors.As(err, &refusal) || refusal.kind != engine.ErrOtherGraph || len(plan.Parents) > 0 {
		return false, err
	}
	reply, readErr := s.session.Backend.DescribeFlow(ctx, enginerpc.DescribeFlowCall{
		Partition: plan.Partition, FlowID: plan.FlowID, Limit: 1,
	})
	switch {
	case errors.Is(readErr, enginecore.ErrFlowNotFound): // it has been purged since
		return s.Send(ctx, plan)
	case readErr != nil:
		return false, errors.Join(err, fmt.Errorf("reading the graph of the run: %w", readErr))
	}
	stored, parseErr := flowgraph.ParseGraph(reply.Definition)
	switch {
	case parseErr != nil || stored.StructureHash() != plan.Compiled.Graph.StructureHash():
		return false, err
	case refusal.what == differsInGraphAndInput:
		return false, conflict(plan, differsInInput)
	}
	return true, nil
}
