package api

import (
	"encoding/json"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"time"
)

// Operations of runs.
var (
	ListRuns = call[ListRunsInput, fabrictype.Page[fabrictype.Run]](Operation{
		Name: "list-runs", Group: "runs", Method: "GET", Path: "/runs",
		Right: View, Effect: Reads, Bound: true, Query: QueryRuns,
		Summary: "Find runs",
	})
	StartRun = call[StartRunInput, StartedRun](Operation{
		Name: "start-run", Group: "runs", Method: "POST", Path: "/flows/{flow}/runs",
		Right: Operate, Effect: Changes, Bound: true, Created: true,
		Summary: "Start a run of a published flow; the same id and input again is the same run",
	})
	StartRuns = call[StartRunsInput, StartedRuns](Operation{
		Name: "start-runs", Group: "runs", Method: "POST", Path: "/flows/{flow}/runs/batch",
		Right: Operate, Effect: Changes, Bound: true,
		Summary: "Start many runs of a published flow; each is started whole or not at all",
	})
	GetRun = call[GetRunInput, fabrictype.RunDetail](Operation{
		Name: "get-run", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}",
		Right: View, Effect: Reads, Bound: true,
		Summary: "Describe a run, its nodes, and the reasons why nodes wait",
	})
	GetResult = call[GetResultInput, Result](Operation{
		Name: "get-result", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/result",
		Right: ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Wait for the end of a run and return its result",
	})
	FollowRun = stream[FollowRunInput, fabrictype.Event](Operation{
		Name: "follow-run", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/events",
		Right: View, Effect: Reads, Bound: true,
		Summary: "Follow the events of a run",
	})
	GetRunGraph = call[GetRunGraphInput, Drawing](Operation{
		Name: "get-run-graph", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/graph",
		Right: View, Effect: Reads, Bound: true,
		Summary: "Draw the graph of a run",
	})
	CancelRun = call[CancelRunInput, Empty](Operation{
		Name: "cancel-run", Group: "runs", Method: "POST", Path: "/runs/{flow}/{run}/cancel",
		Right: Operate, Effect: Destroys, Bound: true,
		Summary: "Cancel a run",
	})
	RerunRun = call[RerunInput, Empty](Operation{
		Name: "rerun-run", Group: "runs", Method: "POST", Path: "/runs/{flow}/{run}/rerun",
		Right: Operate, Effect: Changes, Bound: true,
		Summary: "Run nodes of an ended run again",
	})
	PauseRun = call[ReasonInput, Empty](Operation{
		Name: "pause-run", Group: "runs", Method: "POST", Path: "/runs/{flow}/{run}/pause",
		Right: Operate, Effect: Changes, Bound: true,
		Summary: "Keep nodes of a run from starting",
	})
	ResumeRun = call[RunInput, Empty](Operation{
		Name: "resume-run", Group: "runs", Method: "POST", Path: "/runs/{flow}/{run}/resume",
		Right: Operate, Effect: Changes, Bound: true,
		Summary: "End the pause of a run",
	})
	SetRunPriority = call[PriorityInput, Empty](Operation{
		Name: "set-run-priority", Group: "runs", Method: "PUT", Path: "/runs/{flow}/{run}/priority",
		Right: Operate, Effect: Changes, Bound: true,
		Summary: "Change the priority of all nodes of a run that have not ended",
	})
	MoveRunStart = call[MoveStartInput, Empty](Operation{
		Name: "move-run-start", Group: "runs", Method: "PUT", Path: "/runs/{flow}/{run}/start",
		Right: Operate, Effect: Changes, Bound: true,
		Summary: "Move the start of a run that has not started",
	})
	ForkRun = call[ForkRunInput, StartedRun](Operation{
		Name: "fork-run", Group: "runs", Method: "POST", Path: "/runs/{flow}/{run}/fork",
		Right: Operate, Effect: Changes, Bound: true, Created: true,
		Summary: "Start a run from another one, with results of it",
	})
	ExportRun = call[RunInput, ExportedRun](Operation{
		Name: "export-run", Group: "runs", Method: "GET", Path: "/runs/{flow}/{run}/export",
		Right: ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Export a run with its values, as package runcheck reads it",
	})
	PurgeRun = call[RunInput, Empty](Operation{
		Name: "purge-run", Group: "runs", Method: "DELETE", Path: "/runs/{flow}/{run}",
		Right: Administer, Effect: Destroys, Bound: true,
		Summary: "Remove a run that is over",
	})
)

