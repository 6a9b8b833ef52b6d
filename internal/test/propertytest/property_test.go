package propertytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The numbers of the property tests of this package, on each engine.
const (
	propertyRounds = 3
	flowsAtATime   = 4
)

// meddling is an interference with a run while workers execute it.
type meddling string

const (
	leftAlone         meddling = "left alone"
	cancelledByClient meddling = "cancelled"
	cancelledByOthers meddling = "cancelled with ff_cancel_flow"
	operated          meddling = "operated with ff_* calls"
)

// trial is one run under test.
type trial struct {
	sketch   *sketch
	run      *runtime.Run[string]
	plan     *submit.RunPlan
	meddling meddling
	touched  map[string]bool // nodes that an operator has ended
	replayed bool            // some node was run again, which does not touch nodes that were skipped because of it
}

// TestRandomFlows runs random flows while workers and keepers come and go and others interfere, and checks outcomes
// and keyspace after each round. FLOWFABRIC_SEED repeats one round, FLOWFABRIC_SOAK makes it long: 1, or a duration.
func TestRandomFlows(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		workerPool := newWorkerPool(t, b)
		rounds := 0
		for seed := range randseed.Trials(t, propertyRounds) {
			rounds++
			if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { workerPool.round(t, seed) }) {
				return
			}
		}
		workerPool.stop(t)
		t.Logf("%d rounds of %d flows: %v", rounds, flowsAtATime, workerPool.lab.tallies)
	})
}

func (c *workerPool) round(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	ctx := enginetest.Context(t)
	trials := make([]*trial, flowsAtATime)
	for i := range trials {
		trials[i] = c.newTrial(t, ctx, r, fmt.Sprintf("r%d-%d-%d", seed, i, time.Now().UnixNano()))
	}
	quiet := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() { c.churn(t, rand.New(rand.NewPCG(seed, 2)), quiet) })
	for i, trial := range trials {
		busy.Go(func() { c.interfere(t, ctx, rand.New(rand.NewPCG(seed, uint64(10+i))), trial) })
	}
	for _, trial := range trials {
		_, err := trial.run.Result(ctx)
		var over *runtime.RunError
		// A node that an operator has completed or replayed need not have a result.
		excused := trial.meddling == operated && ctx.Err() == nil
		if err != nil && !errors.As(err, &over) && !excused {
			d, _ := trial.run.Describe(context.Background())
			t.Errorf("%s flow: %v\n%s", trial.meddling, err, fixture.StateOf(d))
		}
	}
	close(quiet)
	busy.Wait()
	s := c.bench.Settle(t)
	for _, trial := range trials {
		c.judge(t, s, trial)
		c.lab.forget(trial.run.ID())
	}
	c.bench.Wipe(t)
}

// inspect checks the invariants of every moment in the middle of a round, while all workers and keepers are stopped.
func (c *workerPool) inspect(t *testing.T, r *rand.Rand) {
	c.stop(t)
	c.bench.Check(t, invariant.AnyTime)
	c.start(r)
}

func (c *workerPool) newTrial(t *testing.T, ctx context.Context, r *rand.Rand, id string) *trial {
	m := []meddling{leftAlone, leftAlone, leftAlone, cancelledByClient, cancelledByOthers, operated, operated}[r.IntN(7)]
	if m == operated && c.bench.Reference() {
		m = cancelledByOthers // some calls of operators leave executions of the reference library in two indexes
	}
	x := &trial{sketch: newSketch(r, []int{8, 30, 200}[r.IntN(3)]), meddling: m, touched: make(map[string]bool)}
	if m == operated {
		x.sketch.pace = time.Duration(r.IntN(12)) * time.Millisecond
	}
	def, err := x.sketch.define("lab", c.lab.common, c.lab.rare)
	require.NoError(t, err)
	c.lab.add(id, x.sketch)
	x.plan, err = fixture.NewPlan(c.bench.Client, def, []string{}, id)
	require.NoError(t, err)
	x.run, err = runtime.Start(ctx, c.bench.Client, def, []string{}, runtime.WithID(id))
	require.NoError(t, err)
	return x
}

// judge compares the outcomes of a run with the outcomes that the model allows.
func (c *workerPool) judge(t *testing.T, s *invariant.Snapshot, x *trial) {
	f, ok := s.Flow(string(x.run.FlowID()))
	require.True(t, ok, "the flow is gone")
	require.Len(t, f.Nodes, len(x.sketch.nodes))
	unlucky := make(map[string]bool)
	for i := range x.sketch.nodes {
		n := &x.sketch.nodes[i]
		unlucky[n.name] = n.unlucky(f.Nodes[n.name])
	}
	want := x.sketch.outcomes(unlucky)
	stopped := f.Outcome == "cancelled" && (x.meddling == cancelledByClient || x.meddling == cancelledByOthers)
	for i := range x.sketch.nodes {
		n := &x.sketch.nodes[i]
		got := f.Nodes[n.name]
		c.lab.tally("node " + got.Outcome)
		c.judgeResult(t, f, x, n, got)
		if x.meddling == leftAlone {
			if got.Outcome != want[n.name] {
				t.Errorf("node %s is %s (%s), must be %s; script %+v", n.name, got.Outcome, got.Reason, want[n.name], n.script)
			}
			continue
		}
		ready := true
		for _, up := range n.upstreams() {
			ready = ready && f.Nodes[nodeName(up)].Outcome == "success"
		}
		if x.replayed && got.Outcome == "skipped" {
			continue
		}
		if fault := verdict(got.Outcome, ready, stopped, x.touched[n.name], n.script.succeeds() && !unlucky[n.name]); fault != "" {
			t.Errorf("%s run: node %s is %s (%s): %s", x.meddling, n.name, got.Outcome, got.Reason, fault)
		}
	}
	c.lab.tally("flow " + f.Outcome)
	if want := flowOutcome(f, stopped); f.Outcome != want {
		t.Errorf("%s run: the outcome is %s, must be %s", x.meddling, f.Outcome, want)
	}
}

