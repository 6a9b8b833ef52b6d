package api

import (
	"encoding/json"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of nodes.
var (
	GetNode = call[GetNodeInput, Node](Operation{
		Name: "get-node", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}",
		Right: View, Effect: Reads, Bound: true,
		Summary: "Describe a node with its attempts",
	})
	ListItems = call[ListItemsInput, Page[Item]](Operation{
		Name: "list-items", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/items",
		Right: ReadPayloads, Effect: Reads, Bound: true,
		Summary: "List the items of a map",
	})
	FollowLogs = stream[FollowLogsInput, fabrictype.LogLine](Operation{
		Name: "follow-logs", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/logs",
		Right: ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Follow the log lines of a node's attempts",
	})
	FollowFrames = stream[FollowFramesInput, Frame](Operation{
		Name: "follow-frames", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/stream",
		Right: ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Follow the frames that a node emits",
	})
	CancelNode = call[NodeReasonInput, Empty](Operation{
		Name: "cancel-node", Group: "nodes", Method: "POST", Path: "/runs/{flow}/{run}/nodes/{node}/cancel",
		Right: Operate, Effect: Destroys, Bound: true,
		Summary: "Cancel a node",
	})
	SetNodePriority = call[NodePriorityInput, Empty](Operation{
		Name: "set-node-priority", Group: "nodes", Method: "PUT", Path: "/runs/{flow}/{run}/nodes/{node}/priority",
		Right: Operate, Effect: Changes, Bound: true,
		Summary: "Change the priority of a node",
	})
)

func nodeOperations() []Entry {
	return []Entry{
		GetNode, ListItems, ListTurns, GetLiveValue, FollowLogs, FollowFrames, CancelNode, SetNodePriority, MoveTimer,
		SkipTimer,
	}
}

// NodeName names a node of a run.
type NodeName struct {
	RunName
	Node string `path:"node" doc:"Name of the node."`
}

// GetNodeInput says how much of a node is described.
type GetNodeInput struct {
	NodeName
	Values bool `query:"values" doc:"With input and result, whole; requires the right payloads:read."`
}

// Node is the state of a node.
type Node struct {
	Node           string                  `json:"node"`
	Kind           string                  `json:"kind"`
	Activity       string                  `json:"activity,omitempty"`
	Lane           string                  `json:"lane,omitempty"`
	Capabilities   []string                `json:"capabilities,omitempty"`
	Execution      string                  `json:"execution"`
	State          string                  `json:"state"`
	Waiting        *fabrictype.Explanation `json:"waiting,omitempty" doc:"Why the node does not run."`
	Attempts       int                     `json:"attempts"`
	Retries        int                     `json:"retries,omitempty"`
	Reclaims       int                     `json:"reclaims,omitempty" doc:"Attempts after the loss of a worker."`
	Replays        int                     `json:"replays,omitempty"`
	Worker         string                  `json:"worker,omitempty"`
	Percent        float64                 `json:"percent,omitempty"`
	Message        string                  `json:"message,omitempty"`
	Reason         string                  `json:"reason,omitempty"`
	Category       string                  `json:"category,omitempty"`
	CreatedAt      time.Time               `json:"created_at,omitzero"`
	StartedAt      time.Time               `json:"started_at,omitzero"`
	ClaimedAt      time.Time               `json:"claimed_at,omitzero"`
	CompletedAt    time.Time               `json:"completed_at,omitzero"`
	DueAt          time.Time               `json:"due_at,omitzero" doc:"Next attempt, or end of a delay."`
	LeaseExpiresAt time.Time               `json:"lease_expires_at,omitzero"`
	Overdue        Duration                `json:"overdue,omitzero"`
	Child          *Child                  `json:"child,omitempty" doc:"The child run of a map or sub-flow."`
	Waits          []Wait                  `json:"waits,omitempty"`
	SleepsUntil    time.Time               `json:"sleeps_until,omitzero"`
	Generation     int                     `json:"generation,omitempty" doc:"1, and one more each time that the function continued as new; of a loop, its turn."`
	LiveValues     []LiveValue             `json:"live_values,omitempty" doc:"Keys that the node has published, without the values."`
	Input          *fabrictype.Value       `json:"input,omitempty"`
	Result         *fabrictype.Value       `json:"result,omitempty"`
	History        []fabrictype.Attempt    `json:"history,omitempty"`
}

// LiveValue is a value that a node has published under a key.
type LiveValue struct {
	Key     string    `json:"key"`
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Size    int       `json:"size" doc:"Bytes of the value."`
	// JSON is the value itself; a node has it not.
	JSON json.RawMessage `json:"json,omitempty" doc:"The value, of get-live-value."`
}

// Child is the child run of a node.
type Child struct {
	Flow      string `json:"flow"`
	Run       string `json:"run"`
	State     string `json:"state,omitempty"`
	Total     int    `json:"total"`
	Open      int    `json:"open"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed,omitempty"`
	Expired   int    `json:"expired,omitempty"`
	Cancelled int    `json:"cancelled,omitempty"`
	Skipped   int    `json:"skipped,omitempty"`
}

// ListItemsInput says which items of a map are listed.
type ListItemsInput struct {
	NodeName
	Paging
}

// Item is an item of a map.
type Item struct {
	Index    int               `json:"index"`
	Name     string            `json:"name"`
	State    string            `json:"state"`
	Attempts int               `json:"attempts"`
	Result   *fabrictype.Value `json:"result,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	Category string            `json:"category,omitempty"`
}

// FollowLogsInput selects lines.
type FollowLogsInput struct {
	NodeName
	Follow
	Attempt int  `query:"attempt" minimum:"0" doc:"Only this attempt; 0 is all of them."`
	Present bool `query:"present" doc:"End after the lines that there are."`
}

// FollowFramesInput says where the frames begin.
type FollowFramesInput struct {
	NodeName
	Follow
	Present bool `query:"present" doc:"End after the frames that there are."`
}

// Frame is one piece of output of an attempt.
type Frame struct {
	Cursor  string    `json:"cursor"`
	Attempt int       `json:"attempt"`
	Kind    string    `json:"kind"`
	At      time.Time `json:"at"`
	// ProducedAt is the time by the clock of the worker.
	ProducedAt time.Time `json:"produced_at,omitzero" doc:"Time by the clock of the worker."`
	Dropped    int       `json:"dropped,omitempty" doc:"Frames before this one that are not kept any more."`
	// JSON is the payload if it is JSON; Data anything else.
	JSON          json.RawMessage `json:"json,omitempty"`
	Data          []byte          `json:"data,omitempty"`
	Encoding      string          `json:"encoding"`
	CorrelationID string          `json:"correlation_id,omitempty"`
}

// NodeReasonInput names a node and a reason.
type NodeReasonInput struct {
	NodeName
	Body struct {
		Reason string `json:"reason,omitempty"`
	}
}

// NodePriorityInput is a new priority of a node.
type NodePriorityInput struct {
	NodeName
	Body struct {
		Priority int `json:"priority" minimum:"0"`
	}
}
