package httpapi

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of runs.
var (
	ListRuns = call[ListRunsInput, fabrictype.Page[fabrictype.Run]](Operation{
		Name: "list-runs", Group: "runs", Method: "GET", Path: "/runs",
		Right: api.View, Effect: Reads, Bound: true, Query: QueryRuns,
		Summary: "Find runs",
	})
	CompleteSearch = call[CompleteSearchInput, fabrictype.Page[string]](Operation{
		Name: "complete-search", Group: "runs", Method: "GET", Path: "/search-words",
		Right: api.View, Effect: Reads,
		Summary: "Complete the last word of the search of list-runs",
	})
	StartRun = call[StartRunInput, api.StartedRun](Operation{
		Name: "start-run", Group: "runs", Method: "POST", Path: "/flows/{flow}/runs",
		Right: api.Operate, Effect: Changes, Bound: true, Created: true,
		Summary: "Start a run of a published flow; the same id and input again is the same run",
	})
	StartRuns = call[StartRunsInput, StartedRuns](Operation{
		Name: "start-runs", Group: "runs", Method: "POST", Path: "/flows/{flow}/runs/batch",
		Right: api.Operate, Effect: Changes, Bound: true,
		Summary: "Start many runs of a published flow; each is started whole or not at all",
	})
	GetRun = call[GetRunInput, fabrictype.RunDetail](Operation{
		Name: "get-run", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Describe a run, its nodes, and the reasons why nodes wait",
	})
	GetResult = call[GetResultInput, api.Result](Operation{
		Name: "get-result", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/result",
		Right: api.ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Wait for the end of a run and return its result",
	})
	FollowRun = stream[FollowRunInput, fabrictype.Event](Operation{
		Name: "follow-run", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/events",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Follow the events of a run",
	})
	GetRunGraph = call[GetRunGraphInput, Drawing](Operation{
		Name: "get-run-graph", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/graph",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Draw the graph of a run",
	})
	CancelRun = call[CancelRunInput, Empty](Operation{
		Name: "cancel-run", Group: "runs", Method: "POST", Path: "/runs/{flow}/{run}/cancel",
		Right: api.Operate, Effect: Destroys, Bound: true,
		Summary: "Cancel a run",
	})
	RerunRun = call[RerunInput, Empty](Operation{
		Name: "rerun-run", Group: "runs", Method: "POST", Path: "/runs/{flow}/{run}/rerun",
		Right: api.Operate, Effect: Changes, Bound: true,
		Summary: "Run nodes of an ended run again",
	})
	PauseRun = call[ReasonInput, Empty](Operation{
		Name: "pause-run", Group: "runs", Method: "POST", Path: "/runs/{flow}/{run}/pause",
		Right: api.Operate, Effect: Changes, Bound: true,
		Summary: "Keep nodes of a run from starting",
	})
	ResumeRun = call[RunInput, Empty](Operation{
		Name: "resume-run", Group: "runs", Method: "POST", Path: "/runs/{flow}/{run}/resume",
		Right: api.Operate, Effect: Changes, Bound: true,
		Summary: "End the pause of a run",
	})
	SetRunPriority = call[PriorityInput, Empty](Operation{
		Name: "set-run-priority", Group: "runs", Method: "PUT", Path: "/runs/{flow}/{run}/priority",
		Right: api.Operate, Effect: Changes, Bound: true,
		Summary: "Change the priority of all nodes of a run that have not ended",
	})
	MoveRunStart = call[MoveStartInput, Empty](Operation{
		Name: "move-run-start", Group: "runs", Method: "PUT", Path: "/runs/{flow}/{run}/start",
		Right: api.Operate, Effect: Changes, Bound: true,
		Summary: "Move the start of a run that has not started",
	})
	ForkRun = call[ForkRunInput, api.StartedRun](Operation{
		Name: "fork-run", Group: "runs", Method: "POST", Path: "/runs/{flow}/{run}/fork",
		Right: api.Operate, Effect: Changes, Bound: true, Created: true,
		Summary: "Start a run from another one, with results of it",
	})
	ExportRun = call[RunInput, ExportedRun](Operation{
		Name: "export-run", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/export",
		Right: api.ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Export a run with its values, as package runcheck reads it",
	})
	PurgeRun = call[RunInput, Empty](Operation{
		Name: "purge-run", Group: "runs", Method: "DELETE", Path: "/runs/{flow}/{run}",
		Right: api.Administer, Effect: Destroys, Bound: true,
		Summary: "Remove a run that is over",
	})
)

func runOperations() []Entry {
	return []Entry{
		ListRuns, CompleteSearch, StartRun, StartRuns, GetRun, GetResult, FollowRun, GetRunGraph, GetRunLayout,
		CompareRuns, ForkRun,
		ExportRun, CancelRun, RerunRun, PauseRun, ResumeRun, SetRunPriority, MoveRunStart, PurgeRun,
	}
}

// RunName names a run.
type RunName struct {
	Flow string `path:"flow" doc:"Name of the flow."`
	Run  string `path:"run" doc:"Id of the run, percent-encoded."`
}

// RunInput names the run that an operation is about.
type RunInput struct{ RunName }

// ListRunsInput selects runs.
type ListRunsInput struct {
	// Query has further parameters, which Operation.Query names.
	Query url.Values `json:"-"`
	api.Paging
}

// CompleteSearchInput is the text that was typed.
type CompleteSearchInput struct {
	Word string `query:"word" maxLength:"1024" doc:"The word that is being typed, such as customer.id:b."`
}

