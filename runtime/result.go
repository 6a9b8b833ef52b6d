package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// recheck is how long a waiting Result trusts the done message before it looks for itself.
const recheck = 5 * time.Second

var errClientClosed = errors.New("client is closed")

// awaitResult returns when the flow is over. The state of a run that this client has just started is not asked for until
// the done message comes, which also brings a small result.
func (c *Client) awaitResult(ctx context.Context, flowName, runID string, id enginecore.FlowID, p enginecore.Partition) (enginecore.FlowResultReply, error) {
	if err := c.ready(); err != nil {
		return enginecore.FlowResultReply{}, err
	}
	w, err := c.done.wait(ctx, id, p)
	if err != nil {
		return enginecore.FlowResultReply{}, fmt.Errorf("run %s of flow %s: %w", runID, flowName, err)
	}
	defer c.done.release(w)
	again := c.rechecks.get()
	defer c.rechecks.put(again)
	for look := !w.expected; ; look = true {
		var reply enginecore.FlowResultReply
		if look {
			reply, err = c.session.backend.FlowResult(ctx, enginecore.FlowResultCall{Partition: p, FlowID: id})
			switch {
			case errors.Is(err, enginecore.ErrFlowNotFound):
				return reply, fmt.Errorf("run %s of flow %s: %w", runID, flowName, ErrRunNotFound)
			case ctx.Err() != nil:
				return reply, fmt.Errorf("run %s of flow %s: %w", runID, flowName, context.Cause(ctx))
			case err != nil && !errors.Is(err, enginecore.ErrUnavailable):
				return reply, fmt.Errorf("run %s of flow %s: %w", runID, flowName, err)
			case err == nil && !reply.ClosedAt.IsZero():
				return reply, nil
			}
		}
		again.Reset(recheck)
		select {
		case end := <-w.heard:
			if end.known {
				return enginecore.FlowResultReply{Outcome: end.outcome, HasResult: true, Result: []byte(end.result)}, nil
			}
		case <-again.C:
		case <-c.session.core.Outdated():
			return reply, fmt.Errorf("run %s of flow %s: %w", runID, flowName, c.session.core.OutdatedErr())
		case <-c.done.closed.Done():
			return reply, fmt.Errorf("run %s of flow %s: %w", runID, flowName, errClientClosed)
		case <-ctx.Done():
			return reply, fmt.Errorf("run %s of flow %s: %w", runID, flowName, context.Cause(ctx))
		}
	}
}

// timers keeps timers that are not needed any more.
type timers struct{ pool sync.Pool }

// get gives a timer that does not run.
func (t *timers) get() *time.Timer {
	if timer, ok := t.pool.Get().(*time.Timer); ok {
		return timer
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

func (t *timers) put(timer *time.Timer) {
	timer.Stop()
	t.pool.Put(timer)
}
