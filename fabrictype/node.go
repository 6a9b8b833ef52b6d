package fabrictype

import "time"

// Node is the state of one node of a run.
type Node struct {
	Name string `json:"node"`
	// Kind is the kind of the node. Activity is the activity of the items for a map, and empty for a waitpoint and a
	// sub-flow.
	Kind     NodeKind `json:"kind"`
	Activity string   `json:"activity,omitempty"`
	Lane     string   `json:"lane,omitempty"`
	// Capabilities are those that its worker must have.
	Capabilities []string  `json:"capabilities,omitempty"`
	ExecutionID  string    `json:"execution"`
	State        NodeState `json:"state"`
	// Waiting explains why the node waits, since when, and how the wait ends; zero when it runs or has ended.
	Waiting Explanation `json:"waiting,omitzero" doc:"Why the node does not run."`
	// Attempts counts the attempts that were started, Retries those that followed a failure, and Reclaims those that
	// followed the loss of a worker.
	Attempts int `json:"attempts"`
	Retries  int `json:"retries,omitempty"`
	Reclaims int `json:"reclaims,omitempty" doc:"Attempts after the loss of a worker."`
	// Replays counts how often the node was reset after its end and run again.
	Replays int `json:"replays,omitempty"`
	// Worker is the worker instance that runs the node; empty when none does.
	Worker string `json:"worker,omitempty"`
	// Percent and Message are the last reported progress.
	Percent float64 `json:"percent,omitempty"`
	Message string  `json:"message,omitempty"`
	// Reason and Category describe the last failure, or why the node was cancelled.
	Reason   string `json:"reason,omitempty"`
	Category string `json:"category,omitempty"`
	// CreatedAt, StartedAt (first attempt since the node was last run again), ClaimedAt (by the current or last
	// worker), CompletedAt and DueAt (next attempt, also after lost workers, or end of a delay) are zero when they do
	// not apply.
	CreatedAt   time.Time `json:"created_at,omitzero"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	ClaimedAt   time.Time `json:"claimed_at,omitzero"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
	DueAt       time.Time `json:"due_at,omitzero" doc:"Next attempt, or end of a delay."`
	// LeaseExpiresAt is when the lease ends unless the worker renews it, so that another worker can take the node over;
	// zero without a lease.
	LeaseExpiresAt time.Time `json:"lease_expires_at,omitzero"`
	// Overdue is how late keepers are with the event that the node waits for, by the engine's clock: its retry, the end
	// of its delay or wait, or the recovery of a lost lease. Delays of up to a second are reported as zero.
	Overdue Duration `json:"overdue,omitzero"`
	// Child describes the child run of a map or sub-flow node; nil for other nodes, and before the child run is
	// created.
	Child *ChildRun `json:"child,omitempty" doc:"The child run of a map or sub-flow."`
	// Waits are the open waits of the node.
	Waits []Wait `json:"waits,omitempty"`
	// SleepsUntil is the time until which the node sleeps: one of flow.Sleep or flow.Until, or one whose function is in
	// activity.Sleep. It is zero for others.
	SleepsUntil time.Time `json:"sleeps_until,omitzero"`
	// Generation is 1, and one more each time that the function of the node has continued as new
	// (activity.ContinueAsNew); of a loop, the number of its turn.
	Generation int `json:"generation,omitempty" doc:"1, and one more each time that the function continued as new; of a loop, its turn."`
	// LiveValues are the keys that the function has published (activity.Publish), without the values: see RunRef.Value.
	LiveValues []LiveValue `json:"live_values,omitempty" doc:"Values that the node has published, without the values themselves."`
	// Input is the input that the node gets with runtime.DescribeOptions.Values, composed from the present results of
	// its upstreams; nil for a node without input, and while a part of it is missing. Result is nil unless the node
	// succeeded.
	Input  *Value `json:"input,omitempty"`
	Result *Value `json:"result,omitempty"`
	// History are the attempts of the node with runtime.DescribeOptions.Attempts, the oldest first, as far as the event
	// log has them.
	History []Attempt `json:"history,omitempty"`
}

// ChildRun is the child run of a map or sub-flow node, or of a turn of a loop. Client.Run accepts its Flow and Run as
// it accepts the names of any run.
type ChildRun struct {
	// Turn is the number of the turn, from 1 on; 0 for a node that is not a loop.
	Turn   int    `json:"turn,omitempty" doc:"Of a loop, the number of the turn, from 1 on."`
	Flow   string `json:"flow"`
	Run    string `json:"run"`
	FlowID string `json:"flow_id,omitempty"`
	// State is the state of the child run; empty before it is created and after it was purged.
	State RunState `json:"state,omitempty"`
	// Total is the number of nodes of the child run, which for a map are its items. Open is the number of nodes that
	// have not ended; the others count nodes by outcome.
	Total     int `json:"total"`
	Open      int `json:"open"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed,omitempty"`
	Expired   int `json:"expired,omitempty"`
	Cancelled int `json:"cancelled,omitempty"`
	Skipped   int `json:"skipped,omitempty"`
}

// MapItem is the state of one item of a map.
type MapItem struct {
	// Index is the position in the list, counted from 0. Name is the name of the item's node in the child run.
	Index int    `json:"index"`
	Name  string `json:"name"`
	// State and Attempts are as in Node.
	State    NodeState `json:"state"`
	Attempts int       `json:"attempts"`
	// Result is the item's result; nil unless the item succeeded.
	Result *Value `json:"result,omitempty"`
	// Reason and Category describe the last failure, or why the item was cancelled.
	Reason   string `json:"reason,omitempty"`
	Category string `json:"category,omitempty"`
}

// Attempt is one try to execute a node.
type Attempt struct {
	// Number counts from 1. It counts on over reruns of the node.
	Number int `json:"number"`
	// Replay is how often the node had been reset after its end when the attempt began.
	Replay int `json:"replay,omitempty"`
	// Worker is the worker instance that had it last; empty for an attempt whose beginning the log does not have.
	Worker string `json:"worker,omitempty"`
	// Build is the program of that worker; nil where it is not known, as for a worker of an earlier version.
	Build *Build `json:"build,omitempty"`
	// Begun and Ended are by the engine's clock; zero when the log does not have them.
	Begun time.Time `json:"begun,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Outcome is how it ended, Error the reason of an end without success, and Category the category of a failure.
	Outcome  Outcome `json:"outcome,omitempty"`
	Error    string  `json:"error,omitempty"`
	Category string  `json:"category,omitempty"`
	// Stack is where its function panicked, as runtime/debug prints it, at most about 8 KiB; a longer one
	// ends with its size. A run keeps about 1 MiB of stacks; of further ones there is a remark alone. Empty for others.
	Stack string `json:"stack,omitempty"`
	// Aside is why the attempt was interrupted, if it has not continued since: suspended, waiting_children, delayed or
	// released.
	Aside EventKind `json:"aside,omitempty"`
	// Percent and Message are its last progress.
	Percent float64 `json:"percent,omitempty"`
	Message string  `json:"message,omitempty"`
}
