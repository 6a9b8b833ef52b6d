package describe

import "github.com/flowfabric/flowfabric-go/fabrictype"

// Kind is what a node of a run is.
type Kind string

// Kinds of nodes. A run that stores no graph has nodes of kind Task only.
const (
	// Task is a node whose activity a worker runs; the items of a map are such nodes of its child run.
	Task fabrictype.NodeKind = "activity"
	// Waitpoint waits for signals, without a worker.
	Waitpoint fabrictype.NodeKind = "waitpoint"
	// Condition decides which nodes run: see flow.When and flow.Switch.
	Condition fabrictype.NodeKind = "condition"
	// Timer sleeps for a time, without a worker.
	Timer fabrictype.NodeKind = "timer"
	// Map runs its activity for each item of a list, and SubFlow runs another flow, in a child run.
	Map     fabrictype.NodeKind = "map"
	SubFlow fabrictype.NodeKind = "sub_flow"
	// Loop runs a flow again and again, and Expansion the plan that its activity returns, in child runs.
	Loop      fabrictype.NodeKind = "loop"
	Expansion fabrictype.NodeKind = "expansion"
)
