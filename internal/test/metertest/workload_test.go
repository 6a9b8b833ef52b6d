package metertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// payload is an input of 100 bytes in JSON, and result a result.
var (
	payload = strings.Repeat("x", 98)
	result  = []byte(`"` + payload + `"`)
)

// due is longer than all delays of the workloads.
const due = 10 * time.Millisecond

var (
	work = activity.New("meter.work", func(_ context.Context, text string) (string, error) { return text, nil })
	join = activity.New("meter.join", func(_ context.Context, list []string) (string, error) { return list[0], nil })
	// again is retried at once, and all at the same time.
	again = activity.New("meter.again", func(context.Context, string) (string, error) { return "", errors.New("unused") },
		activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2, Factor: 1}))
)

const kinds = "\nmeter.work\nmeter.join\nmeter.again\n"

// workload is a kind of run.
type workload struct {
	name string
	// per is the number of parts of a run that its costs are divided by: 1, or its nodes.
	per int
	// ends is how many nodes of a run succeed.
	ends int
	// width is how many nodes of a run are leased at a time at most; 0 is one.
	width int
	// isLine is set if the nodes of a run are one after the other and wait for nothing else.
	isLine bool
	build  func() (*flow.Definition[string, string], error)
	// id returns the id of a run, and options further options of its start.
	id      func(r *rig) string
	options func(r *rig) []runtime.StartOption
	// start starts one run and returns its id; nil is a start of many runs with one call.
	start func(r *rig) (string, error)
	// fails reports whether the attempt fails, drops whether the worker has no end to report.
	fails, drops func(x enginerpc.ClaimedExecution) bool
	// uses is set if each node reports to the budget.
	uses bool
	// of is the workload whose costs this one is compared with.
	of string
}

// line is a chain of nodes.
func line(nodes int, opts ...flow.NodeOption) func() (*flow.Definition[string, string], error) {
	return lineWith(nodes, nil, opts...)
}

// lineWith is a chain of nodes, with options of its flow and of each node.
func lineWith(
	nodes int, options []flow.Option, opts ...flow.NodeOption,
) func() (*flow.Definition[string, string], error) {
	return func() (*flow.Definition[string, string], error) {
		f := flow.New[string, string]("meter", options...)
		ref := f.Input()
		for i := range nodes {
			ref = flow.Node(f, fmt.Sprintf("n%d", i), work, flow.Binding[string](ref), opts...)
		}
		flow.Return(f, ref)
		return f.Build()
	}
}

// retried is a chain of nodes whose first one fails once.
func retried(nodes int) func() (*flow.Definition[string, string], error) {
	return func() (*flow.Definition[string, string], error) {
		f := flow.New[string, string]("meter")
		ref := flow.Node(f, "n0", again, f.Input())
		for i := 1; i < nodes; i++ {
			ref = flow.Node(f, fmt.Sprintf("n%d", i), work, ref)
		}
		flow.Return(f, ref)
		return f.Build()
	}
}

// cleaned is a chain of nodes, of which the last one is for cleaning up.
func cleaned(nodes int) func() (*flow.Definition[string, string], error) {
	return func() (*flow.Definition[string, string], error) {
		f := flow.New[string, string]("meter")
		ref := f.Input()
		for i := range nodes - 1 {
			ref = flow.Node(f, fmt.Sprintf("n%d", i), work, flow.Binding[string](ref))
		}
		flow.Node(f, "last", work, f.Input(), flow.Finally(time.Minute))
		flow.Return(f, ref)
		return f.Build()
	}
}

// joined is a node, three nodes after it, and one that joins these.
func joined(
	last func(f *flow.Builder[string, string], three []flow.Ref[string]) flow.Ref[string],
) func() (*flow.Definition[string, string], error) {
	return func() (*flow.Definition[string, string], error) {
		f := flow.New[string, string]("meter")
		root := flow.Node(f, "root", work, f.Input())
		three := make([]flow.Ref[string], 3)
		for i := range three {
			three[i] = flow.Node(f, fmt.Sprintf("n%d", i), work, root)
		}
		flow.Return(f, last(f, three))
		return f.Build()
	}
}

func joinAll(f *flow.Builder[string, string], three []flow.Ref[string]) flow.Ref[string] {
	return flow.Node(f, "join", join, flow.List(three...))
}

func joinAny(f *flow.Builder[string, string], three []flow.Ref[string]) flow.Ref[string] {
	return flow.Node(f, "join", work, flow.AnyOf(three...))
}

func joinTwo(f *flow.Builder[string, string], three []flow.Ref[string]) flow.Ref[string] {
	return flow.Node(f, "join", join, flow.Quorum(2, three...))
}

func joinTwoOfAll(f *flow.Builder[string, string], three []flow.Ref[string]) flow.Ref[string] {
	return flow.Node(f, "join", join, flow.Quorum(2, three...), flow.LetRun())
}

// slept is a chain of nodes, of which the second one is a timer.
func slept(nodes int) func() (*flow.Definition[string, string], error) {
	return func() (*flow.Definition[string, string], error) {
		f := flow.New[string, string]("meter")
		ref := flow.Node(f, "n0", work, f.Input())
		nap := flow.Sleep(f, "nap", due/2, flow.After(ref))
		ref = flow.Node(f, "n1", work, ref, flow.After(nap))
		for i := 2; i < nodes-1; i++ {
			ref = flow.Node(f, fmt.Sprintf("n%d", i), work, ref)
		}
		flow.Return(f, ref)
		return f.Build()
	}
}

// waiting is a waitpoint and a node after it.
func waiting() (*flow.Definition[string, string], error) {
	f := flow.New[string, string]("meter")
	flow.Return(f, flow.Node(f, "n0", work, flow.Waitpoint[string](f, "wait")))
	return f.Build()
}

