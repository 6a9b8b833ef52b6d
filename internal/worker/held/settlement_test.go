package held

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/worker/task"
)

// A settlement that was not sent, since the lease had ended, has lost it; while the lease lasts, the error stays as it
// is.
func TestSettleErrorAfterLeaseEnded(t *testing.T) {
	t.Parallel()
	ended := &Task{task: &task.Task{}}
	notSent := fmt.Errorf("the engine was not called: %w", context.DeadlineExceeded)
	require.ErrorIs(t, ended.settleError(notSent), engine.ErrLeaseLost)
	require.ErrorIs(t, ended.settleError(notSent), context.DeadlineExceeded)
	require.NotErrorIs(t, ended.settleError(enginecore.ErrUnavailable), engine.ErrLeaseLost)
	require.NoError(t, ended.settleError(nil))

	lasting := &Task{task: &task.Task{}}
	lasting.task.Lease.Begun = time.Now().Add(time.Hour)
	require.Equal(t, notSent, lasting.settleError(notSent))
	require.ErrorIs(t, lasting.settleError(enginecore.ErrStaleLease), engine.ErrLeaseLost)
}
