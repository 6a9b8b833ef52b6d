package api

import (
	"encoding/json"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// ClaimTaskInput has the names of the worker and of the activities that it claims.
type ClaimTaskInput struct {
	Worker       string              `json:"worker" minLength:"1" maxLength:"128" doc:"Name of the process that claims. It is unique to the process, such as host and process id."`
	Activities   []string            `json:"activities" minItems:"1" maxItems:"256" doc:"Names of the activities that the worker runs."`
	Lanes        []string            `json:"lanes,omitempty" maxItems:"64" doc:"Lanes that the worker serves; absent for the lane default."`
	Capabilities []string            `json:"capabilities,omitempty" maxItems:"256" doc:"Capabilities that the worker offers to nodes that require some."`
	Slots        int                 `json:"slots,omitempty" minimum:"0" maximum:"10000" doc:"Most tasks of this worker at a time; absent for 16."`
	Lease        fabrictype.Duration `json:"lease,omitzero" doc:"How long a task stays with the worker without renewal, 300ms to 1h; absent for 30s."`
	Wait         fabrictype.Duration `json:"wait,omitzero" doc:"How long to wait for a task, at most 30s."`
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

// SuspendTaskBody is the wait of a task. Without any field, one signal of any name ends it.
type SuspendTaskBody struct {
	Signals   []string            `json:"signals,omitempty" maxItems:"64" doc:"Names of the signals that count; absent if all do."`
	All       bool                `json:"all,omitempty" doc:"One signal of each name is required."`
	Needed    int                 `json:"needed,omitempty" minimum:"0" doc:"Number of signals that end the wait; absent for 1."`
	Approvers int                 `json:"approvers,omitempty" minimum:"0" doc:"Number of different people who have to approve, or one rejects: takes the signals approve and reject in place of signals, all, needed and decisive."`
	Decisive  []string            `json:"decisive,omitempty" maxItems:"64" doc:"Names of which one signal ends the wait at once."`
	Timeout   fabrictype.Duration `json:"timeout,omitzero"`
	OnTimeout string              `json:"on_timeout,omitempty" enum:"fail,cancel,expire,resume,escalate" doc:"Effect of the timeout; required with one."`
	Title     string              `json:"title,omitempty"`
	Question  string              `json:"question,omitempty"`
	Audience  []string            `json:"audience,omitempty"`
	Schema    json.RawMessage     `json:"answer_schema,omitempty" doc:"JSON Schema that the payload of an answer must satisfy."`
}

// TaskFrame is a frame that a task emits: with JSON or with text.
type TaskFrame struct {
	Kind          string          `json:"kind" doc:"Name of the kind of frame."`
	JSON          json.RawMessage `json:"json,omitempty"`
	Text          *string         `json:"text,omitempty" doc:"Content in place of JSON."`
	CorrelationID string          `json:"correlation_id,omitempty"`
}

// TaskLine is a line that a task logs.
type TaskLine struct {
	Level   string          `json:"level,omitempty" enum:"debug,info,warn,error" doc:"Absent for info."`
	Message string          `json:"message" maxLength:"16384"`
	Attrs   json.RawMessage `json:"attrs,omitempty" doc:"A JSON object with the attributes of the line."`
	At      time.Time       `json:"at,omitzero" doc:"When it was logged; without it, the time of the request."`
}

// ExceededBudget is a budget into which an amount does not fit.
type ExceededBudget struct {
	Budget    string `json:"budget"`
	Key       string `json:"key,omitempty"`
	Dimension string `json:"dimension"`
	Asked     int64  `json:"asked"`
	Spent     int64  `json:"spent"`
	Reserved  int64  `json:"reserved"`
	Hard      int64  `json:"hard"`
}

// Step is a step with its recorded result.
type Step struct {
	Recorded bool            `json:"recorded" doc:"The step had a result before this request."`
	Result   json.RawMessage `json:"result,omitempty" doc:"The result that was recorded first."`
}

// RegisterPushWorkerInput has the URL of a worker and the tasks that are sent there.
type RegisterPushWorkerInput struct {
	URL          string              `json:"url" maxLength:"2048" doc:"Where tasks are sent. The configuration of the server lists the allowed hosts."`
	Secret       string              `json:"secret" minLength:"32" maxLength:"256" doc:"Key of the signatures, at least 32 characters, known to server and worker only."`
	Activities   []string            `json:"activities" minItems:"1" maxItems:"256"`
	Lanes        []string            `json:"lanes,omitempty" maxItems:"64" doc:"Absent for the lane default."`
	Capabilities []string            `json:"capabilities,omitempty" maxItems:"256"`
	Slots        int                 `json:"slots,omitempty" minimum:"0" maximum:"1000" doc:"Most tasks at a time; absent for 16."`
	Lease        fabrictype.Duration `json:"lease,omitzero" doc:"As with claim-task; absent for 30s."`
	Lasts        fabrictype.Duration `json:"lasts,omitzero" doc:"How long tasks are sent unless the worker registers again, 1s to 24h; absent for 1h."`
}

// PushWorker is a registration, without its secret.
type PushWorker struct {
	Worker     string    `json:"worker"`
	Principal  string    `json:"principal,omitempty"`
	Login      string    `json:"login" doc:"How the principal has logged in; another one may have the same name."`
	URL        string    `json:"url"`
	Activities []string  `json:"activities"`
	ExpiresAt  time.Time `json:"expires_at"`
	Sent       int64     `json:"sent" doc:"Tasks that were sent."`
	Failure    string    `json:"failure,omitempty" doc:"Why the last task could not be sent; the server tries again."`
}

// PushAnswer is the immediate answer of a worker to a pushed task: exactly one field is set. With status 202 and no
// body, it reports by the token of the task later, and renews the lease until then.
type PushAnswer struct {
	Complete *PushResult      `json:"complete,omitempty"`
	Fail     *FailTaskBody    `json:"fail,omitempty"`
	Suspend  *SuspendTaskBody `json:"suspend,omitempty"`
}

// PushResult is the result of a pushed task.
type PushResult struct {
	Result json.RawMessage `json:"result"`
}
