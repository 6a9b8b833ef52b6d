package operatetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/runcontrol"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// callList collects the calls that interceptors see.
type callList struct {
	mu   sync.Mutex
	list []string
}

func (l *callList) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, fmt.Sprintf(format, args...))
}

func (l *callList) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

// around notes the beginning and the end of an operation.
func (l *callList) around(name string) interceptor.Client {
	return func(next interceptor.ClientFunc) interceptor.ClientFunc {
		return func(ctx context.Context, call *interceptor.ClientCall) error {
			l.add("%s %s %s/%s %s%s", name, call.Operation, call.Flow, call.Run, call.Node, call.Input)
			err := next(ctx, call)
			l.add("%s %v", name, err == nil)
			return err
		}
	}
}

// Interceptors of a client are around operations on runs, in order, and see the names of the runs.
func TestClientInterceptors(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var calls callList
		a := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		def := fixture.OneNode(t, "plain", a)
		client := b.Client.Use(calls.around("outer")).As("ann").Use(calls.around("inner"))
		run, err := runtime.Start(ctx, client, def, 3, runtime.WithID("A-1"))
		require.NoError(t, err)
		require.Equal(t, []string{
			"outer start plain/A-1 3", "inner start plain/A-1 3", "inner true", "outer true",
		}, calls.take())
		_, err = runtime.Start(ctx, client, def, 4, runtime.WithID("A-1"))
		require.ErrorIs(t, err, engine.ErrOtherInput)
		require.Equal(t, []string{
			"outer start plain/A-1 4", "inner start plain/A-1 4", "inner false", "outer false",
		}, calls.take())
		b.Worker(t, []activity.Handler{a})
		b.Keeper(t)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 6, out)
		require.Len(t, calls.take(), 4)
		require.ErrorIs(t, client.Run("plain", "A-1").Cancel(ctx, "no"), engine.ErrRunOver)
		require.Equal(t, "outer cancel plain/A-1 ", calls.take()[0])
		many, err := runtime.StartMany(ctx, client, def, []runtime.NewRun[int]{{Input: 5}, {Input: 6}})
		require.NoError(t, err)
		require.Len(t, calls.take(), 8)
		for i, started := range many {
			require.NoError(t, started.Err)
			out, err := started.Run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, 10+2*i, out)
		}
		calls.take()
		_, err = b.Client.Run("plain", "A-1").Describe(ctx) // without interceptors
		require.NoError(t, err)
		require.Empty(t, calls.take())

		if !b.Contract() {
			ref := client.Run("plain", "A-1")
			require.ErrorIs(t, ref.Pause(ctx, "no"), engine.ErrRunOver)
			require.NoError(t, ref.Rerun(ctx, fabrictype.RerunAll))
			_, err = run.Result(ctx)
			require.NoError(t, err)
			require.ErrorIs(t, ref.CancelNode(ctx, "node", "no"), engine.ErrNodeOver)
			_, err = ref.SignalWait(ctx, runtime.WaitName{Node: "node", Step: "s"}, runtime.Signal{Name: "x"})
			require.NoError(t, err)
			require.ErrorIs(t, ref.MoveTimer(ctx, "node", time.Now()), runcontrol.ErrNotSleeping)
			require.ErrorIs(t, ref.SkipTimer(ctx, "node"), runcontrol.ErrNotSleeping)
			require.Error(t, ref.MoveStart(ctx, time.Now().Add(time.Hour)))
			require.ErrorIs(t, ref.SetPriority(ctx, 1), engine.ErrRunOver)
			require.ErrorIs(t, ref.SetNodePriority(ctx, "node", 1), engine.ErrRunOver)
			gone := runtime.Waitpoint{Wait: fabrictype.Wait{Node: "node", ID: "none"}}
			require.Error(t, ref.ResumeWait(ctx, gone, nil))
			require.Error(t, ref.CancelWait(ctx, gone, "no"))
			require.NoError(t, ref.Purge(ctx))
			var operations []string
			for _, call := range calls.take() {
				var name, operation string
				if n, _ := fmt.Sscanf(call, "outer %s %s", &operation, &name); n == 2 {
					operations = append(operations, operation)
				}
			}
			require.Equal(t, []string{
				"pause", "rerun", "result", "cancel_node", "signal", "move_timer", "skip_timer", "move_start", "set_priority",
				"set_priority", "resume_wait", "cancel_wait", "purge",
			}, operations)
		}

		refuse := errors.New("not today")
		refusing := b.Client.Use(func(interceptor.ClientFunc) interceptor.ClientFunc {
			return func(context.Context, *interceptor.ClientCall) error { return refuse }
		})
		_, err = runtime.Start(ctx, refusing, def, 3, runtime.WithID("A-2"))
		require.ErrorIs(t, err, refuse)
		_, err = b.Client.Run("plain", "A-2").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrRunNotFound)
		skipping := b.Client.Use(func(interceptor.ClientFunc) interceptor.ClientFunc {
			return func(context.Context, *interceptor.ClientCall) error { return nil }
		})
		_, err = runtime.Start(ctx, skipping, def, 3)
		require.ErrorContains(t, err, "left the operation start out without an error")
		_, err = runtime.Start(ctx, b.Client.Use(nil), def, 3)
		require.ErrorContains(t, err, "interceptor 1 of the client is nil")
		empty := b.Client.Use(func(interceptor.ClientFunc) interceptor.ClientFunc { return nil })
		_, err = runtime.Start(ctx, empty, def, 3)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, "interceptor 1 of the client returned no function")
	})
}

