package api

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of workers.
var (
	ListWorkers = call[Empty, fabrictype.Page[fabrictype.Worker]](Operation{
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
