package submit

import (
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// PlanStep is one engine call that a submission is equal to.
type PlanStep struct {
	// Function is the name of the library's function.
	Function string
	// Subject is what the function is called for.
	Subject string
}

// String prints the submitting calls, then the single engine calls that they are equal to.
func (p *RunPlan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "flow %s, run %s\n", p.Flow, p.Run)
	fmt.Fprintf(&b, "id %s in partition %s, graph %.12s, input %d bytes\n",
		p.FlowID, p.Partition, p.Compiled.Hash, len(p.Input))
	for i, call := range p.Compiled.putCalls(p.Partition) {
		fmt.Fprintf(&b, "call %d: ffx_put_graph with %d nodes, if the partition does not have the graph\n",
			i+1, len(call.Nodes))
	}
	b.WriteString("then: ffx_submit, which does what these do:\n")
	for _, step := range p.Steps() {
		fmt.Fprintf(&b, "  %-30s %s\n", step.Function, step.Subject)
	}
	return b.String()
}

// Steps lists the single calls of the contract that the submission is equal to, in order.
func (p *RunPlan) Steps() []PlanStep {
	g := p.Compiled.Graph
	steps := []PlanStep{{enginerpc.FunctionName(enginerpc.CreateFlowCall{}), string(p.FlowID)}}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		steps = append(steps,
			PlanStep{
				enginerpc.FunctionName(enginerpc.CreateExecutionCall{}),
				fmt.Sprintf("%s = %s on lane %s, %s", n.Name, stepKind(n), n.Lane, p.ExecutionID(n.Name)),
			},
			PlanStep{enginerpc.FunctionName(enginerpc.AddExecutionToFlowCall{}), n.Name})
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Join.Policy != flowgraph.JoinAll {
			steps = append(steps, p.joinStep(n))
		}
		for _, up := range n.Upstreams {
			arrow := up.Node + " → " + n.Name
			kind := string(up.Kind)
			if up.Data {
				kind += ", with its result"
			}
			steps = append(steps, PlanStep{
				enginerpc.FunctionName(enginerpc.StageDependencyEdgeCall{}), arrow + " (" + kind + ")",
			},
				PlanStep{enginerpc.FunctionName(enginerpc.ApplyDependencyToChildCall{}), arrow})
		}
	}
	return steps
}

// joinStep sets the policy by which the edges of a node with a join let it start.
func (p *RunPlan) joinStep(n *flowgraph.Node) PlanStep {
	subject := fmt.Sprintf("%s: %s of %d, %s", n.Name, n.Join.Policy, len(n.Upstreams), onSatisfied(n))
	if n.Join.Policy == flowgraph.JoinQuorum {
		subject = fmt.Sprintf("%s: %s, %d of %d, %s",
			n.Name, n.Join.Policy, n.Join.Needed, len(n.Upstreams), onSatisfied(n))
	}
	return PlanStep{enginerpc.FunctionName(enginerpc.SetEdgeGroupPolicyCall{}), subject}
}

// stepKind is what a node does, in the words of a plan.
func stepKind(n *flowgraph.Node) string {
	switch {
	case n.IsTimer():
		return "timer"
	case n.Wait != nil:
		return "waitpoint"
	case n.Map != nil && n.Sub != nil:
		return "flow " + n.Sub.Name + " for each item"
	case n.Loop != nil:
		return "flow " + n.Sub.Name + " until " + n.Activity
	case n.Expand != nil:
		return n.Activity + " and its plan"
	case n.Sub != nil:
		return "flow " + n.Sub.Name
	case n.Map != nil:
		return n.Activity + " for each item"
	}
	return n.Activity
}
