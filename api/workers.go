package api

import (
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of workers.
var (
	ListWorkers = call[Empty, Page[Worker]](Operation{
		Name: "list-workers", Group: "workers", Method: "GET", Path: "/workers", Right: View, Effect: Reads,
		Summary: "List the live workers",
	})
	DrainWorker = call[WorkerInput, Empty](Operation{
		Name: "drain-worker", Group: "workers", Method: "POST", Path: "/workers/{worker}/drain",
		Right: Operate, Effect: Destroys,
		Summary: "Let a worker take no more work",
	})
)

func workerOperations() []Entry { return []Entry{ListWorkers, DrainWorker} }

// WorkerInput names the worker that an operation is about.
type WorkerInput struct {
	Worker string `path:"worker" doc:"Instance of the worker."`
}

// Worker is a live worker by its last report.
type Worker struct {
	Instance         string                 `json:"instance"`
	Name             string                 `json:"name"`
	State            fabrictype.WorkerState `json:"state"`
	Host             string                 `json:"host,omitempty"`
	PID              int                    `json:"pid,omitempty"`
	Build            fabrictype.Build       `json:"build"`
	Lanes            []string               `json:"lanes"`
	Activities       []string               `json:"activities"`
	Capabilities     []string               `json:"capabilities,omitempty"`
	Slots            int                    `json:"slots"`
	Used             int                    `json:"used"`
	Since            time.Time              `json:"since"`
	ReportedAt       time.Time              `json:"reported_at"`
	DrainRequestedAt time.Time              `json:"drain_requested_at,omitzero"`
	DrainRequestedBy string                 `json:"drain_requested_by,omitempty"`

	Started map[string]int64 `json:"started,omitempty" doc:"Attempts that it has begun, by lane."`
}
