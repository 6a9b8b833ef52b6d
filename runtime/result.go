package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// recheck is how long a waiting Result trusts the done message before it looks for itself.
const recheck = 5 * time.Second

var errClientClosed = errors.New("client is closed")

// awaitResult returns when the flow is over.
func (c *Client) awaitResult(ctx context.Context, flowName, runID string, id enginecore.FlowID, p enginecore.Partition) (enginecore.FlowResultReply, error) {
	woken, release, err := c.done.wait(ctx, id, p)
	if err != nil {
		return enginecore.FlowResultReply{}, fmt.Errorf("run %s of flow %s: %w", runID, flowName, err)
	}
	defer release()
	again := time.NewTimer(recheck)
	defer again.Stop()
	for {
		reply, err := c.engine.calls.FlowResult(ctx, enginecore.FlowResultCall{Partition: p, FlowID: id})
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
		again.Reset(recheck)
		select {
		case <-woken:
		case <-again.C:
		case <-c.done.closed.Done():
			return reply, fmt.Errorf("run %s of flow %s: %w", runID, flowName, errClientClosed)
		case <-ctx.Done():
		}
	}
}

// doneListener hears which flows are over. It listens to a partition from the first wait for one of its flows on.
type doneListener struct {
	engine *Engine
	closed context.Context
	stop   context.CancelFunc
	tasks  sync.WaitGroup

	mu         sync.Mutex
	partitions map[enginecore.Partition]chan struct{} // closed when the subscription stands
	waiting    map[enginecore.FlowID]map[chan struct{}]struct{}
}

func newDoneListener(e *Engine) *doneListener {
	closed, stop := context.WithCancel(context.Background())
	return &doneListener{
		engine: e, closed: closed, stop: stop, partitions: make(map[enginecore.Partition]chan struct{}),
		waiting: make(map[enginecore.FlowID]map[chan struct{}]struct{}),
	}
}

func (d *doneListener) close() {
	d.mu.Lock()
	d.stop()
	d.mu.Unlock()
	d.tasks.Wait()
}

// wait returns a channel that gets a value when the flow is said to be over. It returns once messages are heard, so that
// a flow which ends after it is not missed. Release ends the wait.
func (d *doneListener) wait(ctx context.Context, id enginecore.FlowID, p enginecore.Partition) (<-chan struct{}, func(), error) {
	d.mu.Lock()
	if d.closed.Err() != nil {
		d.mu.Unlock()
		return nil, nil, errClientClosed
	}
	ready, listening := d.partitions[p]
	if !listening {
		ready = make(chan struct{})
		d.partitions[p] = ready
		d.tasks.Go(func() { d.listen(p, ready) })
	}
	woken := make(chan struct{}, 1)
	if d.waiting[id] == nil {
		d.waiting[id] = make(map[chan struct{}]struct{}, 1)
	}
	d.waiting[id][woken] = struct{}{}
	d.mu.Unlock()
	release := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting[id], woken)
		if len(d.waiting[id]) == 0 {
			delete(d.waiting, id)
		}
	}
	select {
	case <-ready:
		return woken, release, nil
	case <-ctx.Done():
		release()
		return nil, nil, context.Cause(ctx)
	case <-d.closed.Done():
		release()
		return nil, nil, errClientClosed
	}
}

// listen hears one partition until the client is closed.
func (d *doneListener) listen(p enginecore.Partition, ready chan struct{}) {
	channel := d.engine.core.Keys().ChannelDone(p)
	var once sync.Once
	subscribed := func() {
		first := false
		once.Do(func() {
			close(ready)
			first = true
		})
		if !first {
			d.wakeAll()
		}
	}
	d.engine.hub.listen(d.closed, []string{channel}, subscribed, func(_, message string) {
		id, _, _ := strings.Cut(message, " ")
		d.wake(enginecore.FlowID(id))
	})
}

func (d *doneListener) wake(id enginecore.FlowID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for woken := range d.waiting[id] {
		notify(woken)
	}
}

// wakeAll makes every wait look again, since messages may have been lost.
func (d *doneListener) wakeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, list := range d.waiting {
		for woken := range list {
			notify(woken)
		}
	}
}

// notify leaves a value in a channel of capacity one.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
