package flow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

type Source struct {
	Dir string `json:"dir"`
}

type Listing struct {
	Files []string `json:"files"`
}

type CountInput struct {
	Files Listing `json:"files"`
	Shard int     `json:"shard"`
}

type Stats struct {
	Lines int `json:"lines"`
}

type Summary struct {
	Lines int `json:"lines"`
}

func Scan(_ context.Context, in Source) (Listing, error) {
	return Listing{Files: []string{in.Dir + "/a", in.Dir + "/b"}}, nil
}

func Count(_ context.Context, in CountInput) (Stats, error) {
	return Stats{Lines: 10 * len(in.Files.Files)}, nil
}

func Report(_ context.Context, in []Stats) (Summary, error) {
	var sum Summary
	for _, s := range in {
		sum.Lines += s.Lines
	}
	return sum, nil
}

func Notify(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil }

var (
	scan   = activity.New("census.scan", Scan, activity.StartToClose(time.Minute))
	count  = activity.New("census.count", Count, activity.Retry(activity.RetryPolicy{First: time.Second, Attempts: 3, Factor: 1}))
	report = activity.New("census.report", Report)
	notify = activity.New("census.notify", Notify)
)

func Census(shards int) (*flow.Definition[Source, Summary], error) {
	f := flow.New[Source, Summary]("census")
	files := flow.Node(f, "scan", scan, f.Input())
	counts := make([]flow.Ref[Stats], shards)
	for i := range shards {
		counts[i] = flow.Node(f, fmt.Sprintf("count-%d", i), count,
			flow.Struct[CountInput](flow.Field("files", files), flow.Field("shard", flow.Const(i))))
	}
	told := flow.Node(f, "notify", notify, flow.Const(struct{}{}), flow.AfterEach(counts))
	sum := flow.Node(f, "publish", report, flow.List(counts...), flow.After(told), activity.Lane("slow"))
	flow.Return(f, sum)
	return f.Build()
}

func Example() {
	census, err := Census(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(census.Outline())
	// Output:
	// census: flow_test.Source -> flow_test.Summary
	//   0  scan     census.scan    <- input
	//   1  count-0  census.count   <- scan
	//   1  count-1  census.count   <- scan
	//   2  notify   census.notify  <- (count-0), (count-1)
	//   3  publish  census.report  <- count-0, count-1, (notify)
	//   result: publish
}

// Every fault is reported, not just the first.
func ExampleBuilder_Build() {
	f := flow.New[Source, Summary]("census")
	files := flow.Node(f, "scan", scan, f.Input(), activity.Priority(-1))
	flow.Node(f, "scan", count, flow.Struct[CountInput](
		flow.Field("files", files), flow.Field("shard", flow.Const("one"))))
	_, err := f.Build()
	for _, fault := range flow.Faults(err) {
		fmt.Println(fault)
	}
	fmt.Println(errors.Is(err, flow.ErrInvalid))
	// Output:
	// flow "census": node "scan": input.shard: type mismatch: field "shard" of flow_test.CountInput is int, the binding is string (example_test.go:94)
	// flow "census": node "scan": name: name is used twice: by nodes 1 and 2 (example_test.go:93, example_test.go:94)
	// flow "census": node "scan": bad option: priority -1 is outside 0 to 9000 (example_test.go:94)
	// flow "census": return: flow returns nothing, but has a result type: flow_test.Summary; call flow.Return (example_test.go:92)
	// true
}

// The input that a node will get can be computed without running anything.
func ExampleDefinition_NodeInput() {
	census, err := Census(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	input, err := census.NodeInput("publish", nil, map[string][]byte{
		"count-0": []byte(`{"lines":1}`),
		"count-1": []byte(`{"lines":2}`),
	})
	fmt.Println(string(input), err)
	// Output:
	// [{"lines":1},{"lines":2}] <nil>
}

func ExampleDefinition_Mermaid() {
	census, err := Census(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(census.Mermaid())
	// Output:
	// ---
	// title: "census"
	// ---
	// flowchart TD
	//   input(["input: flow_test.Source"])
	//   n1["scan<br/>census.scan"]
	//   n2["count-0<br/>census.count"]
	//   n3["notify<br/>census.notify"]
	//   n4["publish<br/>census.report"]
	//   result(["result: flow_test.Summary"])
	//   input --> n1
	//   n1 --> n2
	//   n2 -.-> n3
	//   n2 --> n4
	//   n3 -.-> n4
	//   n4 --> result
}

// A flow as a node of another.
func ExampleSub() {
	census, err := Census(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	f := flow.New[Source, Summary]("nightly")
	flow.Return(f, flow.Sub(f, "census", census, f.Input()))
	nightly, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(nightly.Outline())
	// Output:
	// nightly: flow_test.Source -> flow_test.Summary
	//   0  census  flow census  <- input
	//   result: census
}
