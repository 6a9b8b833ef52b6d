package httpapi

import (
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations that place graphs for drawing, and those for lists and comparisons of runs.
var (
	GetRunLayout = call[GetRunLayoutInput, api.RunLayout](Operation{
		Name: "get-run-layout", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/layout",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Place the graph of a run for drawing, with the states of its nodes",
	})
	GetFlowLayout = call[FlowInput, api.Layout](Operation{
		Name: "get-flow-layout", Group: "flows", Method: "GET", Path: "/flows/{flow}/layout",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Place the graph of a published flow for drawing",
	})
	ExplainRuns = call[ExplainRunsInput, fabrictype.Page[api.RunNow]](Operation{
		Name: "explain-runs", Group: "observe", Method: "POST", Path: "/runs/explain",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Name the node that needs attention most in each of up to 100 runs, and why",
	})
	CompareRuns = call[CompareRunsInput, fabrictype.RunDiff](Operation{
		Name: "compare-runs", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/compare",
		Right: api.ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Compare a run with another one: states, results and durations of their nodes",
	})
)

// GetRunLayoutInput selects the run and the states.
type GetRunLayoutInput struct {
	RunName
	States bool `query:"states" doc:"With the states of the nodes."`
}

// ExplainRunsInput names runs.
type ExplainRunsInput struct {
	Body struct {
		Runs []api.RunNamed `json:"runs" minItems:"1" maxItems:"100"`
	}
}

// CompareRunsInput names two runs.
type CompareRunsInput struct {
	RunName
	OtherFlow string `query:"other_flow" doc:"Flow of the other run; the same one if it is absent."`
	OtherRun  string `query:"other_run" required:"true" doc:"Id of the other run."`
}
