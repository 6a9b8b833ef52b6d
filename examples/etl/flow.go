package main

import (
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

const (
	// filesAtOnce is how many files of a run are processed at a time.
	filesAtOnce = 12
	// loadsAtOnce is how many files are loaded at a time, by all workers and runs together.
	loadsAtOnce = 6
	// loadsPerCall is how many files a transaction of the warehouse has at most.
	loadsPerCall = 4
)

// The activities, except load, which needs a loader. Those that read files may meet a disk that recovers, so they are
// tried again; the others only compute, and would fail again in the same way.
var (
	list      = activity.New("etl.list", List, diskRetry)
	extract   = activity.New("etl.extract", Extract, diskRetry)
	validate  = activity.New("etl.validate", Validate, once)
	transform = activity.New("etl.transform", Transform, once)
	summarize = activity.New("etl.summarize", Summarize, once)

	once      = activity.Retry(activity.RetryPolicy{Attempts: 1})
	diskRetry = activity.Retry(activity.RetryPolicy{First: 100 * time.Millisecond, Max: time.Second, Attempts: 3})
)

// newLoad declares the activity that loads the tables of several files with one call of the loader.
func newLoad(l *loader) *activity.Activity[Table, FileReport] {
	return activity.NewBatch("etl.load", l.Load,
		activity.BatchSize(loadsPerCall), activity.BatchWait(20*time.Millisecond),
		activity.Limit("etl.warehouse", activity.LimitConfig{AtOnce: loadsAtOnce}), diskRetry)
}

// PerFile declares the flow of one file.
func PerFile(load *activity.Activity[Table, FileReport]) (*flow.Definition[File, FileReport], error) {
	f := flow.New[File, FileReport]("etl-file", flow.Describe("Loads the measurements of one file."))
	raw := flow.Node(f, "extract", extract, f.Input())
	valid := flow.Node(f, "validate", validate, raw)
	table := flow.Node(f, "transform", transform, valid)
	flow.Return(f, flow.Node(f, "load", load, table))
	return f.Build()
}

// ETL declares the flow of a folder: a run of PerFile for each file, and a summary. A file that fails does not stop the
// others.
func ETL(load *activity.Activity[Table, FileReport]) (*flow.Definition[Source, Summary], error) {
	perFile, err := PerFile(load)
	if err != nil {
		return nil, err
	}
	f := flow.New[Source, Summary]("etl", flow.Describe("Loads the measurements of a folder of files."))
	files := flow.Node(f, "list", list, f.Input())
	outcomes := flow.MapFlowOutcomes(f, "files", perFile, files, flow.ItemsAtOnce(filesAtOnce))
	flow.Return(f, flow.Node(f, "summarize", summarize, flow.Struct[SummaryInput](
		flow.Field("files", files),
		flow.Field("outcomes", outcomes))))
	return f.Build()
}
