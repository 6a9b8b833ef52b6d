package answer

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// End is how an operator ends a wait: it resumes the wait with a result, or cancels its node for a reason.
type End struct {
	Resume        bool
	Result        []byte
	Reason, Actor string
}

// End ends a wait of a run. Its error wraps [engine.ErrWaitOver] when the wait has ended or does not belong to the run,
// or is one of Signal for a result that does not satisfy the schema of the wait.
func (c *Checker) End(ctx context.Context, s *engine.Session, r engine.Run, w fabrictype.Wait, end End) error {
	partition, err := keyspace.PartitionOf(enginecore.ExecutionID(w.ExecutionID))
	if err != nil {
		return err
	}
	reply, err := c.endWait(ctx, s.Backend, enginerpc.EndWaitCall{
		Partition: partition, FlowID: r.FlowID, ExecutionID: enginecore.ExecutionID(w.ExecutionID),
		WaitpointID: enginecore.WaitpointID(w.ID), Resume: end.Resume, Result: end.Result, Reason: end.Reason,
		Actor: end.Actor, Namespace: s.Namespace,
	})
	switch {
	case errors.Is(err, errorcode.ExecutionNotSuspended), err == nil &&
		reply.Status == enginerpc.StatusAlreadySatisfied:
		return engine.ErrWaitOver
	case errors.Is(err, enginecore.ErrExecutionNotFound), errors.Is(err, enginecore.ErrWaitpointNotFound):
		return fmt.Errorf("%w: %w", engine.ErrWaitOver, err)
	case err != nil:
		return err
	case reply.More:
		s.Drain(ctx, partition)
	}
	return nil
}

// endWait ends a wait on behalf of an operator, whose result satisfies the schema of the wait. It returns the errors of
// Signal.
func (c *Checker) endWait(
	ctx context.Context, store engine.Backend, call enginerpc.EndWaitCall,
) (reply enginerpc.EndWaitReply, err error) {
	err = c.send("payload", "", call.Result, "", func(checked string) (string, error) {
		call.Checked = checked
		reply, err = store.EndWait(ctx, call)
		return reply.AnswerSchema, err
	})
	return reply, err
}
