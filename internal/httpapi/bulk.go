package httpapi

import (
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of bulk jobs.
var (
	ListBulkJobs = call[Empty, fabrictype.Page[fabrictype.BulkJob]](Operation{
		Name: "list-bulk-jobs", Group: "bulk", Method: "GET", Path: "/bulk", Right: api.View, Effect: Reads,
		Summary: "List the bulk jobs",
	})
	GetBulkJob = call[BulkJobInput, fabrictype.BulkJob](Operation{
		Name: "get-bulk-job", Group: "bulk", Method: "GET", Path: "/bulk/{job}", Right: api.View, Effect: Reads,
		Summary: "Describe a bulk job with its progress",
	})
	PreviewBulkJob = call[BulkInput, fabrictype.BulkPreview](Operation{
		Name: "preview-bulk-job", Group: "bulk", Method: "POST", Path: "/bulk/preview", Right: api.View, Effect: Reads,
		Summary: "Count the runs that a bulk job would handle; changes nothing",
	})
	StartBulkJob = call[BulkInput, fabrictype.BulkJob](Operation{
		Name: "start-bulk-job", Group: "bulk", Method: "POST", Path: "/bulk", Right: api.Administer, Effect: Destroys,
		Summary: "Act on all runs that a query selects",
	})
	StopBulkJob = call[BulkJobInput, Empty](Operation{
		Name: "stop-bulk-job", Group: "bulk", Method: "POST", Path: "/bulk/{job}/stop", Right: api.Operate, Effect: Changes,
		Summary: "Stop a bulk job",
	})
)

func bulkOperations() []Entry {
	return []Entry{ListBulkJobs, GetBulkJob, PreviewBulkJob, StartBulkJob, StopBulkJob}
}

// BulkJobInput names the bulk job that an operation is about.
type BulkJobInput struct {
	Job string `path:"job" doc:"Id of the job."`
}

// BulkInput is the input of an operation with a body.
type BulkInput struct {
	Body struct{ api.BulkInput }
}
