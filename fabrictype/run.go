package fabrictype

import (
	"encoding/json"
	"time"
)

// Run is a run in a list.
type Run struct {
	Flow   string   `json:"flow"`
	Run    string   `json:"run"`
	FlowID string   `json:"flow_id,omitempty"`
	State  RunState `json:"state" doc:"running, succeeded, failed, cancelled or expired"`
	// CreatedAt is when the run was started.
	CreatedAt time.Time `json:"created_at"`
	// StartsAt is the time of runtime.StartAt or RunRef.MoveStart, also when it is over; zero for a run that was
	// started at once, and in contract mode.
	StartsAt time.Time `json:"starts_at,omitzero" doc:"When a run that was started for later begins."`
	// BeganAt is when the run last began: with its last rerun, else at StartsAt, else at CreatedAt. From then to
	// ClosedAt is the time that the run took.
	BeganAt time.Time `json:"began_at" doc:"When it last began: with its start, or with its last rerun."`
	// ClosedAt is when the last node ended; zero while nodes are open.
	ClosedAt time.Time `json:"closed_at,omitzero" doc:"When its last node ended."`
	// PausedAt is when the run was paused; zero when it is not.
	PausedAt time.Time `json:"paused_at,omitzero"`
	// FailedNode is the node that failed first; empty when none failed.
	FailedNode string `json:"failed_node,omitempty" doc:"The node that failed first."`
	// Reason and Category are the error of FailedNode; empty when none failed. Not set in contract mode.
	Reason   string `json:"reason,omitempty" doc:"Error of the node that failed first."`
	Category string `json:"category,omitempty" doc:"Category of that error, such as error, timeout or panic."`
	// Nodes counts the nodes of the run.
	Nodes NodeCounts `json:"nodes"`
	// Tags are the tags of the flow and the tags given to Start. Not set in contract mode.
	Tags map[string]string `json:"tags,omitempty"`
	// Key is the key of runtime.WithKey, WithThrottle or WithDebounce, and Queued reports whether the run waits in the
	// queue of its key. Not set in contract mode.
	Key    string `json:"key,omitempty" doc:"Key that bounds the arrival of runs."`
	Queued bool   `json:"queued,omitempty" doc:"The run waits in the queue of its key."`
}

// NodeCounts counts the nodes of a run by outcome.
type NodeCounts struct {
	// All counts all nodes, Open those that have not ended.
	All  int `json:"all"`
	Open int `json:"open"`
	// Failed, Cancelled, Expired and Skipped count the nodes with that outcome; the other nodes that are not open
	// succeeded.
	Failed    int `json:"failed,omitempty"`
	Cancelled int `json:"cancelled,omitempty"`
	Expired   int `json:"expired,omitempty"`
	Skipped   int `json:"skipped,omitempty"`
}

