package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// payload is an input and a result of 256 bytes in JSON, with its quotes.
var payload = strings.Repeat("x", 256-2)

var (
	// first is the join of a fan-out.
	first = activity.New("bench.first", func(_ context.Context, list []string) (string, error) { return list[0], nil })
	// again fails with its first attempt.
	again = activity.New("bench.again", func(ctx context.Context, text string) (string, error) {
		if info, _ := activity.Info(ctx); info.Attempt == 1 {
			return "", errors.New("first attempt")
		}
		return text, nil
	}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2, Factor: 1}))
	// spend reports one unit to the budget of its run.
	spend = activity.New("bench.spend", func(ctx context.Context, text string) (string, error) {
		return text, activity.ReportUsage(ctx, "calls", 1)
	})
)

// shape is a kind of run whose cost is measured.
type shape struct {
	name string
	// runs is how many are measured unless -flows sets another number.
	runs  int
	build func() (*flow.Definition[string, string], error)
	// run makes one run and waits for its result.
	run func(ctx context.Context, client *runtime.Client, def *flow.Definition[string, string]) error
}

func oneText(ctx context.Context, client *runtime.Client, def *flow.Definition[string, string]) error {
	return one(ctx, client, def, payload)
}

var shapes = []shape{
	{"single", 2000, func() (*flow.Definition[string, string], error) { return textChain("single", 1) }, oneText},
	{"chain of 10", 1000, func() (*flow.Definition[string, string], error) { return textChain("chain", 10) }, oneText},
	{"1 to 100 to 1", 100, textFanout, oneText},
	{"retry", 1000, func() (*flow.Definition[string, string], error) { return textNode("retry", again) }, oneText},
	{"signal", 1000, textGate, signalText},
	{"limit", 2000, func() (*flow.Definition[string, string], error) {
		return textNode("limit", echo, activity.Limit("bench-shapes", activity.LimitConfig{AtOnce: 100_000}))
	}, oneText},
	{"budget", 2000, func() (*flow.Definition[string, string], error) {
		f := flow.New[string, string]("bench-shape-budget", flow.Budget("bench-shapes", flow.BudgetConfig{Hard: map[string]int64{"calls": 1 << 40}, PerFlow: true, OnExceeded: flow.BlockNodes}))
		flow.Return(f, flow.Node(f, "only", spend, f.Input()))
		return f.Build()
	}, oneText},
}

// textChain is a chain of nodes that hand a text on.
func textChain(name string, nodes int) (*flow.Definition[string, string], error) {
	f := flow.New[string, string]("bench-shape-" + name)
	ref := f.Input()
	for i := range nodes {
		ref = flow.Node(f, fmt.Sprintf("n%d", i), echo, ref)
	}
	flow.Return(f, ref)
	return f.Build()
}

func textNode(
	name string, a *activity.Activity[string, string], opts ...flow.NodeOption,
) (*flow.Definition[string, string], error) {
	f := flow.New[string, string]("bench-shape-" + name)
	flow.Return(f, flow.Node(f, "only", a, f.Input(), opts...))
	return f.Build()
}

func textFanout() (*flow.Definition[string, string], error) {
	f := flow.New[string, string]("bench-shape-fanout")
	root := flow.Node(f, "root", echo, f.Input())
	wide := make([]flow.Ref[string], 100)
	for i := range wide {
		wide[i] = flow.Node(f, fmt.Sprintf("wide-%d", i), echo, root)
	}
	flow.Return(f, flow.Node(f, "join", first, flow.List(wide...)))
	return f.Build()
}

// textGate is a waitpoint and a node after it.
func textGate() (*flow.Definition[string, string], error) {
	f := flow.New[string, string]("bench-shape-signal")
	flow.Return(f, flow.Node(f, "next", echo, flow.Waitpoint[string](f, "wait")))
	return f.Build()
}

// signalText starts a run that waits, reads its waitpoint, and signals it.
func signalText(ctx context.Context, client *runtime.Client, def *flow.Definition[string, string]) error {
	run, err := runtime.Start(ctx, client, def, payload)
	if err != nil {
		return err
	}
	wait, err := openWait(ctx, run)
	if err != nil {
		return err
	}
	if _, err := client.Signal(ctx, wait.Token, runtime.Signal{Name: "go", Payload: payload}); err != nil {
		return err
	}
	_, err = run.Result(ctx)
	return err
}

// runCosts measures the server's cost of runs of each shape: processor time, commands, and the memory that they occupy
// afterwards. Inputs and results have 256 bytes.
func runCosts(ctx context.Context, s settings) (figures []figure, err error) {
	l, err := local(ctx, s, first, again, spend)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for _, sh := range shapes {
		more, err := runCost(ctx, s, l, sh)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sh.name, err)
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

func runCost(ctx context.Context, s settings, l *runtime.Local, sh shape) ([]figure, error) {
	def, err := sh.build()
	if err != nil {
		return nil, err
	}
	run := func(int) error { return sh.run(ctx, l.Client(), def) }
	for i := range s.warmUp() {
		if err := run(i); err != nil {
			return nil, err
		}
	}
	if s.flows == 0 {
		s.flows = sh.runs
	}
	before, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	times, err := load(ctx, s, s.clients, run)
	if err != nil {
		return nil, err
	}
	took, runs := time.Since(begun).Seconds(), float64(times.TotalCount())
	after, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, err
	}
	figures := []figure{{sh.name, "1/s", runs / took}}
	if cost := after.since(before); cost.commands > 0 {
		figures = append(figures, figure{sh.name + " server CPU", "µs/run", float64(cost.cpu.Microseconds()) / runs},
			figure{sh.name + " commands", "/run", float64(cost.commands) / runs},
			figure{sh.name + " memory", "B/run", float64(cost.memory) / runs})
	}
	return figures, nil
}
