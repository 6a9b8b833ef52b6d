package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// namesPerCall bounds the runs whose names one round trip reads.
const namesPerCall = 100

// RunName is how users name a run.
type RunName struct{ Flow, Run string }

// ReadRunNames reads the names of runs that are known by their ids. Runs that no longer exist are missing.
func ReadRunNames(
	ctx context.Context, s *engine.Session, ids []enginecore.FlowID,
) (map[enginecore.FlowID]RunName, error) {
	names := make(map[enginecore.FlowID]RunName, len(ids))
	for page := range slices.Chunk(ids, namesPerCall) {
		calls := make([]enginerpc.DescribeFlowCall, len(page))
		for i, id := range page {
			p, err := s.Core.FlowPartition(id)
			if err != nil {
				return nil, err
			}
			calls[i] = enginerpc.DescribeFlowCall{Partition: p, FlowID: id, Cursor: firstNode, Limit: 1}
		}
		answers, _ := batching.SendAll(ctx, s.Core, calls) // each answer has its error
		for i, a := range answers {
			switch {
			case errors.Is(a.Err, enginecore.ErrFlowNotFound), a.Err == nil && a.Reply.RunID == "":
			case a.Err != nil:
				return nil, a.Err
			default:
				names[page[i]] = RunName{a.Reply.FlowName, a.Reply.RunID}
			}
		}
	}
	return names, nil
}

// firstNode is the cursor that reads a run from its first node on, without its definition.
const firstNode = "0"

// LocateRun finds where the engine keeps a run of the session's namespace. It sends nothing, and the run need not
// exist. Its error matches [engine.ErrInvalid] for an id that no run can have.
func LocateRun(s *engine.Session, flow, run string) (engine.Run, error) {
	if err := CheckRunID(run); err != nil {
		return engine.Run{}, fmt.Errorf("flow %s: %w", flow, err)
	}
	id := keyspace.FlowIDFor(s.Namespace, flow, run)
	partition, err := s.Core.FlowPartition(id)
	return engine.Run{Flow: flow, ID: run, FlowID: id, Partition: partition}, err
}

// Located returns where the engine keeps the run of the plan.
func (p *RunPlan) Located() engine.Run {
	return engine.Run{Flow: p.Flow, ID: p.Run, FlowID: p.FlowID, Partition: p.Partition}
}
