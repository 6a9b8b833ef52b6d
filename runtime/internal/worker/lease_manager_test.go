package worker

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// lateCalls releases a lease while the reply of the claim that created it arrives.
type lateCalls struct {
	engine.Backend
	arrives  func()
	released []enginecore.LeaseID
}

func (c *lateCalls) Release(_ context.Context, call enginerpc.ReleaseCall) (enginerpc.ReleaseReply, error) {
	c.arrives()
	c.released = append(c.released, call.LeaseID)
	return enginerpc.ReleaseReply{}, nil
}

// A function does not begin under a lease that was released because its claim had no reply, when the reply
// arrives later: another worker may have the execution by then.
func TestReplyAfterItsLeaseWasReturned(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"the reply comes first": true, "the lease goes first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			late := new(lateCalls)
			s := &services{
				base: t.Context(), worker: new(Worker),
				session: &engine.Session{Backend: late, Logger: slog.New(slog.DiscardHandler)},
			}
			book := newLeaseManager(s)
			claimed := enginerpc.ClaimedExecution{
				ExecutionID: "{fp:1}:x", LeaseID: "lease", LeaseEpoch: 1, AttemptID: "try",
			}
			task := s.NewTask(dispatch.LaneShard{}, claimed, time.Now())
			late.arrives = func() { require.True(t, book.add(task)) }
			lease := []enginerpc.HeldLease{{
				ExecutionID: claimed.ExecutionID, LeaseID: claimed.LeaseID, LeaseEpoch: 1, AttemptID: "try",
			}}
			seen := make(map[enginecore.LeaseID]bool)
			book.releaseUnknown(enginecore.Partition{}, lease, seen)
			require.Equal(t, map[enginecore.LeaseID]bool{"lease": true}, seen, "it is seen for the first time")
			book.unknown = seen
			if before {
				late.arrives()
			}
			book.releaseUnknown(enginecore.Partition{}, lease, make(map[enginecore.LeaseID]bool))
			require.Equal(t, !before, task.settled.Load())
			if before {
				require.Empty(t, late.released)
				require.NoError(t, context.Cause(task.ctx))
				return
			}
			require.Equal(t, []enginecore.LeaseID{"lease"}, late.released)
			require.ErrorIs(t, context.Cause(task.ctx), engine.ErrLeaseLost)
		})
	}
}
