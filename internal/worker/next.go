package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// handoverPatience is how long a leased task waits for a call of Next if the one that it was leased for has ended. Then
// it is released.
const handoverPatience = time.Second

// handover hands the tasks of a worker to callers of Next. newHandover makes one.
type handover struct {
	offers chan *HeldTask
	// places has a value for each task that the program holds or that a call of Next waits for.
	places chan struct{}
	// begun is closed when run is set, closing when the worker hands out no more tasks.
	begun   chan struct{}
	run     *Run
	closing chan struct{}
	mu      sync.Mutex // held while closing is closed, and while a task of the run is started
}

func newHandover(places int) *handover {
	return &handover{
		offers: make(chan *HeldTask), places: make(chan struct{}, places), begun: make(chan struct{}),
		closing: make(chan struct{}),
	}
}

func (h *handover) begin(s *Run) {
	h.run = s
	close(h.begun)
}

func (h *handover) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isClosing() {
		close(h.closing)
	}
}

func (h *handover) isClosing() bool {
	select {
	case <-h.closing:
		return true
	default:
		return false
	}
}

// start starts a task of the run. It returns false if the worker hands out no more tasks: its run may have waited for
// all of them already.
func (h *handover) start(do func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosing() {
		return false
	}
	h.run.tasks.Go(do)
	return true
}

// enter waits until the worker runs and the program may hold one more task. The caller calls leave if it gets none.
func (h *handover) enter(ctx context.Context) (*Run, error) {
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

func (h *handover) leave() { <-h.places }

var errNotByHand = fmt.Errorf("%w: the worker has no TaskKinds, so it runs functions", engine.ErrInvalid)

// Next waits for a task and returns it. It waits while the program holds as many tasks as the worker has slots, and
// before Run begins. The error is the cause of ctx, or engine.ErrStopping if the worker stops.
func (w *Worker) Next(ctx context.Context) (*HeldTask, error) {
	h := w.handover
	if h == nil {
		return nil, errNotByHand
	}
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
func (h *handover) next(ctx context.Context) (*HeldTask, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	run, err := h.enter(ctx)
	if err != nil {
		return nil, err
	}
	run.queue.AddSlot()
	select {
	case t := <-h.offers:
		return t, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-h.closing:
		err = engine.ErrStopping
	}
	run.queue.RemoveSlot()
	h.leave()
	return nil, err
}

// NextGranted leases the execution of a grant and returns its task. If the grant cannot be used any more, the error
// matches admission.ErrNoGrant.
func (w *Worker) NextGranted(ctx context.Context, grant admission.IssuedGrant) (*HeldTask, error) {
	h := w.handover
	if h == nil {
		return nil, errNotByHand
	}
	run, err := h.enter(ctx)
	if err != nil {
		return nil, err
	}
	t, err := run.nextGranted(ctx, grant)
	if err != nil {
		h.leave()
		return nil, err
	}
	if ok, err := t.await(ctx); err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("%w: %s: %s", admission.ErrNoGrant, grant.ExecutionID, reasonNoRoom)
	}
	return t, nil
}

func (s *Run) nextGranted(ctx context.Context, grant admission.IssuedGrant) (*HeldTask, error) {
	got, failed := make(chan *HeldTask), make(chan error, 1)
	started := s.worker.handover.start(func() {
		t, err := s.leaseGranted(ctx, grant)
		if err == nil && !s.hold(t, got) {
			err = fmt.Errorf("%w: %s is not to be run any more", admission.ErrNoGrant, grant.ExecutionID)
			if s.worker.handover.isClosing() {
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

// leaseGranted leases the execution of a grant and returns its task.
func (s *Run) leaseGranted(ctx context.Context, grant admission.IssuedGrant) (*Task, error) {
	sentAt := time.Now()
	claimed, err := s.useGrant(ctx, grant)
	if err != nil {
		return nil, err
	}
	if len(claimed) == 0 {
		return nil, fmt.Errorf("%w: the grant of %s is used up, has expired or is for another worker",
			admission.ErrNoGrant, grant.ExecutionID)
	}
	t := s.NewTask(dispatch.LaneShard{Lane: grant.Lane, Partition: grant.Partition}, &claimed[0], sentAt)
	s.permits.acquire(t)
	return t, nil
}
