package runtime

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// childRuns links nodes with the runs that they stand for, and reads the results of such runs.
type childRuns interface {
	backend
	LinkChild(context.Context, enginecore.LinkChildCall) (enginecore.LinkChildReply, error)
	AwaitChild(context.Context, enginecore.AwaitChildCall) (enginecore.AwaitChildReply, error)
	AskChild(context.Context, enginecore.AskChildCall) (enginecore.AskChildReply, error)
	ChildEnded(context.Context, enginecore.ChildEndedCall) (enginecore.ChildEndedReply, error)
	EndErrand(context.Context, enginecore.EndErrandCall) (enginecore.EndErrandReply, error)
	ReadResults(context.Context, enginecore.ReadResultsCall) (enginecore.ReadResultsReply, error)
	Rerun(context.Context, enginecore.RerunCall) (enginecore.RerunReply, error)
	PurgeFlow(context.Context, enginecore.PurgeFlowCall) (enginecore.PurgeFlowReply, error)
}

// childLost is the outcome of the run of a node that is not there any more.
const childLost = "lost"

// cancelChildRun cancels the run of a node with its members. A run that is over, or not there, is no error.
func cancelChildRun(ctx context.Context, b backend, p enginecore.Partition, id enginecore.FlowID, reason string) error {
	for {
		reply, err := b.CancelFlow(ctx, enginecore.CancelFlowCall{Partition: p, FlowID: id, Reason: reason, Actor: "parent"})
		switch {
		case errors.Is(err, enginecore.ErrFlowNotFound), errors.Is(err, enginecore.ErrFlowAlreadyTerminal):
			return nil
		case err != nil || !reply.More:
			return err
		}
	}
}
