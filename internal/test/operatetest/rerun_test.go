package operatetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestRerunFailed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := fixture.NewShop()
		b.Worker(t, []activity.Handler{s.Act}, runtime.WorkerConfig{Concurrency: 4})
		b.Keeper(t)
		s.Breaks("b")
		run := s.Start(t, b, s.Flow(t, "order", "a:", "b: a", "other: a", "c: b other", "sum: c a"))
		require.Equal(t, map[string]int{"a": 1, "b": 1, "other": 1}, s.Called())
		b.Settle(t)

		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed, runtime.WithActor("ann")))
		_, err := run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed, "it is broken still")
		require.Equal(t, map[string]int{"b": 1}, s.Called())

		s.Breaks()
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed, runtime.WithActor("bob")))
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "sum1(c1(b1(a1()) other1(a1())) a1())", result)
		require.Equal(t, map[string]int{"b": 1, "c": 1, "sum": 1}, s.Called())
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
		s := fixture.NewShop()
		b.Worker(t, []activity.Handler{s.Act})
		b.Keeper(t)
		def := s.Flow(t, "heard", "a:")
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
		s := fixture.NewShop()
		b.Worker(t, []activity.Handler{s.Act})
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, s.Flow(t, "announced", "a:"), fixture.None{})
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)

		d, err := run.Describe(ctx)
		require.NoError(t, err)
		session, err := engine.SessionOf(b.Engine.Internal())
		require.NoError(t, err)
		client, told := engine.ConnOf(b.Engine.Internal()).Client(), make(chan string, 8)
		listener, leave := client.Dedicate()
		defer leave()
		ended := listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { told <- m.Message }})
		channel := engine.ConnOf(b.Engine.Internal()).Keys().ChannelDone(session.Origin)
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
		s := fixture.NewShop()
		b.Worker(t, []activity.Handler{s.Act}, runtime.WorkerConfig{Concurrency: 4})
		run := s.Start(t, b, s.Flow(t, "order", "a:", "b: a", "other: a", "c: b other", "sum: c a"))
		s.Called()
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		ids := map[string]enginecore.ExecutionID{}
		for _, n := range d.Nodes {
			ids[n.Name] = enginecore.ExecutionID(n.ExecutionID)
		}
		stored := func(node string) string {
			result, err := fixture.ResultOf(ctx, b, ids[node])
			require.NoError(t, err)
			require.NotNil(t, result)
			return string(result)
		}
		before := stored("c")
		gate := s.Gate("c")
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
		require.Equal(t, map[string]int{"b": 1, "c": 1, "sum": 1}, s.Called())
		b.Settle(t)
		require.ErrorIs(t, run.Rerun(ctx, fabrictype.RerunFrom("nobody")), engine.ErrUnknownNode)
		require.ErrorIs(t, b.Client.Run("order", "nobody").Rerun(ctx, fabrictype.RerunAll), engine.ErrRunNotFound)
	})
}

func TestRerunOfJoinsAndCleanup(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := fixture.NewShop()
		b.Worker(t, []activity.Handler{s.Act}, runtime.WorkerConfig{Concurrency: 4})
		// The join tolerates the failure of b, and the failure of d is the run's.
		s.Breaks("b", "d")
		run := s.Start(t, b, s.Flow(t, "joins", "a:", "b:", "any: | a b", "d: any", "sum: d"))
		require.Equal(t, map[string]int{"a": 1, "b": 1, "any": 1, "d": 1}, s.Called())
		s.Breaks("b")
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "sum1(d1(any1(a1())))", result)
		require.Equal(t, map[string]int{"d": 1, "sum": 1}, s.Called())
		b.Settle(t)

		s.Breaks("a", "b")
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		require.Equal(t, map[string]int{"a": 1, "b": 1}, s.Called())
		b.Settle(t)

		// The join, which was impossible, takes the one that is repaired.
		s.Breaks("a")
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
		s := fixture.NewShop()
		b.Worker(t, []activity.Handler{s.Act}, runtime.WorkerConfig{Concurrency: 4})
		s.Breaks("b")
		run := s.Start(t, b, s.Flow(t, "beside", "a:", "b:", "sum: a b"))
		s.Called()
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
		s := fixture.NewShop()
		b.Worker(t, []activity.Handler{s.Act}, runtime.WorkerConfig{Concurrency: 4})
		s.Gate("b")
		run, err := runtime.Start(ctx, b.Client, s.Flow(t, "stopped", "a:", "b: a", "sum: b"), fixture.None{})
		require.NoError(t, err)
		s.AwaitCall(t, "b")
		require.ErrorIs(t, run.Rerun(ctx, fabrictype.RerunAll), runtime.ErrRunOpen)
		require.NoError(t, run.Cancel(ctx, "enough"))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		s.Mu.Lock()
		clear(s.Gates)
		s.Mu.Unlock()
		s.Called()
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "sum1(b1(a1()))", result)
		require.Equal(t, map[string]int{"b": 1, "sum": 1}, s.Called())
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
		s := fixture.NewShop()
		b.Worker(t, []activity.Handler{s.Act}, runtime.WorkerConfig{Concurrency: 4})
		run := s.Start(t, b, s.Flow(t, "often", "a:", "b: a"))
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
				s := fixture.NewShop()
				lines := []string{"root:"}
				sum := "sum:"
				for i := range 140 {
					lines = append(lines, fmt.Sprintf("n%d: root", i))
					sum += fmt.Sprintf(" n%d", i)
				}
				def := s.Flow(t, "wide", append(lines, sum)...)
				b.Worker(t, []activity.Handler{s.Act}, runtime.WorkerConfig{Concurrency: 8})
				run := s.Start(t, b, def)
				s.Called()
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
				require.Empty(t, s.Called())
				require.ErrorIs(t, run.Purge(ctx), runtime.ErrRunOpen)
				require.ErrorIs(t, run.Rerun(ctx, fabrictype.RerunAll), runtime.ErrRunOpen)
				if cancelled {
					require.NoError(t, run.Cancel(ctx, "no, leave it"))
				}
				b.Keeper(t)
				_, err = run.Result(ctx)
				if cancelled {
					require.ErrorIs(t, err, runtime.ErrRunCancelled)
					require.Empty(t, s.Called())
				} else {
					require.NoError(t, err)
					require.Len(t, s.Called(), 142)
				}
				b.Settle(t)
				require.NoError(t, run.Purge(ctx))
				fixture.NothingLeft(t, b)
			})
		})
	}
}
