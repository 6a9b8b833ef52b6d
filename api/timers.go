package api

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"time"
)

// Operations of timers, turns and live values.
var (
	MoveTimer = call[MoveTimerInput, Empty](Operation{
		Name: "move-timer", Group: "nodes", Method: "PUT", Path: "/runs/{flow}/{run}/nodes/{node}/timer",
		Right: Operate, Effect: Changes, Bound: true,
		Summary: "Move the end of a node that sleeps",
	})
	SkipTimer = call[NodeInput, Empty](Operation{
		Name: "skip-timer", Group: "nodes", Method: "POST", Path: "/runs/{flow}/{run}/nodes/{node}/timer/skip",
		Right: Operate, Effect: Changes, Bound: true,
		Summary: "End the sleep of a node now",
	})
	ListTurns = call[NodeInput, fabrictype.Page[fabrictype.Turn]](Operation{
		Name: "list-turns", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/turns",
		Right: View, Effect: Reads, Bound: true,
		Summary: "List the turns of a loop",
	})
	GetLiveValue = call[LiveValueInput, fabrictype.LiveValue](Operation{
		Name: "get-live-value", Group: "nodes", Method: "GET", Path: "/runs/{flow}/{run}/nodes/{node}/values/{key}",
		Right: ReadPayloads, Effect: Reads, Bound: true,
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
