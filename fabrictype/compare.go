package fabrictype

import "slices"

// RunDiff compares two runs, of the same flow or of two.
type RunDiff struct {
	// A and B are the runs, with their inputs and results.
	A RunSide `json:"a"`
	B RunSide `json:"b"`
	// Input, Result and Graph report whether the inputs, the results and the graphs differ.
	Input  bool `json:"input_differs"`
	Result bool `json:"result_differs"`
	Graph  bool `json:"graph_differs"`
	// Nodes are all nodes of both, the nodes of A in the order of their declaration, and then the nodes that only B
	// has. The results of both runs together have 8 MiB; others are compared, but have no data (Truncated).
	Nodes []NodeDiff `json:"nodes"`
}

// Same reports whether the runs have the same graph, input and result, and nothing of their nodes differs but times and
// attempts.
func (d *RunDiff) Same() bool {
	return !d.Input && !d.Result && !d.Graph && d.A.State == d.B.State &&
		!slices.ContainsFunc(d.Nodes, func(n NodeDiff) bool { return n.A == nil || n.B == nil || len(n.Differs) > 0 })
}

// RunSide is one of the runs of a RunDiff.
type RunSide struct {
	Flow  string   `json:"flow"`
	Run   string   `json:"run"`
	State RunState `json:"state"`
	// ForkedFrom is the id of the run that this one is a fork of; empty for other runs.
	ForkedFrom string `json:"forked_from,omitempty"`
	// Took is the time from Run.BeganAt to the end; zero while the run is open.
	Took   Duration `json:"took,omitzero"`
	Input  *Value   `json:"input,omitempty"`
	Result *Value   `json:"result,omitempty"`
}

// NodeDiff compares a node of two runs.
type NodeDiff struct {
	Name string `json:"node"`
	// A and B are the states of the node in the runs; nil where the graph does not have it.
	A *NodeSide `json:"a,omitempty"`
	B *NodeSide `json:"b,omitempty"`
	// Differs names the differences. In the declaration: "activity", "kind", "input", "upstreams", "join" or "options";
	// in the run: "state", "result" or "reason". Values of which only the beginning was read differ if that or their
	// sizes do. It is empty for a node that is the same, or that only one of them has.
	Differs []string `json:"differs,omitempty" doc:"State, result, reason, or parts of the declaration."`
}

// NodeSide is a node in one of the runs of a RunDiff.
type NodeSide struct {
	State    NodeState `json:"state"`
	Attempts int       `json:"attempts"`
	// Took is the time from Node.StartedAt to the end; zero for a node that did not run, or has not ended.
	Took   Duration `json:"took,omitzero"`
	Result *Value   `json:"result,omitempty"`
	// Reason is the last failure, or why the node was cancelled.
	Reason string `json:"reason,omitempty"`
}
