package enginetest_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// A node is ended that is about to run its child run again. That run has ended before, and does not end again.
func TestNodeEndsBeforeChildRerun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, nil)
		child := enginecore.FlowID(uuid.NewString())
		link := func() (enginerpc.ClaimedExecution, string) {
			x := l.take("task")
			linked, err := l.e.LinkChild(l.ctx, enginerpc.LinkChildCall{
				Partition: l.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
				Number: 1, ChildFlowID: child, InputHash: "h",
			})
			require.NoError(t, err)
			return x, linked.State
		}
		end := func(x enginerpc.ClaimedExecution) {
			l.cancelFlow()
			_, err := l.e.EndStopped(l.ctx, enginerpc.EndStoppedCall{Partition: l.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID})
			require.NoError(t, err)
			require.Empty(t, l.flowCore()["closed_at"], "the child run has not ended")
			_, err = l.e.ChildEnded(l.ctx, enginerpc.ChildEndedCall{
				Partition: l.p, ExecutionID: x.ExecutionID, ChildFlowID: child, Ends: 1, Outcome: "cancelled",
			})
			require.NoError(t, err)
			require.NotEmpty(t, l.flowCore()["closed_at"])
		}
		x, state := link()
		require.Equal(t, "new", state)
		end(x)
		l.rerun("task")
		x, state = link()
		require.Equal(t, "rerun", state)
		end(x)
	})
}
