package api

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"time"
)

// Operations of executions: the records of the engine, of whatever program.
var (
	ListExecutions = call[ListExecutionsInput, fabrictype.Page[Execution]](Operation{
		Name: "list-executions", Group: "executions", Method: "GET", Path: "/executions", Right: View, Effect: Reads,
		Summary: "List executions, in no particular order",
	})
	GetExecution = call[ExecutionInput, Execution](Operation{
		Name: "get-execution", Group: "executions", Method: "GET", Path: "/executions/{execution}",
		Right: View, Effect: Reads,
		Summary: "Show an execution",
	})
)

func executionOperations() []Entry { return []Entry{ListExecutions, GetExecution} }

// ListExecutionsInput selects executions.
type ListExecutionsInput struct {
	Paging
	Lane   string   `query:"lane" doc:"Only executions of this lane."`
	States []string `query:"state" doc:"Only executions in these public states."`
	FlowID string   `query:"flow_id" doc:"Only members of the flow with this id."`
	Index  string   `query:"index" doc:"Only executions in this index of the lane, such as eligible."`
	Tags   []string `query:"tag,explode" doc:"Only executions with this tag, key=value; may be given several times."`
}

// ExecutionInput names the execution that an operation is about.
type ExecutionInput struct {
	Execution string `path:"execution" doc:"Id of the execution."`
}

// Execution is the record of an execution.
type Execution struct {
	ID             string            `json:"id"`
	FlowID         string            `json:"flow_id,omitempty"`
	Flow           string            `json:"flow,omitempty" doc:"The name of the flow; listings leave it out."`
	Run            string            `json:"run,omitempty" doc:"The id of the run; listings leave it out."`
	Node           string            `json:"node,omitempty"`
	Kind           string            `json:"kind"`
	Lane           string            `json:"lane"`
	Namespace      string            `json:"namespace,omitempty"`
	Priority       int               `json:"priority"`
	State          string            `json:"state"`
	Phase          string            `json:"phase,omitempty"`
	Ownership      string            `json:"ownership,omitempty"`
	Eligibility    string            `json:"eligibility,omitempty"`
	Detail         string            `json:"detail,omitempty" doc:"Reason why the execution waits."`
	Attempts       int               `json:"attempts"`
	Retries        int               `json:"retries,omitempty"`
	Reclaims       int               `json:"reclaims,omitempty"`
	Replays        int               `json:"replays,omitempty"`
	Worker         string            `json:"worker,omitempty"`
	LeaseExpiresAt time.Time         `json:"lease_expires_at,omitzero"`
	Failure        string            `json:"failure,omitempty"`
	CancelReason   string            `json:"cancel_reason,omitempty"`
	CreatedAt      time.Time         `json:"created_at,omitzero"`
	StartedAt      time.Time         `json:"started_at,omitzero"`
	CompletedAt    time.Time         `json:"completed_at,omitzero"`
	Tags           map[string]string `json:"tags,omitempty"`
}
