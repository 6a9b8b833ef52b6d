package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Policies of ffx_cancel_flow.
const (
	cancelAll     = "cancel_all"
	cancelPending = "cancel_pending"
)

// cancelRun cancels a run, call by call until every node of it has been cancelled.
func cancelRun(ctx context.Context, s *session, call enginerpc.CancelFlowCall) error {
	for {
		reply, err := s.backend.CancelFlow(ctx, call)
		if err != nil || !reply.More {
			return err
		}
	}
}
