package httpapi

import (
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of nodes.
var (
	GetNode = call[GetNodeInput, fabrictype.Node](Operation{
		Name: "get-node", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "Describe a node with its attempts",
	})
	ListItems = call[ListItemsInput, fabrictype.Page[fabrictype.MapItem]](Operation{
		Name: "list-items", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/items",
		Right: api.ReadPayloads, Effect: Reads, Bound: true,
		Summary: "List the items of a map",
	})
	FollowLogs = stream[FollowLogsInput, fabrictype.LogLine](Operation{
		Name: "follow-logs", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/logs",
		Right: api.ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Follow the log lines of a node's attempts",
	})
	FollowFrames = stream[FollowFramesInput, fabrictype.Frame](Operation{
		Name: "follow-frames", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/stream",
		Right: api.ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Follow the frames that a node emits",
	})
	CancelNode = call[NodeReasonInput, Empty](Operation{
		Name: "cancel-node", Group: "nodes", Method: "POST", Path: "/runs/{flow}/{run}/nodes/{node}/cancel",
		Right: api.Operate, Effect: Destroys, Bound: true,
		Summary: "Cancel a node",
	})
	SetNodePriority = call[NodePriorityInput, Empty](Operation{
		Name: "set-node-priority", Group: "nodes", Method: "PUT", Path: "/runs/{flow}/{run}/nodes/{node}/priority",
		Right: api.Operate, Effect: Changes, Bound: true,
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

// GetNodeInput selects how much of a node is described.
type GetNodeInput struct {
	NodeName
	Values bool `query:"values" doc:"With input and result, whole; requires the right payloads:read."`
}

// ListItemsInput selects the items of a map.
type ListItemsInput struct {
	NodeName
	api.Paging
}

// FollowLogsInput is the input of an operation with parameters.
type FollowLogsInput struct {
	NodeName
	Follow
	api.FollowLogsInput
}

// FollowFramesInput has the cursor at which the frames begin.
type FollowFramesInput struct {
	NodeName
	Follow
	Present bool `query:"present" doc:"End after the frames that there are."`
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

// Operations of timers, turns and live values.
var (
	MoveTimer = call[MoveTimerInput, Empty](Operation{
		Name: "move-timer", Group: "nodes", Method: "PUT", Path: "/runs/{flow}/{run}/nodes/{node}/timer",
		Right: api.Operate, Effect: Changes, Bound: true,
		Summary: "Move the end of a node that sleeps",
	})
	SkipTimer = call[NodeInput, Empty](Operation{
		Name: "skip-timer", Group: "nodes", Method: "POST", Path: "/runs/{flow}/{run}/nodes/{node}/timer/skip",
		Right: api.Operate, Effect: Changes, Bound: true,
		Summary: "End the sleep of a node now",
	})
	ListTurns = call[NodeInput, fabrictype.Page[fabrictype.ChildRun]](Operation{
		Name: "list-turns", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/turns",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "List the turns of a loop",
	})
	GetLiveValue = call[LiveValueInput, fabrictype.LiveValue](Operation{
		Name: "get-live-value", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/values/{key}",
		Right: api.ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Show a value that the function of a node has published",
	})
)

// NodeInput names the node that an operation is about.
type NodeInput struct{ NodeName }

// MoveTimerInput is a new end of a sleep.
type MoveTimerInput struct {
	NodeName
	Body struct {
		Until time.Time `json:"until" doc:"When the sleep ends."`
	}
}

// LiveValueInput names a value of a node.
type LiveValueInput struct {
	NodeName
	Key string `path:"key" doc:"Key of the value."`
}
