package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// workload is a way to load the system. Idle workloads start one run after the other and wait for each.
type workload struct {
	build func() (*flow.Definition[int, int], error)
	idle  bool
	// measure is for workloads that do more than start runs and wait for them.
	measure func(context.Context, settings, *runtime.Local, string, *flow.Definition[int, int]) (result, error)
}

var workloads = map[string]workload{
	"single":      {build: func() (*flow.Definition[int, int], error) { return chain(1) }},
	"chain":       {build: func() (*flow.Definition[int, int], error) { return chain(10) }},
	"single-idle": {build: func() (*flow.Definition[int, int], error) { return chain(1) }, idle: true},
	"chain-idle":  {build: func() (*flow.Definition[int, int], error) { return chain(10) }, idle: true},
	"fanout":      {build: func() (*flow.Definition[int, int], error) { return fanout(100) }},
	"fanout-idle": {build: func() (*flow.Definition[int, int], error) { return fanout(100) }, idle: true},
	"retry":       {build: retried, idle: true},

	"signal":         {build: gated, measure: measureSignals},
	"signal-resume":  {build: awaiting, measure: measureResumes},
	"admission":      {build: limited()},
	"admission-rate": {build: limited(wideRate())},
	"admission-cap":  {build: limited(wideCap())},
}

func workloadNames() []string { return slices.Sorted(maps.Keys(workloads)) }

const retryDelay = 50 * time.Millisecond

var (
	noop = activity.New("bench.noop", func(_ context.Context, n int) (int, error) { return n, nil })
	sum  = activity.New("bench.sum", func(_ context.Context, list []int) (int, error) { return len(list), nil })
	// fails the first attempt, so a run takes as long as the delay and what the engine adds to it.
	once = activity.New("bench.once", func(ctx context.Context, n int) (int, error) {
		if info, _ := activity.Info(ctx); info.Attempt == 1 {
			return 0, errors.New("first attempt")
		}
		return n, nil
	}, activity.Retry(activity.Fixed{Delay: retryDelay, Attempts: 2}))
)

func activities() []activity.Handler { return []activity.Handler{noop, sum, once, await} }

func chain(nodes int) (*flow.Definition[int, int], error) {
	f := flow.New[int, int]("bench-chain")
	ref := f.Input()
	for i := range nodes {
		ref = flow.Node(f, fmt.Sprintf("n%d", i), noop, ref)
	}
	flow.Return(f, ref)
	return f.Build()
}

func fanout(width int) (*flow.Definition[int, int], error) {
	f := flow.New[int, int]("bench-fanout")
	root := flow.Node(f, "root", noop, f.Input())
	wide := make([]flow.Ref[int], width)
	for i := range wide {
		wide[i] = flow.Node(f, fmt.Sprintf("wide-%d", i), noop, root)
	}
	flow.Return(f, flow.Node(f, "join", sum, flow.List(wide...)))
	return f.Build()
}

func retried() (*flow.Definition[int, int], error) {
	f := flow.New[int, int]("bench-retry")
	flow.Return(f, flow.Node(f, "once", once, f.Input()))
	return f.Build()
}

// result is what one workload gave.
type result struct {
	Work                string        `json:"work"`
	Engine              string        `json:"engine"`
	Slots               int           `json:"slots"`
	Flows               int           `json:"flows"`
	Nodes               int           `json:"nodes"`
	FlowsPerSecond      float64       `json:"flows_per_second"`
	NodesPerSecond      float64       `json:"nodes_per_second"`
	P50                 time.Duration `json:"p50_ns"`
	P99                 time.Duration `json:"p99_ns"`
	Max                 time.Duration `json:"max_ns"`
	ServerMicrosPerNode float64       `json:"server_us_per_node"`
	CallsPerNode        float64       `json:"calls_per_node"`
	CeilingPerSecond    float64       `json:"ceiling_fcalls_per_second"`
}

// idleFlows is how many runs an idle workload makes at the most.
const idleFlows = 300

// warmUp is how many runs go before the measured ones.
const warmUp = 20

// histogram bounds: 1 µs to 10 min, three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 600_000_000, 3) }

func measure(ctx context.Context, s settings, local *runtime.Local, name string, work workload) (result, error) {
	def, err := work.build()
	if err != nil {
		return result{}, err
	}
	if work.measure != nil {
		return work.measure(ctx, s, local, name, def)
	}
	client := local.Client()
	for i := range warmUp {
		if err := one(ctx, client, def, i, nil); err != nil {
			return result{}, err
		}
	}
	flows, clients := s.flows, s.clients
	if work.idle {
		flows, clients = min(flows, idleFlows), 1
	}
	before, err := serverStats(ctx, local.Engine())
	if err != nil {
		return result{}, err
	}
	times := newHistogram()
	begun := time.Now()
	if err := load(ctx, client, def, flows, clients, times); err != nil {
		return result{}, err
	}
	return summarize(ctx, s, local, name, flows, flows*len(def.Graph().Nodes), time.Since(begun), times, before)
}

// summarize makes the result of a workload that took some time, from the times of its runs and what the server had done
// before.
func summarize(ctx context.Context, s settings, local *runtime.Local, name string, flows, nodes int, took time.Duration, times *hdrhistogram.Histogram, before stats) (result, error) {
	after, err := serverStats(ctx, local.Engine())
	if err != nil {
		return result{}, err
	}
	ceiling, err := fcallCeiling(ctx, local.Engine(), s.concurrency)
	if err != nil {
		return result{}, err
	}
	return result{
		Work: name, Engine: s.url, Slots: s.concurrency, Flows: flows, Nodes: nodes,
		FlowsPerSecond: float64(flows) / took.Seconds(), NodesPerSecond: float64(nodes) / took.Seconds(),
		P50: quantile(times, 50), P99: quantile(times, 99), Max: time.Duration(times.Max()) * time.Microsecond,
		ServerMicrosPerNode: float64(after.micros-before.micros) / float64(nodes),
		CallsPerNode:        float64(after.calls-before.calls) / float64(nodes), CeilingPerSecond: ceiling,
	}, nil
}

func quantile(h *hdrhistogram.Histogram, q float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(q)) * time.Microsecond
}

// load makes the runs from several goroutines, each waiting for its run before it starts the next.
func load(ctx context.Context, client *runtime.Client, def *flow.Definition[int, int], flows, clients int, times *hdrhistogram.Histogram) error {
	var (
		mu     sync.Mutex
		faults []error
		group  sync.WaitGroup
		next   = make(chan int)
	)
	for range clients {
		group.Go(func() {
			mine := newHistogram()
			var err error
			for i := range next {
				if err == nil {
					err = one(ctx, client, def, i, mine)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			times.Merge(mine)
			faults = append(faults, err)
		})
	}
	for i := range flows {
		next <- i
	}
	close(next)
	group.Wait()
	return errors.Join(faults...)
}

func one(ctx context.Context, client *runtime.Client, def *flow.Definition[int, int], in int, times *hdrhistogram.Histogram) error {
	begun := time.Now()
	run, err := runtime.Start(ctx, client, def, in)
	if err != nil {
		return err
	}
	if _, err := run.Result(ctx); err != nil {
		return err
	}
	if times == nil {
		return nil
	}
	return times.RecordValue(time.Since(begun).Microseconds())
}