// RunDetail is the state of a run at one moment, with its nodes.
type RunDetail struct {
	Flow   string `json:"flow"`
	Run    string `json:"run"`
	FlowID string `json:"flow_id"`
	// State is the state of the run. A run that has failed, expired or was cancelled may still have open nodes until
	// ClosedAt.
	State RunState `json:"state"`
	// FailedNode is the node that failed first, with the reason and category of the failure; all are empty when no node
	// failed.
	FailedNode string `json:"failed_node,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Category   string `json:"category,omitempty"`
	// StartedBy is the actor of the run's start, from Client.As or WithActor: the actor of its schedule, "flow" and the
	// name of its parent's flow for a child run; empty without an actor, and in contract mode.
	StartedBy string `json:"started_by,omitempty"`
	// CancelReason and CancelledBy are set when the run was cancelled.
	CancelReason string    `json:"cancel_reason,omitempty"`
	CancelledBy  string    `json:"cancelled_by,omitempty"`
	CreatedAt    time.Time `json:"created_at"`
	// StartsAt is the time of runtime.StartAt or RunRef.MoveStart, also when it is over; zero for a run that was
	// started at once.
	StartsAt time.Time `json:"starts_at,omitzero"`
	// BeganAt is when the run last began: with its last rerun, else at StartsAt, else at CreatedAt. From then to
	// ClosedAt is the time that the run took.
	BeganAt time.Time `json:"began_at" doc:"When it last began: with its start, or with its last rerun."`
	// ClosedAt is when the last node ended; zero while nodes are open.
	ClosedAt time.Time `json:"closed_at,omitzero"`
	// DeadlineAt is when the run expires; zero without a deadline. FinallyDeadlineAt is when the nodes of flow.Finally
	// expire, once all others have ended; zero before, and without a limit.
	DeadlineAt        time.Time `json:"deadline_at,omitzero" doc:"When the run expires."`
	FinallyDeadlineAt time.Time `json:"finally_deadline_at,omitzero" doc:"When its finally nodes expire, which run."`
	// Memo is the JSON of runtime.WithMemo; nil without it.
	Memo json.RawMessage `json:"memo,omitempty"`
	// Overdue is how far the run, or its finally nodes, are past their deadline without having expired, by the engine's
	// clock; zero for delays of up to a second and when the run is over.
	Overdue Duration `json:"overdue,omitzero" doc:"How far the run is past its deadline without having expired."`
	// NoKeeper reports whether the run or a node is overdue and no keeper is connected. It is false when the server
	// does not allow the question.
	NoKeeper bool `json:"no_keeper,omitempty" doc:"Something is overdue and no keeper is connected."`
	// PausedAt, PausedBy and PauseReason describe the pause of the run; PausedAt is zero when the run is not paused.
	PausedAt    time.Time `json:"paused_at,omitzero"`
	PausedBy    string    `json:"paused_by,omitempty"`
	PauseReason string    `json:"pause_reason,omitempty"`
	// Reruns counts the reruns of the run; LastRerun describes the last one.
	Reruns    int   `json:"reruns,omitempty"`
	LastRerun Rerun `json:"last_rerun,omitzero"`
	// Schedule is the schedule that started the run, and FireAt the time of the fire; empty and zero for other runs.
	Schedule string    `json:"schedule,omitempty"`
	FireAt   time.Time `json:"fire_at,omitzero"`
	// Parent is the execution of the map or sub-flow node of another run whose child run this is; empty for other runs.
	Parent string `json:"parent,omitempty" doc:"Execution of the node whose child run it is."`
	// Key is the key of runtime.WithKey, WithThrottle or WithDebounce; empty without one.
	Key string `json:"key,omitempty" doc:"Key that bounds the arrival of runs."`
	// QueuePlace is the place of the run in the queue of its key, from 1 on; 0 for a run that is in none.
	QueuePlace int `json:"queue_place,omitempty" doc:"Place in the queue of the key, from 1 on."`
	// ForkedFrom is the id of the run of the same flow that this one is a fork of, with KeptNodes results; empty for
	// other runs. It may have been purged since. See RunRef.Fork.
	ForkedFrom string `json:"forked_from,omitempty" doc:"Id of the run that this one is a fork of."`
	KeptNodes  int    `json:"kept_nodes,omitempty" doc:"Nodes whose results the fork has kept."`
	// OpenNodes is the number of nodes that have not ended.
	OpenNodes int `json:"open_nodes"`
	// Budgets are the states of the flow's budgets, by name.
	Budgets []Budget `json:"budgets,omitempty"`
	// Input and Result are the values of the run with runtime.DescribeOptions.Values; nil without a value.
	Input  *Value `json:"input,omitempty"`
	Result *Value `json:"result,omitempty"`
	// Nodes are the nodes of the run, in the order of their declaration; with runtime.DescribeOptions.Nodes, the nodes
	// of the page.
	Nodes []Node `json:"nodes"`
	// Next is the cursor of the next page of nodes with runtime.DescribeOptions.Nodes; empty after the last one.
	Next string `json:"next,omitempty" doc:"Cursor of the next page of nodes."`
}

// Rerun is the last rerun of a run.
type Rerun struct {
	At time.Time `json:"at"`
	// By is the actor who requested the rerun, Scope the selected nodes.
	By    string     `json:"by,omitempty"`
	Scope RerunScope `json:"scope"`
	// Nodes is the number of nodes that were run again.
	Nodes int `json:"nodes"`
}

// RunCount counts the runs of one group, or their ends. Fields that do not group them are empty.
type RunCount struct {
	Flow  string   `json:"flow,omitempty"`
	State RunState `json:"state,omitempty"`
	// Hour is the beginning of the hour, in UTC.
	Hour time.Time `json:"hour,omitzero"`
	// Runs counts runs; with CreatedFrom, those that were started. It is 0 in a count of ends.
	Runs int `json:"runs,omitempty" doc:"Runs; absent in a count of ends."`
	// Ends counts ends of runs, with FinishedFrom: a run that was run again has ended more than once. It is 0 in a
	// count of runs.
	Ends int `json:"ends,omitempty" doc:"Ends of runs, with finished_from: a run that was run again has several."`
}
