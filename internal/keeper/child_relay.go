package keeper

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// childRelay delivers notices between nodes and their child runs, which live in different partitions. A notice is read
// from one partition, executed in the other, and only then acknowledged. An unacknowledged notice is handed out again,
// to this keeper or another: delivery is at least once.
type childRelay struct {
	session *engine.Session
	// runs is nil if the backend has no child runs, and so no notices.
	runs engine.ChildRuns
}

func newChildRelay(s *engine.Session) childRelay {
	runs, _ := engine.Capability[engine.ChildRuns](s.Backend)
	return childRelay{s, runs}
}

const (
	// noticesAtOnce bounds the notices that one keeper delivers at a time.
	noticesAtOnce = 16
	// deliveryTime bounds the delivery of notices that were handed out together.
	deliveryTime = 5 * time.Second
	// purgesAtOnce bounds the calls by which one notice removes a run.
	purgesAtOnce = 32
)

// deliverAll delivers notices from a partition and logs failures. Each notice takes a few calls, except for the
// cancel of a large run; the keeper of the run's partition removes the rest of a large run.
func (r childRelay) deliverAll(ctx context.Context, from keyspace.Partition, notices []enginerpc.RelayEntry) {
	if len(notices) == 0 {
		return
	}
	// A keeper that stops delivers the notices that it has, which otherwise would wait until the engine hands them out
	// again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliveryTime)
	defer cancel()
	var delivering errgroup.Group
	delivering.SetLimit(noticesAtOnce)
	for _, notice := range notices {
		delivering.Go(func() error {
			if err := r.deliver(ctx, from, notice); err != nil {
				r.session.Logger.LogAttrs(ctx, slog.LevelWarn,
					"flowfabric: the keeper could not relay a notice between a node and its child run, and retries",
					observe.EventRelayFailed.Attr(), slog.String("notice", notice.Kind),
					slog.String("flow_id", string(notice.FlowID)),
					slog.Any("error", err))
			}
			return nil
		})
	}
	_ = delivering.Wait() // each has logged its own fault
}

// deliver carries a notice out and acknowledges it once it is complete.
func (r childRelay) deliver(ctx context.Context, from keyspace.Partition, n enginerpc.RelayEntry) error {
	done, err := r.carryOut(ctx, from, n)
	if err != nil || !done {
		return err
	}
	_, err = r.runs.EndRelayEntry(ctx, enginerpc.EndRelayEntryCall{
		Partition: from, Kind: n.Kind, FlowID: n.FlowID, Ends: n.Ends, Reason: n.Reason,
	})
	return err
}

// carryOut performs the operation that a notice requests, and reports whether it is complete.
func (r childRelay) carryOut(
	ctx context.Context, from keyspace.Partition, n enginerpc.RelayEntry,
) (done bool, err error) {
	switch n.Kind {
	case "open", "ended":
		return r.reportToParent(ctx, from, n)
	case "await":
		return false, r.askChild(ctx, from, n)
	}
	to, err := r.session.Core.FlowPartition(n.FlowID)
	if err != nil {
		return false, err
	}
	if err := engine.CancelChildRun(ctx, r.runs, to, n.FlowID, n.Reason); err != nil || n.Kind == "cancel" {
		return err == nil, err
	}
	return r.remove(ctx, to, n.FlowID)
}

// askChild queries the state of a child run that a node waits for; an ended run sends its end again. If the run does
// not exist, because its server failed before replicating it, the node is set to start it again.
func (r childRelay) askChild(ctx context.Context, from keyspace.Partition, n enginerpc.RelayEntry) error {
	at, err := r.session.Core.FlowPartition(n.FlowID)
	if err != nil {
		return err
	}
	reply, err := r.runs.AskChild(ctx, enginerpc.AskChildCall{Partition: at, FlowID: n.FlowID})
	if err != nil || reply.State != "gone" {
		return err
	}
	_, err = r.runs.ChildEnded(ctx, enginerpc.ChildEndedCall{
		Partition: from, ExecutionID: enginecore.ExecutionID(n.ParentExecutionID), ChildFlowID: n.FlowID,
		Outcome: engine.ChildLost,
	})
	return err
}

// reportToParent reports the state of a child run to its node. It cancels a run that the node no longer waits for,
// and removes one that the node does not know.
func (r childRelay) reportToParent(
	ctx context.Context, from keyspace.Partition, n enginerpc.RelayEntry,
) (done bool, err error) {
	parent := enginecore.ExecutionID(n.ParentExecutionID)
	to, err := keyspace.PartitionOf(parent)
	if err != nil {
		return false, err
	}
	reply, err := r.runs.ChildEnded(ctx, enginerpc.ChildEndedCall{
		Partition: to, ExecutionID: parent, ChildFlowID: n.FlowID, Ends: n.Ends, Outcome: n.Outcome,
	})
	if err != nil {
		return false, err
	}
	ended := n.Kind == "ended"
	switch {
	case reply.State == "waiting":
		// In a cluster, where the failover of one server can undo writes, an open run is queried again.
		return ended || !r.session.InCluster(), nil
	case ended && reply.State == "over":
		return true, nil
	}
	if err := engine.CancelChildRun(ctx, r.runs, from, n.FlowID, "the node that it belongs to has ended"); err != nil ||
		reply.State == "over" {
		return false, err
	}
	return r.remove(ctx, from, n.FlowID)
}

// remove purges a run, a large one only in part. It leaves a run that is still ending for the next delivery.
func (r childRelay) remove(ctx context.Context, p keyspace.Partition, id enginecore.FlowID) (done bool, err error) {
	for range purgesAtOnce {
		reply, err := r.runs.PurgeFlow(ctx, enginerpc.PurgeFlowCall{Partition: p, FlowID: id})
		switch {
		case errors.Is(err, errorcode.FlowNotTerminal):
			return false, nil
		case err != nil || !reply.More:
			return err == nil, err
		}
	}
	return true, nil
}
