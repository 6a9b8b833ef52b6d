// Package bulk says what a bulk job does to runs, and describes jobs: see Client.StartBulkJob of package runtime. The
// functions Cancel, RerunFailed and so on make actions.
package bulk

import (
	"encoding/json"
	"errors"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"time"
)

// Errors of bulk jobs, for errors.Is.
var (
	// ErrNotFound is returned when the namespace has no job with that id, or not any more: a job that is over is kept
	// for a week.
	ErrNotFound = errors.New("no such bulk job")
	// ErrConflict is returned by StartBulkJob when the id belongs to a job with another query, action or options.
	ErrConflict = errors.New("bulk job id is taken by another job")
)

// Kind is what an action does.
type Kind string

// Kinds of actions.
const (
	KindCancel        fabrictype.BulkKind = "cancel"
	KindCancelPending fabrictype.BulkKind = "cancel_pending"
	KindRerun         fabrictype.BulkKind = "rerun"
	KindPurge         fabrictype.BulkKind = "purge"
	KindPause         fabrictype.BulkKind = "pause"
	KindResume        fabrictype.BulkKind = "resume"
	KindPriority      fabrictype.BulkKind = "priority"
	KindSignal        fabrictype.BulkKind = "signal"
)

// Action is what a job does to each run.
type Action struct {
	Kind fabrictype.BulkKind `json:"kind"`
	// Reason is why runs are cancelled or paused.
	Reason string `json:"reason,omitempty"`
	// Scope is which nodes are run again: "failed", "all", or "from " with the name of a node.
	Scope string `json:"scope,omitempty"`
	// Priority is the new priority.
	Priority int `json:"priority,omitempty"`
	// Signal is the name of the signal, Payload what it carries.
	Signal  string          `json:"signal,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// Cancel cancels runs that are not over, as RunRef.Cancel does.
func Cancel(reason string) fabrictype.BulkAction {
	return fabrictype.BulkAction{Kind: fabrictype.BulkCancel, Reason: reason}
}

// CancelPending cancels the nodes that do not run, as RunRef.CancelPending does.
func CancelPending(reason string) fabrictype.BulkAction {
	return fabrictype.BulkAction{Kind: fabrictype.BulkCancelPending, Reason: reason}
}

// RerunFailed runs again what did not succeed in runs that are over, as RunRef.Rerun does with runtime.RerunFailed.
func RerunFailed() fabrictype.BulkAction {
	return fabrictype.BulkAction{Kind: fabrictype.BulkRerun, Scope: "failed"}
}

// RerunFrom runs a node and everything downstream of it again, in runs that are over.
func RerunFrom(node string) fabrictype.BulkAction {
	return fabrictype.BulkAction{Kind: fabrictype.BulkRerun, Scope: "from " + node}
}

// RerunAll runs all nodes of runs that are over again.
func RerunAll() fabrictype.BulkAction {
	return fabrictype.BulkAction{Kind: fabrictype.BulkRerun, Scope: "all"}
}

// Purge deletes runs that are over, as RunRef.Purge does.
func Purge() fabrictype.BulkAction { return fabrictype.BulkAction{Kind: fabrictype.BulkPurge} }

// Pause keeps nodes of runs that are not over from starting, as RunRef.Pause does.
func Pause(reason string) fabrictype.BulkAction {
	return fabrictype.BulkAction{Kind: fabrictype.BulkPause, Reason: reason}
}

// Resume ends the pause of runs, as RunRef.Resume does.
func Resume() fabrictype.BulkAction { return fabrictype.BulkAction{Kind: fabrictype.BulkResume} }

// Priority changes the priority of all nodes that have not ended, as RunRef.SetPriority does.
func Priority(priority int) fabrictype.BulkAction {
	return fabrictype.BulkAction{Kind: fabrictype.BulkPriority, Priority: priority}
}

// Signal sends a signal to each waitpoint of the runs that was open when the job began and for whose wait a signal of
// this name counts. The payload is JSON; nil is null.
func Signal(name string, payload json.RawMessage) fabrictype.BulkAction {
	return fabrictype.BulkAction{Kind: fabrictype.BulkSignal, Signal: name, Payload: payload}
}

// Options adjust a job.
type Options struct {
	// ID is the id of the job, unique within the namespace: 1 to 256 bytes of UTF-8 without control characters.
	// Starting the same job again with the same id has no further effect. Defaults to a random UUID.
	ID string
	// Rate is the most runs a second that the job handles, on average; 0 is no bound. Up to a fifth of a second's runs,
	// and at least one, are handled together.
	Rate float64
	// Most is how many runs the job handles at most; 0 is all.
	Most int
	// Actor names who acts, for the records of the job and of the runs. Defaults to "client".
	Actor string
}

// State is the state of a job.
type State string

// States of jobs.
const (
	Running   fabrictype.BulkState = "running"
	Completed fabrictype.BulkState = "completed"
	Stopped   fabrictype.BulkState = "stopped"
)

// Job describes a job.
type Job struct {
	ID     string
	Action fabrictype.BulkAction
	// Query selects the runs, as parameters of a URL: see runtime.ParseRunQuery.
	Query string
	Rate  float64
	Most  int
	Actor string
	State fabrictype.BulkState
	// CreatedAt is when the job began. It handles only runs that existed then.
	CreatedAt time.Time
	// ClosedAt is when the job ended or was stopped; zero while it runs.
	ClosedAt time.Time
	// StoppedBy names who stopped the job.
	StoppedBy string
	Progress  fabrictype.BulkProgress
}

// Progress counts the runs that a job has handled.
type Progress struct {
	// Done counts the runs on which the action was carried out.
	Done int `json:"done"`
	// Skipped counts the runs to which the action does not apply, because they are over, or are not over, or are gone,
	// or because nothing in them is to be run again or waits for the signal.
	Skipped int `json:"skipped"`
	// Failed counts the runs on which the action failed, such as a rerun of a run whose key another run has by now.
	Failed int `json:"failed"`
	// Failures are the first of those.
	Failures []fabrictype.BulkFailure `json:"failures,omitempty"`
}

// Handled is the number of runs that the job has looked at.
func (p fabrictype.BulkProgress) Handled() int { return p.Done + p.Skipped + p.Failed }

// MaxFailures is how many failures a job keeps.
const MaxFailures = 20

// Failure is a run on which an action failed.
type Failure struct {
	Flow  string `json:"flow"`
	Run   string `json:"run"`
	Error string `json:"error"`
}

// Preview is what a job would handle.
type Preview struct {
	// Runs counts the runs that the query selects now, by their state, a runtime.RunState.
	Runs   int
	States map[string]int
	// Sample are the first of them, in the order in which a job would handle them.
	Sample []fabrictype.BulkRun
	// More reports that there are more runs than were counted: at most MaxPreview, or Options.Most.
	More bool
}

// MaxPreview is how many runs a preview counts, and MaxSample how many it lists.
const (
	MaxPreview = 100_000
	MaxSample  = 20
)

// Run is a run of a sample.
type Run struct {
	Flow, Run string
	// State is a runtime.RunState.
	State     string
	CreatedAt time.Time
}
