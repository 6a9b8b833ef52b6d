package runcontrol

import (
	"context"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/errordetail"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Cancel cancels a run under a policy: submit.CancelAll or submit.CancelPending. It returns when every node was
// notified. Its error wraps [engine.ErrRunNotFound] or [engine.ErrRunOver].
func Cancel(ctx context.Context, s *engine.Session, r engine.Run, policy, reason, actor string) error {
	return engine.RunFault(submit.CancelRun(ctx, s, enginerpc.CancelFlowCall{
		Partition: r.Partition, FlowID: r.FlowID, Reason: reason, Actor: actor, Policy: policy,
	}))
}

// CancelNode cancels one node of a run. Its error wraps [engine.ErrUnknownNode] when the run does not exist or has no
// such node, or [engine.ErrNodeOver].
func CancelNode(
	ctx context.Context, s *engine.Session, core engine.Library, r engine.Run, node, reason, actor string,
) error {
	id, err := s.ExecutionID(ctx, r, node)
	if errors.Is(err, engine.ErrRunNotFound) {
		err = engine.ErrUnknownNode
	}
	if err != nil {
		return err
	}
	reply, err := core.CancelNode(ctx, enginerpc.CancelNodeCall{
		Partition: r.Partition, ExecutionID: id, Reason: reason, Actor: actor,
	})
	if err != nil {
		return engine.NodeFault(err)
	}
	if reply.More {
		s.Drain(ctx, r.Partition)
	}
	return nil
}

// Pause keeps the nodes of a run from starting. Its error wraps [engine.ErrRunNotFound] or [engine.ErrRunOver].
func Pause(ctx context.Context, s *engine.Session, r engine.Run, reason, actor string) error {
	_, err := s.Core.PauseFlow(ctx,
		enginerpc.PauseFlowCall{Partition: r.Partition, FlowID: r.FlowID, Reason: reason, Actor: actor})
	return engine.RunFault(err)
}

// Resume ends the pause of a run, call by call until all its nodes are eligible. Its error is one of [Pause].
func Resume(ctx context.Context, s *engine.Session, r engine.Run, actor string) error {
	call := enginerpc.ResumeFlowCall{Partition: r.Partition, FlowID: r.FlowID, Actor: actor}
	for {
		reply, err := s.Core.ResumeFlow(ctx, call)
		if err != nil {
			return engine.RunFault(err)
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return nil
		}
	}
}

// CheckPriority returns an error that wraps [engine.ErrInvalid] for a priority that a node cannot have.
func CheckPriority(priority int) error {
	if priority < 0 || priority > activityspec.MaxPriority {
		return engine.Invalid("priority %d: must be 0 to %d", priority, activityspec.MaxPriority)
	}
	return nil
}

// SetPriority changes the priority of a node of a run, or of all its nodes and child runs if node is empty. Its error
// wraps [engine.ErrRunNotFound], [engine.ErrRunOver], [engine.ErrUnknownNode] or [engine.ErrNodeOver].
func SetPriority(
	ctx context.Context, s *engine.Session, core engine.Library, r engine.Run, node enginecore.ExecutionID,
	priority int,
) error {
	return engine.NodeFault(admission.SetPriority(ctx, s, core, enginerpc.SetPriorityCall{
		Partition: r.Partition, FlowID: r.FlowID, ExecutionID: node, Priority: int64(priority),
	}))
}

// ErrRunStarted means that the time of the start of a run is over, or that it never had one.
var ErrRunStarted = errordetail.NewSentinelOf(engine.ErrOver, "flowfabric.run_started", "the run has started")

// ErrNotSleeping is returned for a node that does not sleep: it has not begun to, or its time is over.
var ErrNotSleeping = errordetail.NewSentinelOf(engine.ErrOver, "flowfabric.not_sleeping", "the node does not sleep")

// MoveStart moves the start of a run that has not started: its roots, a bounded number with each call. Its error wraps
// [ErrRunStarted], [enginecore.ErrRunQueued], [engine.ErrRunNotFound] or [engine.ErrRunOver].
func MoveStart(ctx context.Context, core engine.Library, r engine.Run, to time.Time) error {
	call := enginerpc.MoveStartCall{Partition: r.Partition, FlowID: r.FlowID, StartAt: to}
	for {
		reply, err := core.MoveStart(ctx, call)
		switch {
		case errors.Is(err, errorcode.RunStarted):
			return ErrRunStarted
		case errors.Is(err, enginecore.ErrRunQueued):
			return enginecore.ErrRunQueued
		case err != nil:
			return engine.NodeFault(err)
		case reply.Next == 0:
			return nil
		}
		call.From = reply.Next
	}
}

// MoveTimer moves the time until which a node of a run sleeps; the zero time ends the sleep. Its error wraps
// [ErrNotSleeping], [engine.ErrUnknownNode] or [engine.ErrRunNotFound].
func MoveTimer(
	ctx context.Context, s *engine.Session, core engine.Library, r engine.Run, node string, to time.Time, actor string,
) error {
	reply, err := core.MoveTimer(ctx, enginerpc.MoveTimerCall{
		Partition: r.Partition, FlowID: r.FlowID, Node: node, At: to, Actor: actor,
	})
	switch {
	case errors.Is(err, errorcode.ExecutionNotSuspended):
		return ErrNotSleeping
	case err != nil:
		return engine.NodeFault(err)
	case reply.More:
		s.Drain(ctx, r.Partition)
	}
	return nil
}
