package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// withEngine opens an engine without anybody at work.
func withEngine(ctx context.Context, s settings, do func(e *runtime.Engine, client *runtime.Client) error) error {
	e, err := runtime.Open(ctx, s.url, s.open())
	if err != nil {
		return err
	}
	client, err := runtime.NewClient(e)
	if err == nil {
		err = do(e, client)
		client.Close()
	}
	return errors.Join(err, e.Close())
}

// atWork runs workers and a keeper during a measurement.
func atWork(
	ctx context.Context, s settings, e *runtime.Engine, count int, do func(workers []*runtime.Worker) error,
) error {
	running, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	var mu sync.Mutex
	var faults []error
	start := func(run func(context.Context) error) {
		group.Go(func() {
			err := run(running)
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, err)
		})
	}
	workers := make([]*runtime.Worker, count)
	for i := range workers {
		w, err := runtime.NewWorker(e, runtime.WorkerConfig{Concurrency: s.concurrency})
		if err == nil {
			err = w.Register(activities()...)
		}
		if err != nil {
			stop()
			group.Wait()
			return err
		}
		workers[i] = w
		start(workers[i].Run)
	}
	err := do(workers)
	stop()
	group.Wait()
	return errors.Join(append(faults, err)...)
}

// nodeCost measures the server's cost of a node between its submission and its end: claim, completion, edges.
func nodeCost(ctx context.Context, s settings) (figures []figure, err error) {
	def, err := chain(10)
	if err != nil {
		return nil, err
	}
	flows := s.flows
	if flows == 0 {
		flows = 2000
	}
	err = withEngine(ctx, s, func(e *runtime.Engine, client *runtime.Client) error {
		runs := make([]*runtime.Run[int], flows)
		submit := s
		submit.flows = flows
		if _, err := load(ctx, submit, s.clients, func(i int) (err error) {
			runs[i], err = runtime.Start(ctx, client, def, i)
			return err
		}); err != nil {
			return err
		}
		before, err := serverStats(ctx, e)
		if err != nil {
			return err
		}
		begun := time.Now()
		return atWork(ctx, s, e, 1, func([]*runtime.Worker) error {
			for _, run := range runs {
				if _, err := run.Result(ctx); err != nil {
					return err
				}
			}
			took, nodes := time.Since(begun).Seconds(), float64(10*flows)
			after, err := serverStats(ctx, e)
			cost := after.since(before)
			figures = []figure{
				{"nodes", "1/s", nodes / took}, {"server CPU per node", "µs", float64(cost.cpu.Microseconds()) / nodes},
				{"in functions per node", "µs", float64(cost.micros) / nodes},
				{"commands per node", "", float64(cost.commands) / nodes},
			}
			return err
		})
	})
	return figures, err
}

const (
	smallBacklog = 1000
	// backlogWidth is the number of nodes of each flow that a backlog is made of.
	backlogWidth = 80
	// backlogClaims is how many executions are claimed one by one to measure.
	backlogClaims = 4000
	// backlogRounds is into how many rounds they are divided, and one of backlogCalm of these is better than the one
	// that counts.
	backlogRounds = 20
	backlogCalm   = 10
)

// backlog compares the cost of a claim with few and with many waiting executions.
func backlog(ctx context.Context, s settings) (figures []figure, err error) {
	f := flow.New[int, int]("bench-backlog")
	roots := make([]flow.Ref[int], backlogWidth)
	for i := range roots {
		roots[i] = flow.Node(f, fmt.Sprintf("n%d", i), noop, f.Input())
	}
	flow.Return(f, roots[0])
	def, err := f.Build()
	if err != nil {
		return nil, err
	}
	err = withEngine(ctx, s, func(e *runtime.Engine, client *runtime.Client) error {
		if e.Embedded() != nil {
			return errors.New("what a claim costs is counted by a server")
		}
		partitions := engine.ConnOf(e.Internal()).Partitioning().Flow
		// All partitions get the same, so that every claim finds something.
		fill := func(executions int) error {
			submit := s
			submit.flows = partitions * ((executions + partitions*backlogWidth - 1) / (partitions * backlogWidth))
			_, err := load(ctx, submit, s.clients, func(i int) error {
				_, err := runtime.Start(ctx, client, def, i, runtime.WithID(runIDIn(e, def.Name(), i%partitions)))
				return err
			})
			return err
		}
		empty, err := serverStats(ctx, e)
		if err != nil {
			return err
		}
		if err := fill(smallBacklog + backlogClaims); err != nil {
			return err
		}
		few, err := claimCost(ctx, e)
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := fill(s.backlog - smallBacklog + backlogClaims/2); err != nil {
			return err
		}
		filled := time.Since(begun)
		stored, err := serverStats(ctx, e)
		if err != nil {
			return err
		}
		many, err := claimCost(ctx, e)
		figures = []figure{
			{fmt.Sprintf("claim at %d", smallBacklog), "µs", few}, {fmt.Sprintf("claim at %d", s.backlog), "µs", many},
			{"more", "%", 100 * (many/few - 1)}, {"submitted", "nodes/s", float64(s.backlog) / filled.Seconds()},
			{"memory per waiting node", "B", float64(stored.since(empty).memory) / float64(s.backlog)},
		}
		return err
	})
	return figures, err
}

