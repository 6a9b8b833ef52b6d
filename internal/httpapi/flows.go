package httpapi

import (
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of flows.
var (
	ListFlows = call[Empty, fabrictype.Page[fabrictype.Flow]](Operation{
		Name: "list-flows", Group: "flows", Method: "GET", Path: "/flows", Right: api.View, Effect: Reads, Bound: true,
		Summary: "List the published flows",
	})
	GetFlow = call[FlowInput, fabrictype.FlowDetail](Operation{
		Name: "get-flow", Group: "flows", Method: "GET", Path: "/flows/{flow}", Right: api.View, Effect: Reads, Bound: true,
		Summary: "Show a published flow with its graph, schemas and history",
	})
	GetFlowGraph = call[GetFlowGraphInput, Drawing](Operation{
		Name: "get-flow-graph", Group: "flows", Method: "GET", Path: "/flows/{flow}/graph",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Draw the graph of a published flow",
	})
	GetFlowStatistics = call[FlowStatisticsInput, api.FlowStatistics](Operation{
		Name: "get-flow-statistics", Group: "flows", Method: "GET", Path: "/flows/{flow}/statistics",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Show how the nodes of a flow did in its last runs, and which versions these have",
	})
	WithdrawFlow = call[FlowInput, Empty](Operation{
		Name: "withdraw-flow", Group: "flows", Method: "DELETE", Path: "/flows/{flow}",
		Right: api.Administer, Effect: Destroys, Bound: true,
		Summary: "Remove a flow from the catalogue; its runs stay",
	})
)

func flowOperations() []Entry {
	return []Entry{ListFlows, GetFlow, GetFlowGraph, GetFlowLayout, GetFlowStatistics, WithdrawFlow}
}

// FlowInput names the flow that an operation is about.
type FlowInput struct {
	Flow string `path:"flow" doc:"Name of the flow."`
}

// GetFlowGraphInput selects the form of a graph.
type GetFlowGraphInput struct {
	Flow   string `path:"flow" doc:"Name of the flow."`
	Format string `query:"format" enum:"mermaid,dot,outline,svg" default:"mermaid"`
}

// FlowStatisticsInput bounds the number of runs that are read.
type FlowStatisticsInput struct {
	Flow string `path:"flow" doc:"Name of the flow."`
	Runs int    `query:"runs" minimum:"1" maximum:"200" default:"50" doc:"Most runs that are read, the newest first."`
	// Search and SearchAt choose the runs, as in list-runs.
	Search   string `query:"search" maxLength:"1024" doc:"Words that select the runs, as in list-runs: a time such as yesterday, 2h or 2026-11-20..2026-11-25, states, tags."`
	SearchAt string `query:"search_at" doc:"Moment and time zone of the times in search."`
	Sort     string `query:"sort" enum:"flow,failures,median,p95" default:"flow" doc:"Order of the nodes: as the flow has them, the most failures first, or the slowest first."`
}
