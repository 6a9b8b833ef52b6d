package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

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

// payload is an input and a result that has a size in JSON, with its quotes.
func payload(size int) string { return strings.Repeat("x", size-2) }

// payloadSize is the size of inputs and results, in bytes, unless a shape has another.
const payloadSize = 256

// definition is a flow that takes and returns a text.
type definition = flow.Definition[string, string]

// graph adds the nodes of a shape to a flow.
type graph func(f *flow.Builder[string, string]) flow.Ref[string]

// shape is a kind of run whose costs are measured.
type shape struct {
	name string
	// of is the name of the shape that costs are compared with, the same one without a feature; empty is none.
	of      string
	graph   graph
	options []flow.Option
	// start returns the options of the i-th start, if it has any.
	start func(i int) []runtime.StartOption
	// make returns a function that makes one run and waits for its result; nil starts the run with start.
	make func(ctx context.Context, client *runtime.Client, def *definition) (func(i int) error, error)
	// size is the size of inputs and results; 0 is payloadSize.
	size int
	// most bounds the runs of a round, for those that take much memory; 0 does not.
	most int
}

func (sh shape) build() (*definition, error) {
	f := flow.New[string, string]("bench-shape-"+shapeLetters.Replace(strings.ToLower(sh.name)), sh.options...)
	flow.Return(f, sh.graph(f))
	return f.Build()
}

// shapeLetters makes a part of a flow's name of the name of a shape.
var shapeLetters = strings.NewReplacer(" ", "-", ",", "")

// runs returns a function that makes one run of the shape and waits for its result.
func (sh shape) runs(ctx context.Context, client *runtime.Client, def *definition) (func(i int) error, error) {
	if sh.make != nil {
		return sh.make(ctx, client, def)
	}
	in := payload(cmp.Or(sh.size, payloadSize))
	return func(i int) error {
		var opts []runtime.StartOption
		if sh.start != nil {
			opts = sh.start(i)
		}
		return one(ctx, client, def, in, opts...)
	}, nil
}

// Names of shapes that others are compared with.
const (
	oneNode  = "single"
	tenNodes = "chain of 10"
	threeOf  = "1 to 3 to 1"
)

// shapes begin with the large ones, whose garbage would burden a base of comparisons after them.
var shapes = []shape{
	{name: "1 KB", graph: line(1), size: 1000},
	{name: "10 KB", graph: line(1), size: 10_000, most: 2000},
	{name: "100 KB", graph: line(1), size: 100_000, most: 200},
	{name: tenNodes, graph: line(10)},
	{name: "1 to 100 to 1", graph: around(100, joinAll)},
	{name: threeOf, graph: around(3, joinAll)},
	{name: oneNode, graph: line(1)},
	{name: "any-of", of: threeOf, graph: around(3, joinAny)},
	{name: "quorum", of: threeOf, graph: around(3, joinTwo)},
	{name: "chain with Finally", of: tenNodes, graph: cleaned},
	{name: "retry", of: oneNode, graph: retried(1)},
	{name: "chain with a retry", of: tenNodes, graph: retried(10)},
	{name: "signal", of: oneNode, graph: gate, make: signalled},
	{name: "WithSignal", of: oneNode, graph: gate, start: withSignal},
	{name: "fork", of: tenNodes, graph: line(10), make: forked},
	{name: "WithID", of: oneNode, graph: line(1), start: func(i int) []runtime.StartOption {
		return []runtime.StartOption{runtime.WithID(newID(i))}
	}},
	{name: "WithKey", of: oneNode, graph: line(1), start: func(i int) []runtime.StartOption {
		return []runtime.StartOption{runtime.WithKey(newID(i), runtime.KeyPolicy{})}
	}},
	{name: "StartAt", of: oneNode, graph: line(1), start: func(int) []runtime.StartOption {
		return []runtime.StartOption{runtime.StartAt(time.Now().Add(2 * time.Millisecond))}
	}},
	{name: "ScheduleToStart", of: oneNode, graph: line(1, activity.ScheduleToStart(time.Minute))},
	{name: "StartToClose", of: oneNode, graph: line(1, activity.StartToClose(time.Minute))},
	{name: "HeartbeatTimeout", of: oneNode, graph: line(1, activity.HeartbeatTimeout(time.Minute))},
	{name: "limit", of: oneNode, graph: line(1, activity.Limit("bench-shapes", activity.LimitConfig{AtOnce: 100_000}))},
	{name: "budget", of: oneNode, graph: line(1), options: budgeted},
	{name: "used budget", of: oneNode, options: budgeted, graph: func(f *flow.Builder[string, string]) flow.Ref[string] {
		return flow.Node(f, "only", spend, f.Input())
	}},
	{name: "Deadline", of: oneNode, graph: line(1), options: []flow.Option{flow.Deadline(time.Hour)}},
	{name: "Retention", of: oneNode, graph: line(1), options: []flow.Option{flow.Retention(time.Hour)}},
	{name: "priority, memo, tag", of: oneNode, graph: line(1), start: func(i int) []runtime.StartOption {
		return []runtime.StartOption{
			runtime.WithPriority(5), runtime.WithMemo("memo"), runtime.WithTag("customer.id", strconv.Itoa(i%100)),
		}
	}},
}

