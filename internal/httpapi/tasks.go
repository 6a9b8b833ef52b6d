package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of programs that run nodes over HTTP: workers without Go.
var (
	ClaimTask = call[ClaimTaskInput, api.ClaimedTask](Operation{
		Name: "claim-task", Group: "tasks", Method: "POST", Path: "/tasks/claim", Right: api.Work, Effect: Changes,
		Credential: true,
		Summary:    "Claim a node of some activities and get its input; waits for one",
	})
	RenewTask = call[TaskInput, api.RenewedTask](Operation{
		Name: "renew-task", Group: "tasks", Method: "POST", Path: "/tasks/{task}/renew", Right: api.Work, Effect: Changes,
		Summary: "Renew the lease of a task, and learn whether it was cancelled",
	})
	CompleteTask = call[CompleteTaskInput, Empty](Operation{
		Name: "complete-task", Group: "tasks", Method: "POST", Path: "/tasks/{task}/complete",
		Right: api.Work, Effect: Changes,
		Summary: "End a task with a result",
	})
	FailTask = call[FailTaskInput, FailedTask](Operation{
		Name: "fail-task", Group: "tasks", Method: "POST", Path: "/tasks/{task}/fail", Right: api.Work, Effect: Changes,
		Summary: "Report that the attempt of a task has failed",
	})
	SuspendTask = call[SuspendTaskInput, SuspendedTask](Operation{
		Name: "suspend-task", Group: "tasks", Method: "POST", Path: "/tasks/{task}/suspend",
		Right: api.Work, Effect: Changes, Credential: true,
		Summary: "Give a task up until signals arrive",
	})
	ReleaseTask = call[TaskInput, Empty](Operation{
		Name: "release-task", Group: "tasks", Method: "POST", Path: "/tasks/{task}/release",
		Right: api.Work, Effect: Changes,
		Summary: "Give a task back, without spending its attempt",
	})
	AppendFrames = call[AppendFramesInput, Empty](Operation{
		Name: "append-frames", Group: "tasks", Method: "POST", Path: "/tasks/{task}/frames",
		Right: api.Work, Effect: Changes,
		Summary: "Append frames to the stream of a task",
	})
	ReportProgress = call[ReportProgressInput, Empty](Operation{
		Name: "report-progress", Group: "tasks", Method: "POST", Path: "/tasks/{task}/progress",
		Right: api.Work, Effect: Changes,
		Summary: "Report the progress of a task; counts as a heartbeat",
	})
)

func taskOperations() []Entry {
	return []Entry{
		ClaimTask, RenewTask, CompleteTask, FailTask, SuspendTask, ReleaseTask, AppendFrames, ReportProgress,
		AppendLogs, ReportUsage, GetStep, RecordStep, RegisterPushWorker, ListPushWorkers, RemovePushWorker,
	}
}

// ClaimTaskInput is the input of an operation with a body.
type ClaimTaskInput struct {
	Body struct{ api.ClaimTaskInput }
}

// TaskInput names the task that an operation is about.
type TaskInput struct {
	Task string `path:"task" maxLength:"128" doc:"Token of the task."`
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
	Body api.FailTaskBody
}

// FailedTask reports whether another attempt follows a failure.
type FailedTask struct {
	Retries bool `json:"retries" doc:"Another attempt follows."`
}

// SuspendTaskInput has the wait of a task.
type SuspendTaskInput struct {
	TaskInput
	Body api.SuspendTaskBody
}

// SuspendedTask has the token of a wait.
type SuspendedTask struct {
	Token string `json:"token" doc:"Token of the wait, with which signal-token answers it."`
}

// AppendFramesInput has frames for the stream of a task.
type AppendFramesInput struct {
	TaskInput
	Body struct {
		Frames []api.TaskFrame `json:"frames" minItems:"1" maxItems:"100"`
	}
}

// ReportProgressInput is the progress of a task.
type ReportProgressInput struct {
	TaskInput
	Body struct {
		Percent float64 `json:"percent" minimum:"0" maximum:"100"`
		Message string  `json:"message,omitempty"`
	}
}

