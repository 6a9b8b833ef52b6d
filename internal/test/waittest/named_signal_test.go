package waittest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Signals by name reach waits that have not begun, that are open, and that are over, of nodes and of functions; the
// first one starts the run.
func TestStartOrSignal(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def, handlers := fixture.Gathering(t)
		orders, more := runtime.WaitName{Node: "orders"}, runtime.WaitName{Node: "sum", Step: "more"}
		send := func(in int, w runtime.WaitName, s runtime.Signal) (*runtime.Run[int], fabrictype.SignalResult) {
			run, err := runtime.Start(ctx, b.Client, def, in, runtime.WithSignal(w, s), runtime.WithID("one"))
			require.NoError(t, err)
			return run, run.SignalResult()
		}
		run, sent := send(1, orders, runtime.Signal{Name: "order", Payload: 10, IdempotencyKey: "a"})
		require.False(t, run.Existed())
		require.Equal(t, fabrictype.SignalAccepted, sent.Outcome)
		// Another input refers to the same run.
		run, sent = send(2, orders, runtime.Signal{Name: "order", Payload: 10, IdempotencyKey: "a"})
		require.True(t, run.Existed())
		require.Equal(t, fabrictype.SignalDuplicate, sent.Outcome)
		require.Equal(t, fabrictype.SignalAccepted, sent.First)
		_, sent = send(1, more, runtime.Signal{Name: "any", Payload: 100})
		require.Equal(t, fabrictype.SignalAccepted, sent.Outcome)
		waits, err := run.Waitpoints(ctx)
		require.NoError(t, err)
		require.Len(t, waits, 2)
		for _, w := range waits {
			require.Equal(t, fabrictype.WaitPending, w.State)
			require.Equal(t, 1, w.Received)
		}
		b.Check(t, 0)

		b.Keeper(t)
		b.Worker(t, handlers)
		sent, err = run.SignalWait(ctx, orders, runtime.Signal{Name: "order", Payload: 20})
		require.NoError(t, err)
		require.Contains(t, []fabrictype.SignalOutcome{fabrictype.SignalAccepted, fabrictype.SignalResumed}, sent.Outcome)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 130, out)
		d, err := run.DescribeNode(ctx, "sum")
		require.NoError(t, err)
		require.Equal(t, 1, d.Attempts)
		for _, w := range []runtime.WaitName{orders, more} {
			_, sent = send(1, w, runtime.Signal{Name: "order", Payload: 1})
			require.Equal(t, fabrictype.SignalClosed, sent.Outcome)
		}
		_, sent = send(2, orders, runtime.Signal{Name: "order", Payload: 10, IdempotencyKey: "a"})
		require.Equal(t, fabrictype.SignalDuplicate, sent.Outcome)
		b.Settle(t)

		// An open wait is ended.
		asked, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("two"))
		require.NoError(t, err)
		for range 2 {
			_, err = asked.SignalWait(ctx, orders, runtime.Signal{Name: "order", Payload: 1})
			require.NoError(t, err)
		}
		enginetest.Eventually(t, func() string {
			d, err := asked.DescribeNode(ctx, "sum")
			require.NoError(t, err)
			if d.State != fabrictype.NodeSuspended {
				return fmt.Sprintf("sum is %s", d.State)
			}
			return ""
		})
		sent, err = asked.SignalWait(ctx, more, runtime.Signal{Name: "any", Payload: 5})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalResumed, sent.Outcome)
		out, err = asked.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, out)

		// A node that runs again waits again, and takes signals again.
		require.NoError(t, asked.Rerun(ctx, fabrictype.RerunAll))
		for range 2 {
			_, err = asked.SignalWait(ctx, orders, runtime.Signal{Name: "order", Payload: 2})
			require.NoError(t, err)
		}
		_, err = asked.SignalWait(ctx, more, runtime.Signal{Name: "any", Payload: 6})
		require.NoError(t, err)
		out, err = asked.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 10, out)
		b.Settle(t)
		require.NoError(t, run.Purge(ctx))
		require.NoError(t, asked.Purge(ctx))
		b.Settle(t)
	})
}