// verdict describes how the outcome of a node contradicts the interference with its run, or returns "".
func verdict(outcome string, ready, stopped, touched, succeeds bool) string {
	switch {
	case outcome == "none":
		return "it has not ended"
	case outcome == "skipped" && ready:
		return "all its upstreams succeeded"
	case (outcome == "success" || outcome == "failed") && !ready:
		return "it ran although an upstream did not succeed"
	case outcome == "cancelled" && !stopped && !touched, outcome == "expired" && !touched:
		return "no call caused it"
	case !ready && outcome != "skipped" && !stopped && !touched:
		return "an upstream did not succeed"
	case outcome == "success" && !succeeds && !touched:
		return "its script does not succeed"
	case outcome == "failed" && succeeds && !touched:
		return "its script does not fail"
	}
	return ""
}

func flowOutcome(f invariant.Flow, stopped bool) string {
	if stopped {
		return "cancelled"
	}
	outcome := "success"
	for _, n := range f.Nodes {
		switch n.Outcome {
		case "failed", "expired":
			return "failed"
		case "cancelled":
			outcome = "cancelled"
		}
	}
	return outcome
}

// judgeResult checks that the stored result was returned by one of the node's attempts, and that all downstreams
// received it.
func (c *workerPool) judgeResult(t *testing.T, f invariant.Flow, x *trial, n *sketchNode, got invariant.Node) {
	if got.Outcome == "success" && !x.touched[n.name] && !c.lab.results(x.run.ID(), n.name)[string(got.Result)] {
		t.Errorf("node %s has result %s, its function never returned that", n.name, got.Result)
	}
	for _, in := range c.lab.inputs(x.run.ID(), n.name) {
		if len(in) != len(n.data) {
			t.Errorf("node %s got %d inputs, must get %d", n.name, len(in), len(n.data))
			continue
		}
		for i, up := range n.data {
			encoded, _ := json.Marshal(in[i])
			if string(encoded) != string(f.Nodes[nodeName(up)].Result) {
				t.Errorf("node %s got %s from %s, whose result is %s", n.name, encoded, nodeName(up), f.Nodes[nodeName(up)].Result)
			}
		}
	}
	if c.lab.overlapped(x.run.ID(), n.name) && got.Reclaims == 0 && x.meddling != operated {
		t.Errorf("two attempts of node %s ran at a time, although none was lost", n.name)
	}
}

// workerPool is the workers and keepers that come and go.
type workerPool struct {
	tb    testing.TB // outlives the rounds
	bench *enginetest.Bench
	lab   *lab

	workers []*enginetest.Running
	keepers []*enginetest.Running
}

const (
	poolWorkers = 3
	poolKeepers = 2
	// poolLease is how long an execution waits that a worker could not give back when it was stopped, since the machine
	// was too busy. A worker on such a machine may lose its lease as well: see sketchNode.unlucky.
	poolLease = 10 * time.Second
)

func newWorkerPool(t *testing.T, b *enginetest.Bench) *workerPool {
	c := &workerPool{
		tb: t, bench: b, lab: newLab(),
		workers: make([]*enginetest.Running, poolWorkers), keepers: make([]*enginetest.Running, poolKeepers),
	}
	c.start(rand.New(rand.NewPCG(1, 1)))
	return c
}

func (c *workerPool) start(r *rand.Rand) {
	for i := range c.workers {
		c.workers[i] = c.hire(r, i)
	}
	for i := range c.keepers {
		c.keepers[i] = c.bench.Keeper(c.tb)
	}
}

// hire starts a worker. The first one serves everything, the others a part.
func (c *workerPool) hire(r *rand.Rand, i int) *enginetest.Running {
	lanes := []string{"default", "other"}
	handlers := []activity.Handler{c.lab.common, c.lab.rare}
	if i > 0 {
		if n := r.IntN(3); n < 2 {
			lanes = lanes[n : n+1]
		}
		handlers = handlers[:1+r.IntN(2)]
	}
	grace := []time.Duration{0, 5 * time.Millisecond, time.Second}[r.IntN(3)]
	return c.bench.Worker(c.tb, handlers, runtime.WorkerConfig{
		Lanes: lanes, Concurrency: 1 + r.IntN(6), Lease: poolLease, Grace: grace,
	})
}

func (c *workerPool) stop(t testing.TB) {
	for _, w := range append(c.workers, c.keepers...) {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// churn replaces workers and keepers until the runs are over.
func (c *workerPool) churn(t *testing.T, r *rand.Rand, quiet <-chan struct{}) {
	for {
		select {
		case <-quiet:
			return
		case <-time.After(time.Duration(20+r.IntN(100)) * time.Millisecond):
		}
		if r.IntN(8) == 0 {
			c.inspect(t, r)
			continue
		}
		if i := r.IntN(poolWorkers + 1); i < poolWorkers {
			if err := c.workers[i].Stop(); err != nil {
				t.Error(err)
			}
			c.workers[i] = c.hire(r, i)
		} else {
			k := r.IntN(poolKeepers)
			if err := c.keepers[k].Stop(); err != nil {
				t.Error(err)
			}
			c.keepers[k] = c.bench.Keeper(c.tb)
		}
	}
}
