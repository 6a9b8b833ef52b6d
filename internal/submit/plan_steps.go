package submit

import (
	"fmt"
	"slices"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// PlanStep is a call of the engine.
type PlanStep struct {
	// Function is the name of the library's function.
	Function string
	// Subject describes the object of the call.
	Subject string
	// Node is the node that the call belongs to; empty if it belongs to the flow.
	Node string
}

// NewContractPlan plans a run without an engine, as contract mode would submit it to one with the partitions.
func NewContractPlan(
	partitioning keyspace.Partitioning, namespace keyspace.Namespace, compiled *CompiledFlow, runID string,
	input []byte,
) (*RunPlan, error) {
	p, err := newPlan(partitioning.FlowPartition, namespace, compiled, runID, input)
	if err == nil {
		p.stepwise = true
	}
	return p, err
}

// Composite lists the calls by which an engine with this project's library gets the run: its graph, if the partition
// does not have it, and the run itself.
func (p *RunPlan) Composite() []PlanStep {
	var steps []PlanStep
	for _, call := range p.Compiled.putCalls(p.Partition) {
		steps = append(steps, PlanStep{
			Function: enginerpc.FunctionName(call),
			Subject:  fmt.Sprintf("%s, unless the partition has the graph", count(len(call.Nodes), "node")),
		})
	}
	function := enginerpc.FunctionName(enginerpc.SubmitCall{})
	if p.isUsual() {
		function = enginerpc.FunctionName(enginerpc.StartCall{})
	}
	return append(steps, PlanStep{Function: function, Subject: "run " + p.Run})
}

// Steps lists the single calls of the contract that the submission is equal to, in the order in which contract mode
// sends them.
func (p *RunPlan) Steps() []PlanStep {
	var steps []PlanStep
	for part := range p.steps() {
		steps = append(steps, p.partSteps(part)...)
	}
	return steps
}

// partSteps lists the calls for one part of the submission.
func (p *RunPlan) partSteps(part engine.FlowSubmission) []PlanStep {
	l := planList{plan: p}
	if len(part.Definition) > 0 {
		l.add(enginerpc.FunctionName(enginerpc.CreateFlowCall{}), "", p.Flow)
		if len(part.Nodes) > 0 {
			l.create(&part.Nodes[0]) // lets one of several submissions of the run id continue
		}
		l.add(enginerpc.FunctionName(enginerpc.SetFlowTagsCall{}), "", "definition, input and tags of the run")
	}
	for i := range part.Nodes {
		l.create(&part.Nodes[i])
	}
	for _, n := range part.Nodes {
		l.add(enginerpc.FunctionName(enginerpc.AddExecutionToFlowCall{}), n.Name, n.Name)
	}
	for _, n := range part.Nodes {
		l.join(p.graphNode(n.Name))
	}
	edges := make([]string, len(part.Edges))
	downs := make([]string, len(part.Edges))
	for i, e := range part.Edges {
		edges[i], downs[i] = p.arrow(e)
		l.add(enginerpc.FunctionName(enginerpc.StageDependencyEdgeCall{}), downs[i], edges[i]+", "+e.DependencyKind)
	}
	for i := range edges {
		l.add(enginerpc.FunctionName(enginerpc.ApplyDependencyToChildCall{}), downs[i], edges[i])
	}
	if part.Last {
		l.add(enginerpc.FunctionName(enginerpc.SetFlowTagsCall{}), "", "the run is complete")
		for _, n := range p.Compiled.Nodes {
			l.add(enginerpc.FunctionName(enginerpc.PromoteDelayedCall{}), n.Name, n.Name)
		}
	}
	return l.steps
}

// planList collects the steps of a plan.
type planList struct {
	plan  *RunPlan
	steps []PlanStep
}

func (l *planList) add(function, node, subject string) {
	l.steps = append(l.steps, PlanStep{Function: function, Subject: subject, Node: node})
}

// create adds the call that creates a node.
func (l *planList) create(n *engine.SubmissionNode) {
	node := l.plan.graphNode(n.Name)
	subject := n.Name + " = " + stepKind(node)
	if node.Wait == nil {
		subject += " on lane " + node.Lane
	}
	l.add(enginerpc.FunctionName(enginerpc.CreateExecutionCall{}), n.Name, subject)
}

// join adds the call that sets the policy by which the edges of a node let it start, unless it waits for the success of
// all of its upstreams.
func (l *planList) join(n *flowgraph.Node) {
	subject := ""
	switch {
	case n.Join.Policy == flowgraph.JoinQuorum:
		subject = fmt.Sprintf("%s: %s, %d of %d, %s",
			n.Name, n.Join.Policy, n.Join.Needed, len(n.Upstreams), onSatisfied(n))
	case n.Join.Policy != flowgraph.JoinAll:
		subject = fmt.Sprintf("%s: %s of %d, %s", n.Name, n.Join.Policy, len(n.Upstreams), onSatisfied(n))
	case slices.ContainsFunc(n.Upstreams, func(up flowgraph.Edge) bool { return up.Kind != flowgraph.SuccessOnly }):
		subject = fmt.Sprintf("%s: all_of %d, let_run", n.Name, len(n.Upstreams))
	default:
		return
	}
	l.add(enginerpc.FunctionName(enginerpc.SetEdgeGroupPolicyCall{}), n.Name, subject)
}

// graphNode returns the node with a name.
func (p *RunPlan) graphNode(name string) *flowgraph.Node {
	return &p.Compiled.Graph.Nodes[p.Compiled.nodeNumbers[name]-1]
}

// arrow returns the text of an edge, and its downstream.
func (p *RunPlan) arrow(e engine.SubmissionEdge) (text, down string) {
	for i := range p.Compiled.Graph.Nodes {
		n := &p.Compiled.Graph.Nodes[i]
		if p.ExecutionID(n.Name) != e.DownstreamExecutionID {
			continue
		}
		for _, up := range n.Upstreams {
			if p.ExecutionID(up.Node) == e.UpstreamExecutionID {
				if up.Data {
					return up.Node + " → " + n.Name + ", with its result", n.Name
				}
				return up.Node + " → " + n.Name, n.Name
			}
		}
	}
	return string(e.UpstreamExecutionID + " → " + e.DownstreamExecutionID), ""
}

// stepKind names the work of a node, in the words of a plan.
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

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