// Interceptors of a worker are around each attempt of a function, in order, and may change input, result and error.
func TestActivityInterceptors(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var calls callList
		around := func(name string) interceptor.Activity {
			return func(next interceptor.ActivityFunc) interceptor.ActivityFunc {
				return func(ctx context.Context, call *interceptor.ActivityCall) ([]byte, error) {
					i := call.Info
					calls.add("%s %s %s/%s/%s %d %s", name, i.Kind, i.Flow, i.RunID, i.Node, i.Attempt, call.Input)
					result, err := next(ctx, call)
					calls.add("%s %s %v %v", name, result, err == nil, interceptor.IsFailure(err))
					return result, err
				}
			}
		}
		rewrite := func(next interceptor.ActivityFunc) interceptor.ActivityFunc {
			return func(ctx context.Context, call *interceptor.ActivityCall) ([]byte, error) {
				if string(call.Input) == "9" {
					return nil, activity.NonRetryable(errors.New("nine"))
				}
				call.Input = append([]byte("1"), call.Input...)
				return next(ctx, call)
			}
		}
		double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		wait := activity.New("wait", func(ctx context.Context, n int) (int, error) {
			return activity.Await[int](ctx, "go")
		})
		b.Worker(t, []activity.Handler{double, wait}, runtime.WorkerConfig{
			Interceptors: []interceptor.Activity{around("outer"), rewrite, around("inner")},
		})
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "plain", double), 3, runtime.WithID("A-1"))
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 26, out)
		require.Equal(t, []string{
			"outer double plain/A-1/node 1 3", "inner double plain/A-1/node 1 13", "inner 26 true false", "outer 26 true false",
		}, calls.take())
		run, err = runtime.Start(ctx, b.Client, fixture.OneNode(t, "plain", double), 9)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorContains(t, err, "nine")
		require.Equal(t, "outer  false true", calls.take()[1])

		run, err = runtime.Start(ctx, b.Client, fixture.OneNode(t, "waits", wait), 1)
		require.NoError(t, err)
		token := fixture.OpenWaitToken(ctx, t, b, run.RunRef)
		_, err = b.Client.Use(calls.around("client")).Signal(ctx, token, runtime.Signal{Name: "go", Payload: 7})
		require.NoError(t, err)
		out, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, out)
		require.Contains(t, calls.take(), "outer  false false")
	})
}