// runIDIn is a new id of a run that belongs into a partition.
func runIDIn(e *runtime.Engine, flowName string, partition int) string {
	partitioning := engine.ConnOf(e.Internal()).Partitioning()
	for {
		id := uuid.NewString()
		if int(partitioning.FlowPartitionFor("default", flowName, id).Index) == partition {
			return id
		}
	}
}

// claimCost claims executions one by one from all partitions in turn. It returns the server CPU of a claim in one of
// the best rounds, since other load of the machine only adds. The executions that a round has claimed are completed
// after it, as workers hold few leases at a time.
func claimCost(ctx context.Context, e *runtime.Engine) (float64, error) {
	core := engine.ConnOf(e.Internal())
	partitions := core.Partitioning().FlowPartitions()
	request := enginerpc.ClaimRequest{
		LaneID: "default", WorkerID: "bench", WorkerInstanceID: "bench-1", Count: 1, LeaseTTL: time.Minute,
		Kinds: "\nbench.noop\n",
	}
	next := 0
	var costs []float64
	for range backlogRounds {
		before, err := serverStats(ctx, e)
		if err != nil {
			return 0, err
		}
		var claims []enginerpc.CompleteCall
		for range backlogClaims / backlogRounds {
			request.ClaimID = uuid.NewString()
			call := enginerpc.ClaimCall{Partition: partitions[next%len(partitions)], ClaimRequest: request}
			next++
			reply, err := core.Claim(ctx, call)
			if err != nil {
				return 0, err
			}
			if len(reply.Executions) != 1 {
				return 0, fmt.Errorf("a claim of partition %s brought %d executions", call.Partition.Tag(),
					len(reply.Executions))
			}
			claimed := reply.Executions[0]
			partition, err := keyspace.PartitionOf(claimed.ExecutionID) // on one server, a claim searches all of them
			if err != nil {
				return 0, err
			}
			claims = append(claims, enginerpc.CompleteCall{
				Partition: partition, ExecutionID: claimed.ExecutionID, LeaseID: claimed.LeaseID,
				LeaseEpoch: claimed.LeaseEpoch,
				AttemptID:  claimed.AttemptID, Result: []byte("1"),
			})
		}
		after, err := serverStats(ctx, e)
		if err != nil {
			return 0, err
		}
		costs = append(costs, float64(after.since(before).cpu.Microseconds())/float64(len(claims)))
		for _, c := range claims {
			if _, err := core.Complete(ctx, c); err != nil {
				return 0, err
			}
		}
	}
	slices.Sort(costs)
	return costs[len(costs)/backlogCalm], nil
}

// idleWorker measures the cost of a worker without work, with its keeper.
func idleWorker(ctx context.Context, s settings) (figures []figure, err error) {
	err = withEngine(ctx, s, func(e *runtime.Engine, _ *runtime.Client) error {
		return atWork(ctx, s, e, 1, func([]*runtime.Worker) error {
			figures, err = idleFigures(ctx, s, e)
			return err
		})
	})
	return figures, err
}

// idlers is the number of processes that idleProcesses simulates.
const idlers = 50

// idleProcesses measures the cost of many worker processes without work: engines that each have connections, a worker
// and a keeper. The server's CPU includes its use without them, which is measured first.
func idleProcesses(ctx context.Context, s settings) (figures []figure, err error) {
	err = withEngine(ctx, s, func(e *runtime.Engine, _ *runtime.Client) error {
		alone, err := idleFigures(ctx, s, e)
		if err != nil {
			return err
		}
		do := func() error {
			figures, err = idleFigures(ctx, s, e)
			return err
		}
		for range idlers {
			inner := do
			do = func() error {
				return withEngine(ctx, s, func(e *runtime.Engine, _ *runtime.Client) error {
					return atWork(ctx, s, e, 1, func([]*runtime.Worker) error { return inner() })
				})
			}
		}
		if err := do(); err != nil {
			return err
		}
		for i, f := range alone {
			if f.name == "server CPU" {
				figures = append(figures, figure{"server CPU that they add", f.unit, figures[i].value - f.value})
			}
		}
		return nil
	})
	return figures, err
}

