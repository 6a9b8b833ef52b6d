package output

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
)

// The end of an attempt waits for its frames as long as renewals extend the lease. If the lease ends first, the
// attempt is lost, so that no result is recorded whose frames are missing.
func TestFinishWaitsForFramesUntilLeaseEnds(t *testing.T) {
	t.Parallel()
	const ttl, sending = 10 * time.Second, 50 * time.Second
	for _, renewed := range []bool{true, false} {
		t.Run(fmt.Sprintf("renewed %v", renewed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var x attempt.Attempt
				x.Init(&attempt.Shared{Base: t.Context(), LeaseTTL: ttl}, dispatch.LaneShard{}, &enginerpc.ClaimedExecution{}, time.Now())
				var o Output
				o.Init(&x, &LogConfig{})
				e := o.emitter()
				// A batch that is in flight for a long time.
				e.sending, e.unsent = true, make([]numberedFrame, 1)
				sent := time.AfterFunc(sending, func() {
					e.mu.Lock()
					defer e.mu.Unlock()
					e.unsent = nil
					close(e.moved)
				})
				defer sent.Stop()
				begun, done := time.Now(), make(chan struct{})
				go func() {
					defer close(done)
					o.Finish()
				}()
				for ended := false; !ended; {
					select {
					case <-done:
						ended = true
					case <-time.After(ttl / 3):
						if renewed {
							x.ExtendLease(time.Now())
						}
					}
				}
				if renewed {
					require.Equal(t, sending, time.Since(begun))
					require.NoError(t, x.Ctx.Err())
					return
				}
				require.Less(t, time.Since(begun), ttl)
				require.ErrorIs(t, context.Cause(x.Ctx), engine.ErrLeaseLost)
			})
		})
	}
}
