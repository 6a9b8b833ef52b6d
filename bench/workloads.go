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
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// workload measures something on an engine with a separate keyspace.
type workload func(ctx context.Context, s settings) ([]figure, error)

var workloads = map[string]workload{
	"single":        loaded(single),
	"chain":         loaded(func() (*flow.Definition[int, int], error) { return chain(10) }),
	"fanout":        loaded(func() (*flow.Definition[int, int], error) { return fanout(100) }),
	"single-idle":   idle(single),
	"chain-idle":    idle(func() (*flow.Definition[int, int], error) { return chain(10) }),
	"fanout-idle":   idle(func() (*flow.Definition[int, int], error) { return fanout(100) }),
	"fanout-1000":   idle(func() (*flow.Definition[int, int], error) { return fanout(1000) }),
	"retry":         retryLateness,
	"node-cost":     nodeCost,
	"backlog":       backlog,
	"idle":          idleWorker,
	"idle-50":       idleProcesses,
	"idle-clients":  idleClients,
	"memory":        memory(10),
	"memory-single": memory(1),
	"run-cost":      runCosts,
	"large":         large,
	"raw-idle":      rawIdle,
	"signal":        signalLatency,
	"signal-resume": resumeRate,
	"contention":    contention,
	"wake-50":       wakeStorm,
	"timer":         timerLateness,
	"sleep":         sleepLateness,
	"start-many":    startMany,
	"one-slot":      with(loaded(single), func(s *settings) { s.concurrency = 1 }),
	"kept":          kept,
	"search":        search,
	"due-10000":     dueStorm(10_000),
	"due-100000":    dueStorm(100_000),
}

// with is a workload with other settings.
func with(work workload, change func(*settings)) workload {
	return func(ctx context.Context, s settings) ([]figure, error) {
		change(&s)
		return work(ctx, s)
	}
}

func workloadNames() []string { return slices.Sorted(maps.Keys(workloads)) }

var (
	noop = activity.New("bench.noop", func(_ context.Context, n int) (int, error) { return n, nil })
	sum  = activity.New("bench.sum", func(_ context.Context, list []int) (int, error) { return len(list), nil })
	echo = activity.New("bench.echo", func(_ context.Context, text string) (string, error) { return text, nil })
)

func activities() []activity.Handler { return []activity.Handler{noop, sum, echo} }

func single() (*flow.Definition[int, int], error) { return chain(1) }

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

// local opens an engine with a keeper and a worker.
func local(ctx context.Context, s settings, handlers ...activity.Handler) (*runtime.Local, error) {
	return runtime.OpenLocal(ctx, runtime.LocalConfig{
		URL: s.url, Activities: append(activities(), handlers...),
		Worker: runtime.WorkerConfig{Concurrency: s.concurrency}, Open: s.open(),
	})
}

// warmUp is how many runs go before the measured ones.
func (s settings) warmUp() int { return s.atMost(20) }

// atMost is a number of runs, or -flows if that is less.
func (s settings) atMost(runs int) int {
	if s.flows > 0 {
		return min(s.flows, runs)
	}
	return runs
}

func loaded(build func() (*flow.Definition[int, int], error)) workload {
	return func(ctx context.Context, s settings) ([]figure, error) { return measure(ctx, s, build, s.clients) }
}

// idle starts one run after the other and waits for each.
func idle(build func() (*flow.Definition[int, int], error)) workload {
	return func(ctx context.Context, s settings) ([]figure, error) { return measure(ctx, s, build, 1) }
}

