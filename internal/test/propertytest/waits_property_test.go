package propertytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// scene is a random flow with waits. Its edges pass no data.
type scene struct{ nodes []sceneNode }

type sceneNode struct {
	name  string
	edges map[int]flowgraph.EdgeKind // by the number of the upstream
	// A node waits itself (wait), or runs a function that fails, or that waits several times in turn.
	wait  bool
	fails bool
	waits int
	// then and limit are the timeout of its waits; limit 0 is none.
	then  activity.TimeoutBehavior
	limit time.Duration
}

func newScene(r *rand.Rand) *scene {
	s := &scene{nodes: make([]sceneNode, 1+r.IntN(16))}
	for i := range s.nodes {
		n := &s.nodes[i]
		n.name = nodeName(i)
		n.edges = make(map[int]flowgraph.EdgeKind)
		for range r.IntN(3) {
			if i > 0 {
				n.edges[r.IntN(i)] = []flowgraph.EdgeKind{flowgraph.SuccessOnly, flowgraph.SuccessOnly, flowgraph.OnFailureOnly, flowgraph.AnyOutcome}[r.IntN(4)]
			}
		}
		switch r.IntN(4) {
		case 0:
			n.fails = r.IntN(2) == 0
		case 1:
			n.wait = true
		default:
			n.waits = 1 + r.IntN(3)
		}
		if r.IntN(2) == 0 {
			n.limit = time.Duration(1+r.IntN(60)) * time.Millisecond
			n.then = []activity.TimeoutBehavior{
				activity.FailOnTimeout, activity.CancelOnTimeout, activity.ExpireOnTimeout, activity.ResumeOnTimeout, activity.Escalate,
			}[r.IntN(5)]
		}
	}
	return s
}

// sceneTask is the input of a node's function.
type sceneTask struct {
	Fails bool                     `json:"fails"`
	Waits int                      `json:"waits"`
	Then  activity.TimeoutBehavior `json:"then"`
	Limit time.Duration            `json:"limit"`
}

// timedOut is the value of a wait that no signal has ended.
const timedOut = -1

// sceneRun waits task.Waits times and returns the payloads. A step between the waits must happen once only.
func sceneRun(ctx context.Context, task sceneTask) ([]int, error) {
	if task.Fails {
		return nil, activity.NonRetryable(errScripted)
	}
	got := []int{}
	for i := range task.Waits {
		early, err := activity.Step(ctx, "early", func(context.Context) (bool, error) { return rand.IntN(2) == 0, nil })
		if err != nil {
			return nil, err
		}
		if early {
			if _, err := activity.OpenWaitpoint(ctx, "w", 0); err != nil {
				return nil, err
			}
		}
		var opts []activity.WaitOption
		if task.Limit > 0 {
			opts = append(opts, activity.Timeout(task.Limit, task.Then))
		}
		n, err := activity.Await[int](ctx, "w", opts...)
		switch {
		case errors.Is(err, activity.ErrWaitTimedOut):
			n = timedOut
		case err != nil:
			return nil, fmt.Errorf("wait %d: %w", i, err)
		}
		got = append(got, n)
	}
	return got, nil
}

func (s *scene) define(a *activity.Activity[sceneTask, []int]) (*flow.Definition[int, struct{}], error) {
	f := flow.New[int, struct{}]("scene")
	refs := make([]flow.Upstream, len(s.nodes))
	for i := range s.nodes {
		n := &s.nodes[i]
		byKind := make(map[flowgraph.EdgeKind][]flow.Upstream)
		for up, kind := range n.edges {
			byKind[kind] = append(byKind[kind], refs[up])
		}
		after, failed, always := flow.After(byKind[flowgraph.SuccessOnly]...), flow.OnFailure(byKind[flowgraph.OnFailureOnly]...), flow.Always(byKind[flowgraph.AnyOutcome]...)
		if !n.wait {
			task := sceneTask{n.fails, n.waits, n.then, n.limit}
			refs[i] = flow.Node(f, n.name, a, flow.Const(task), after, failed, always)
			continue
		}
		opts := []flow.WaitOption{after, failed, always}
		if n.limit > 0 {
			opts = append(opts, activity.Timeout(n.limit, n.then))
		}
		refs[i] = flow.Waitpoint[int](f, n.name, opts...)
	}
	return f.Build()
}

