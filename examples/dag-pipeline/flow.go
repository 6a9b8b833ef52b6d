package main

import (
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// The activities. Those that read files may meet a disk that recovers, so they are tried again; the others only
// compute, and would fail again in the same way.
var (
	scan    = activity.New("census.scan", Scan, transientRetry, activity.StartToClose(10*time.Minute))
	cut     = activity.New("census.cut", CutTree, once)
	measure = activity.New("census.measure", Measure, transientRetry, activity.StartToClose(30*time.Minute))
	join    = activity.New("census.join", Join, once)
	rank    = activity.New("census.rank", Rank, once)
	report  = activity.New("census.report", Report, once)
	chart   = activity.New("census.chart", Chart, once)
	publish = activity.New("census.publish", Publish, once)

	once           = activity.Retry(activity.RetryPolicy{Attempts: 1})
	transientRetry = activity.Retry(activity.RetryPolicy{
		First: 200 * time.Millisecond, Max: 5 * time.Second, Attempts: 4,
	})
)

// silence is how long a node that reads the tree may be without a sign of life before it is tried again. They give one
// for every directory and file.
const silence = 15 * time.Second

// Census declares the flow: one scan, as many measuring nodes as there are shards, and one report.
func Census(shards int) (*flow.Definition[Source, Edition], error) {
	f := flow.New[Source, Edition]("census",
		flow.Describe("Measures the Go code of a source tree, package by package."))

	listing := flow.Node(f, "scan", scan, f.Input(), activity.HeartbeatTimeout(silence))
	cuts := flow.Node(f, "cut", cut, flow.Struct[CutInput](
		flow.Field("listing", listing),
		flow.Field("shards", flow.Const(shards))))

	summaries := make([]flow.Ref[Summary], shards)
	for i := range shards {
		summaries[i] = flow.Node(f, fmt.Sprintf("measure-%02d", i), measure, flow.Struct[MeasureInput](
			flow.Field("source", f.Input()),
			flow.Field("cuts", cuts),
			flow.Field("index", flow.Const(i))), activity.HeartbeatTimeout(silence))
	}

	total := flow.Node(f, "join", join, flow.List(summaries...))
	ranking := flow.Node(f, "rank", rank, flow.Struct[RankInput](
		flow.Field("source", f.Input()),
		flow.Field("listing", listing),
		flow.Field("total", total)))

	text := flow.Node(f, "report", report, ranking)
	picture := flow.Node(f, "chart", chart, ranking)
	flow.Return(f, flow.Node(f, "publish", publish, flow.Struct[Edition](
		flow.Field("ranking", ranking),
		flow.Field("report", text),
		flow.Field("chart", picture))))
	return f.Build()
}
