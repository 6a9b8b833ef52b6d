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

// markFor is how long the mark of a wait holds. Checks renew it after half that time.
const markFor = 6 * recheck

// AwaitResult returns the result of a run when the run is over. For a run that this submitter has just started, it
// waits for the completion message, which carries a small result, before it reads from the engine. It waits while the
// engine is unavailable; its error wraps [engine.ErrRunNotFound], the cause of ctx, or enginecore.ErrClosed when the
// submitter or the session is closed. Other waits may share the bytes of the result, which must not be changed.
func (s *Submitter) AwaitResult(
	ctx context.Context, flowName, runID string, id enginecore.FlowID, p keyspace.Partition,
) (enginerpc.FlowResultReply, error) {
	fail := func(reply enginerpc.FlowResultReply, err error) (enginerpc.FlowResultReply, error) {
		return reply, fmt.Errorf("run %s of flow %s: %w", runID, flowName, err)
	}
	w, err := s.Completions.Wait(ctx, id)
	if err != nil {
		return fail(enginerpc.FlowResultReply{}, err)
	}
	marked, checks, logged := false, 0, ""
	defer func() {
		s.Completions.Release(w)
		if marked {
			s.Completions.leave(id, p)
		}
	}()
	timer := s.rechecks.get()
	defer s.rechecks.put(timer)
	for ask := !w.tracked; ; ask = true {
		var reply enginerpc.FlowResultReply
		if ask {
			var replicated bool
			reply, replicated, err = s.replicatedResult(ctx, id, p)
			marked = !errors.Is(err, enginecore.ErrFlowNotFound) && reply.ClosedAt.IsZero()
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
		if checks > 0 && err == nil && s.StillOpen != nil && isDue(checks) {
			logged = s.StillOpen(ctx, flowName, runID, logged)
		}
		timer.Reset(again)
		select {
		case end := <-w.Completed:
			marked = marked && end.Outcome == ""
			// A message comes from the primary before replicas have the result.
			if end.HasResult && s.session.Replicas == 0 {
				return enginerpc.FlowResultReply{Outcome: end.Outcome, HasResult: true, Result: end.Result}, nil
			}
		case <-timer.C:
			checks++
		case <-s.session.Core.Outdated():
			return fail(reply, s.session.Core.OutdatedErr())
		case <-s.Completions.closed.Done():
			return fail(reply, enginecore.ErrClosed)
		case <-ctx.Done():
			return fail(reply, context.Cause(ctx))
		}
	}
}

// isDue reports whether a wait calls StillOpen with its check of this number: after 5, 10, 20 and 40 s, then each
// minute.
func isDue(check int) bool { return check&(check-1) == 0 && check < 16 || check%12 == 0 }

// replicatedResult returns the result of a run, and marks it while it is open. If the run is over, it waits until as
// many replicas as the session requires have that; replicated is false if the primary has changed since the result was
// read. The error wraps enginecore.ErrNotReplicated if the replicas do not have it in time.
func (s *Submitter) replicatedResult(
	ctx context.Context, id enginecore.FlowID, p keyspace.Partition,
) (reply enginerpc.FlowResultReply, replicated bool, err error) {
	since, err := s.session.Core.ReplicationMark(ctx, p)
	if err != nil {
		return reply, false, err
	}
	reply, err = s.mark(ctx, id, p)
	if errors.Is(err, enginecore.ErrUnavailable) && ctx.Err() == nil {
		// A server that takes no writes may still answer.
		reply, err = s.session.Backend.FlowResult(ctx, enginerpc.FlowResultCall{Partition: p, FlowID: id})
	}
	if err != nil || reply.ClosedAt.IsZero() {
		return reply, false, err
	}
	replicated, err = s.session.Core.Replicated(ctx, p, since)
	if err != nil {
		return enginerpc.FlowResultReply{}, false, fmt.Errorf("the run is over, ask for its result again: %w", err)
	}
	return reply, replicated, nil
}

// mark returns the result of a run, and marks it while it is open.
func (s *Submitter) mark(
	ctx context.Context, id enginecore.FlowID, p keyspace.Partition,
) (enginerpc.FlowResultReply, error) {
	reply, err := s.session.Backend.WatchRun(ctx, enginerpc.WatchRunCall{
		Partition: p, FlowID: id, Origin: s.session.Origin, Duration: s.session.LookEvery(markFor),
	})
	return enginerpc.FlowResultReply(reply), err
}

// Watch registers a wait as [CompletionListener.Wait] does, for any run. The end of the run is not missed within the
// next half minute, unless it has ended before; a run that does not exist has no end.
func (s *Submitter) Watch(ctx context.Context, id enginecore.FlowID, p keyspace.Partition) (CompletionWait, error) {
	w, err := s.Completions.Wait(ctx, id)
	if err != nil {
		return w, err
	}
	if _, err = s.mark(ctx, id, p); err != nil && !errors.Is(err, enginecore.ErrFlowNotFound) {
		s.Completions.Release(w)
		return CompletionWait{}, err
	}
	return w, nil
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
