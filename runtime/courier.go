package runtime

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// courier is the part of a keeper that carries what nodes and the runs that they stand for have to be told of each other.
// They live in different partitions. An errand is taken from one, carried out in the other, and only then acknowledged; one
// that is not is handed out again, to this keeper or another, so each may be carried out more than once.
type courier struct{ session *session }

// errandsAtOnce bounds the errands that one keeper carries at a time.
const errandsAtOnce = 16

// carryTime bounds how long errands that were handed out together take.
const carryTime = 5 * time.Second

// carry carries the errands from a partition, each in a few calls, but for the cancel of a large run. What
// is left to be removed of one is seen to by the keeper of its partition.
func (c courier) carry(ctx context.Context, from enginecore.Partition, errands []enginecore.Errand) {
	if len(errands) == 0 {
		return
	}
	// A keeper that stops carries what it has in hand, which otherwise would wait to be handed out again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), carryTime)
	defer cancel()
	var carrying errgroup.Group
	carrying.SetLimit(errandsAtOnce)
	for _, errand := range errands {
		carrying.Go(func() error {
			if err := c.carryOne(ctx, from, errand); err != nil {
				c.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: a node and its run could not be told of each other, it is tried again",
					eventErrandFailed.attr(), slog.String("errand", errand.Kind), slog.String("flow_id", string(errand.FlowID)),
					slog.Any("error", err))
			}
			return nil
		})
	}
	_ = carrying.Wait() // each has told its own fault
}

func (c courier) carryOne(ctx context.Context, from enginecore.Partition, e enginecore.Errand) error {
	done, err := c.deliver(ctx, from, e)
	if err != nil || !done {
		return err
	}
	_, err = c.session.core.EndErrand(ctx, enginecore.EndErrandCall{
		Partition: from, Kind: e.Kind, FlowID: e.FlowID, Ends: e.Ends, Reason: e.Reason,
	})
	return err
}

// deliver does what an errand asks for, and reports whether that is all.
func (c courier) deliver(ctx context.Context, from enginecore.Partition, e enginecore.Errand) (done bool, err error) {
	switch e.Kind {
	case "open", "ended":
		return c.tell(ctx, from, e)
	case "await":
		return false, c.ask(ctx, from, e)
	}
	to, err := c.session.core.FlowPartition(e.FlowID)
	if err != nil {
		return false, err
	}
	if err := c.session.cancelChild(ctx, to, e.FlowID, e.Reason); err != nil || e.Kind == "cancel" {
		return err == nil, err
	}
	return c.remove(ctx, to, e.FlowID)
}

// ask asks how a run stands for which a node waits: one that is over tells it once more. The node of one that is not there, because
// its server failed before it had replicated it, starts it again.
func (c courier) ask(ctx context.Context, from enginecore.Partition, e enginecore.Errand) error {
	at, err := c.session.core.FlowPartition(e.FlowID)
	if err != nil {
		return err
	}
	reply, err := c.session.core.AskChild(ctx, enginecore.AskChildCall{Partition: at, FlowID: e.FlowID})
	if err != nil || reply.State != "gone" {
		return err
	}
	_, err = c.session.core.ChildEnded(ctx, enginecore.ChildEndedCall{
		Partition: from, ExecutionID: enginecore.ExecutionID(e.ParentExecutionID), ChildFlowID: e.FlowID, Outcome: childLost,
	})
	return err
}

// childLost is the outcome of a run of a node that is not there any more.
const childLost = "lost"

// tell tells a node how its run stands. A run that nobody wants any more is ended, and one that nobody knows is removed.
func (c courier) tell(ctx context.Context, from enginecore.Partition, e enginecore.Errand) (done bool, err error) {
	parent := enginecore.ExecutionID(e.ParentExecutionID)
	to, err := parent.Partition()
	if err != nil {
		return false, err
	}
	reply, err := c.session.core.ChildEnded(ctx, enginecore.ChildEndedCall{
		Partition: to, ExecutionID: parent, ChildFlowID: e.FlowID, Ends: e.Ends, Outcome: e.Outcome,
	})
	if err != nil {
		return false, err
	}
	if ended := e.Kind == "ended"; reply.State == "waiting" || ended && reply.State == "over" {
		return ended, nil
	}
	if err := c.session.cancelChild(ctx, from, e.FlowID, "the node that it belongs to has ended"); err != nil || reply.State == "over" {
		return false, err
	}
	return c.remove(ctx, from, e.FlowID)
}

// purgesAtOnce bounds the calls by which one errand removes a run.
const purgesAtOnce = 32

// remove purges a run, a large one only in part. One that is still ending is left for the next time.
func (c courier) remove(ctx context.Context, p enginecore.Partition, id enginecore.FlowID) (done bool, err error) {
	for range purgesAtOnce {
		reply, err := c.session.core.PurgeFlow(ctx, enginecore.PurgeFlowCall{Partition: p, FlowID: id})
		switch {
		case errors.Is(err, enginecore.ErrFlowNotTerminal):
			return false, nil
		case err != nil || !reply.More:
			return err == nil, err
		}
	}
	return true, nil
}

// cancelChild cancels a run with its members. One that is over, or not there, is no error.
func (e *session) cancelChild(ctx context.Context, p enginecore.Partition, id enginecore.FlowID, reason string) error {
	for {
		reply, err := e.core.CancelFlow(ctx, enginecore.CancelFlowCall{Partition: p, FlowID: id, Reason: reason, Actor: "parent"})
		switch {
		case errors.Is(err, enginecore.ErrFlowNotFound), errors.Is(err, enginecore.ErrFlowAlreadyTerminal):
			return nil
		case err != nil || !reply.More:
			return err
		}
	}
}
