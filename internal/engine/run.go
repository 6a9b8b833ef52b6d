package engine

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Run identifies a run: by the name of its flow and its id, and by the id and the partition under which the engine
// stores it.
type Run struct {
	Flow, ID  string
	FlowID    enginecore.FlowID
	Partition keyspace.Partition
}

// ExecutionID returns the id under which the engine runs a node of a run. Its error wraps [ErrUnknownNode] when the run
// has no such node, and [ErrRunNotFound] when the run does not exist.
func (s *Session) ExecutionID(ctx context.Context, r Run, node string) (enginecore.ExecutionID, error) {
	store, err := s.Library("stored graphs")
	if err != nil { // the run was created node by node
		return keyspace.ExecutionIDFor(r.Partition, r.FlowID, node), nil
	}
	reply, err := store.FindNode(ctx, enginerpc.FindNodeCall{Partition: r.Partition, FlowID: r.FlowID, Node: node})
	return reply.ExecutionID, NodeFault(err)
}

// Drain performs the rest of the work of a call that was too large for one step. If it fails, a keeper performs it.
func (s *Session) Drain(ctx context.Context, p keyspace.Partition) {
	for {
		reply, err := s.Backend.Tick(ctx, enginerpc.TickCall{Partition: p, Limit: TickLimit})
		if err != nil || !reply.More {
			return
		}
	}
}

// RunFault converts an error of the engine about a run into one of this package.
func RunFault(err error) error {
	switch {
	case errors.Is(err, enginecore.ErrFlowNotFound):
		return ErrRunNotFound
	case errors.Is(err, enginecore.ErrFlowAlreadyTerminal):
		return ErrRunOver
	}
	return err
}

// NodeFault converts an error of the engine about a node or its run into one of this package.
func NodeFault(err error) error {
	switch {
	case errors.Is(err, enginecore.ErrExecutionNotFound):
		return ErrUnknownNode
	case errors.Is(err, enginecore.ErrExecutionNotActive):
		return ErrNodeOver
	}
	return RunFault(err)
}

// Kinds of [enginerpc.CancelMessage], which orders a worker to stop an execution.
const (
	// StopCancelled: it was cancelled, or skipped; the reason is the text of the caller.
	StopCancelled = "cancelled"
	// StopExpired: a time limit has passed; the reason names it.
	StopExpired = "expired"
	// StopRevoked: an operator has taken the lease away.
	StopRevoked = "revoked"
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
