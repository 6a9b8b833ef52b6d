package runtime

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// compileJoins encodes the joins of a graph, by node.
func compileJoins(g *flowgraph.Graph) map[string]enginecore.SubmitFlowJoin {
	joins := make(map[string]enginecore.SubmitFlowJoin)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Join.Policy == flowgraph.JoinAll {
			continue
		}
		join := enginecore.SubmitFlowJoin{
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
func (p *Plan) joins(nodes []enginecore.SubmitFlowNode) []enginecore.SubmitFlowJoin {
	if len(p.compiled.joins) == 0 {
		return nil
	}
	var joins []enginecore.SubmitFlowJoin
	for _, n := range nodes {
		if join, found := p.compiled.joins[n.Name]; found {
			join.ExecutionID = n.ExecutionID
			joins = append(joins, join)
		}
	}
	return joins
}

// joinStep says how the edges of a node let it start.
func (p *Plan) joinStep(n *flowgraph.Node) Step {
	join := p.compiled.joins[n.Name]
	subject := fmt.Sprintf("%s: %s of %d, %s", n.Name, join.PolicyVariant, len(n.Upstreams), join.OnSatisfied)
	if n.Join.Policy == flowgraph.JoinQuorum {
		subject = fmt.Sprintf("%s: %s, %d of %d, %s", n.Name, join.PolicyVariant, join.K, len(n.Upstreams), join.OnSatisfied)
	}
	return Step{enginecore.FunctionName(enginecore.SetEdgeGroupPolicyCall{}), subject}
}

// whyJoin says in words what a node with a join waits for. states are those of all nodes.
func whyJoin(n *flowgraph.Node, states map[string]enginecore.PublicState) string {
	needed := max(1, n.Join.Needed)
	var open []string
	for _, up := range n.Upstreams {
		switch states[up.Node] {
		case enginecore.PublicCompleted:
			needed--
		case enginecore.PublicFailed, enginecore.PublicCancelled, enginecore.PublicExpired, enginecore.PublicSkipped:
		default:
			open = append(open, up.Node)
		}
	}
	return fmt.Sprintf("waits for %d of %s", needed, listed(open))
}
