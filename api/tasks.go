package api

import (
	"encoding/json"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"time"
)

// Operations of programs that run nodes over HTTP: workers without Go.
var (
	ClaimTask = call[ClaimTaskInput, ClaimedTask](Operation{
		Name: "claim-task", Group: "tasks", Method: "POST", Path: "/tasks/claim", Right: Work, Effect: Changes,
		Credential: true,
		Summary:    "Claim a node of some activities and get its input; waits for one",
	})
	RenewTask = call[TaskInput, RenewedTask](Operation{
		Name: "renew-task", Group: "tasks", Method: "POST", Path: "/tasks/{task}/renew", Right: Work, Effect: Changes,
		Summary: "Renew the lease of a task, and learn whether it was cancelled",
	})
	CompleteTask = call[CompleteTaskInput, Empty](Operation{
		Name: "complete-task", Group: "tasks", Method: "POST", Path: "/tasks/{task}/complete",
		Right: Work, Effect: Changes,
		Summary: "End a task with a result",
	})
	FailTask = call[FailTaskInput, FailedTask](Operation{
		Name: "fail-task", Group: "tasks", Method: "POST", Path: "/tasks/{task}/fail", Right: Work, Effect: Changes,
		Summary: "Report that the attempt of a task has failed",
	})
	SuspendTask = call[SuspendTaskInput, SuspendedTask](Operation{
		Name: "suspend-task", Group: "tasks", Method: "POST", Path: "/tasks/{task}/suspend",
		Right: Work, Effect: Changes, Credential: true,
		Summary: "Give a task up until signals arrive",
	})
	ReleaseTask = call[TaskInput, Empty](Operation{
		Name: "release-task", Group: "tasks", Method: "POST", Path: "/tasks/{task}/release",
		Right: Work, Effect: Changes,
		Summary: "Give a task back, without spending its attempt",
	})
	AppendFrames = call[AppendFramesInput, Empty](Operation{
		Name: "append-frames", Group: "tasks", Method: "POST", Path: "/tasks/{task}/frames",
		Right: Work, Effect: Changes,
		Summary: "Append frames to the stream of a task",
	})
	ReportProgress = call[ReportProgressInput, Empty](Operation{
		Name: "report-progress", Group: "tasks", Method: "POST", Path: "/tasks/{task}/progress",
		Right: Work, Effect: Changes,
		Summary: "Report the progress of a task; counts as a heartbeat",
	})
)

func taskOperations() []Entry {
	return []Entry{
		ClaimTask, RenewTask, CompleteTask, FailTask, SuspendTask, ReleaseTask, AppendFrames, ReportProgress,
		AppendLogs, ReportUsage, GetStep, RecordStep, RegisterPushWorker, ListPushWorkers, RemovePushWorker,
	}
}

// ClaimTaskInput has the names of the worker and of the activities that it claims.
type ClaimTaskInput struct {
	Body struct {
		Worker       string              `json:"worker" minLength:"1" maxLength:"128" doc:"Name of the process that claims. It is unique to the process, such as host and process id."`
		Activities   []string            `json:"activities" minItems:"1" maxItems:"256" doc:"Names of the activities that the worker runs."`
		Lanes        []string            `json:"lanes,omitempty" maxItems:"64" doc:"Lanes that the worker serves; absent for the lane default."`
		Capabilities []string            `json:"capabilities,omitempty" maxItems:"256" doc:"Capabilities that the worker offers to nodes that require some."`
		Slots        int                 `json:"slots,omitempty" minimum:"0" maximum:"10000" doc:"Most tasks of this worker at a time; absent for 16."`
		Lease        fabrictype.Duration `json:"lease,omitzero" doc:"How long a task stays with the worker without renewal, 300ms to 1h; absent for 30s."`
		Wait         fabrictype.Duration `json:"wait,omitzero" doc:"How long to wait for a task, at most 30s."`
	}
}

// ClaimedTask is a claimed task, or none.
type ClaimedTask struct {
	// Instance names the worker in list-workers.
	Instance string `json:"instance" doc:"Instance of the worker, as in list-workers."`
	Task     *Task  `json:"task,omitempty" doc:"The task; absent if there was none in time."`
}

// Task is a node of a run that a worker executes under a lease.
type Task struct {
	// Token names the task and proves that the caller holds its lease. Each claim has another one.
	Token      string                      `json:"token" doc:"Names the task in requests, and proves that the caller holds its lease."`
	LeaseEnds  time.Time                   `json:"lease_ends_at" doc:"When the task is lost unless its lease is renewed, by the clock of the server."`
	LeaseLeft  fabrictype.Duration         `json:"lease_left" doc:"The same as a time from now, for programs with another clock."`
	Flow       string                      `json:"flow,omitempty" doc:"Absent for an execution outside runs."`
	Run        string                      `json:"run,omitempty"`
	Node       string                      `json:"node,omitempty"`
	Execution  string                      `json:"execution"`
	Activity   string                      `json:"activity"`
	Lane       string                      `json:"lane"`
	Attempt    int                         `json:"attempt" doc:"Counts from 1."`
	LeaseEpoch int64                       `json:"lease_epoch" doc:"Grows with each lease of the node: a fencing token for other systems."`
	Deadline   time.Time                   `json:"deadline,omitzero" doc:"When the attempt ends at the latest."`
	Tags       map[string]string           `json:"tags,omitempty"`
	Input      json.RawMessage             `json:"input" doc:"The input, which the flow composes for the node from its upstreams."`
	Signals    []fabrictype.ReceivedSignal `json:"signals,omitempty" doc:"The signals that ended the last wait of the attempt."`
}