// StartRunInput starts a run.
type StartRunInput struct {
	Flow string `path:"flow" doc:"Name of a published flow."`
	Body struct {
		api.NewRun
		Signal *api.StartSignal `json:"signal,omitempty" doc:"Delivered to the run of the id, which is started if there is none: both in one step. Requires the right answer as well."`
	}
}

// StartRunsInput starts runs of one flow.
type StartRunsInput struct {
	Flow string `path:"flow" doc:"Name of a published flow."`
	Body struct {
		Runs []api.NewRun `json:"runs" minItems:"1" maxItems:"1000"`
	}
}

// StartedRuns are the outcomes of starts, in the order of the request.
type StartedRuns struct {
	Runs []api.StartOutcome `json:"runs"`
}

// GetRunInput is the input of an operation with parameters.
type GetRunInput struct {
	RunName
	api.GetRunInput
}

// GetResultInput bounds the wait for the end of a run.
type GetResultInput struct {
	RunName
	Wait fabrictype.Duration `query:"wait" doc:"How long to wait for the end, at most 30s."`
}

// FollowRunInput has the cursor at which the events begin.
type FollowRunInput struct {
	RunName
	Follow
}

// GetRunGraphInput selects the form of a graph.
type GetRunGraphInput struct {
	RunName
	Format string `query:"format" enum:"mermaid,dot,outline,svg" default:"mermaid"`
}

// Drawing is a graph as text.
type Drawing struct {
	Format string `json:"format"`
	Text   string `json:"text"`
}

// CancelRunInput cancels a run.
type CancelRunInput struct {
	RunName
	Body struct {
		Reason      string `json:"reason,omitempty"`
		PendingOnly bool   `json:"pending_only,omitempty" doc:"Let running nodes finish."`
	}
}

// RerunInput selects the nodes that run again.
type RerunInput struct {
	RunName
	Body struct {
		Scope string `json:"scope" enum:"failed,from,all" doc:"Nodes that did not succeed; a node and its downstreams; all nodes."`
		Node  string `json:"node,omitempty" doc:"The node of scope from."`
	}
}

// ReasonInput names a run and a reason.
type ReasonInput struct {
	RunName
	Body struct {
		Reason string `json:"reason,omitempty"`
	}
}

// PriorityInput is a new priority of a run.
type PriorityInput struct {
	RunName
	Body struct {
		Priority int `json:"priority" minimum:"0"`
	}
}

// MoveStartInput is a new time of the start of a run.
type MoveStartInput struct {
	RunName
	Body struct {
		StartAt time.Time `json:"start_at"`
	}
}

// ForkRunInput is the input of an operation with a body.
type ForkRunInput struct {
	RunName
	Body struct{ api.ForkRunInput }
}

// ExportedRun is a run as a file for package runcheck: each line is a part of it.
type ExportedRun struct {
	Lines []json.RawMessage `json:"lines"`
}

// Operations that place graphs for drawing, and those for lists and comparisons of runs.
var (
	GetRunLayout = call[GetRunLayoutInput, api.RunLayout](Operation{
		Name: "get-run-layout", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/layout",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Place the graph of a run for drawing, with the states of its nodes",
	})
	GetFlowLayout = call[GetFlowLayoutInput, api.Layout](Operation{
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
	Placing
}

// GetFlowLayoutInput selects the flow and how its graph is placed.
type GetFlowLayoutInput struct {
	Flow string `path:"flow" doc:"Name of the flow."`
	Placing
}

// Placing selects how a graph is placed.
type Placing struct {
	Fold int `query:"fold" minimum:"0" doc:"Graphs of more nodes are drawn folded: more than 12 nodes that are alike become one; 0 draws every node."`
	Wrap int `query:"wrap" minimum:"0" doc:"Width in pixels at which a drawing continues in another row; 0 draws one row."`
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
	OtherRun  string `query:"other_run" doc:"Id of the other run; the latest one of the flow that succeeded, other than this one, if it is absent."`
}

// Operations of bulk jobs.
var (
	ListBulkJobs = call[Empty, fabrictype.Page[fabrictype.BulkJob]](Operation{
		Name: "list-bulk-jobs", Group: "bulk", Method: "GET", Path: "/bulk",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "List the bulk jobs",
	})
	GetBulkJob = call[BulkJobInput, fabrictype.BulkJob](Operation{
		Name: "get-bulk-job", Group: "bulk", Method: "GET", Path: "/bulk/{job}",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Describe a bulk job with its progress",
	})
	PreviewBulkJob = call[BulkInput, fabrictype.BulkPreview](Operation{
		Name: "preview-bulk-job", Group: "bulk", Method: "POST", Path: "/bulk/preview",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Count the runs that a bulk job would handle; changes nothing",
	})
	StartBulkJob = call[BulkInput, fabrictype.BulkJob](Operation{
		Name: "start-bulk-job", Group: "bulk", Method: "POST", Path: "/bulk",
		Right: api.Operate, Effect: Destroys, Bound: true,
		Summary: "Act on all runs that a query selects; purge needs the right administer, signal the right approve",
	})
	StopBulkJob = call[BulkJobInput, Empty](Operation{
		Name: "stop-bulk-job", Group: "bulk", Method: "POST", Path: "/bulk/{job}/stop",
		Right: api.Operate, Effect: Changes, Bound: true,
		Summary: "Stop a bulk job",
	})
)

func bulkOperations() []Entry {
	return []Entry{ListBulkJobs, GetBulkJob, PreviewBulkJob, StartBulkJob, StopBulkJob}
}

// BulkJobInput names the bulk job that an operation is about.
type BulkJobInput struct {
	Job string `path:"job" doc:"Id of the job."`
}

// BulkInput is the input of an operation with a body.
type BulkInput struct {
	Body struct{ api.BulkInput }
}