// Operations by which a task writes in addition to its outcome: its log, the budgets of its run, and its steps.
var (
	AppendLogs = call[AppendLogsInput, Empty](Operation{
		Name: "append-logs", Group: "tasks", Method: "POST", Path: "/tasks/{task}/logs", Right: api.Work, Effect: Changes,
		Summary: "Append lines to the log of a task",
	})
	ReportUsage = call[ReportUsageInput, ReportedUsage](Operation{
		Name: "report-usage", Group: "tasks", Method: "POST", Path: "/tasks/{task}/usage", Right: api.Work, Effect: Changes,
		Summary: "Count the usage of a task in the budgets of its run",
	})
	GetStep = call[StepInput, api.Step](Operation{
		Name: "get-step", Group: "tasks", Method: "GET", Path: "/tasks/{task}/steps/{step}", Right: api.Work, Effect: Reads,
		Summary: "Read the result of a step that an attempt of the node has recorded",
	})
	RecordStep = call[RecordStepInput, api.Step](Operation{
		Name: "record-step", Group: "tasks", Method: "PUT", Path: "/tasks/{task}/steps/{step}",
		Right: api.Work, Effect: Changes,
		Summary: "Record the result of a step, unless it has one; later attempts can read it",
	})
)

// AppendLogsInput has lines for the log of a task.
type AppendLogsInput struct {
	TaskInput
	Body struct {
		Lines []api.TaskLine `json:"lines" minItems:"1" maxItems:"100"`
	}
}

// ReportUsageInput is the usage of a task.
type ReportUsageInput struct {
	TaskInput
	Body struct {
		Usage map[string]int64 `json:"usage" minProperties:"1" doc:"Amount of each dimension, such as tokens or requests."`
		Key   string           `json:"key,omitempty" doc:"The report counts once for the node, also in later attempts; without it a repeated request counts again."`
	}
}

// ReportedUsage names the budget of the run that the usage does not fit into, if any.
type ReportedUsage struct {
	Exceeded *api.ExceededBudget `json:"exceeded,omitempty" doc:"The budget whose hard limit the usage would exceed: it has not counted it. Fail the task with the category budget for the effect that the budget defines."`
}

// StepInput names a step of a task.
type StepInput struct {
	TaskInput
	Step string `path:"step" maxLength:"128" doc:"Name of the step, as names of activities."`
}

// RecordStepInput has the result of a step.
type RecordStepInput struct {
	StepInput
	Body struct {
		Result json.RawMessage `json:"result" doc:"Any JSON of at most 1 MiB."`
	}
}

// Operations of workers to which a server sends tasks, in place of their claims.
var (
	RegisterPushWorker = call[RegisterPushWorkerInput, api.PushWorker](Operation{
		Name: "register-push-worker", Group: "tasks", Method: "PUT", Path: "/push-workers/{worker}",
		Right: api.Work, Effect: Changes,
		Summary: "Let the server send tasks to a URL, for some time",
	})
	ListPushWorkers = call[Empty, fabrictype.Page[api.PushWorker]](Operation{
		Name: "list-push-workers", Group: "tasks", Method: "GET", Path: "/push-workers", Right: api.View, Effect: Reads,
		Summary: "List the URLs to which this server sends tasks",
	})
	RemovePushWorker = call[RemovePushWorkerInput, Empty](Operation{
		Name: "remove-push-worker", Group: "tasks", Method: "DELETE", Path: "/push-workers/{worker}",
		Right: api.Work, Effect: Changes,
		Summary: "Send no more tasks to a URL; administrators end the registrations of others, too",
	})
)

// PushWorkerInput names a registration of the principal.
type PushWorkerInput struct {
	Worker string `path:"worker" maxLength:"128" doc:"Name of the worker; each principal has names of its own."`
}

// RemovePushWorkerInput names a registration, which is the principal's own unless it names another principal.
type RemovePushWorkerInput struct {
	PushWorkerInput
	Principal string `query:"principal" maxLength:"256" doc:"Whose registration it is, as list-push-workers has it; absent for the caller. The registrations of others need the right administer."`
	Login     string `query:"login" maxLength:"32" doc:"How that principal has logged in, as list-push-workers has it."`
}

// RegisterPushWorkerInput is the input of an operation with a body.
type RegisterPushWorkerInput struct {
	PushWorkerInput
	Body struct{ api.RegisterPushWorkerInput }
}

// Headers of requests that carry a pushed task.
const (
	// PushTimestamp is the header with the time of the request, in seconds of Unix time.
	PushTimestamp = "Flowfabric-Timestamp"
	// PushSignature is the header with the signature, as SignPush makes it.
	PushSignature = "Flowfabric-Signature"
)

// SignPush returns the signature of a request with a pushed task: "v1=" and, in hex, the HMAC-SHA256 of the seconds of
// the time, a full stop and the body.
func SignPush(secret string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(strconv.FormatInt(at.Unix(), 10) + "."))
	_, _ = mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}