// audience signals the waits of a run until it is over, and remembers which signal ended which wait.
type audience struct {
	client *runtime.Client
	run    *runtime.Run[struct{}]

	mu     sync.Mutex
	ended  map[string]int // payload, by node and step
	faults []string
	serial int
}

func (a *audience) fault(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

func (a *audience) applaud(ctx context.Context, r *rand.Rand, over <-chan struct{}) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Duration(1+r.IntN(10)) * time.Millisecond):
		}
		waits, err := a.run.Waitpoints(ctx)
		if err != nil {
			a.fault("waitpoints: %v", err)
			return
		}
		for _, w := range waits {
			if r.IntN(3) == 0 {
				continue
			}
			// Two signals at a time, one of them twice.
			a.serial += 2
			for _, payload := range []int{a.serial, a.serial + 1, a.serial} {
				sending.Go(func() { a.signal(ctx, w, strconv.Itoa(payload), payload) })
			}
		}
	}
}

func (a *audience) signal(ctx context.Context, w runtime.Waitpoint, key string, payload int) {
	d, err := a.client.Signal(ctx, w.Token, runtime.Signal{Name: "x", Payload: payload, IdempotencyKey: key})
	if err != nil {
		a.fault("signal: %v", err)
		return
	}
	if d.Outcome != fabrictype.SignalResumed {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	place := w.Node + "/" + w.Step
	if before, twice := a.ended[place]; twice {
		a.faults = append(a.faults, fmt.Sprintf("wait %s was ended by %d and by %d", place, before, payload))
	}
	a.ended[place] = payload
}

// TestRandomWaits runs random flows with waits while goroutines signal, at any moment and twice, and workers and
// keepers come and go. Every wait is ended once, and its function or node has the payload that ended it.
// FLOWFABRIC_SEED repeats one round, FLOWFABRIC_SOAK makes it long.
func TestRandomWaits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		a := activity.New("scene", sceneRun)
		for seed := range randseed.Trials(t, propertyRounds) {
			if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { perform(t, b, a, seed) }) {
				return
			}
		}
	})
}

func perform(t *testing.T, b *enginetest.Bench, a *activity.Activity[sceneTask, []int], seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	ctx := enginetest.Context(t)
	b.Keeper(t)
	b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 1 + r.IntN(4), Lease: poolLease})
	var busy sync.WaitGroup
	over := make(chan struct{})
	busy.Go(func() { replaceWorkers(t, b, a, rand.New(rand.NewPCG(seed, 2)), over) })
	const count = 6
	var scenes [count]*scene
	var sets [count]*audience
	cancelled := make([]bool, count)
	for i := range count {
		scenes[i] = newScene(r)
		def, err := scenes[i].define(a)
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, i, runtime.WithID(fmt.Sprintf("%d-%d-%d", seed, i, time.Now().UnixNano())))
		require.NoError(t, err)
		sets[i] = &audience{client: b.Client, run: run, ended: make(map[string]int)}
		hecklers := rand.New(rand.NewPCG(seed, uint64(10+i)))
		busy.Go(func() { sets[i].applaud(ctx, hecklers, over) })
		if r.IntN(4) == 0 {
			cancelled[i] = true
			at := time.Duration(r.IntN(60)) * time.Millisecond
			busy.Go(func() {
				time.Sleep(at) //nolint:forbidigo // a random moment of the run
				if err := run.Cancel(ctx, "enough"); err != nil && !errors.Is(err, engine.ErrRunOver) {
					t.Error(err)
				}
			})
		}
	}
	for _, set := range sets {
		_, err := set.run.Result(ctx)
		var ended *runtime.RunError
		if err != nil && !errors.As(err, &ended) {
			d, _ := set.run.Describe(context.Background())
			t.Errorf("%v\n%s", err, fixture.StateOf(d))
		}
	}
	close(over)
	busy.Wait()
	if t.Failed() {
		return
	}
	b.Settle(t)
	for i, set := range sets {
		require.Empty(t, set.faults)
		scenes[i].review(t, ctx, b, set, cancelled[i])
	}
	b.Wipe(t)
}

