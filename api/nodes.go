package api

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of nodes.
var (
	GetNode = call[GetNodeInput, fabrictype.Node](Operation{
		Name: "get-node", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}",
		Right: View, Effect: Reads, Bound: true,
		Summary: "Describe a node with its attempts",
	})
	ListItems = call[ListItemsInput, fabrictype.Page[fabrictype.MapItem]](Operation{
		Name: "list-items", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/items",
		Right: ReadPayloads, Effect: Reads, Bound: true,
		Summary: "List the items of a map",
	})
	FollowLogs = stream[FollowLogsInput, fabrictype.LogLine](Operation{
		Name: "follow-logs", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/logs",
		Right: ReadPayloads, Effect: Reads, Bound: true,
		Summary: "Follow the log lines of a node's attempts",
	})
	FollowFrames = stream[FollowFramesInput, fabrictype.Frame](Operation{
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

// GetNodeInput selects how much of a node is described.
type GetNodeInput struct {
	NodeName
	Values bool `query:"values" doc:"With input and result, whole; requires the right payloads:read."`
}

// ListItemsInput selects the items of a map.
type ListItemsInput struct {
	NodeName
	Paging
}

// FollowLogsInput selects lines.
type FollowLogsInput struct {
	NodeName
	Follow
	Attempt int  `query:"attempt" minimum:"0" doc:"Only this attempt; 0 is all of them."`
	Present bool `query:"present" doc:"End after the lines that there are."`
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