func runOperations() []Entry {
	return []Entry{
		ListRuns, StartRun, StartRuns, GetRun, GetResult, FollowRun, GetRunGraph, GetRunLayout, CompareRuns, ForkRun,
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
	Paging
	Query Values `json:"-"`
}

// StartRunInput starts a run.
type StartRunInput struct {
	Flow string `path:"flow" doc:"Name of a published flow."`
	Body struct {
		NewRun
		Signal *StartSignal `json:"signal,omitempty" doc:"Delivered to the run of the id, which is started if there is none: both in one step. Requires the right answer as well."`
	}
}

// NewRun is a run that is to be started.
type NewRun struct {
	ID       string              `json:"id,omitempty" doc:"Id of the run, 1 to 256 bytes; a random one if it is absent. The same id and input again is the same run."`
	Input    json.RawMessage     `json:"input,omitempty" doc:"Input of the flow, checked against its schema."`
	Tags     map[string]string   `json:"tags,omitempty"`
	Priority *int                `json:"priority,omitempty"`
	Deadline fabrictype.Duration `json:"deadline,omitzero" doc:"Longest time from start to end, instead of the flow's deadline."`
	StartAt  time.Time           `json:"start_at,omitzero" doc:"When the run begins; absent for at once."`
	Delay    fabrictype.Duration `json:"delay,omitzero" doc:"Begin after this time instead of at once."`
	Memo     json.RawMessage     `json:"memo,omitempty" doc:"A note for people, any JSON of at most 16 KiB."`
	Key      *StartKey           `json:"key,omitempty" doc:"Few runs of the flow with this key are open at a time."`
	Throttle *StartThrottle      `json:"throttle,omitempty" doc:"Few runs of the flow with this key start within a time."`
	Debounce *StartDebounce      `json:"debounce,omitempty" doc:"One run for all calls with this key that come close to each other."`
}

// StartKey is a key of runs of a flow, of which few are open at a time: runtime.WithKey.
type StartKey struct {
	Key       string              `json:"key" doc:"1 to 256 bytes, such as a customer or a file."`
	AtOnce    int                 `json:"at_once,omitempty" doc:"How many runs may be open, up to 1000; absent for one, or for any number with unique_for alone."`
	WhenTaken string              `json:"when_taken,omitempty" enum:"reject,queue,join,cancel" doc:"Treatment of a run without a place: it is refused with key_taken, waits for its turn, is the open one, or replaces the oldest. Absent for reject."`
	UniqueFor fabrictype.Duration `json:"unique_for,omitzero" doc:"For this time after its start, the first run of the key is returned, also when it is over."`
}

// StartThrottle bounds the number of runs of a key that start within a time: runtime.WithThrottle.
type StartThrottle struct {
	Key    string              `json:"key,omitempty" doc:"Absent for all runs of the flow that are started with a throttle without a key."`
	Starts int                 `json:"starts" doc:"How many runs start in any span of the length per, 1 to 10000."`
	Per    fabrictype.Duration `json:"per"`
	// Also are further windows, all of which must have room.
	Also   []StartWindow `json:"also,omitempty" doc:"Further numbers and times in which there must be room, up to 7: 100 an hour in addition to 10 a minute."`
	Reject bool          `json:"reject,omitempty" doc:"Refuse a run that would be one too many with throttled, instead of starting it later."`
}

// StartWindow is how many runs start in any span of a length.
type StartWindow struct {
	Starts int                 `json:"starts" doc:"1 to 10000."`
	Per    fabrictype.Duration `json:"per"`
}

// StartDebounce makes one run of calls that come close to each other: runtime.WithDebounce.
type StartDebounce struct {
	Key       string              `json:"key" doc:"1 to 256 bytes."`
	Quiet     fabrictype.Duration `json:"quiet" doc:"The run starts when no call has come for this time."`
	AtMost    fabrictype.Duration `json:"at_most,omitzero" doc:"It starts at the latest this time after the first call; absent for ten times quiet."`
	Collect   bool                `json:"collect,omitempty" doc:"The input of the run is the list of the inputs of the calls, instead of the last one."`
	MaxInputs int                 `json:"max_inputs,omitempty" doc:"Most inputs that are collected, up to 10000; absent for 1000."`
}

// StartSignal is a signal to a wait of a run that is started if it does not exist: runtime.WithSignal.
type StartSignal struct {
	Node string `json:"node"`
	Step string `json:"step,omitempty"`
	SignalBody
}

// StartRunsInput starts runs of one flow.
type StartRunsInput struct {
	Flow string `path:"flow" doc:"Name of a published flow."`
	Body struct {
		Runs []NewRun `json:"runs" minItems:"1" maxItems:"1000"`
	}
}

// StartedRuns are the outcomes of starts, in the order of the request.
type StartedRuns struct {
	Runs []StartOutcome `json:"runs"`
}

// StartOutcome is a run, or why it was not started. One that was not keeps no other one from it.
type StartOutcome struct {
	StartedRun
	// Problem is that with which start-run would have answered; absent for a run that was started.
	Problem *Problem `json:"problem,omitempty"`
}

// StartedRun is a run that was started, or was there before.
type StartedRun struct {
	Flow string `json:"flow"`
	Run  string `json:"run"`
	// Existed reports whether the run was there before: the reply has status 200 then, not 201.
	Existed bool `json:"existed,omitempty"`
	// Delivery is the outcome of the signal of the request.
	Delivery *fabrictype.SignalResult `json:"delivery,omitempty"`
}

// GetRunInput selects how much of a run is described.
type GetRunInput struct {
	RunName
	Values   bool   `query:"values" doc:"With inputs and results; requires the right payloads:read."`
	Bytes    int    `query:"value_bytes" minimum:"0" maximum:"1048576" doc:"Most bytes of each value; 0 is 4096."`
	Attempts bool   `query:"attempts" doc:"With the attempts of each node."`
	Cursor   string `query:"cursor" doc:"Where the page of nodes begins."`
	Nodes    int    `query:"nodes" minimum:"0" maximum:"500" doc:"Most nodes of a page; 0 is 500."`
}

// GetResultInput bounds the wait for the end of a run.
type GetResultInput struct {
	RunName
	Wait fabrictype.Duration `query:"wait" doc:"How long to wait for the end, at most 30s."`
}

// Result is how a run ended.
type Result struct {
	State string `json:"state"`
	// Value is the result of a run that succeeded.
	Value *fabrictype.Value `json:"value,omitempty"`
	// FailedNode, Reason and Category say why a run did not.
	FailedNode string `json:"failed_node,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Category   string `json:"category,omitempty"`
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
