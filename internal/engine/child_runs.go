package engine

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// ChildLost is the outcome recorded for a child run that no longer exists.
const ChildLost = "lost"

// CancelChildRun cancels a child run with all its members, call by call. A run that has ended or does not exist is not
// an error.
func CancelChildRun(ctx context.Context, b Backend, p keyspace.Partition, id enginecore.FlowID, reason string) error {
	for {
		reply, err := b.CancelFlow(ctx, enginerpc.CancelFlowCall{
			Partition: p, FlowID: id, Reason: reason, Actor: "parent",
		})
		switch {
		case errors.Is(err, enginecore.ErrFlowNotFound), errors.Is(err, enginecore.ErrFlowAlreadyTerminal):
			return nil
		case err != nil || !reply.More:
			return err
		}
	}
}
