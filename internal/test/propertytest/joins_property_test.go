package propertytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// randomDAG is a random flow in which some nodes have a join.
type randomDAG struct {
	*sketch
	joins map[string]flowgraph.Join
}

// newRandomDAG turns about half of the nodes with several upstreams into joins.
func newRandomDAG(r *rand.Rand) *randomDAG {
	w := &randomDAG{sketch: newSketch(r, 4), joins: make(map[string]flowgraph.Join)}
	for i := range w.nodes {
		n := &w.nodes[i]
		if len(n.upstreams()) < 2 || r.IntN(2) == 0 {
			continue
		}
		// All of a join's edges carry data, or none does.
		if r.IntN(3) > 0 {
			n.data, n.after = n.upstreams(), nil
		} else {
			n.data, n.after = nil, n.upstreams()
		}
		w.joins[n.name] = flowgraph.Join{Policy: flowgraph.JoinQuorum, Needed: 1 + r.IntN(len(n.upstreams())), LetRun: r.IntN(2) == 0}
	}
	return w
}

func (w *randomDAG) defineRandomDAG(name string, l *lab) (*flow.Definition[[]string, string], error) {
	f := flow.New[[]string, string](name)
	refs := make([]flow.Ref[string], len(w.nodes))
	for i := range w.nodes {
		n := &w.nodes[i]
		opts := []flow.NodeOption{
			activity.Lane(n.lane), activity.Priority(n.priority), activity.StartToClose(n.timeout),
			activity.Retry(activity.RetryPolicy{First: time.Millisecond, Max: 4 * time.Millisecond, Attempts: n.script.attempts}),
		}
		var data []flow.Ref[string]
		var after []flow.Upstream
		for _, up := range n.data {
			data = append(data, refs[up])
		}
		for _, up := range n.after {
			after = append(after, refs[up])
		}
		join, joined := w.joins[n.name]
		if joined && join.LetRun {
			opts = append(opts, flow.LetRun())
		}
		if joined && len(after) > 0 {
			opts = append(opts, flow.AfterQuorum(join.Needed, after...))
		} else {
			opts = append(opts, flow.After(after...))
		}
		var input flow.Binding[[]string] = f.Input()
		switch {
		case joined && len(data) > 0:
			input = flow.Quorum(join.Needed, data...)
		case len(data) > 0:
			input = flow.List(data...)
		}
		a := l.common
		if n.rare {
			a = l.rare
		}
		refs[i] = flow.Node(f, n.name, a, input, opts...)
	}
	flow.Return(f, refs[len(refs)-1])
	return f.Build()
}

// needed is how many upstreams of a node must succeed.
func (w *randomDAG) needed(n *sketchNode) int {
	if join, joined := w.joins[n.name]; joined {
		return join.Needed
	}
	return len(n.upstreams())
}

// mayBeCancelled reports whether a join may not have needed a node, or any of its downstreams.
func (w *randomDAG) mayBeCancelled(index int) bool {
	for i := range w.nodes {
		n := &w.nodes[i]
		if join, joined := w.joins[n.name]; joined && !join.LetRun && slices.Contains(n.upstreams(), index) {
			return true
		}
	}
	return false
}

// faultOf describes how a node's outcome contradicts the outcomes of its upstreams, or returns "".
func (w *randomDAG) faultOf(f invariant.Flow, index int) string {
	n := &w.nodes[index]
	if n.unlucky(f.Nodes[n.name]) {
		return ""
	}
	outcome, succeeded := f.Nodes[n.name].Outcome, 0
	for _, up := range n.upstreams() {
		if f.Nodes[nodeName(up)].Outcome == "success" {
			succeeded++
		}
	}
	ready := succeeded >= w.needed(n)
	switch {
	case outcome == "cancelled" && w.mayBeCancelled(index):
		return ""
	case !ready && outcome != "skipped":
		return fmt.Sprintf("only %d of %d upstreams succeeded", succeeded, w.needed(n))
	case ready && n.script.succeeds() && outcome != "success", ready && !n.script.succeeds() && outcome != "failed":
		return fmt.Sprintf("%d upstreams succeeded, its script succeeds: %t", succeeded, n.script.succeeds())
	}
	return ""
}

