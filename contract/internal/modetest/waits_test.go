package modetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// openWait returns the only open waitpoint of a run, once there is one.
func openWait(ctx context.Context, t *testing.T, run interface {
	Waitpoints(context.Context) ([]runtime.Waitpoint, error)
}) runtime.Waitpoint {
	t.Helper()
	var found runtime.Waitpoint
	enginetest.Eventually(t, func() string {
		waits, err := run.Waitpoints(ctx)
		require.NoError(t, err)
		if len(waits) != 1 || waits[0].State != fabrictype.WaitOpen {
			return fmt.Sprintf("%d waitpoints are open", len(waits))
		}
		found = waits[0]
		return ""
	})
	return found
}

// Waitpoint nodes wait for their signals, and return the payloads.
func TestContractWaitpointNode(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		add := fixture.AddOne()
		f := flow.New[int, int]("waits")
		first := flow.Node(f, "first", add, f.Input())
		brought := flow.Waitpoint[int](f, "gate", flow.After(first), activity.Signals("go"), activity.AtLeast(2))
		flow.Return(f, flow.Node(f, "last", add, brought))
		def, err := f.Build()
		require.NoError(t, err)
		x.Worker(t, def.Handlers())
		run, err := runtime.Start(x.ctx, x.Client, def, 1)
		require.NoError(t, err)
		w := openWait(x.ctx, t, run)
		require.Equal(t, "gate", w.Node)
		require.Equal(t, 2, w.Needed)
		d, err := x.Client.Signal(x.ctx, w.Token, runtime.Signal{Name: "go", Payload: 1, IdempotencyKey: "a"})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalAccepted, d.Outcome)
		d, err = x.Client.Signal(x.ctx, w.Token, runtime.Signal{Name: "go", Payload: 1, IdempotencyKey: "a"})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalDuplicate, d.Outcome)
		require.Equal(t, fabrictype.SignalAccepted, d.First)
		_, err = x.Client.Signal(x.ctx, w.Token, runtime.Signal{Name: "other", Payload: 7})
		require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount)
		require.ErrorContains(t, err, "takes no signal of that name; the names that count: go")
		d, err = x.Client.Signal(x.ctx, w.Token, runtime.Signal{Name: "go", Payload: 40})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalResumed, d.Outcome)
		result, err := run.Result(x.ctx)
		require.NoError(t, err)
		require.Equal(t, 41, result)
		d, err = x.Client.Signal(x.ctx, w.Token, runtime.Signal{Name: "go", Payload: 1})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalClosed, d.Outcome)
	})
}

// A wait without a signal ends by its timeout.
func TestContractWaitTimesOut(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		x.Keeper(t)
		for then, want := range map[activity.TimeoutBehavior]error{
			activity.FailOnTimeout: runtime.ErrRunFailed, activity.ResumeOnTimeout: nil,
			activity.CancelOnTimeout: runtime.ErrRunCancelled,
		} {
			f := flow.New[int, int]("times-out-" + string(then))
			flow.Return(f, flow.Waitpoint[int](f, "gate", activity.Timeout(200*time.Millisecond, then)))
			def, err := f.Build()
			require.NoError(t, err)
			x.Worker(t, []activity.Handler{fixture.AddOne()})
			run, err := runtime.Start(x.ctx, x.Client, def, 1)
			require.NoError(t, err)
			_, err = run.Result(x.ctx)
			require.ErrorIs(t, err, want, then)
		}
	})
}

// A function waits for signals, also for one that came before the wait began, and for a list of them.
func TestContractAwait(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		x.Keeper(t)
		tokens := make(chan activity.Token, 10)
		ask := activity.New("ask", func(ctx context.Context, n int) (string, error) {
			token, err := activity.OpenWaitpoint(ctx, "early", time.Hour)
			if err != nil {
				return "", err
			}
			tokens <- token
			early, err := activity.Await[int](ctx, "early")
			if err != nil {
				return "", err
			}
			list, err := activity.AwaitSignals[int](ctx, "list", activity.AtLeast(2))
			if err != nil {
				return "", err
			}
			_, err = activity.Await[int](ctx, "late", activity.Timeout(50*time.Millisecond, activity.ResumeOnTimeout))
			if !errors.Is(err, activity.ErrWaitTimedOut) {
				return "", err
			}
			text, err := json.Marshal([]any{early, list[0].Payload, list[1].Payload, list[1].Source})
			return string(text), err
		})
		def := fixture.OneNode(t, "ask", ask)
		x.Worker(t, def.Handlers())
		run, err := runtime.Start(x.ctx, x.Client, def, 1)
		require.NoError(t, err)
		var token activity.Token
		select {
		case token = <-tokens:
		case <-time.After(enginetest.Patience):
			require.Fail(t, "the function did not open its waitpoint")
		}
		_, err = x.Client.Signal(x.ctx, token, runtime.Signal{Name: "go", Payload: 5})
		require.NoError(t, err)
		var w runtime.Waitpoint
		enginetest.Eventually(t, func() string {
			if w = openWait(x.ctx, t, run); w.Step != "list" {
				return "it waits at " + w.Step
			}
			return ""
		})
		for i, who := range []string{"ann", "bob"} {
			_, err = x.Client.Signal(x.ctx, w.Token, runtime.Signal{Name: "go", Payload: i, Source: who})
			require.NoError(t, err)
		}
		result, err := run.Result(x.ctx)
		require.NoError(t, err)
		require.Equal(t, `[5,0,1,"bob"]`, result)
	})
}

