package submit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// recheck is how long a wait for a result trusts the completion message before it queries the engine.
const recheck = 5 * time.Second

// AwaitResult returns the result of a run when the run is over. For a run that this submitter has just started, it
// waits for the completion message, which carries a small result, before it reads from the engine. It waits while the
// engine is unavailable; its error wraps [engine.ErrRunNotFound], the cause of ctx, or enginecore.ErrClosed when the
// submitter or the session is closed.
func (s *Submitter) AwaitResult(
	ctx context.Context, flowName, runID string, id enginecore.FlowID, p keyspace.Partition,
) (enginerpc.FlowResultReply, error) {
	fail := func(reply enginerpc.FlowResultReply, err error) (enginerpc.FlowResultReply, error) {
		return reply, fmt.Errorf("run %s of flow %s: %w", runID, flowName, err)
	}
	w, err := s.Completions.Wait(ctx, id, p)
	if err != nil {
		return fail(enginerpc.FlowResultReply{}, err)
	}
	defer s.Completions.Release(w)
	timer := s.rechecks.get()
	defer s.rechecks.put(timer)
	for ask := !w.tracked; ; ask = true {
		var reply enginerpc.FlowResultReply
		if ask {
			var replicated bool
			reply, replicated, err = s.replicatedResult(ctx, id, p)
			switch {
			case errors.Is(err, enginecore.ErrFlowNotFound):
				return fail(reply, engine.ErrRunNotFound)
			case ctx.Err() != nil:
				return fail(reply, context.Cause(ctx))
			case err != nil && !errors.Is(err, enginecore.ErrUnavailable):
				return fail(reply, err)
			case err == nil && !reply.ClosedAt.IsZero() && replicated:
				return reply, nil
			case err == nil && !reply.ClosedAt.IsZero():
				continue // another server is the primary by now, and may not know of the end
			}
		}
		again := recheck
		if err == nil {
			again = s.session.LookEvery(recheck)
		}
		timer.Reset(again)
		select {
		case end := <-w.Completed:
			// A message comes from the primary before replicas have the result.
			if end.HasResult && s.session.Replicas == 0 {
				return enginerpc.FlowResultReply{Outcome: end.Outcome, HasResult: true, Result: []byte(end.Result)}, nil
			}
		case <-timer.C:
		case <-s.session.Core.Outdated():
			return fail(reply, s.session.Core.OutdatedErr())
		case <-s.Completions.closed.Done():
			return fail(reply, enginecore.ErrClosed)
		case <-ctx.Done():
			return fail(reply, context.Cause(ctx))
		}
	}
}

// replicatedResult returns the result of a run. If the run is over, it waits until as many replicas as the session
// requires have that; replicated is false if the primary has changed since the result was read. The error wraps
// enginecore.ErrNotReplicated if the replicas do not have it in time.
func (s *Submitter) replicatedResult(
	ctx context.Context, id enginecore.FlowID, p keyspace.Partition,
) (reply enginerpc.FlowResultReply, replicated bool, err error) {
	since, err := s.session.Core.ReplicationMark(ctx, p)
	if err != nil {
		return reply, false, err
	}
	reply, err = s.session.Backend.FlowResult(ctx, enginerpc.FlowResultCall{Partition: p, FlowID: id})
	if err != nil || reply.ClosedAt.IsZero() {
		return reply, false, err
	}
	replicated, err = s.session.Core.Replicated(ctx, p, since)
	if err != nil {
		return enginerpc.FlowResultReply{}, false, fmt.Errorf("the run is over, ask for its result again: %w", err)
	}
	return reply, replicated, nil
}

// timerPool keeps stopped timers for reuse.
type timerPool struct{ pool sync.Pool }

// get returns a stopped timer.
func (t *timerPool) get() *time.Timer {
	if timer, ok := t.pool.Get().(*time.Timer); ok {
		return timer
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

func (t *timerPool) put(timer *time.Timer) {
	timer.Stop()
	t.pool.Put(timer)
}
