package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// shop has an activity whose nodes fail or wait as the test requires; its results count the calls.
type shop struct {
	act *activity.Activity[[]string, string]

	mu     sync.Mutex
	broken map[string]bool
	gates  map[string]chan struct{}
	calls  map[string]int
}

func newShop() *shop {
	s := &shop{broken: make(map[string]bool), gates: make(map[string]chan struct{}), calls: make(map[string]int)}
	s.act = activity.New("shop", s.run, activity.Retry(activity.RetryPolicy{Attempts: 1}))
	return s
}

func (s *shop) run(ctx context.Context, in []string) (string, error) {
	info, _ := activity.Info(ctx)
	s.mu.Lock()
	s.calls[info.Node]++
	result := fmt.Sprintf("%s%d(%s)", info.Node, s.calls[info.Node], strings.Join(in, " "))
	gate, broken := s.gates[info.Node], s.broken[info.Node]
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	if broken {
		return "", errors.New("broken")
	}
	return result, nil
}

func (s *shop) breaks(nodes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.broken)
	for _, node := range nodes {
		s.broken[node] = true
	}
}

// gate holds a node back until it is closed.
func (s *shop) gate(node string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates[node] = make(chan struct{})
	return s.gates[node]
}

// awaitCall waits until the function runs for a node. A node is active before that.
func (s *shop) awaitCall(t testing.TB, node string) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.calls[node] == 0 {
			return "the function has not been called for " + node
		}
		return ""
	})
}

// called returns how often each node ran since the last call.
func (s *shop) called() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int)
	for node, n := range s.calls {
		if n > 0 {
			out[node] = n
		}
	}
	clear(s.calls)
	return out
}

// flow declares each node by the nodes whose results it uses: "c: a b". A node that begins with "!" is independent of
// success, and one with "|" needs any of them.
func (s *shop) flow(t testing.TB, name string, lines ...string) *flow.Definition[fixture.None, string] {
	t.Helper()
	f := flow.New[fixture.None, string](name)
	refs := make(map[string]flow.Ref[string])
	var last flow.Ref[string]
	for _, line := range lines {
		node, from, _ := strings.Cut(line, ":")
		var ups []flow.Ref[string]
		var order []flow.Upstream
		for up := range strings.FieldsSeq(strings.TrimLeft(strings.TrimSpace(from), "!|")) {
			ups = append(ups, refs[up])
			order = append(order, refs[up])
		}
		switch {
		case strings.Contains(from, "!"):
			last = flow.Node(f, node, s.act, flow.Const([]string{}), flow.Always(order...))
		case strings.Contains(from, "|"):
			last = flow.Node(f, node, s.act, flow.Quorum(1, ups...), flow.LetRun())
		default:
			last = flow.Node(f, node, s.act, flow.List(ups...))
		}
		refs[node] = last
	}
	flow.Return(f, last)
	return fixture.DefinitionOf(t, f)
}

// start runs a flow to its first end.
func (s *shop) start(t testing.TB, b *enginetest.Bench, def *flow.Definition[fixture.None, string]) *runtime.Run[string] {
	t.Helper()
	run, err := runtime.Start(enginetest.Context(t), b.Client, def, fixture.None{})
	require.NoError(t, err)
	_, err = run.Result(enginetest.Context(t))
	var over *runtime.RunError
	require.True(t, err == nil || errors.As(err, &over), "%v", err)
	return run
}

func TestRerunFailed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := newShop()
		b.Worker(t, []activity.Handler{s.act}, runtime.WorkerConfig{Concurrency: 4})
		b.Keeper(t)
		s.breaks("b")
		run := s.start(t, b, s.flow(t, "order", "a:", "b: a", "other: a", "c: b other", "sum: c a"))
		require.Equal(t, map[string]int{"a": 1, "b": 1, "other": 1}, s.called())
		b.Settle(t)

		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed, runtime.WithActor("ann")))
		_, err := run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed, "it is broken still")
		require.Equal(t, map[string]int{"b": 1}, s.called())

		s.breaks()
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed, runtime.WithActor("bob")))
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "sum1(c1(b1(a1()) other1(a1())) a1())", result)
		require.Equal(t, map[string]int{"b": 1, "c": 1, "sum": 1}, s.called())
		b.Settle(t)

		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunSucceeded, d.State)
		require.Empty(t, d.FailedNode)
		require.Equal(t, 2, d.Reruns)
		require.Equal(t, "bob", d.LastRerun.By)
		require.Equal(t, fabrictype.RerunFailed, d.LastRerun.Scope)
		require.Equal(t, 3, d.LastRerun.Nodes)
		require.WithinDuration(t, time.Now(), d.LastRerun.At, time.Hour)
		require.Equal(t, []int{0, 2, 0, 2, 2}, []int{d.Nodes[0].Replays, d.Nodes[1].Replays, d.Nodes[2].Replays, d.Nodes[3].Replays, d.Nodes[4].Replays})
		require.ErrorIs(t, run.Rerun(ctx, fabrictype.RerunFailed), runtime.ErrNothingToRerun)
		require.NoError(t, run.Purge(ctx))
		fixture.NothingLeft(t, b)
	})
}

