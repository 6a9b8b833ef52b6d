package tasktest

import (
	"context"
	"encoding/json"
	"errors"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A task adds a dependency to its own execution and waits for it.
func TestTaskWaitForChildren(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		operator, err := admin.New(b.Engine)
		require.NoError(t, err)
		id, _, err := operator.CreateFlow(h.Ctx, admin.FlowSpec{Kind: "tree"})
		require.NoError(t, err)
		member := func(payload string) enginecore.ExecutionID {
			spec := admin.ExecutionSpec{Flow: id, Payload: []byte(payload)}
			_, member := h.Outside(spec)
			_, _, err := operator.AddExecution(h.Ctx, id, member)
			require.NoError(t, err)
			return member
		}
		parent := member("parent")
		task := h.Next()
		require.Equal(t, string(parent), task.Info().ExecutionID)

		child := member("child")
		f, err := operator.Flow(h.Ctx, id)
		require.NoError(t, err)
		edge := admin.Edge{Flow: id, Upstream: child, Downstream: parent}
		edgeID, revision, err := operator.StageEdge(h.Ctx, edge, f.Revision)
		require.NoError(t, err)
		edge.ID = edgeID
		_, _, err = operator.ApplyEdge(h.Ctx, edge, revision)
		require.NoError(t, err)
		require.NoError(t, task.WaitForChildren(h.Ctx))
		require.NoError(t, task.WaitForChildren(h.Ctx), "it is safe to repeat")

		first := h.Next()
		require.Equal(t, string(child), first.Info().ExecutionID)
		state, err := operator.ExecutionState(h.Ctx, parent)
		require.NoError(t, err)
		require.NotEqual(t, fabrictype.NodeActive, state)
		require.NoError(t, first.Complete(h.Ctx, []byte("of the child")))
		again := h.Next()
		require.Equal(t, string(parent), again.Info().ExecutionID)
		require.Equal(t, task.Info().AttemptID, again.Info().AttemptID, "it is the same attempt")
		require.Greater(t, again.Info().LeaseEpoch, task.Info().LeaseEpoch)
		require.NoError(t, again.Complete(h.Ctx, []byte("done")))
	})
}

// A wait that its timeout ends has no signals.
func TestTaskSuspendTimesOut(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		h.Outside(admin.ExecutionSpec{})
		task := h.Next()
		_, err := task.Suspend(h.Ctx, activity.Signals("yes"), activity.Timeout(50*time.Millisecond, activity.ResumeOnTimeout))
		require.NoError(t, err)
		again := h.Next()
		require.Equal(t, task.Info().AttemptID, again.Info().AttemptID)
		signals, err := again.ResumeSignals(h.Ctx)
		require.NoError(t, err)
		require.Empty(t, signals)
		require.NoError(t, again.Complete(h.Ctx, nil))
	})
}

// The wait of a task has its question, is found by its audience, and refuses payloads that do not satisfy its schema.
func TestTaskSuspend_DescribesItsWait(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		run := h.Started(1)
		task := h.Next()
		told := []activity.WaitOption{
			activity.Signals("yes"), activity.Title("Approve"), activity.Question("Is it right?"), activity.Audience("crew"),
		}
		_, err := task.Suspend(h.Ctx, append(told, activity.AnswerSchema(json.RawMessage(`{"type":7}`)))...)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		_, err = task.Suspend(h.Ctx, append(told, activity.AnswerSchema(json.RawMessage(`{"$schema":"http://json-schema.org/draft-06/schema"}`)))...)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, "answer schema: /$schema: draft 6 is not supported")
		token, err := task.Suspend(h.Ctx, append(told, activity.AnswerSchema(json.RawMessage(`{"type":"integer"}`)))...)
		require.NoError(t, err)
		found := fixture.AwaitWaits(t, b.Client, runtime.WaitQuery{Audience: "crew"}, 1)[0]
		require.Equal(t, [2]string{"Approve", "Is it right?"}, [2]string{found.Title, found.Question})
		_, err = b.Client.Signal(h.Ctx, token, runtime.Signal{Name: "yes", Payload: "six"})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		_, ok := errors.AsType[*fabrictype.ValueError](err)
		require.True(t, ok, err)
		sent, err := b.Client.Signal(h.Ctx, token, runtime.Signal{Name: "yes", Payload: 6})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalResumed, sent.Outcome)
		again := h.Next()
		signals, err := again.ResumeSignals(h.Ctx)
		require.NoError(t, err)
		require.Equal(t, "6", string(signals[0].Payload))
		require.NoError(t, again.Complete(h.Ctx, 6))
		h.RequireResult(run, 6)
		b.Settle(t)
	})
}