// settleTime is how long workers have had nothing to do before idle figures are measured: they rest by then.
const settleTime = 40 * time.Second

// idleFigures measures a server and this process for the idle time.
func idleFigures(ctx context.Context, s settings, e *runtime.Engine) ([]figure, error) {
	if err := wait(ctx, min(settleTime, 3*s.idleTime)); err != nil {
		return nil, err
	}
	before, err := serverStats(ctx, e)
	if err != nil {
		return nil, err
	}
	cpu, begun := processCPU(), time.Now()
	if err := wait(ctx, s.idleTime); err != nil {
		return nil, err
	}
	cpu, took := processCPU()-cpu, time.Since(begun).Seconds()
	after, err := serverStats(ctx, e)
	cost := after.since(before)
	return []figure{
		{"function calls", "1/s", float64(cost.calls) / took},
		{"server commands", "1/s", float64(cost.commands-cost.pings) / took},
		{"connection probes", "1/s", float64(cost.pings) / took},
		{"server CPU", "% of a core", 100 * cost.cpu.Seconds() / took},
		{"client CPU", "% of a core", 100 * cpu.Seconds() / took},
	}, err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// memory measures the server's memory that finished runs of a number of nodes occupy, per node. Inputs and results have
// 256 bytes.
func memory(nodes int) workload {
	return func(ctx context.Context, s settings) (figures []figure, err error) {
		sh := shape{name: "memory", graph: line(nodes)}
		def, err := sh.build()
		if err != nil {
			return nil, err
		}
		if s.flows == 0 {
			s.flows = 20_000 / nodes
		}
		in := payload(payloadSize)
		err = withEngine(ctx, s, func(e *runtime.Engine, client *runtime.Client) error {
			return atWork(ctx, s, e, 1, func([]*runtime.Worker) error {
				for range s.warmUp() {
					if err := one(ctx, client, def, in); err != nil {
						return err
					}
				}
				before, err := serverStats(ctx, e)
				if err != nil {
					return err
				}
				if _, err := load(ctx, s, s.clients, func(int) error { return one(ctx, client, def, in) }); err != nil {
					return err
				}
				after, err := serverStats(ctx, e)
				if err != nil {
					return err
				}
				figures = []figure{
					{"memory per finished node", "B", float64(after.since(before).memory) / float64(nodes*s.flows)},
				}
				return nil
			})
		})
		return figures, err
	}
}

const (
	largeWidth = 100
	largeDepth = 100
	// largeFanIn is how many nodes of the layer before a node waits for.
	largeFanIn = 5
)

// large submits a flow of 10,000 nodes and nearly 50,000 edges: layers whose nodes each take five results of the layer
// before.
func large(ctx context.Context, s settings) (figures []figure, err error) {
	f := flow.New[int, int]("bench-large")
	layer := make([]flow.Ref[int], largeWidth)
	for i := range layer {
		layer[i] = flow.Node(f, fmt.Sprintf("n0-%d", i), noop, f.Input())
	}
	for depth := 1; depth < largeDepth; depth++ {
		next := make([]flow.Ref[int], largeWidth)
		for i := range next {
			before := make([]flow.Ref[int], largeFanIn)
			for k := range before {
				before[k] = layer[(i+k)%largeWidth]
			}
			next[i] = flow.Node(f, fmt.Sprintf("n%d-%d", depth, i), sum, flow.List(before...))
		}
		layer = next
	}
	flow.Return(f, layer[0])
	def, err := f.Build()
	if err != nil {
		return nil, err
	}
	err = withEngine(ctx, s, func(e *runtime.Engine, client *runtime.Client) error {
		var run *runtime.Run[int]
		var took time.Duration
		submit := func() (err error) {
			begun := time.Now()
			run, err = runtime.Start(ctx, client, def, 1)
			took = time.Since(begun)
			return err
		}
		finish := func() error {
			return atWork(ctx, s, e, 1, func([]*runtime.Worker) error {
				_, err := run.Result(ctx)
				return err
			})
		}
		if e.Embedded() != nil {
			err := submit()
			figures = []figure{milliseconds("submit", took)}
			return err
		}
		submitting, err := slowest(ctx, e, submit)
		if err != nil {
			return err
		}
		begun := time.Now()
		running, err := slowest(ctx, e, finish)
		figures = []figure{
			milliseconds("submit", took), milliseconds("slowest call of submit", submitting),
			milliseconds("run", time.Since(begun)), milliseconds("slowest call of run", running),
		}
		return err
	})
	return figures, err
}