// TestRandomJoins runs random flows with joins while workers and keepers come and go. Then it runs them again, in
// scopes drawn at random and with some nodes that behave by now, and cancels parts of that; at last it runs all from
// the beginning. It checks the keyspace each time and the outcomes in the beginning and the end, and purges the runs.
// FLOWFABRIC_SEED repeats one round.
func TestRandomJoins(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		workerPool := newWorkerPool(t, b)
		rounds := 0
		for seed := range randseed.Trials(t, propertyRounds) {
			rounds++
			if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { workerPool.randomDAGRound(t, seed) }) {
				break
			}
		}
		workerPool.stop(t)
		t.Logf("%d rounds: %v", rounds, workerPool.lab.tallies)
	})
}

func (c *workerPool) randomDAGRound(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	ctx := enginetest.Context(t)
	w := newRandomDAG(r)
	w.pace = time.Duration(r.IntN(4)) * time.Millisecond
	id := fmt.Sprintf("w%d-%d", seed, time.Now().UnixNano())
	c.lab.add(id, w.sketch)
	def, err := w.defineRandomDAG("randomDAG", c.lab)
	require.NoError(t, err)
	run, err := runtime.Start(ctx, c.bench.Client, def, []string{}, runtime.WithID(id))
	require.NoError(t, err)
	quiet, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		c.churn(t, rand.New(rand.NewPCG(seed, 4)), quiet)
	}()
	const reruns = 3
	for again := range reruns + 1 {
		_, err := run.Result(ctx)
		var over *runtime.RunError
		if err != nil && !errors.As(err, &over) {
			d, _ := run.Describe(context.Background())
			t.Errorf("try %d: %v\n%s", again, err, fixture.StateOf(d))
			break
		}
		c.checkRandomDAG(t, run, w, again == 0 || again == reruns)
		if t.Failed() || again == reruns {
			break
		}
		for i := range w.nodes {
			if r.IntN(3) == 0 || again == reruns-1 {
				w.repair(c.lab, i)
			}
		}
		scope := []fabrictype.RerunScope{
			fabrictype.RerunFailed, fabrictype.RerunAll, fabrictype.RerunFrom(nodeName(r.IntN(len(w.nodes)))),
		}[r.IntN(3)]
		if again == reruns-1 {
			scope = fabrictype.RerunAll
		}
		if err := run.Rerun(ctx, scope); err != nil {
			require.ErrorIs(t, err, runtime.ErrNothingToRerun)
			require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		}
		c.lab.tally("rerun")
		if again < reruns-1 {
			c.interrupt(t, ctx, r, run, w)
		}
	}
	close(quiet)
	<-done
	if !t.Failed() {
		require.NoError(t, run.Purge(ctx))
		fixture.NothingLeft(t, c.bench)
	}
	c.lab.forget(id)
}

// interrupt cancels a part of a run, or not.
func (c *workerPool) interrupt(t *testing.T, ctx context.Context, r *rand.Rand, run *runtime.Run[string], w *randomDAG) {
	time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond) //nolint:forbidigo // a random moment of the run
	var err error
	switch r.IntN(4) {
	case 0:
		err = run.CancelNode(ctx, nodeName(r.IntN(len(w.nodes))), "the test says so")
	case 1:
		err = run.CancelPending(ctx, "the test says so")
	case 2:
		if err = run.CancelPending(ctx, "the test says so"); err == nil {
			err = run.Cancel(ctx, "the test insists")
		}
	default:
		return
	}
	if err != nil && !errors.Is(err, engine.ErrRunOver) && !errors.Is(err, engine.ErrNodeOver) {
		t.Errorf("cancel: %v", err)
	}
	c.lab.tally("interrupted")
}

// repair makes a node succeed from now on.
func (w *randomDAG) repair(l *lab, index int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &w.nodes[index]
	n.script = script{last: succeed, attempts: n.script.attempts}
}

// checkRandomDAG checks a finished run: the keyspace, and the nodes when all of them ran with the same script.
func (c *workerPool) checkRandomDAG(t *testing.T, run *runtime.Run[string], w *randomDAG, nodes bool) {
	s := c.bench.Settle(t)
	f, ok := s.Flow(string(run.FlowID()))
	require.True(t, ok, "the flow is gone")
	require.Len(t, f.Nodes, len(w.nodes))
	c.lab.tally("flow " + f.Outcome)
	for i := range w.nodes {
		got := f.Nodes[nodeName(i)]
		c.lab.tally("node " + got.Outcome)
		if fault := w.faultOf(f, i); nodes && fault != "" {
			t.Errorf("node %s is %s (%s), join %+v: %s", got.Name, got.Outcome, got.Reason, w.joins[got.Name], fault)
		}
	}
}