// Waits and steps of package activity work with a task: the error of Await suspends it, also if the signal has come
// before.
func TestTaskAwait(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		for _, early := range []bool{false, true} {
			run := h.Started(1)
			task := h.Next()
			token, err := activity.OpenWaitpoint(task.Context(), "answer", 0)
			require.NoError(t, err)
			signal := func() {
				_, err := b.Client.Signal(h.Ctx, token, runtime.Signal{Name: "yes", Payload: 6})
				require.NoError(t, err)
			}
			if early {
				signal()
			}
			_, err = activity.Await[int](task.Context(), "answer", activity.Signals("yes"))
			require.Error(t, err)
			again, err := task.Fail(h.Ctx, err)
			require.NoError(t, err)
			require.True(t, again)
			require.ErrorIs(t, task.Complete(h.Ctx, 1), runtime.ErrTaskSettled)
			if !early {
				signal()
			}
			task = h.Next()
			require.Equal(t, 1, task.Info().Attempt)
			n, err := activity.Await[int](task.Context(), "answer", activity.Signals("yes"))
			require.NoError(t, err)
			require.NoError(t, task.Complete(h.Ctx, n))
			h.RequireResult(run, 6)
		}
		b.Settle(t)
	})
}

// Functions see the source and ids of their signals, and so do nodes after a waitpoint.
func TestSignalsDescribeThemselves(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Keeper(t)
		tokens, seen := make(chan activity.Token, 10), make(chan []activity.Signal[string], 1)
		ask := activity.New("ask", func(ctx context.Context, _ int) (int, error) {
			token, err := activity.OpenWaitpoint(ctx, "votes", 0)
			if err != nil {
				return 0, err
			}
			tokens <- token
			signals, err := activity.AwaitSignals[string](ctx, "votes", activity.Signals("vote"), activity.AtLeast(2))
			if err != nil {
				return 0, err
			}
			seen <- signals
			return len(signals), nil
		})
		b.Worker(t, []activity.Handler{ask})
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, ask), 1)
		require.NoError(t, err)
		token := <-tokens
		first, err := b.Client.Signal(ctx, token, runtime.Signal{
			Name: "vote", Payload: "for", Source: "ann", Category: "review", CorrelationID: "case 7",
		})
		require.NoError(t, err)
		_, err = b.Client.Signal(ctx, token, runtime.Signal{Name: "vote", Payload: "against"})
		require.NoError(t, err)
		signals := <-seen
		require.Len(t, signals, 2)
		require.NotZero(t, signals[0].At)
		signals[0].At = 0
		require.Equal(t, activity.Signal[string]{
			ID: first.SignalID, Name: "vote", Category: "review", SourceType: "client", CorrelationID: "case 7",
			Source: "ann", Payload: "for",
		}, signals[0])
		require.Equal(t, "external", signals[1].Category)
		require.Empty(t, signals[1].CorrelationID)
		_, err = run.Result(ctx)
		require.NoError(t, err)

		f := flow.New[int, []activity.Signal[string]]("asked")
		flow.Return(f, flow.WaitpointSignals[string](f, "votes", activity.Signals("vote"), activity.AtLeast(1)))
		asked, err := f.Build()
		require.NoError(t, err)
		node, err := runtime.Start(ctx, b.Client, asked, 1)
		require.NoError(t, err)
		first, err = b.Client.Signal(ctx, fixture.OpenWaitToken(ctx, t, b, node.RunRef), runtime.Signal{
			Name: "vote", Payload: "for", Source: "ann", Category: "review", CorrelationID: "case 7",
		})
		require.NoError(t, err)
		signals, err = node.Result(ctx)
		require.NoError(t, err)
		require.Len(t, signals, 1)
		signals[0].At = 0
		require.Equal(t, activity.Signal[string]{
			ID: first.SignalID, Name: "vote", Category: "review", SourceType: "client", CorrelationID: "case 7",
			Source: "ann", Payload: "for",
		}, signals[0])

		long := strings.Repeat("x", 257)
		for _, s := range []runtime.Signal{{Category: long}, {CorrelationID: long}} {
			s.Name = "vote"
			_, err := b.Client.Signal(ctx, token, s)
			require.ErrorIs(t, err, runtime.ErrTooLarge)
		}
		for _, s := range []runtime.Signal{{Category: "a\nb"}, {CorrelationID: "a\x00"}} {
			s.Name = "vote"
			_, err := b.Client.Signal(ctx, token, s)
			require.ErrorIs(t, err, runtime.ErrInvalid)
		}
	})
}

// inspected is an error that calls a function when it is looked into.
type inspected func()

func (e inspected) Error() string { return "inspected" }

func (e inspected) Unwrap() error {
	e()
	return nil
}

// findDropped runs the garbage collector until it has found the dropped objects.
func findDropped(t *testing.T) {
	for range 2 {
		found := make(chan struct{})
		goruntime.AddCleanup(new([64]int), func(chan struct{}) { close(found) }, found)
		enginetest.Eventually(t, func() string {
			goruntime.GC()
			select {
			case <-found:
				return ""
			default:
				return "the garbage collector has found nothing"
			}
		})
	}
}

// A task is not taken for dropped while its last method runs.
func TestTaskInUseIsNotDropped(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		run := h.Started(1, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		_, err := h.Next().Fail(h.Ctx, inspected(sync.OnceFunc(func() { findDropped(t) })))
		require.NoError(t, err)
		_, err = run.Result(h.Ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
	})
}
