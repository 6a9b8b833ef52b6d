package api

import (
	"encoding/json"
	"time"
)

// Operations by which a task writes in addition to its outcome: its log, the budgets of its run, and its steps.
var (
	AppendLogs = call[AppendLogsInput, Empty](Operation{
		Name: "append-logs", Group: "tasks", Method: "POST", Path: "/tasks/{task}/logs", Right: Work, Effect: Changes,
		Summary: "Append lines to the log of a task",
	})
	ReportUsage = call[ReportUsageInput, ReportedUsage](Operation{
		Name: "report-usage", Group: "tasks", Method: "POST", Path: "/tasks/{task}/usage", Right: Work, Effect: Changes,
		Summary: "Count the usage of a task in the budgets of its run",
	})
	GetStep = call[StepInput, Step](Operation{
		Name: "get-step", Group: "tasks", Method: "GET", Path: "/tasks/{task}/steps/{step}", Right: Work, Effect: Reads,
		Summary: "Read the result of a step that an attempt of the node has recorded",
	})
	RecordStep = call[RecordStepInput, Step](Operation{
		Name: "record-step", Group: "tasks", Method: "PUT", Path: "/tasks/{task}/steps/{step}",
		Right: Work, Effect: Changes,
		Summary: "Record the result of a step, unless it has one; later attempts can read it",
	})
)

// AppendLogsInput has lines for the log of a task.
type AppendLogsInput struct {
	TaskInput
	Body struct {
		Lines []TaskLine `json:"lines" minItems:"1" maxItems:"100"`
	}
}

// TaskLine is a line that a task logs.
type TaskLine struct {
	Level   string          `json:"level,omitempty" enum:"debug,info,warn,error" doc:"Absent for info."`
	Message string          `json:"message" maxLength:"16384"`
	Attrs   json.RawMessage `json:"attrs,omitempty" doc:"A JSON object with the attributes of the line."`
	At      time.Time       `json:"at,omitzero" doc:"When it was logged; without it, the time of the request."`
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
	Exceeded *ExceededBudget `json:"exceeded,omitempty" doc:"The budget whose hard limit the usage would exceed: it has not counted it. Fail the task with the category budget for the effect that the budget defines."`
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

// Step is a step with its recorded result.
type Step struct {
	Recorded bool            `json:"recorded" doc:"The step had a result before this request."`
	Result   json.RawMessage `json:"result,omitempty" doc:"The result that was recorded first."`
}