// budgeted is a large budget for each run, which blocks nodes when it is used up.
var budgeted = []flow.Option{flow.Budget("bench-shapes", flow.BudgetConfig{Hard: map[string]int64{"calls": 1 << 40}, PerFlow: true, OnExceeded: flow.BlockNodes})}

// newID is an id or a key that no other run has.
func newID(i int) string { return fmt.Sprintf("%d-%d", time.Now().UnixNano(), i) }

// line is a chain of nodes that hand a text on.
func line(count int, opts ...flow.NodeOption) graph {
	return func(f *flow.Builder[string, string]) flow.Ref[string] {
		ref := f.Input()
		for i := range count {
			ref = flow.Node(f, fmt.Sprintf("n%d", i), echo, ref, opts...)
		}
		return ref
	}
}

// retried is a chain whose first node fails once.
func retried(count int) graph {
	return func(f *flow.Builder[string, string]) flow.Ref[string] {
		ref := flow.Node(f, "n0", again, f.Input())
		for i := 1; i < count; i++ {
			ref = flow.Node(f, fmt.Sprintf("n%d", i), echo, ref)
		}
		return ref
	}
}

// cleaned is a chain of ten whose last node cleans up.
func cleaned(f *flow.Builder[string, string]) flow.Ref[string] {
	flow.Node(f, "last", echo, f.Input(), flow.Finally(time.Minute))
	return line(9)(f)
}

// around is a node, many after it, and one that joins these.
func around(width int, join func(f *flow.Builder[string, string], wide []flow.Ref[string]) flow.Ref[string]) graph {
	return func(f *flow.Builder[string, string]) flow.Ref[string] {
		root := flow.Node(f, "root", echo, f.Input())
		wide := make([]flow.Ref[string], width)
		for i := range wide {
			wide[i] = flow.Node(f, fmt.Sprintf("wide-%d", i), echo, root)
		}
		return join(f, wide)
	}
}

func joinAll(f *flow.Builder[string, string], wide []flow.Ref[string]) flow.Ref[string] {
	return flow.Node(f, "join", first, flow.List(wide...))
}

func joinAny(f *flow.Builder[string, string], wide []flow.Ref[string]) flow.Ref[string] {
	return flow.Node(f, "join", echo, flow.AnyOf(wide...))
}

func joinTwo(f *flow.Builder[string, string], wide []flow.Ref[string]) flow.Ref[string] {
	return flow.Node(f, "join", first, flow.Quorum(2, wide...))
}

// gate is a waitpoint and a node after it.
func gate(f *flow.Builder[string, string]) flow.Ref[string] {
	return flow.Node(f, "next", echo, flow.Waitpoint[string](f, "wait"))
}

// withSignal starts a run together with the signal that it waits for.
func withSignal(i int) []runtime.StartOption {
	return []runtime.StartOption{
		runtime.WithID(newID(i)),
		runtime.WithSignal(runtime.WaitName{Node: "wait"}, runtime.Signal{Name: "go", Payload: payload(payloadSize)}),
	}
}

