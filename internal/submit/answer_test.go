package submit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A call that leases executions continues when its caller leaves, so that the process learns of the leases.
func TestUntilAnswered(t *testing.T) {
	t.Parallel()
	left := errors.New("the caller has left")
	t.Run("the reply comes later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			took := make(chan error, 1)
			time.AfterFunc(time.Second, func() { cancel(left) })
			_, err := untilAnswered(ctx, func(ctx context.Context) (int, error) {
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
			_, err := untilAnswered(ctx, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				ended <- time.Since(begun)
				return 0, context.Cause(ctx)
			})
			require.ErrorIs(t, err, left)
			require.Equal(t, answerPatience, <-ended)
		})
	})
	t.Run("the caller waits", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		reply, err := untilAnswered(ctx, func(context.Context) (int, error) { return 7, nil })
		require.NoError(t, err)
		require.Equal(t, 7, reply)
	})
}