// TaskInput names the task that an operation is about.
type TaskInput struct {
	Task string `path:"task" maxLength:"128" doc:"Token of the task."`
}

// TaskState is the state of a task's lease.
type TaskState string

// States of tasks.
const (
	// TaskHeld: the lease was renewed.
	TaskHeld TaskState = "held"
	// TaskCancelled: the node or its run was cancelled. The worker stops; whatever it reports is refused.
	TaskCancelled TaskState = "cancelled"
	// TaskTimedOut: the attempt has exceeded a time limit, and the engine has recorded that.
	TaskTimedOut TaskState = "timed_out"
)

// RenewedTask is the state of a task after its lease was to be renewed.
type RenewedTask struct {
	State     TaskState           `json:"state" enum:"held,cancelled,timed_out" doc:"held: continue. Otherwise stop; reports are refused."`
	Reason    string              `json:"reason,omitempty"`
	LeaseEnds time.Time           `json:"lease_ends_at,omitzero"`
	LeaseLeft fabrictype.Duration `json:"lease_left,omitzero"`
}

// CompleteTaskInput has the result of a task.
type CompleteTaskInput struct {
	TaskInput
	Body struct {
		Result json.RawMessage `json:"result" doc:"The result of the activity; null for none."`
	}
}

// FailTaskInput has the reason of a task's failure.
type FailTaskInput struct {
	TaskInput
	Body FailTaskBody
}

// FailTaskBody is the failure of a task.
type FailTaskBody struct {
	Reason       string              `json:"reason" minLength:"1" doc:"Reason of the failure, in English."`
	Category     string              `json:"category,omitempty" doc:"Kind of failure, by which retry policies choose."`
	NonRetryable bool                `json:"non_retryable,omitempty" doc:"No other attempt can succeed; otherwise the retry policy of the node decides."`
	RetryAfter   fabrictype.Duration `json:"retry_after,omitzero" doc:"Pause before the next attempt in place of the policy's pause."`
	Details      []TaskDetail        `json:"details,omitempty" maxItems:"16" doc:"Named errors, for errors.As of Go programs."`
}

// TaskDetail is a named error of a failure.
type TaskDetail struct {
	Name  string          `json:"name" minLength:"1" maxLength:"128"`
	Value json.RawMessage `json:"value,omitempty"`
}

// FailedTask reports whether another attempt follows a failure.
type FailedTask struct {
	Retries bool `json:"retries" doc:"Another attempt follows."`
}

// SuspendTaskInput has the wait of a task.
type SuspendTaskInput struct {
	TaskInput
	Body SuspendTaskBody
}

// SuspendTaskBody is the wait of a task. Without any field, one signal of any name ends it.
type SuspendTaskBody struct {
	Signals   []string            `json:"signals,omitempty" maxItems:"64" doc:"Names of the signals that count; absent if all do."`
	All       bool                `json:"all,omitempty" doc:"One signal of each name is required."`
	Needed    int                 `json:"needed,omitempty" minimum:"0" doc:"Number of signals that end the wait; absent for 1."`
	Decisive  []string            `json:"decisive,omitempty" maxItems:"64" doc:"Names of which one signal ends the wait at once."`
	Timeout   fabrictype.Duration `json:"timeout,omitzero"`
	OnTimeout string              `json:"on_timeout,omitempty" enum:"fail,cancel,expire,resume,escalate" doc:"Effect of the timeout; required with one."`
	Title     string              `json:"title,omitempty"`
	Question  string              `json:"question,omitempty"`
	Audience  []string            `json:"audience,omitempty"`
	Schema    json.RawMessage     `json:"answer_schema,omitempty" doc:"JSON Schema that the payload of an answer must satisfy."`
}

// SuspendedTask has the token of a wait.
type SuspendedTask struct {
	Token string `json:"token" doc:"Token of the wait, with which signal-token answers it."`
}

// AppendFramesInput has frames for the stream of a task.
type AppendFramesInput struct {
	TaskInput
	Body struct {
		Frames []TaskFrame `json:"frames" minItems:"1" maxItems:"100"`
	}
}

// TaskFrame is a frame that a task emits: with JSON or with text.
type TaskFrame struct {
	Kind          string          `json:"kind" doc:"Name of the kind of frame."`
	JSON          json.RawMessage `json:"json,omitempty"`
	Text          *string         `json:"text,omitempty" doc:"Content in place of JSON."`
	CorrelationID string          `json:"correlation_id,omitempty"`
}

// ReportProgressInput is the progress of a task.
type ReportProgressInput struct {
	TaskInput
	Body struct {
		Percent float64 `json:"percent" minimum:"0" maximum:"100"`
		Message string  `json:"message,omitempty"`
	}
}