// failsFirst reports whether an attempt is the first one of a node that has to fail once.
func failsFirst(x enginerpc.ClaimedExecution) bool {
	return x.Kind == "meter.again" && x.RetryCount == 0
}

// budgeted is a large budget of the flow, which blocks nodes when it is used up.
var budgeted = []flow.Option{flow.Budget(budgetName, flow.BudgetConfig{
	Hard: map[string]int64{"calls": budgetLimit}, PerFlow: true, OnExceeded: flow.BlockNodes,
})}

const (
	budgetName  = "meter"
	budgetLimit = 1 << 40
)

func anyID(r *rig) string { return r.name(func(string) bool { return true }) }

func delayed(r *rig) []runtime.StartOption {
	return []runtime.StartOption{runtime.StartAt(r.now().Add(due / 2))}
}

func keyed(r *rig) (string, error) {
	return idOf(runtime.Start(r.ctx, r.client, r.def, payload, runtime.WithKey(r.key(), runtime.KeyPolicy{})))
}

func signalled(r *rig) (string, error) {
	return idOf(runtime.Start(r.ctx, r.client, r.def, payload, runtime.WithID(r.id()),
		runtime.WithSignal(runtime.WaitName{Node: "wait"}, runtime.Signal{Name: "go", Payload: payload})))
}

// forked forks a run that is over, from its second node on.
func forked(r *rig) (string, error) {
	if r.origin == "" {
		r.origin = r.id()
		if _, err := runtime.Start(r.ctx, r.client, r.def, payload, runtime.WithID(r.origin)); err != nil {
			return "", err
		}
		r.open[r.origin] = r.work.ends + 1
		for r.open[r.origin] > 0 {
			r.exchange(1)
		}
	}
	fork, err := r.client.Run(r.def.Name(), r.origin).Fork(r.ctx, runtime.ForkOptions{From: []string{"n1"}},
		runtime.WithID(r.id()))
	if err != nil {
		return "", err
	}
	return fork.ID(), nil
}

// single, chain and fan are the names of the workloads that others are compared with.
const (
	single, chain, fan = "single", "chain of ten", "1 to 3 to 1"
	chainNodes         = 10
	// calls is the name of the bounds of calls.
	calls = "a call"
)

var workloads = []workload{
	{name: single, per: 1, ends: 1, isLine: true, build: line(1)},
	{name: chain, per: chainNodes, ends: chainNodes, isLine: true, build: line(chainNodes)},
	{name: fan, per: 5, ends: 5, width: 3, build: joined(joinAll)},
	{name: "WithID", of: single, per: 1, ends: 1, isLine: true, build: line(1), id: anyID},
	{name: "StartAt", of: single, per: 1, ends: 1, build: line(1), options: delayed},
	{name: "WithKey", of: single, per: 1, ends: 1, isLine: true, build: line(1), start: keyed},
	{name: "WithSignal", of: single, per: 1, ends: 1, isLine: true, build: waiting, start: signalled},
	{name: "fails once", of: single, per: 1, ends: 1, build: retried(1), fails: failsFirst},
	{name: "chain, fails once", of: chain, per: chainNodes, ends: chainNodes, build: retried(chainNodes), fails: failsFirst},
	{name: "chain, Finally", of: chain, per: chainNodes, ends: chainNodes, isLine: true, build: cleaned(chainNodes)},
	{name: "any-of", of: fan, per: 5, ends: 3, width: 3, build: joined(joinAny), drops: func(x enginerpc.ClaimedExecution) bool {
		return x.Node == "n1" || x.Node == "n2"
	}},
	{name: "quorum", of: fan, per: 5, ends: 4, width: 3, build: joined(joinTwo), drops: func(x enginerpc.ClaimedExecution) bool {
		return x.Node == "n2"
	}},
	{name: "quorum, let run", of: fan, per: 5, ends: 5, width: 3, build: joined(joinTwoOfAll)},
	{name: "chain, sleeps", of: chain, per: chainNodes, ends: chainNodes - 1, build: slept(chainNodes)},
	{name: "chain, forked", of: chain, per: 9, ends: 9, isLine: true, build: line(chainNodes), start: forked},
	{name: "ScheduleToStart", of: single, per: 1, ends: 1, isLine: true, build: line(1, activity.ScheduleToStart(time.Minute))},
	{name: "StartToClose", of: single, per: 1, ends: 1, isLine: true, build: line(1, activity.StartToClose(time.Minute))},
	{name: "HeartbeatTimeout", of: single, per: 1, ends: 1, isLine: true, build: line(1, activity.HeartbeatTimeout(time.Minute))},
	{name: "Deadline", of: single, per: 1, ends: 1, isLine: true, build: lineWith(1, []flow.Option{flow.Deadline(time.Hour)})},
	{name: "budget", of: single, per: 1, ends: 1, isLine: true, build: lineWith(1, budgeted)},
	{name: "used budget", of: single, per: 1, ends: 1, isLine: true, build: lineWith(1, budgeted), uses: true},
	{name: "chain, used budget", of: chain, per: chainNodes, ends: chainNodes, isLine: true, build: lineWith(chainNodes, budgeted), uses: true},
	{name: "Retention", of: single, per: 1, ends: 1, isLine: true, build: lineWith(1, []flow.Option{flow.Retention(time.Hour)})},
	{name: "priority, memo, tag", of: single, per: 1, ends: 1, isLine: true, build: line(1), options: func(*rig) []runtime.StartOption {
		return []runtime.StartOption{runtime.WithPriority(5), runtime.WithMemo("memo"), runtime.WithTag("customer.id", "7")}
	}},
}
