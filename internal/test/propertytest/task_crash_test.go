package propertytest

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// cutOnce loses the reply to the first call of one of some functions.
func cutOnce(functions ...string) func(chunk []byte) proxy.Fate {
	var done atomic.Bool
	return func(chunk []byte) proxy.Fate {
		for _, name := range functions {
			if bytes.Contains(chunk, []byte(name)) && done.CompareAndSwap(false, true) {
				return proxy.Cut
			}
		}
		return proxy.Pass
	}
}

// A call that settles a task takes effect once and returns success, although the first reply is lost.
func TestTaskLostReplies(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		t.Run("composite", func(t *testing.T) {
			t.Parallel()
			settleThroughCuts(t, kind, testserver.Shared(t, kind), "", enginetest.NewPrefix())
		})
		t.Run("contract", func(t *testing.T) {
			t.Parallel()
			settleThroughCuts(t, kind, enginetest.ContractServer(t, kind), enginetest.ContractQuery, enginetest.ContractPrefix)
		})
		t.Run("reference", func(t *testing.T) {
			t.Parallel()
			library := enginetest.Reference(t)
			if kind != testserver.Valkey {
				t.Skip("the reference library is tested on Valkey")
			}
			settleThroughCuts(t, kind, enginetest.ServerWith(t, kind, library), enginetest.ContractQuery, enginetest.ContractPrefix)
		})
	})
}

func settleThroughCuts(t *testing.T, kind testserver.Kind, server *testserver.Server, query, prefix string) {
	near := enginetest.Open(t, kind, server.URL()+query, prefix)
	p := proxy.Start(t, server.Addr())
	far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr()+query, prefix)
	near.Keeper(t)
	h := fixture.NewHolder(t, far, runtime.WorkerConfig{NoKeeper: true})
	for _, c := range []struct {
		name      string
		functions []string
		settle    func(context.Context, *runtime.Task) error
		state     fabrictype.NodeState
		again     bool // the same attempt can be claimed again
	}{
		{"complete", []string{"ffx3_work", "ff_complete_execution"}, func(ctx context.Context, task *runtime.Task) error {
			return task.Complete(ctx, []byte("done"))
		}, fabrictype.NodeSucceeded, false},
		{"fail", []string{"ffx3_fail", "ff_fail_execution"}, func(ctx context.Context, task *runtime.Task) error {
			_, err := task.Fail(ctx, activity.NonRetryable(errors.New("broken")))
			return err
		}, fabrictype.NodeFailed, false},
		{"cancel", []string{"ff_cancel_execution"}, func(ctx context.Context, task *runtime.Task) error {
			return task.Cancel(ctx, "superseded")
		}, fabrictype.NodeCancelled, false},
		{"delay", []string{"ff_delay_execution"}, func(ctx context.Context, task *runtime.Task) error {
			return task.Delay(ctx, time.Now().Add(50*time.Millisecond))
		}, "", true},
		{"suspend", []string{"ff_suspend_execution"}, func(ctx context.Context, task *runtime.Task) error {
			token, err := task.Suspend(ctx, activity.Signals("yes"), activity.Timeout(50*time.Millisecond, activity.ResumeOnTimeout))
			if err == nil && token == (activity.Token{}) {
				err = errors.New("the token is missing")
			}
			return err
		}, "", true},
		{"release", []string{"ffx3_release", "ff_delay_execution"}, func(ctx context.Context, task *runtime.Task) error {
			return task.Release(ctx)
		}, "", true},
		{"wait for children", []string{"ff_move_to_waiting_children"}, func(ctx context.Context, task *runtime.Task) error {
			return task.WaitForChildren(ctx)
		}, fabrictype.NodeWaitingChildren, false},
	} {
		operator, id := h.Outside(admin.ExecutionSpec{})
		task := h.Next()
		lost := p.Lost()
		p.Intercept(cutOnce(c.functions...))
		require.NoError(t, c.settle(h.Ctx, task), c.name)
		require.Greater(t, p.Lost(), lost, c.name)
		p.Intercept(nil)
		require.NoError(t, c.settle(h.Ctx, task), "%s is safe to repeat", c.name)
		if c.again {
			again := h.Next()
			require.Equal(t, task.Info().AttemptID, again.Info().AttemptID, c.name)
			require.NoError(t, again.Complete(h.Ctx, nil))
			continue
		}
		state, err := operator.ExecutionState(h.Ctx, id)
		require.NoError(t, err)
		require.Equal(t, c.state, state, c.name)
	}
}

// A task ends with its execution, and at the limits of its attempt. Its context and its methods return the cause.
func TestTaskEndsByItself(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		for cause, c := range map[error]struct {
			options []activity.Option
			end     func(run *runtime.Run[int]) error
		}{
			runtime.ErrCancelled: {nil, func(run *runtime.Run[int]) error {
				return run.Cancel(h.Ctx, "enough")
			}},
			runtime.ErrStartToClose:     {[]activity.Option{activity.StartToClose(time.Second)}, nil},
			runtime.ErrHeartbeatTimeout: {[]activity.Option{activity.HeartbeatTimeout(time.Second)}, nil},
		} {
			run := h.Started(1, append(c.options, activity.Retry(activity.RetryPolicy{Attempts: 1}))...)
			task := h.Next()
			if c.end != nil {
				require.NoError(t, c.end(run))
			}
			select {
			case <-task.Context().Done():
			case <-h.Ctx.Done():
				require.Fail(t, "the task continues", cause)
			}
			require.ErrorIs(t, context.Cause(task.Context()), cause)
			require.ErrorIs(t, task.Complete(h.Ctx, 1), cause)
			_, err := run.Result(h.Ctx)
			require.Error(t, err)
		}
		b.Settle(t)
	})
}