// The end that a client received before it ran a run again is not the result.
func TestResultAfterARerunIsTheNewOne(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := newShop()
		b.Worker(t, []activity.Handler{s.act})
		b.Keeper(t)
		def := s.flow(t, "heard", "a:")
		var run *runtime.Run[string]
		for range 2 { // from the second start on, the client listens to the run's partition
			if run != nil {
				_, err := run.Result(ctx)
				require.NoError(t, err)
				require.NoError(t, run.Purge(ctx))
			}
			var err error
			run, err = runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithID("one"))
			require.NoError(t, err)
		}
		for _, err := range run.Watch(ctx, "") { // to its end
			require.NoError(t, err)
		}
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "a3()", result)
	})
}

// Clients that have received a run's end are notified that it will end again.
func TestRerunIsAnnounced(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := newShop()
		b.Worker(t, []activity.Handler{s.act})
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, s.flow(t, "announced", "a:"), fixture.None{})
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)

		d, err := run.Describe(ctx)
		require.NoError(t, err)
		partition, err := engine.ConnOf(b.Engine.Internal()).FlowPartition(enginecore.FlowID(d.FlowID))
		require.NoError(t, err)
		client, told := engine.ConnOf(b.Engine.Internal()).Client(), make(chan string, 8)
		listener, leave := client.Dedicate()
		defer leave()
		ended := listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { told <- m.Message }})
		channel := engine.ConnOf(b.Engine.Internal()).Keys().ChannelDone(partition)
		require.NoError(t, listener.Do(ctx, listener.B().Subscribe().Channel(channel).Build()).Error())
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		select {
		case message := <-told:
			require.Equal(t, d.FlowID+" reopened", message)
		case err := <-ended:
			require.NoError(t, err)
		case <-ctx.Done():
			t.Fatal("no message announces the rerun")
		}
	})
}

func TestRerunFrom(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := newShop()
		b.Worker(t, []activity.Handler{s.act}, runtime.WorkerConfig{Concurrency: 4})
		run := s.start(t, b, s.flow(t, "order", "a:", "b: a", "other: a", "c: b other", "sum: c a"))
		s.called()
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		ids := map[string]enginecore.ExecutionID{}
		for _, n := range d.Nodes {
			ids[n.Name] = enginecore.ExecutionID(n.ExecutionID)
		}
		stored := func(node string) string {
			result, err := resultOf(ctx, b, ids[node])
			require.NoError(t, err)
			require.NotNil(t, result)
			return string(result)
		}
		before := stored("c")
		gate := s.gate("c")
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFrom("b")))
		enginetest.Eventually(t, func() string {
			if state := fixture.States(t, run)["c"]; state != fabrictype.NodeActive {
				return "c is " + string(state)
			}
			return ""
		})
		require.Equal(t, before, stored("c"), "nothing is replaced before there is something new")
		b.Check(t, invariant.AnyTime)
		close(gate)
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "sum1(c1(b1(a1()) other1(a1())) a1())", result)
		require.Equal(t, map[string]int{"b": 1, "c": 1, "sum": 1}, s.called())
		b.Settle(t)
		require.ErrorIs(t, run.Rerun(ctx, fabrictype.RerunFrom("nobody")), engine.ErrUnknownNode)
		require.ErrorIs(t, b.Client.Run("order", "nobody").Rerun(ctx, fabrictype.RerunAll), engine.ErrRunNotFound)
	})
}

func TestRerunOfJoinsAndCleanup(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := newShop()
		b.Worker(t, []activity.Handler{s.act}, runtime.WorkerConfig{Concurrency: 4})
		// The join tolerates the failure of b, and the failure of d is the run's.
		s.breaks("b", "d")
		run := s.start(t, b, s.flow(t, "joins", "a:", "b:", "any: | a b", "d: any", "sum: d"))
		require.Equal(t, map[string]int{"a": 1, "b": 1, "any": 1, "d": 1}, s.called())
		s.breaks("b")
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "sum1(d1(any1(a1())))", result)
		require.Equal(t, map[string]int{"d": 1, "sum": 1}, s.called())
		b.Settle(t)

		s.breaks("a", "b")
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		require.Equal(t, map[string]int{"a": 1, "b": 1}, s.called())
		b.Settle(t)

		// The join, which was impossible, takes the one that is repaired.
		s.breaks("a")
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFrom("b")))
		result, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "sum1(d1(any1(b1())))", result)
		b.Settle(t)
	})
}

