package waitlist

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// ReadByToken returns the waitpoint that a token authorizes signals to, without the token. Its error is
// [engine.ErrInvalidToken], or the error of the call.
func ReadByToken(
	ctx context.Context, s *engine.Session, index engine.Library, token activity.Token,
) (Waitpoint, error) {
	parts, err := engine.OpenToken(token)
	if err != nil {
		return Waitpoint{}, err
	}
	if int(parts.Partition.Index) >= s.Core.Partitioning().Flow {
		return Waitpoint{}, engine.ErrInvalidToken
	}
	reply, err := index.ReadWaitpoint(ctx, enginerpc.ReadWaitpointCall{
		Partition: parts.Partition, ExecutionID: parts.Execution, WaitpointID: parts.Waitpoint,
		WaitpointToken: parts.Signature,
	})
	switch {
	case errors.Is(err, enginecore.ErrInvalidToken):
		return Waitpoint{}, engine.ErrInvalidToken
	case err != nil:
		return Waitpoint{}, fmt.Errorf("read waitpoint: %w", err)
	}
	w, err := waitpointOf(reply.Runs[0], reply.Waits[0])
	w.Token = activity.Token{}
	return w, err
}

// Received yields the signals that a waitpoint of a run has received, in the order of their arrival. An error ends the
// sequence: it matches [engine.ErrWaitOver] if the run no longer has the waitpoint.
func Received(
	ctx context.Context, s *engine.Session, index engine.Library, r engine.Run, w fabrictype.Wait,
) iter.Seq2[fabrictype.ReceivedSignal, error] {
	return func(yield func(fabrictype.ReceivedSignal, error) bool) {
		call := enginerpc.ReadWaitpointCall{
			ExecutionID: enginecore.ExecutionID(w.ExecutionID), WaitpointID: enginecore.WaitpointID(w.ID),
			Namespace: s.Namespace, FlowID: r.FlowID,
		}
		var err error
		if call.Partition, err = keyspace.PartitionOf(call.ExecutionID); err != nil {
			yield(fabrictype.ReceivedSignal{},
				engine.Invalid("the waitpoint has no execution: use one that Waitpoints returned"))
			return
		}
		for {
			reply, err := index.ReadWaitpoint(ctx, call)
			if errors.Is(err, enginecore.ErrExecutionNotFound) || errors.Is(err, enginecore.ErrWaitpointNotFound) {
				err = fmt.Errorf("%w: %w", engine.ErrWaitOver, err)
			}
			if err != nil {
				yield(fabrictype.ReceivedSignal{}, err)
				return
			}
			for _, s := range reply.Signals {
				if !yield(receivedSignal(s), nil) {
					return
				}
			}
			if call.Cursor = reply.NextCursor; call.Cursor == "" {
				return
			}
		}
	}
}

func receivedSignal(s enginerpc.ReceivedSignal) fabrictype.ReceivedSignal {
	signal := fabrictype.ReceivedSignal{
		ID: string(s.SignalID), Name: s.SignalName, Category: s.SignalCategory, SourceType: s.SourceType,
		Source: s.SourceIdentity, CorrelationID: s.CorrelationID, At: s.AcceptedAt, Counts: s.Counts,
	}
	if describe.IsJSON(s.Payload) {
		signal.JSON = s.Payload
	} else {
		signal.Data = s.Payload
	}
	return signal
}
