package api

import (
	"encoding/json"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

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
	Values   bool   `query:"values" doc:"With inputs and results; requires the right payloads:read."`
	Bytes    int    `query:"value_bytes" minimum:"0" maximum:"1048576" doc:"Most bytes of each value; 0 is 4096."`
	Attempts bool   `query:"attempts" doc:"With the attempts of each node."`
	Cursor   string `query:"cursor" doc:"Where the page of nodes begins."`
	Nodes    int    `query:"nodes" minimum:"0" maximum:"500" doc:"Most nodes of a page; 0 is 500."`
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

// ForkRunInput selects the nodes that a fork runs again.
type ForkRunInput struct {
	ID      string                     `json:"id,omitempty" doc:"Id of the fork; a random one if it is absent."`
	From    []string                   `json:"from,omitempty" doc:"Nodes that run again, with all that depends on them."`
	Input   json.RawMessage            `json:"input,omitempty" doc:"Another input."`
	Results map[string]json.RawMessage `json:"results,omitempty" doc:"Results of nodes, instead of their results in the run."`
	Tags    map[string]string          `json:"tags,omitempty"`
}

// Layout is a graph with places for drawing, from left to right.
type Layout struct {
	Width  int          `json:"width"`
	Height int          `json:"height"`
	Nodes  []PlacedNode `json:"nodes" doc:"All nodes. They have no places if the drawing is folded."`
	Edges  []PlacedEdge `json:"edges" doc:"All edges. They have no points if the drawing is folded."`
	// Folds are the nodes of a folded drawing, and FoldEdges the edges between them; absent if none was asked for or if
	// no nodes are alike. Width and Height are the size of the folded drawing then.
	Folds     []PlacedNode `json:"folds,omitempty"`
	FoldEdges []PlacedEdge `json:"fold_edges,omitempty"`
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
	Height  int    `json:"height,omitempty" doc:"In pixels; absent for 46."`
	// Members are the places in Layout.Nodes of the nodes that a node of Layout.Folds represents: one, or several
	// alike.
	Members []int `json:"members,omitempty"`
}

// PlacedEdge is an edge of a layout. From and To are places of nodes in Layout.Nodes.
type PlacedEdge struct {
	From int    `json:"from"`
	To   int    `json:"to"`
	Kind string `json:"kind" doc:"success_only, on_failure, always, unless_failed or when"`
	Case string `json:"case,omitempty" doc:"Case of the condition that the edge belongs to."`
	Data bool   `json:"data,omitempty" doc:"The node uses the result of the upstream."`
	// Points are the corners of the line: x and y in turn.
	Points []int `json:"points,omitempty"`
}

// RunLayout is the layout of a run.
type RunLayout struct {
	Layout
	// Hash is the hash of the graph, as versions of the flow have it; absent for a run that stores no graph.
	Hash string `json:"hash,omitempty"`
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
	Worker    string    `json:"worker,omitempty" doc:"Instance of the worker that runs it, or ran it last if that is known."`
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
	// BeganAt, ClosedAt, PausedAt and Nodes are as in Run.
	BeganAt  time.Time             `json:"began_at"`
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

// FlowStatistics are computed from the last runs of a flow: the engine keeps none.
type FlowStatistics struct {
	Runs     int              `json:"runs" doc:"Runs that were read. Of a flow with many nodes, these are fewer than requested."`
	Since    time.Time        `json:"since,omitzero" doc:"Creation of the oldest one of them."`
	More     bool             `json:"more,omitempty" doc:"There are older runs."`
	Nodes    []NodeStatistics `json:"nodes"`
	Versions []VersionRuns    `json:"versions" doc:"Versions that the runs have, the latest run first."`
}

// NodeStatistics is how a node did.
type NodeStatistics struct {
	Node    string              `json:"node"`
	Ended   int                 `json:"ended" doc:"Runs in which it succeeded or failed."`
	Failed  int                 `json:"failed,omitempty" doc:"Runs in which it failed or expired."`
	Skipped int                 `json:"skipped,omitempty"`
	Retried int                 `json:"retried,omitempty" doc:"Runs in which it was retried, since it was last run again."`
	Median  fabrictype.Duration `json:"median,omitzero" doc:"From its start to its end, in the last run of it where it was run again."`
	P95     fabrictype.Duration `json:"p95,omitzero" doc:"It took at most this long in 95 of 100 runs."`
	Slowest fabrictype.Duration `json:"slowest,omitzero"`
}

// VersionRuns counts the runs of one version of a flow.
type VersionRuns struct {
	Hash string    `json:"hash" doc:"Beginning of the hash of the graph, 32 digits."`
	Runs int       `json:"runs"`
	Open int       `json:"open,omitempty"`
	Last time.Time `json:"last" doc:"Creation of its latest run."`
	// Latest are its latest runs.
	Latest []fabrictype.Run `json:"latest" doc:"Its latest runs, at most 10, the open ones first."`
}

// SignalBody is a signal.
type SignalBody struct {
	Name           string          `json:"name" doc:"Kind of signal, such as approve."`
	Payload        json.RawMessage `json:"payload,omitempty"`
	Source         string          `json:"source,omitempty" doc:"Who answers; the name of the principal if it is absent. Another name needs the right to operate."`
	Category       string          `json:"category,omitempty"`
	CorrelationID  string          `json:"correlation_id,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty" doc:"A second signal with the same key gets the result of the first."`
}

// SignalRunInput is a signal to a wait by its name.
type SignalRunInput struct {
	Node string `json:"node"`
	Step string `json:"step,omitempty"`
	Wait string `json:"wait,omitempty" doc:"Id of the wait that is answered: no other wait takes the answer, and the audit log has it. Absent for a signal to the latest wait of that name, which may not have begun."`
	SignalBody
}

// ListExecutionsInput selects executions.
type ListExecutionsInput struct {
	Paging
	Lane   string   `query:"lane" doc:"Only executions of this lane."`
	States []string `query:"state" doc:"Only executions in these public states."`
	FlowID string   `query:"flow_id" doc:"Only members of the flow with this id."`
	Index  string   `query:"index" doc:"Only executions in this index of the lane, such as eligible."`
	Tags   []string `query:"tag,explode" doc:"Only executions with this tag, key=value; may be given several times."`
}

// Execution is the record of an execution.
type Execution struct {
	ID             string            `json:"id"`
	FlowID         string            `json:"flow_id,omitempty"`
	Flow           string            `json:"flow,omitempty" doc:"The name of the flow; listings leave it out."`
	Run            string            `json:"run,omitempty" doc:"The id of the run; listings leave it out."`
	Node           string            `json:"node,omitempty"`
	Kind           string            `json:"kind"`
	Lane           string            `json:"lane"`
	Namespace      string            `json:"namespace,omitempty"`
	Priority       int               `json:"priority"`
	State          string            `json:"state"`
	Phase          string            `json:"phase,omitempty"`
	Ownership      string            `json:"ownership,omitempty"`
	Eligibility    string            `json:"eligibility,omitempty"`
	Detail         string            `json:"detail,omitempty" doc:"Reason why the execution waits."`
	Attempts       int               `json:"attempts"`
	Retries        int               `json:"retries,omitempty"`
	Reclaims       int               `json:"reclaims,omitempty"`
	Replays        int               `json:"replays,omitempty"`
	Worker         string            `json:"worker,omitempty"`
	LeaseExpiresAt time.Time         `json:"lease_expires_at,omitzero"`
	Failure        string            `json:"failure,omitempty"`
	CancelReason   string            `json:"cancel_reason,omitempty"`
	CreatedAt      time.Time         `json:"created_at,omitzero"`
	StartedAt      time.Time         `json:"started_at,omitzero"`
	CompletedAt    time.Time         `json:"completed_at,omitzero"`
	Tags           map[string]string `json:"tags,omitempty"`
}

// BulkInput is an action for many runs.
type BulkInput struct {
	Query    string                `json:"query,omitempty" doc:"Selects the runs, with the parameters of list-runs: flow=order&state=failed."`
	EveryRun bool                  `json:"every_run,omitempty" doc:"Required if the query selects all runs."`
	Action   fabrictype.BulkAction `json:"action"`
	ID       string                `json:"id,omitempty" doc:"Id of the job; the same job again with the same id has no further effect."`
	Rate     float64               `json:"rate,omitempty" minimum:"0" doc:"Most runs a second; 0 sets no bound."`
	Most     int                   `json:"most,omitempty" minimum:"0" doc:"Most runs; 0 is all."`
}

// FollowLogsInput selects lines.
type FollowLogsInput struct {
	Attempt int  `query:"attempt" minimum:"0" doc:"Only this attempt; 0 is all of them."`
	Present bool `query:"present" doc:"End after the lines that there are."`
}