// A node that depends on a failed node that is not run again is skipped once more.
func TestRerun_SkipsAfterAnotherFailure(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := newShop()
		b.Worker(t, []activity.Handler{s.act}, runtime.WorkerConfig{Concurrency: 4})
		s.breaks("b")
		run := s.start(t, b, s.flow(t, "beside", "a:", "b:", "sum: a b"))
		s.called()
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFrom("a")))
		_, err := run.Result(ctx)
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "b", failed.Node)
		require.Equal(t, fabrictype.NodeSkipped, fixture.States(t, run)["sum"])
		b.Settle(t)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFrom("sum")))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		b.Settle(t)
	})
}

func TestRerunOfACancelledRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := newShop()
		b.Worker(t, []activity.Handler{s.act}, runtime.WorkerConfig{Concurrency: 4})
		s.gate("b")
		run, err := runtime.Start(ctx, b.Client, s.flow(t, "stopped", "a:", "b: a", "sum: b"), fixture.None{})
		require.NoError(t, err)
		s.awaitCall(t, "b")
		require.ErrorIs(t, run.Rerun(ctx, fabrictype.RerunAll), runtime.ErrRunOpen)
		require.NoError(t, run.Cancel(ctx, "enough"))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		s.mu.Lock()
		clear(s.gates)
		s.mu.Unlock()
		s.called()
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "sum1(b1(a1()))", result)
		require.Equal(t, map[string]int{"b": 1, "sum": 1}, s.called())
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Empty(t, d.CancelReason)
		b.Settle(t)
	})
}

func TestRerunLimit(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := newShop()
		b.Worker(t, []activity.Handler{s.act}, runtime.WorkerConfig{Concurrency: 4})
		run := s.start(t, b, s.flow(t, "often", "a:", "b: a"))
		for range 10 {
			require.NoError(t, run.Rerun(ctx, fabrictype.RerunFrom("b")))
			_, err := run.Result(ctx)
			require.NoError(t, err)
		}
		err := run.Rerun(ctx, fabrictype.RerunAll)
		require.ErrorIs(t, err, runtime.ErrRerunLimit)
		require.ErrorContains(t, err, "node b has been run again 10 times")
		b.Settle(t)
		require.Equal(t, fabrictype.NodeSucceeded, fixture.States(t, run)["a"])
	})
}

// A rerun whose caller is gone after the first step is led on by a keeper; none of the nodes starts before all are
// reset.
func TestRerunOfAWideRun_IsContinuedByKeepers(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		t.Run(map[bool]string{false: "to its end", true: "until it is cancelled"}[cancelled], func(t *testing.T) {
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				ctx := enginetest.Context(t)
				s := newShop()
				lines := []string{"root:"}
				sum := "sum:"
				for i := range 140 {
					lines = append(lines, fmt.Sprintf("n%d: root", i))
					sum += fmt.Sprintf(" n%d", i)
				}
				def := s.flow(t, "wide", append(lines, sum)...)
				b.Worker(t, []activity.Handler{s.act}, runtime.WorkerConfig{Concurrency: 8})
				run := s.start(t, b, def)
				s.called()
				b.Settle(t)
				d, err := run.Describe(ctx)
				require.NoError(t, err)
				plan, err := fixture.NewPlan(b.Client, def, fixture.None{}, run.ID())
				require.NoError(t, err)
				call := enginerpc.RerunCall{Partition: plan.Partition, FlowID: plan.FlowID, RerunID: "x", Mode: "all", Actor: "me", Begin: true}
				for _, n := range d.Nodes {
					call.Nodes = append(call.Nodes, enginecore.ExecutionID(n.ExecutionID))
				}
				reply, err := engine.ConnOf(b.Engine.Internal()).Rerun(ctx, call)
				require.NoError(t, err)
				require.True(t, reply.More)
				b.Check(t, invariant.AnyTime)
				require.Empty(t, s.called())
				require.ErrorIs(t, run.Purge(ctx), runtime.ErrRunOpen)
				require.ErrorIs(t, run.Rerun(ctx, fabrictype.RerunAll), runtime.ErrRunOpen)
				if cancelled {
					require.NoError(t, run.Cancel(ctx, "no, leave it"))
				}
				b.Keeper(t)
				_, err = run.Result(ctx)
				if cancelled {
					require.ErrorIs(t, err, runtime.ErrRunCancelled)
					require.Empty(t, s.called())
				} else {
					require.NoError(t, err)
					require.Len(t, s.called(), 142)
				}
				b.Settle(t)
				require.NoError(t, run.Purge(ctx))
				fixture.NothingLeft(t, b)
			})
		})
	}
}
