package enginerpc

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

var errLeft = errors.New("the caller left")

// unansweredCalls are ways to call a server that does not answer, and whether the outcome is unknown then.
func unansweredCalls(conn *Conn) map[string]func(context.Context) error {
	client := conn.Client()
	return map[string]func(context.Context) error{
		"reads": func(ctx context.Context) error {
			_, err := conn.Version(ctx, VersionCall{})
			return err
		},
		"reads in a pipeline": func(ctx context.Context) error {
			p := conn.Pipeline()
			result := Add(p, VersionCall{})
			if err := p.Run(ctx); err == nil {
				return nil
			}
			_, err := result.Get()
			return err
		},
		"reads without Do": func(ctx context.Context) error {
			command, err := Command(conn, VersionCall{})
			if err == nil {
				_, err = Decode(ctx, VersionCall{}, client.Do(ctx, command))
			}
			return err
		},
		"a command": func(ctx context.Context) error {
			return CommandError(ctx, "GET", client.Do(ctx, client.B().Get().Key("k").Build()).Error())
		},
		"commands": func(ctx context.Context) error {
			return CommandError(ctx, "GET", client.DoMulti(ctx, client.B().Get().Key("k").Build())[0].Error())
		},
		"the clock": func(ctx context.Context) error {
			_, err := conn.Now(ctx)
			return err
		},
		"changes": func(ctx context.Context) error {
			_, err := conn.ResetBudget(ctx, resetAny())
			return err
		},
		"changes in a pipeline": func(ctx context.Context) error {
			p := conn.Pipeline()
			Add(p, resetAny())
			return p.Run(ctx)
		},
	}
}

// resetAny is a call that is not safe to repeat.
func resetAny() ResetBudgetCall {
	return ResetBudgetCall{
		Partition: keyspace.Partition{Family: keyspace.BudgetFamily}, BudgetID: "budget", Now: time.Now(),
	}
}

// oneConnection makes a client have a connection before the server stops answering, and keep it: while a client of this
// library connects, its callers cannot leave, nor can one that reads its answer itself.
func oneConnection(option *rueidis.ClientOption) {
	option.AlwaysPipelining = true
	option.PipelineMultiplex = -1
	option.ConnWriteTimeout = time.Minute
}

// The error of a call whose context ends before an answer arrives states that, and not that the engine is
// unavailable.
func TestUnanswered_ContextEnds(t *testing.T) {
	t.Parallel()
	for _, kind := range []testserver.Kind{testserver.Redis, testserver.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := testserver.Start(t, testserver.Options{Kind: kind})
			conn, err := Connect(t.Context(), clientFor(t, s.Addr(), oneConnection), Options{})
			require.NoError(t, err)
			admin := clientFor(t, s.Addr())
			require.NoError(t, admin.Do(t.Context(), admin.B().ClientPause().Timeout(60_000).All().Build()).Error())
			for name, call := range unansweredCalls(conn) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					changes := strings.HasPrefix(name, "changes")
					late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
					defer cancel()
					requireUnanswered(t, call(late), changes, context.DeadlineExceeded)

					left, leave := context.WithCancelCause(t.Context())
					time.AfterFunc(50*time.Millisecond, func() { leave(errLeft) })
					err := call(left)
					requireUnanswered(t, err, changes, errLeft)
					require.ErrorIs(t, err, context.Canceled)
					if err = call(left); name != "the clock" {
						require.ErrorIs(t, err, errLeft)
						require.NotErrorIs(t, err, enginecore.ErrUnavailable)
					}
				})
			}
		})
	}
}

func requireUnanswered(t *testing.T, err error, changes bool, cause error) {
	t.Helper()
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, "not answered before the context ended: "+cause.Error())
	require.True(t, IsUnanswered(err))
	require.NotErrorIs(t, err, enginecore.ErrUnavailable)
	require.NotErrorIs(t, err, enginecore.ErrNotReachable)
	if changes {
		require.ErrorIs(t, err, enginecore.ErrOutcomeUnknown)
	} else {
		require.NotErrorIs(t, err, enginecore.ErrOutcomeUnknown)
	}
}

