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

// What of a run that exists differs from the run that was to be started, as the engine names it. Backends compare
// hashes of whole graphs, options included.
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

// Error names the run and what differs.
func (e *conflictError) Error() string {
	text := fmt.Sprintf("start run %s of flow %s: %v", e.plan.Run, e.plan.Flow, e.kind)
	if e.kind == engine.ErrRunConflict {
		text += ": it has another " + e.what
	}
	return text
}

// Unwrap returns engine.ErrOtherGraph, engine.ErrOtherInput or engine.ErrRunConflict.
func (e *conflictError) Unwrap() error { return e.kind }

// settleConflict looks again at a refusal for another graph: if the graph of the run that exists has the structure of
// the plan's and differs in options alone, it is the same run, or, with another input, that is what differs. It reads
// the run's graph, which only a refused start pays for.
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
	case errors.Is(readErr, enginecore.ErrFlowNotFound): // it was purged meanwhile
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
