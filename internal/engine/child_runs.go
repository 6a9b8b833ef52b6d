package engine

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// ChildRuns links map and sub-flow nodes with their child runs and reads the results of child runs.
type ChildRuns interface {
	Backend
	LinkChild(context.Context, enginerpc.LinkChildCall) (enginerpc.LinkChildReply, error)
	AwaitChild(context.Context, enginerpc.AwaitChildCall) (enginerpc.AwaitChildReply, error)
	AskChild(context.Context, enginerpc.AskChildCall) (enginerpc.AskChildReply, error)
	ChildEnded(context.Context, enginerpc.ChildEndedCall) (enginerpc.ChildEndedReply, error)
	EndRelayEntry(context.Context, enginerpc.EndRelayEntryCall) (enginerpc.EndRelayEntryReply, error)
	ReadResults(context.Context, enginerpc.ReadResultsCall) (enginerpc.ReadResultsReply, error)
	Rerun(context.Context, enginerpc.RerunCall) (enginerpc.RerunReply, error)
	PurgeFlow(context.Context, enginerpc.PurgeFlowCall) (enginerpc.PurgeFlowReply, error)
}

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