// A faulty signal by name returns its fault, and starts no run.
func TestStartOrSignalRefuses(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def, _ := fixture.Gathering(t)
		for text, try := range map[string]struct {
			wait   runtime.WaitName
			signal runtime.Signal
			want   error
		}{
			`node "nobody": no such node`: {runtime.WaitName{Node: "nobody"}, runtime.Signal{Name: "s"}, engine.ErrUnknownNode},
			`node orders is a waitpoint, and has no wait "more"`: {
				runtime.WaitName{Node: "orders", Step: "more"}, runtime.Signal{Name: "s"}, runtime.ErrInvalid,
			},
			"node sum is not a waitpoint: the wait of its function must be named": {
				runtime.WaitName{Node: "sum"}, runtime.Signal{Name: "s"}, runtime.ErrInvalid,
			},
			"name": {runtime.WaitName{Node: "orders"}, runtime.Signal{Name: "a b"}, runtime.ErrInvalid},
			"payload has 65537 bytes, at most 65536 are allowed": {
				runtime.WaitName{Node: "sum", Step: "more"}, runtime.Signal{Name: "s", Payload: strings.Repeat("x", 65535)}, runtime.ErrTooLarge,
			},
			"payload of signal order: got string, want null or integer": {
				runtime.WaitName{Node: "orders"}, runtime.Signal{Name: "order", Payload: "ten"}, runtime.ErrInvalid,
			},
		} {
			_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithSignal(try.wait, try.signal), runtime.WithID("refused"))
			require.ErrorIs(t, err, try.want, text)
			require.ErrorContains(t, err, text)
		}
		ref := b.Client.Run(def.Name(), "refused")
		_, err := ref.Describe(ctx)
		require.ErrorIs(t, err, engine.ErrRunNotFound)
		_, err = ref.SignalWait(ctx, runtime.WaitName{Node: "orders"}, runtime.Signal{Name: "order"})
		require.ErrorIs(t, err, engine.ErrRunNotFound)

		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("there"))
		require.NoError(t, err)
		_, err = run.SignalWait(ctx, runtime.WaitName{Node: "nobody"}, runtime.Signal{Name: "order"})
		require.ErrorIs(t, err, engine.ErrUnknownNode)
		_, err = run.SignalWait(ctx, runtime.WaitName{Node: "sum"}, runtime.Signal{Name: "order"})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		_, err = run.SignalWait(ctx, runtime.WaitName{Node: "orders"}, runtime.Signal{Name: "order", Payload: "ten"})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		var fault *fabrictype.ValueError
		require.True(t, errors.As(err, &fault), err)
		waits, err := run.Waitpoints(ctx)
		require.NoError(t, err)
		for _, w := range waits {
			require.Zero(t, w.Received)
		}
		require.NoError(t, run.Cancel(ctx, "enough"))
		b.Keeper(t)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		sent, err := run.SignalWait(ctx, runtime.WaitName{Node: "orders"}, runtime.Signal{Name: "order", Payload: 1})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalClosed, sent.Outcome)
		b.Settle(t)
	})
}

// Many programs send to a run that none has started: there is one run, and all signals are in it.
func TestStartOrSignalAtOnce(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const senders = 40
		ctx := enginetest.Context(t)
		count := activity.New("count", func(_ context.Context, list []activity.Signal[int]) (int, error) {
			sum := 0
			for _, s := range list {
				sum += s.Payload
			}
			return sum, nil
		})
		f := flow.New[int, int]("gather")
		all := flow.WaitpointSignals[int](f, "all", activity.AtLeast(senders))
		flow.Return(f, flow.Node(f, "count", count, all))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{count})
		var started atomic.Int64
		errs := make(chan error, senders)
		for i := range senders {
			go func() {
				run, err := runtime.Start(ctx, b.Client, def, i, runtime.WithSignal(runtime.WaitName{Node: "all"}, runtime.Signal{Name: "n", Payload: i}), runtime.WithID("one"))
				if err == nil && !run.Existed() {
					started.Add(1)
				}
				errs <- err
			}()
		}
		for range senders {
			require.NoError(t, <-errs)
		}
		require.EqualValues(t, 1, started.Load())
		run, err := runtime.Attach(b.Client.Run(def.Name(), "one"), def)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, senders*(senders-1)/2, out)
		b.Settle(t)
	})
}

// A signal to the wait of a function comes before its first attempt, in a run of nothing else: with the start, and to a
// run that was started before.
func TestSignalWaitBeforeTheFunction(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		ask := activity.New("ask", func(ctx context.Context, n int) (int, error) {
			if _, err := activity.OpenWaitpoint(ctx, "answer", 0, activity.Title("said ahead")); err != nil {
				return 0, err
			}
			answer, err := activity.Await[int](ctx, "answer")
			return n + answer, err
		})
		for _, length := range []int{1, 3} {
			f := flow.New[int, int](fmt.Sprint("asks-", length))
			last := flow.Node(f, "ask-1", ask, f.Input())
			for i := 2; i <= length; i++ {
				last = flow.Node(f, fmt.Sprint("ask-", i), ask, last)
			}
			flow.Return(f, last)
			def, err := f.Build()
			require.NoError(t, err)
			wait := func(i int) runtime.WaitName { return runtime.WaitName{Node: fmt.Sprint("ask-", i), Step: "answer"} }
			with, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithSignal(wait(1), runtime.Signal{Name: "any", Payload: 10}))
			require.NoError(t, err)
			require.Equal(t, fabrictype.SignalAccepted, with.SignalResult().Outcome)
			before, err := runtime.Start(ctx, b.Client, def, 1)
			require.NoError(t, err)
			for i := 1; i <= length; i++ {
				for _, run := range []*runtime.Run[int]{with, before} {
					if run == with && i == 1 {
						continue
					}
					sent, err := run.SignalWait(ctx, wait(i), runtime.Signal{Name: "any", Payload: 10})
					require.NoError(t, err)
					require.Equal(t, fabrictype.SignalAccepted, sent.Outcome)
				}
			}
			b.Check(t, 0)
			worker := b.KeepingWorker(t, []activity.Handler{ask})
			for _, run := range []*runtime.Run[int]{with, before} {
				out, err := run.Result(ctx)
				require.NoError(t, err)
				require.Equal(t, 1+10*length, out)
			}
			require.NoError(t, worker.Stop())
			b.Settle(t)
		}
	})
}
