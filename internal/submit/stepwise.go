package submit

import (
	"iter"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Bounds of one step of a submission node by node.
const (
	nodesPerStep = 48
	edgesPerStep = 128
	// A definition above this size (bytes) takes a separate step.
	maxDefinitionWithNodes = 64 << 10
)

// edges returns the edges of the run, in the order of their downstream nodes.
func (p *RunPlan) edges(nodes []engine.SubmissionNode) []engine.SubmissionEdge {
	edges := make([]engine.SubmissionEdge, 0, p.Compiled.Edges)
	for i := range p.Compiled.Graph.Nodes {
		n := &p.Compiled.Graph.Nodes[i]
		for _, up := range n.Upstreams {
			edge := engine.SubmissionEdge{
				EdgeID:                keyspace.EdgeIDFor(p.FlowID, up.Node, n.Name),
				UpstreamExecutionID:   nodes[p.Compiled.nodeNumbers[up.Node]-1].ExecutionID,
				DownstreamExecutionID: nodes[i].ExecutionID,
				DependencyKind:        string(up.Kind),
			}
			if up.Data {
				edge.InputName = up.Node
			}
			edges = append(edges, edge)
		}
	}
	return edges
}

// nodes returns the nodes with the ids of this run, in the order of their declaration.
func (p *RunPlan) nodes() []engine.SubmissionNode {
	nodes := make([]engine.SubmissionNode, len(p.Compiled.Nodes))
	for i := range p.Compiled.Nodes {
		n := &p.Compiled.Nodes[i]
		nodes[i] = engine.SubmissionNode{
			ExecutionID: p.ExecutionID(n.Name), Name: n.Name, Kind: n.Kind, LaneID: n.LaneID, Priority: n.Priority,
			UsesFlowInput: n.UsesFlowInput, InputCount: n.InputCount,
			UpstreamCount: int64(len(p.Compiled.Graph.Nodes[i].Upstreams)),
			Capabilities:  n.Capabilities, Policy: n.Policy, Tags: n.Tags, StartTimeout: n.StartTimeout,
			AttemptTimeout: n.AttemptTimeout, Wait: n.Wait, Join: n.Join,
		}
	}
	return nodes
}

// steps yields the parts of a submission in order: one for a small flow; for a large one, all nodes in chunks, then all
// edges, from the last chunk of nodes on, then the part that lets it go.
func (p *RunPlan) steps() iter.Seq[engine.FlowSubmission] {
	return func(yield func(engine.FlowSubmission) bool) {
		nodes := p.nodes()
		edges := p.edges(nodes)
		call := engine.FlowSubmission{
			Partition: p.Partition, FlowID: p.FlowID, FlowName: p.Flow, RunID: p.Run, Namespace: string(p.namespace),
			GraphHash: p.Compiled.Hash, InputHash: p.InputHash, Definition: p.Compiled.Definition, Input: p.Input,
			CreatorIdentity: p.Creator, TraceContext: p.trace, NodeTotal: int64(len(nodes)),
			EdgeTotal: int64(len(edges)),
			Tags:      p.Tags, Deadline: p.Deadline, Retention: p.Retention, FairKey: p.FairKey,
		}
		if number := p.Compiled.nodeNumbers[p.Compiled.Graph.Return]; number > 0 {
			call.ResultExecutionID = nodes[number-1].ExecutionID
		}
		if len(nodes) <= nodesPerStep && len(edges) <= edgesPerStep {
			call.Nodes, call.Edges, call.Last = nodes, edges, true
			yield(call)
			return
		}
		// Only the first part creates the flow, so only it has the fields of the flow itself.
		rest := call
		rest.Definition, rest.Input, rest.Tags = nil, nil, nil
		for first := true; len(nodes) > 0; first = false {
			chunk := rest
			if first {
				chunk = call
			}
			n := min(nodesPerStep, len(nodes))
			if first && len(chunk.Definition) > maxDefinitionWithNodes {
				n = 0
			}
			chunk.Nodes, nodes = nodes[:n], nodes[n:]
			if len(nodes) == 0 {
				n = min(edgesPerStep, len(edges))
				chunk.Edges, edges = edges[:n], edges[n:]
			}
			if !yield(chunk) {
				return
			}
		}
		for len(edges) > 0 {
			chunk := rest
			n := min(edgesPerStep, len(edges))
			chunk.Edges, edges = edges[:n], edges[n:]
			if !yield(chunk) {
				return
			}
		}
		rest.Last = true
		yield(rest)
	}
}