func measure(
	ctx context.Context, s settings, build func() (*flow.Definition[int, int], error), clients int,
) (figures []figure, err error) {
	def, err := build()
	if err != nil {
		return nil, err
	}
	l, err := local(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for i := range s.warmUp() {
		if err := one(ctx, l.Client(), def, i); err != nil {
			return nil, err
		}
	}
	before, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, err
	}
	begun, ownBefore := time.Now(), ownUse()
	times, err := load(ctx, s, clients, func(i int) error { return one(ctx, l.Client(), def, i) })
	if err != nil {
		return nil, err
	}
	took := time.Since(begun).Seconds()
	ownAfter := ownUse()
	after, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, err
	}
	flows := float64(times.TotalCount())
	nodes := flows * float64(len(flowgraph.Of(def.Internal()).Nodes))
	figures = append([]figure{{"flows", "1/s", flows / took}, {"nodes", "1/s", nodes / took}}, quantiles(times)...)
	figures = append(figures, ownAfter.perNode(ownBefore, nodes)...)
	if cost := after.since(before); cost.calls > 0 {
		figures = append(figures, figure{"server CPU per node", "µs", float64(cost.cpu.Microseconds()) / nodes},
			figure{"in functions per node", "µs", float64(cost.micros) / nodes},
			figure{"calls per node", "", float64(cost.calls) / nodes},
			figure{"commands per node", "", float64(cost.commands) / nodes})
	}
	return figures, nil
}

// load makes runs from several goroutines, each waiting for its run before it starts the next: -flows of them, or as
// many as there are in -time. They begin at the given pace, or as fast as they can.
func load(
	ctx context.Context, s settings, clients int, run func(i int) error, pace ...time.Duration,
) (*hdrhistogram.Histogram, error) {
	var (
		mu     sync.Mutex
		faults []error
		group  sync.WaitGroup
		times  = newHistogram()
	)
	next := s.numbers(pace)
	for range clients {
		group.Go(func() {
			mine := newHistogram()
			var err error
			for i, more := next(); more && err == nil; i, more = next() {
				begun := time.Now()
				if err = run(i); err == nil {
					err = mine.RecordValue(time.Since(begun).Microseconds())
				}
			}
			mu.Lock()
			defer mu.Unlock()
			times.Merge(mine)
			faults = append(faults, err)
		})
	}
	group.Wait()
	return times, errors.Join(append(faults, ctx.Err())...)
}

// numbers returns a function that the clients of a load call for the number of the next run, until more is false.
// Between two numbers it waits for the given pace.
func (s settings) numbers(pace []time.Duration) (next func() (i int, more bool)) {
	var mu sync.Mutex
	numbered := 0
	end := time.Now().Add(s.time)
	return func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if numbered > 0 {
			for _, d := range pace {
				time.Sleep(d)
			}
		}
		if s.flows > 0 && numbered >= s.flows ||
			s.flows == 0 && (!time.Now().Before(end) || s.most > 0 && numbered >= s.most) {
			return 0, false
		}
		numbered++
		return numbered - 1, true
	}
}

func one[T any](
	ctx context.Context, client *runtime.Client, def *flow.Definition[T, T], in T, opts ...runtime.StartOption,
) error {
	run, err := runtime.Start(ctx, client, def, in, opts...)
	if err != nil {
		return err
	}
	_, err = run.Result(ctx)
	return err
}

const retryDelay = 50 * time.Millisecond

// retryLateness measures how long after its due time a retry begins.
func retryLateness(ctx context.Context, s settings) (figures []figure, err error) {
	var mu sync.Mutex
	failedAt := make(map[int]time.Time)
	late := newHistogram()
	once := activity.New("bench.once", func(ctx context.Context, n int) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if info, _ := activity.Info(ctx); info.Attempt == 1 {
			failedAt[n] = time.Now()
			return 0, errors.New("first attempt")
		}
		return n, late.RecordValue(max(1, (time.Since(failedAt[n]) - retryDelay).Microseconds()))
	}, activity.Retry(activity.RetryPolicy{First: retryDelay, Attempts: 2, Factor: 1}))
	f := flow.New[int, int]("bench-retry")
	flow.Return(f, flow.Node(f, "once", once, f.Input()))
	def, err := f.Build()
	if err != nil {
		return nil, err
	}
	l, err := local(ctx, s, once)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	_, err = load(ctx, s, 1, func(i int) error { return one(ctx, l.Client(), def, i) })
	mu.Lock()
	defer mu.Unlock()
	figures = quantiles(late)
	for i := range figures {
		figures[i].name = "late " + figures[i].name
	}
	return figures, err
}
