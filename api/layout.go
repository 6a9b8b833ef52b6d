package api

import (
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations that place graphs for drawing, and those for lists and comparisons of runs.
var (
	GetRunLayout = call[GetRunLayoutInput, RunLayout](Operation{
		Name: "get-run-layout", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/layout",
		Right: View, Effect: Reads, Bound: true,
		Summary: "Place the graph of a run for drawing, with the states of its nodes",
	})
	GetFlowLayout = call[FlowInput, Layout](Operation{
		Name: "get-flow-layout", Group: "flows", Method: "GET", Path: "/flows/{flow}/layout",
		Right: View, Effect: Reads, Bound: true,
		Summary: "Place the graph of a published flow for drawing",
	})
	ExplainRuns = call[ExplainRunsInput, fabrictype.Page[RunNow]](Operation{
		Name: "explain-runs", Group: "observe", Method: "POST", Path: "/runs/explain",
		Right: View, Effect: Reads, Bound: true,
		Summary: "Name the node that needs attention most in each of up to 100 runs, and why",
	})
	CompareRuns = call[CompareRunsInput, fabrictype.RunDiff](Operation{
		Name: "compare-runs", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/compare",
		Right: ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Compare a run with another one: states, results and durations of their nodes",
	})
)

// Layout is a graph with places for drawing, from left to right.
type Layout struct {
	Width  int          `json:"width"`
	Height int          `json:"height"`
	Nodes  []PlacedNode `json:"nodes"`
	Edges  []PlacedEdge `json:"edges"`
}

// PlacedNode is a node of a layout. X and Y are the upper left corner.
type PlacedNode struct {
	Node    string `json:"node"`
	Kind    string `json:"kind"`
	Text    string `json:"text,omitempty" doc:"The activity of the node, or the event that it waits for."`
	Join    string `json:"join,omitempty" doc:"How many upstreams it needs, such as 2 of 3; absent for all of them."`
	Finally bool   `json:"finally,omitempty" doc:"It runs however the run ends."`
	X       int    `json:"x"`
	Y       int    `json:"y"`
}

// PlacedEdge is an edge of a layout. From and To are places of nodes in Layout.Nodes.
type PlacedEdge struct {
	From int    `json:"from"`
	To   int    `json:"to"`
	Kind string `json:"kind" doc:"success_only, on_failure, always or when"`
	Case string `json:"case,omitempty" doc:"Case of the condition that the edge belongs to."`
	Data bool   `json:"data,omitempty" doc:"The node uses the result of the upstream."`
	// Points are the corners of the line: x and y in turn.
	Points []int `json:"points"`
}

// GetRunLayoutInput selects the run and the states.
type GetRunLayoutInput struct {
	RunName
	States bool `query:"states" doc:"With the states of the nodes."`
}

// RunLayout is the layout of a run.
type RunLayout struct {
	Layout
	// States are the states of Nodes, in their order.
	States []NodeNow `json:"states,omitempty"`
}

// NodeNow is the state of a node in short.
type NodeNow struct {
	State     string    `json:"state"`
	Waiting   string    `json:"waiting,omitempty" doc:"Reason of the wait."`
	Attempts  int       `json:"attempts,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// ExplainRunsInput names runs.
type ExplainRunsInput struct {
	Body struct {
		Runs []RunNamed `json:"runs" minItems:"1" maxItems:"100"`
	}
}

// RunNamed names a run in a body.
type RunNamed struct {
	Flow string `json:"flow"`
	Run  string `json:"run"`
}

// RunNow is the present activity of a run.
type RunNow struct {
	Flow  string `json:"flow"`
	Run   string `json:"run"`
	State string `json:"state"`
	// ClosedAt, PausedAt and Nodes are as in Run.
	ClosedAt time.Time             `json:"closed_at,omitzero"`
	PausedAt time.Time             `json:"paused_at,omitzero"`
	Nodes    fabrictype.NodeCounts `json:"nodes"`
	// Node needs attention most; empty for a run that is over.
	Node string `json:"node,omitempty"`
	// NodeState is its state, Waiting the reason why it waits, if it does, and Wait the wait, if it is for signals.
	NodeState string                  `json:"node_state,omitempty"`
	Waiting   *fabrictype.Explanation `json:"waiting,omitempty"`
	Wait      *fabrictype.Wait        `json:"wait,omitempty"`
	// Message is its progress, or the reason for which the run failed.
	Message string `json:"message,omitempty"`
	// Waits counts nodes by the reason of their wait.
	Waits map[string]int `json:"waits,omitempty"`
}

// CompareRunsInput names two runs.
type CompareRunsInput struct {
	RunName
	OtherFlow string `query:"other_flow" doc:"Flow of the other run; the same one if it is absent."`
	OtherRun  string `query:"other_run" required:"true" doc:"Id of the other run."`
}
