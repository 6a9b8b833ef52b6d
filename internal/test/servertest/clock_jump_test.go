package servertest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// When the server's clock jumps over the end of a lease, the worker logs that the lease is lost, and the work is done
// again.
func TestClockJumpsOverLease(t *testing.T) {
	t.Parallel()
	b, clock := enginetest.WithClock(t)
	ctx := enginetest.Context(t)
	begun := make(chan struct{}, 2)
	var starts atomic.Int32
	work := activity.New("work", func(ctx context.Context, _ string) (int, error) {
		begun <- struct{}{}
		if starts.Add(1) == 1 {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		return 7, nil
	})
	def := fixture.OneNode(t, "leased", work)
	b.Keeper(t)
	b.Worker(t, def.Handlers(), runtime.WorkerConfig{Lease: time.Second})
	run, err := runtime.Start(ctx, b.Client, def, "")
	require.NoError(t, err)
	<-begun
	clock.Jump(time.Minute)
	enginetest.Eventually(t, func() string {
		b.Look(t)
		select {
		case <-begun:
			return ""
		default:
			return "it does not begin again"
		}
	})
	out, err := run.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, 7, out)
	enginetest.Eventually(t, func() string { // the first attempt may learn of its loss after the second has ended
		if !strings.Contains(b.Log(), "event=lease.lost") {
			return "the worker has not said that the lease is lost"
		}
		return ""
	})
	b.Settle(t)
	require.Equal(t, 1, strings.Count(b.Log(), "event=lease.lost"))
}