// signalled starts runs that wait, reads their waitpoints, and signals them.
func signalled(ctx context.Context, client *runtime.Client, def *definition) (func(i int) error, error) {
	return func(int) error {
		run, err := runtime.Start(ctx, client, def, payload(payloadSize))
		if err != nil {
			return err
		}
		wait, err := openWait(ctx, run)
		if err != nil {
			return err
		}
		_, err = client.Signal(ctx, wait.Token, runtime.Signal{Name: "go", Payload: payload(payloadSize)})
		if err != nil {
			return err
		}
		_, err = run.Result(ctx)
		return err
	}, nil
}

// forked forks one run that is over, from its second node on.
func forked(ctx context.Context, client *runtime.Client, def *definition) (func(i int) error, error) {
	origin, err := runtime.Start(ctx, client, def, payload(payloadSize))
	if err == nil {
		_, err = origin.Result(ctx)
	}
	return func(int) error {
		fork, err := origin.Fork(ctx, runtime.ForkOptions{From: []string{"n1"}})
		if err != nil {
			return err
		}
		run, err := runtime.Attach(fork, def)
		if err != nil {
			return err
		}
		_, err = run.Result(ctx)
		return err
	}, err
}

// costRounds is the number of rounds in which the shapes take turns, so that other load of the machine affects them
// equally.
const costRounds = 3

// shapeCost has the sums of the rounds of a shape.
type shapeCost struct {
	runs, took float64
	used       stats
}

// cpu is the server's processor time of a run, in microseconds.
func (c *shapeCost) cpu() float64 { return float64(c.used.cpu.Microseconds()) / c.runs }

// runCosts measures the server's cost of runs of each shape: processor time, commands, and the memory that they occupy
// afterwards.
func runCosts(ctx context.Context, s settings) (figures []figure, err error) {
	l, err := local(ctx, s, first, again, spend)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	s.time, s.flows = s.time/costRounds, (s.flows+costRounds-1)/costRounds
	costs := make(map[string]*shapeCost)
	for range costRounds {
		for _, sh := range shapes {
			if costs[sh.name] == nil {
				costs[sh.name] = new(shapeCost)
			}
			if err := costs[sh.name].measure(ctx, s, l, sh); err != nil {
				return nil, fmt.Errorf("%s: %w", sh.name, err)
			}
		}
	}
	for _, sh := range shapes {
		c := costs[sh.name]
		figures = append(figures, figure{sh.name, "1/s", c.runs / c.took})
		if c.used.commands == 0 {
			continue // an engine in this process does not count
		}
		figures = append(figures, figure{sh.name + " server CPU", "µs/run", c.cpu()},
			figure{sh.name + " commands", "/run", float64(c.used.commands) / c.runs},
			figure{sh.name + " memory", "B/run", float64(c.used.memory) / c.runs})
		if base := costs[sh.of]; base != nil {
			figures = append(figures, figure{sh.name + " / plain", "", c.cpu() / base.cpu()},
				figure{sh.name + " adds", "µs/run", c.cpu() - base.cpu()})
		}
	}
	return figures, nil
}

// measure makes runs of a shape for one round.
func (c *shapeCost) measure(ctx context.Context, s settings, l *runtime.Local, sh shape) error {
	def, err := sh.build()
	if err != nil {
		return err
	}
	run, err := sh.runs(ctx, l.Client(), def)
	if err != nil {
		return err
	}
	for i := 0; c.runs == 0 && i < s.warmUp(); i++ {
		if err := run(i); err != nil {
			return err
		}
	}
	if s.flows == 0 {
		s.most = sh.most
	}
	before, err := serverStats(ctx, l.Engine())
	if err != nil {
		return err
	}
	begun := time.Now()
	times, err := load(ctx, s, s.clients, run)
	if err != nil {
		return err
	}
	c.took += time.Since(begun).Seconds()
	c.runs += float64(times.TotalCount())
	after, err := serverStats(ctx, l.Engine())
	c.used = c.used.plus(after.since(before))
	return err
}
