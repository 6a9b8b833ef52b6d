package submit

import (
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// compileJoins encodes the joins of a graph, by node.
func compileJoins(g *flowgraph.Graph) map[string]enginerpc.SubmitFlowJoin {
	joins := make(map[string]enginerpc.SubmitFlowJoin)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Join.Policy == flowgraph.JoinAll {
			continue
		}
		join := enginerpc.SubmitFlowJoin{
			PolicyVariant: string(n.Join.Policy), OnSatisfied: "cancel_remaining", K: int64(n.Join.Needed),
		}
		if n.Join.LetRun {
			join.OnSatisfied = "let_run"
		}
		joins[n.Name] = join
	}
	return joins
}

// joins lists the joins of some nodes.
func (p *RunPlan) joins(nodes []enginerpc.SubmitFlowNode) []enginerpc.SubmitFlowJoin {
	if len(p.Compiled.joins) == 0 {
		return nil
	}
	var joins []enginerpc.SubmitFlowJoin
	for _, n := range nodes {
		if join, found := p.Compiled.joins[n.Name]; found {
			join.ExecutionID = n.ExecutionID
			joins = append(joins, join)
		}
	}
	return joins
}
