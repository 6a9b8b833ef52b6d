// Package openwaits selects among the open waits of all runs: the question of an inbox of approvals. Client.Waits and
// Client.ListWaits of package runtime answer it.
//
//	for w, err := range client.Waits(ctx, openwaits.Query{Audience: "release managers"}) { … }
package openwaits

import (
	"github.com/flowfabric/flowfabric-go/runtime"
	"time"
)

// Query selects open waits of the client's namespace. A wait must satisfy all fields that are set; the zero value
// selects all.
type Query struct {
	// Flow is the name of the flow.
	Flow string
	// Tags selects the waits of runs that have all of these tags with these values.
	Tags map[string]string
	// Audience selects waits that name it among their audience (activity.Audience).
	Audience string
	// Text selects waits whose title or question contains this text; letters A to Z match in either case. At most 256
	// bytes.
	Text string
	// From (inclusive) and Before (exclusive) bound the time that the waits are ordered by: when they were opened, or
	// with DueFirst when they time out.
	From, Before time.Time
	// Sort is the order of the waits. Defaults to OldestFirst.
	Sort runtime.WaitSort
}

// Sort is an order of waits. Waits of the same millisecond are in the order of their execution ids.
type Sort string

// Orders of waits.
const (
	// OldestFirst begins with the wait that was opened first.
	OldestFirst runtime.WaitSort = "opened"
	// NewestFirst begins with the wait that was opened last.
	NewestFirst runtime.WaitSort = "-opened"
	// DueFirst selects only waits with a timeout that has not passed, and begins with the one that times out first.
	DueFirst runtime.WaitSort = "due"
)

// Signal is a signal that a waitpoint has received.
type Signal struct {
	// ID identifies the signal in the engine.
	ID string
	// Name, Category, SourceType, Source and CorrelationID are as the sender gave them.
	Name, Category, SourceType, Source, CorrelationID string
	// At is when the engine accepted the signal.
	At time.Time
	// Counts reports whether the signal counts towards the end of the wait.
	Counts bool
	// Payload is the encoded payload, JSON from this SDK; empty for none.
	Payload []byte
}