// The error of a call whose context ends contains the error for which the call was repeated.
func TestUnanswered_NamesLastError(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Kind: testserver.Redis})
	conn, err := Connect(t.Context(), clientFor(t, s.Addr()), Options{})
	require.NoError(t, err)
	admin := clientFor(t, s.Addr())
	require.NoError(t, admin.Do(t.Context(),
		admin.B().Arbitrary("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1").Build()).Error())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	id := enginecore.FlowID("00000000-0000-4000-8000-000000000000")
	p, err := conn.FlowPartition(id)
	require.NoError(t, err)
	_, err = conn.CreateFlow(ctx, CreateFlowCall{Partition: p, FlowID: id, FlowKind: "k", Namespace: "n"})
	for _, target := range []error{context.DeadlineExceeded, enginecore.ErrFull, enginecore.ErrUnavailable} {
		require.ErrorIs(t, err, target)
	}
	require.ErrorContains(t, err, "ff_create_flow: not answered before the context ended: context deadline exceeded; "+
		"before that: engine full: OOM ")
	require.Equal(t, 1, strings.Count(err.Error(), "ff_create_flow: "))

	for name, x := range map[string]struct {
		err     error
		changes bool
		is, not error
	}{
		"broken":          {errors.New("connection reset"), false, enginecore.ErrUnavailable, enginecore.ErrOutcomeUnknown},
		"broken, changes": {errors.New("connection reset"), true, enginecore.ErrOutcomeUnknown, enginecore.ErrUnavailable},
		"closed":          {rueidis.ErrClosing, false, enginecore.ErrClosed, enginecore.ErrOutcomeUnknown},
		"closed, changes": {rueidis.ErrClosing, true, enginecore.ErrClosed, enginecore.ErrUnavailable},
		"cancelled":       {context.Canceled, false, context.Canceled, enginecore.ErrUnavailable},
	} {
		ctx, leave := context.WithCancelCause(t.Context())
		leave(errLeft)
		verdict, err := classify(ctx, callInfo{name: "f", repeatable: !x.changes}, x.err)
		require.Equal(t, giveUp, verdict, name)
		require.ErrorIs(t, err, x.is, name)
		require.ErrorIs(t, err, errLeft, name)
		require.NotErrorIs(t, err, x.not, name)
	}
}

// A call that leases executions continues when its caller leaves, so that the process learns of the leases.
func TestUntilAnswered(t *testing.T) {
	t.Parallel()
	left := errors.New("the caller has left")
	t.Run("the reply comes later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			took := make(chan error, 1)
			time.AfterFunc(time.Second, func() { cancel(left) })
			_, err := UntilAnswered(ctx, func(ctx context.Context) (int, error) {
				time.Sleep(answerPatience) //nolint:forbidigo // by the virtual clock
				took <- ctx.Err()
				return 7, nil
			})
			require.ErrorIs(t, err, left)
			require.Empty(t, took, "the caller does not wait")
			require.NoError(t, <-took, "the call continues")
		})
	})
	t.Run("no reply comes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(left)
			begun, ended := time.Now(), make(chan time.Duration, 1)
			_, err := UntilAnswered(ctx, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				ended <- time.Since(begun)
				return 0, context.Cause(ctx)
			})
			require.ErrorIs(t, err, left)
			require.Equal(t, answerPatience, <-ended)
		})
	})
	refused := errors.New("refused")
	repeat := func(ctx context.Context, send func() error) error {
		_, err := UntilAnswered(ctx, func(ctx context.Context) (message, error) {
			conn := &Conn{retryFor: time.Minute}
			return conn.repeat(ctx, callInfo{name: "f", repeatable: true}, func() (message, error) {
				return message{}, send()
			}, nil)
		})
		return err
	}
	t.Run("the caller leaves before the call is sent again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, left)
			defer cancel()
			var sent atomic.Int64
			err := repeat(ctx, func() error {
				sent.Add(1)
				return refused
			})
			require.ErrorIs(t, err, left)
			require.ErrorIs(t, err, refused, "the outcome is known")
			before := sent.Load()
			time.Sleep(2 * answerPatience) //nolint:forbidigo // by the virtual clock
			require.Equal(t, before, sent.Load(), "the call is not sent again")
		})
	})
	t.Run("the caller leaves while the server has the call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, left)
			defer cancel()
			var sent atomic.Int64
			err := repeat(ctx, func() error {
				sent.Add(1)
				time.Sleep(2 * time.Second) //nolint:forbidigo // by the virtual clock
				return refused
			})
			require.ErrorIs(t, err, left)
			require.NotErrorIs(t, err, refused)
			time.Sleep(2 * answerPatience) //nolint:forbidigo // by the virtual clock
			require.EqualValues(t, 1, sent.Load(), "the call is not sent again")
		})
	})
	t.Run("the caller waits", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		reply, err := UntilAnswered(ctx, func(context.Context) (int, error) { return 7, nil })
		require.NoError(t, err)
		require.Equal(t, 7, reply)
	})
}
