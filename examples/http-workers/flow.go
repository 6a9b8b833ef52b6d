package main

import (
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// Order is the input of the flow.
type Order struct {
	Source string `json:"source"`
}

// Report is the content to publish.
type Report struct {
	Lines []string `json:"lines"`
}

// Approval is the answer of a person.
type Approval struct {
	By string `json:"by"`
}

// Publication is a report, and the approval of a person.
type Publication struct {
	Report   Report   `json:"report"`
	Approval Approval `json:"approval"`
}

// The activities have no functions here: the workers in other languages have them.
var (
	fetch = activity.Declare[Order, Report]("fetch",
		activity.Retry(activity.RetryPolicy{Attempts: 3, First: 100 * time.Millisecond, Factor: 1}))
	approve = activity.Declare[Report, Approval]("approve")
	publish = activity.Declare[Publication, string]("publish")
)

// report fetches a report, lets a person approve it, and publishes it.
func report() (*flow.Definition[Order, string], error) {
	f := flow.New[Order, string]("report", flow.Describe("Publishes a report that a person has approved."))
	fetched := flow.Node(f, "fetch", fetch, f.Input())
	approved := flow.Node(f, "approve", approve, fetched)
	published := flow.Node(f, "publish", publish, flow.Struct[Publication](
		flow.Field("report", fetched), flow.Field("approval", approved)))
	flow.Return(f, published)
	return f.Build()
}