// replaceWorkers starts and stops a second worker and a second keeper.
func replaceWorkers(t *testing.T, b *enginetest.Bench, a *activity.Activity[sceneTask, []int], r *rand.Rand, over <-chan struct{}) {
	for {
		w := enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{
			Grace: time.Duration(r.IntN(2)) * 5 * time.Millisecond, Lease: poolLease, NoKeeper: true,
		})
		if err := w.Register(a); err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(10+r.IntN(80))*time.Millisecond)
		var running sync.WaitGroup
		for _, run := range []func(context.Context) error{w.Run, enginetest.NewKeeper(t, b.Engine, runtime.KeeperConfig{}).Run} {
			running.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		cancel()
		select {
		case <-over:
			return
		default:
		}
	}
}

// review compares the outcomes of the nodes with the outcomes of their upstreams and the signals that ended their
// waits.
func (s *scene) review(t *testing.T, ctx context.Context, b *enginetest.Bench, set *audience, cancelled bool) {
	t.Helper()
	d, err := set.run.Describe(ctx)
	require.NoError(t, err)
	states, lost := make(map[string]string), make(map[string]bool)
	for _, n := range d.Nodes {
		states[n.Name] = string(n.State)
		// A worker whose process gets no time for seconds does lose its leases, more often than allowed if need be.
		lost[n.Name] = n.State == fabrictype.NodeFailed && n.Category == engine.CategoryWorkerLost
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		state := states[n.name]
		impossible := false
		for up, kind := range n.edges {
			impossible = impossible || !allows(kind, states[nodeName(up)])
		}
		if impossible != (state == "skipped") && !(cancelled && state == "cancelled") {
			t.Errorf("node %s is %s, its edges %v, all %v", n.name, state, n.edges, states)
		}
		if state == "completed" {
			n.reviewResult(t, ctx, b, set)
		}
		if !cancelled && state != "skipped" && !lost[n.name] && !n.mayEndAs(state) {
			t.Errorf("node %s is %s: %+v", n.name, state, n)
		}
	}
}

func allows(kind flowgraph.EdgeKind, upstream string) bool {
	switch kind {
	case flowgraph.SuccessOnly:
		return upstream == "completed"
	case flowgraph.OnFailureOnly:
		return upstream == "failed" || upstream == "expired" || upstream == "cancelled"
	}
	return true
}

func (n *sceneNode) mayEndAs(state string) bool {
	if n.fails {
		return state == "failed"
	}
	if state == "completed" {
		return true
	}
	return n.limit > 0 && state == map[activity.TimeoutBehavior]string{
		activity.FailOnTimeout: "failed", activity.CancelOnTimeout: "cancelled", activity.ExpireOnTimeout: "expired",
	}[n.then]
}

// reviewResult checks that a node's result has exactly the payloads that ended its waits.
func (n *sceneNode) reviewResult(t *testing.T, ctx context.Context, b *enginetest.Bench, set *audience) {
	t.Helper()
	core := engine.ConnOf(b.Engine.Internal())
	p, err := core.FlowPartition(set.run.FlowID())
	require.NoError(t, err)
	node, err := core.FindNode(ctx, enginerpc.FindNodeCall{Partition: p, FlowID: set.run.FlowID(), Node: n.name})
	require.NoError(t, err)
	data, err := fixture.ResultOf(ctx, b, node.ExecutionID)
	require.NoError(t, err)
	if n.wait {
		want, ended := set.ended[n.name+"/"]
		if !ended {
			require.Equal(t, activity.ResumeOnTimeout, n.then, "no signal has ended %s", n.name)
			require.Equal(t, "null", string(data))
			return
		}
		require.Equal(t, strconv.Itoa(want), string(data))
		return
	}
	var got []int
	require.NoError(t, json.Unmarshal(data, &got))
	require.Len(t, got, n.waits)
	for i, value := range got {
		place := n.name + "/w"
		if i > 0 {
			place += "#" + strconv.Itoa(i+1)
		}
		want, ended := set.ended[place]
		if !ended {
			// Early signals end a wait when the function comes to it: then no delivery reported it.
			if value == timedOut {
				require.Equal(t, activity.ResumeOnTimeout, n.then)
			}
			continue
		}
		require.Equal(t, want, value, place)
	}
}
