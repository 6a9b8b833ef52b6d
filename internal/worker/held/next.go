package held

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// handoverPatience is how long a leased task waits for a call of Next if the one that it was leased for has ended. Then
// it is released.
const handoverPatience = time.Second

// Handover hands the tasks of a worker to callers of Next. NewHandover makes one.
type Handover struct {
	Offers chan *Task
	// places contains a value for each task that the program holds or that a call of Next waits for.
	places chan struct{}
	// begun is closed when run is set, closing when the worker hands out no more tasks.
	begun   chan struct{}
	run     Run
	closing chan struct{}
	mu      sync.Mutex // held while closing is closed, and while a task of the run is started
}

func NewHandover(places int) *Handover {
	return &Handover{
		Offers: make(chan *Task), places: make(chan struct{}, places), begun: make(chan struct{}),
		closing: make(chan struct{}),
	}
}

func (h *Handover) Begin(run Run) {
	h.run = run
	close(h.begun)
}

func (h *Handover) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isClosing() {
		close(h.closing)
	}
}

func (h *Handover) isClosing() bool {
	select {
	case <-h.closing:
		return true
	default:
		return false
	}
}

// start starts a task of the run. It returns false if the worker hands out no more tasks: its run may have waited for
// all of them already.
func (h *Handover) start(do func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosing() {
		return false
	}
	h.run.Go(do)
	return true
}

// enter waits until the worker runs and the program may hold one more task. The caller calls leave if it gets none.
func (h *Handover) enter(ctx context.Context) (Run, error) {
	select {
	case h.places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-h.closing:
		return nil, engine.ErrStopping
	}
	var err error
	select {
	case <-h.begun:
		return h.run, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-h.closing:
		err = engine.ErrStopping
	}
	h.leave()
	return nil, err
}

func (h *Handover) leave() { <-h.places }

// Take waits for a task and returns it. It waits while the program holds as many tasks as the worker has slots, and
// before the run begins. The error is the cause of ctx, or engine.ErrStopping if the worker stops.
func (h *Handover) Take(ctx context.Context) (*Task, error) {
	for {
		t, err := h.next(ctx)
		if err != nil {
			return nil, err
		}
		switch ok, err := t.await(ctx); {
		case err != nil:
			return nil, err
		case ok:
			return t, nil
		}
	}
}

// next takes a task from the worker.
func (h *Handover) next(ctx context.Context) (*Task, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	run, err := h.enter(ctx)
	if err != nil {
		return nil, err
	}
	run.AddSlot()
	select {
	case t := <-h.Offers:
		return t, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-h.closing:
		err = engine.ErrStopping
	}
	run.RemoveSlot()
	h.leave()
	return nil, err
}

// TakeGranted leases the execution of a grant and returns its task. If the grant can no longer be used, the error
// matches enginecore.ErrNoGrant.
func (h *Handover) TakeGranted(ctx context.Context, grant enginecore.Grant) (*Task, error) {
	run, err := h.enter(ctx)
	if err != nil {
		return nil, err
	}
	t, err := h.nextGranted(ctx, run, grant)
	if err != nil {
		h.leave()
		return nil, err
	}
	if ok, err := t.await(ctx); err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("%w: %s is not to be run any more", enginecore.ErrNoGrant, grant.ExecutionID)
	}
	return t, nil
}

func (h *Handover) nextGranted(ctx context.Context, run Run, grant enginecore.Grant) (*Task, error) {
	got, failed := make(chan *Task), make(chan error, 1)
	started := h.start(func() {
		t, err := run.LeaseGranted(ctx, grant)
		if err == nil && !run.Hold(t, got) {
			err = fmt.Errorf("%w: %s is not to be run any more", enginecore.ErrNoGrant, grant.ExecutionID)
			if h.isClosing() {
				err = engine.ErrStopping
			}
		}
		failed <- err
	})
	if !started {
		return nil, engine.ErrStopping
	}
	select {
	case held := <-got:
		return held, nil
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx) // if it is leased, the task waits for handoverPatience and is released
	}
}
