package fabrictype

import (
	"encoding/json"
	"time"
)

// BulkAction is the action of a bulk job on each run. Its kinds are:
//   - "cancel" cancels runs that are not over, as RunRef.Cancel does, and "cancel_pending" the nodes of them that do
//     not run, as RunRef.CancelPending does, both with Reason.
//   - "rerun" runs the nodes of Scope again, in runs that are over, as RunRef.Rerun does.
//   - "purge" deletes runs that are over, as RunRef.Purge does.
//   - "pause" keeps nodes of runs that are not over from starting, as RunRef.Pause does, with Reason; "resume" ends the
//     pause, as RunRef.Resume does.
//   - "priority" changes the priority of all nodes that have not ended to Priority, as RunRef.SetPriority does.
//   - "signal" sends Signal with Payload to each waitpoint of the runs that was open when the job began and for whose
//     wait a signal of this name counts.
type BulkAction struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason,omitempty"`
	// Scope selects the nodes that run again.
	Scope    RerunScope `json:"scope,omitempty"`
	Priority int        `json:"priority,omitempty"`
	// Signal is the name of the signal. Payload is JSON; nil is null.
	Signal  string          `json:"signal,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// BulkJob is a job that performs an action on all runs that a query selects.
type BulkJob struct {
	ID     string     `json:"id"`
	Action BulkAction `json:"action"`
	// Query selects the runs, as parameters of a URL: see runtime.RunQuery.ReadValues.
	Query string `json:"query"`
	// Rate is the most runs a second on average, and Most the most runs; 0 sets no bound.
	Rate float64 `json:"rate,omitempty"`
	Most int     `json:"most,omitempty"`
	// Actor started the job.
	Actor string    `json:"actor"`
	State BulkState `json:"state"`
	// CreatedAt is when the job began. It handles only runs that existed then.
	CreatedAt time.Time `json:"created_at"`
	// ClosedAt is when the job ended or was stopped; zero while it runs.
	ClosedAt time.Time `json:"closed_at,omitzero"`
	// StoppedBy names who stopped the job.
	StoppedBy string       `json:"stopped_by,omitempty"`
	Progress  BulkProgress `json:"progress"`
}

// BulkProgress counts the runs that a job has handled.
type BulkProgress struct {
	// Done counts the runs on which the action was performed.
	Done int `json:"done"`
	// Skipped counts the runs to which the action does not apply, because they are over, or are not over, or are gone,
	// or because nothing in them is to be run again or waits for the signal.
	Skipped int `json:"skipped"`
	// Failed counts the runs on which the action failed, such as a rerun of a run whose key another run has by now.
	Failed int `json:"failed"`
	// Failures are the first of those, at most 20.
	Failures []BulkFailure `json:"failures,omitempty"`
}

// Handled is the number of runs that the job has handled.
func (p BulkProgress) Handled() int { return p.Done + p.Skipped + p.Failed }

// BulkFailure is a run on which an action failed.
type BulkFailure struct {
	Flow  string `json:"flow"`
	Run   string `json:"run"`
	Error string `json:"error"`
}

// BulkPreview is the runs that a job would handle.
type BulkPreview struct {
	// Runs counts the runs that the query selects now, and States counts them by state.
	Runs   int              `json:"runs"`
	States map[RunState]int `json:"states"`
	// Sample are the first of them, at most 20, in the order in which a job would handle them.
	Sample []Run `json:"sample"`
	// More reports that there are more runs than were counted: at most 100,000, or as many as the job would handle.
	More bool `json:"more,omitempty" doc:"There are more runs than were counted."`
}
