package fabrictype

import "time"

// RerunScope selects the nodes that a rerun runs again: RerunFailed, RerunFrom or RerunAll. Its text is "failed", "from
// " with the name of a node, or "all".
type RerunScope string

// Scopes of reruns; see RerunFrom as well.
const (
	// RerunFailed selects the nodes that did not succeed: those that failed, expired or were cancelled, and those that
	// were skipped because of them. Nodes that succeeded keep their results, except those that ran because a node had
	// failed (flow.OnFailure, flow.Always). Failures that a join tolerated are not selected.
	RerunFailed RerunScope = "failed"
	// RerunAll selects every node. A node whose child run did not succeed runs the nodes of that run again that did
	// not, as with RerunFailed, if its input is the same: items of a map and nodes of a sub-flow that succeeded keep
	// their results. One whose child run succeeded, or whose input has changed, begins with a new child run.
	RerunAll RerunScope = "all"
)

// RerunFrom selects a node and everything downstream of it, whatever their outcomes. Selected nodes whose other
// upstreams did not succeed are skipped as before.
func RerunFrom(node string) RerunScope { return RerunScope("from " + node) }

// KeyState is the state of the runs of a flow with one key.
type KeyState struct {
	// Open are the runs that have places, the oldest first, and Queued those that wait for one, in their order: up to
	// 200 of each. OpenCount and QueuedCount count all.
	Open        []KeyedRun `json:"open"`
	Queued      []KeyedRun `json:"queued"`
	OpenCount   int        `json:"open_count"`
	QueuedCount int        `json:"queued_count"`
	// First is the run that runtime.KeyPolicy.UniqueFor makes Start return; nil without one.
	First *KeyedRun `json:"first,omitempty"`
	// Debounced is the run that gathers calls of runtime.WithDebounce, with its start; nil without one.
	Debounced *KeyedRun `json:"debounced,omitempty"`
	// Starts are the times of the last starts of runtime.WithThrottle, the latest first, up to 200: those that are
	// still to come, too.
	Starts []time.Time `json:"starts,omitempty"`
}

// KeyedRun is one of the runs of a key.
type KeyedRun struct {
	Run string `json:"run"`
	// At is the start of a run that was put off, or debounced; when a queued or the first run was created; else zero.
	At time.Time `json:"at,omitzero"`
}
