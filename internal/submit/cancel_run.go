package submit

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Policies of ffx_cancel_flow.
const (
	CancelAll     = "cancel_all"
	CancelPending = "cancel_pending"
)

// CancelRun cancels a run, call by call until all its nodes are cancelled.
func CancelRun(ctx context.Context, s *engine.Session, call enginerpc.CancelFlowCall) error {
	for {
		reply, err := s.Backend.CancelFlow(ctx, call)
		if err != nil || !reply.More {
			return err
		}
	}
}
