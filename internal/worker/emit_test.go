package worker

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
)

// The end of an attempt waits for its frames as long as renewals extend the lease, however long that is. If the lease
// ends first, the attempt is lost, so that no result is recorded whose frames are missing.
func TestFinishWaitsForFramesAsLongAsTheLease(t *testing.T) {
	t.Parallel()
	const lease, sending = 10 * time.Second, 50 * time.Second
	for _, renewed := range []bool{true, false} {
		t.Run(fmt.Sprintf("renewed %v", renewed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &services{base: t.Context(), worker: &Worker{config: Config{Lease: lease}}}
				x := s.NewTask(dispatch.LaneShard{}, &enginerpc.ClaimedExecution{}, time.Now())
				e := x.frames.emitter(&x.attempt)
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
					x.finishUp()
				}()
				for ended := false; !ended; {
					select {
					case <-done:
						ended = true
					case <-time.After(lease / 3):
						if renewed {
							x.extendLease(time.Now())
						}
					}
				}
				if renewed {
					require.Equal(t, sending, time.Since(begun))
					require.NoError(t, x.ctx.Err())
					return
				}
				require.Less(t, time.Since(begun), lease)
				require.ErrorIs(t, context.Cause(x.ctx), engine.ErrLeaseLost)
			})
		})
	}
}
