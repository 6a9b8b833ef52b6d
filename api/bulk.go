package api

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of bulk jobs.
var (
	ListBulkJobs = call[Empty, fabrictype.Page[fabrictype.BulkJob]](Operation{
		Name: "list-bulk-jobs", Group: "bulk", Method: "GET", Path: "/bulk", Right: View, Effect: Reads,
		Summary: "List the bulk jobs",
	})
	GetBulkJob = call[BulkJobInput, fabrictype.BulkJob](Operation{
		Name: "get-bulk-job", Group: "bulk", Method: "GET", Path: "/bulk/{job}", Right: View, Effect: Reads,
		Summary: "Describe a bulk job with its progress",
	})
	PreviewBulkJob = call[BulkInput, fabrictype.BulkPreview](Operation{
		Name: "preview-bulk-job", Group: "bulk", Method: "POST", Path: "/bulk/preview", Right: View, Effect: Reads,
		Summary: "Count the runs that a bulk job would handle; changes nothing",
	})
	StartBulkJob = call[BulkInput, fabrictype.BulkJob](Operation{
		Name: "start-bulk-job", Group: "bulk", Method: "POST", Path: "/bulk", Right: Administer, Effect: Destroys,
		Summary: "Act on all runs that a query selects",
	})
	StopBulkJob = call[BulkJobInput, Empty](Operation{
		Name: "stop-bulk-job", Group: "bulk", Method: "POST", Path: "/bulk/{job}/stop", Right: Operate, Effect: Changes,
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

// BulkInput is an action for many runs.
type BulkInput struct {
	Body struct {
		Query    string                `json:"query,omitempty" doc:"Selects the runs, with the parameters of list-runs: flow=order&state=failed."`
		EveryRun bool                  `json:"every_run,omitempty" doc:"Required if the query selects all runs."`
		Action   fabrictype.BulkAction `json:"action"`
		ID       string                `json:"id,omitempty" doc:"Id of the job; the same job again with the same id has no further effect."`
		Rate     float64               `json:"rate,omitempty" minimum:"0" doc:"Most runs a second; 0 sets no bound."`
		Most     int                   `json:"most,omitempty" minimum:"0" doc:"Most runs; 0 is all."`
	}
}