// An operator ends waits, and a token of another waitpoint is not accepted.
func TestContractEndWait(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		f := flow.New[int, int]("ended")
		flow.Return(f, flow.Waitpoint[int](f, "gate"))
		def, err := f.Build()
		require.NoError(t, err)
		x.Worker(t, []activity.Handler{fixture.AddOne()})
		run, err := runtime.Start(x.ctx, x.Client, def, 1)
		require.NoError(t, err)
		require.NoError(t, run.ResumeWait(x.ctx, openWait(x.ctx, t, run), 12))
		result, err := run.Result(x.ctx)
		require.NoError(t, err)
		require.Equal(t, 12, result)

		other, err := runtime.Start(x.ctx, x.Client, def, 1)
		require.NoError(t, err)
		require.NoError(t, other.CancelWait(x.ctx, openWait(x.ctx, t, other), "no"))
		_, err = other.Result(x.ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
	})
}

// Joins work with a library that has the edge-group functions, and the upstreams that they do not need are cancelled.
func TestContractJoin(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		b := enginetest.NewContract(t, kind, runtime.OpenConfig{Partitions: 1})
		ctx := enginetest.Context(t)
		b.Keeper(t)
		slow := activity.New("slow", func(ctx context.Context, n int) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		add := fixture.AddOne()
		f := flow.New[int, int]("any")
		fast := flow.Node(f, "fast", add, f.Input())
		either := flow.Node(f, "either", add, flow.AnyOf(fast, flow.Node(f, "slow", slow, f.Input())))
		flow.Return(f, either)
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{add, slow})

		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, result)
	})
}

// Edges of other kinds work with a library that has the edge-group functions.
func TestContractEdgeKinds(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		b := enginetest.NewContract(t, kind, runtime.OpenConfig{Partitions: 1})
		ctx := enginetest.Context(t)
		b.Keeper(t)
		add := fixture.AddOne()
		odd := activity.New("odd", func(_ context.Context, n int) (int, error) {
			if n%2 == 0 {
				return 0, activity.NonRetryable(errors.New("it is even"))
			}
			return n, nil
		})
		f := flow.New[int, int]("ways")
		tried := flow.Node(f, "tried", odd, f.Input())
		good := flow.Node(f, "good", add, tried)
		undone := flow.Node(f, "undone", add, f.Input(), flow.OnFailure(tried))
		flow.Node(f, "clean", add, f.Input(), flow.Always(good, undone))
		flow.Return(f, good)
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{add, odd})
		for n, want := range map[int]map[string]fabrictype.NodeState{
			1: {"tried": fabrictype.NodeSucceeded, "good": fabrictype.NodeSucceeded, "undone": fabrictype.NodeSkipped, "clean": fabrictype.NodeSucceeded},
			2: {"tried": fabrictype.NodeFailed, "good": fabrictype.NodeSkipped, "undone": fabrictype.NodeSucceeded, "clean": fabrictype.NodeSucceeded},
		} {
			run, err := runtime.Start(ctx, b.Client, def, n)
			require.NoError(t, err)
			result, err := run.Result(ctx)
			if n == 1 {
				require.NoError(t, err)
				require.Equal(t, 2, result)
			} else {
				require.ErrorIs(t, err, runtime.ErrRunFailed)
			}
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			got := make(map[string]fabrictype.NodeState)
			for _, x := range d.Nodes {
				got[x.Name] = x.State
			}
			require.Equal(t, want, got)
		}
		b.Settle(t)
	})
}
