package worker

import (
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

const (
	// maxReturnFlushes bounds the goroutines that return permits.
	maxReturnFlushes = 4
	// returnDelay is the time for which a permit is kept while no execution waits for it.
	returnDelay = 5 * time.Millisecond
	// maxReturns bounds the permits that one pass returns or acquires.
	maxReturns = 256
)

// permitReturns collects the permits of attempts that have ended. While an execution waits for one of them,
// they are returned at once, together with those of attempts that end meanwhile. Otherwise they are returned
// after returnDelay, or with the next request to their limit. mu guards the fields after
// it.
type permitReturns struct {
	run    *services
	queue  *dispatch.Queue
	limits *limitCache
	slots  admittedStarter

	mu      sync.Mutex
	pending []admission.PermitReturn
	lane    enginecore.LaneID // lane of the last attempt, for which executions are leased in exchange
	flushes int               // number of running flush calls
}

// takeFor removes and returns pending permits that belong to one limit and to no other, at most maxReturns.
func (r *permitReturns) takeFor(limit enginecore.QuotaPolicyID) []admission.PermitReturn {
	r.mu.Lock()
	defer r.mu.Unlock()
	var taken, rest []admission.PermitReturn
	for _, x := range r.pending {
		if len(x.Limits) == 1 && x.Limits[0].Quota == limit && len(taken) < maxReturns {
			taken = append(taken, x)
		} else {
			rest = append(rest, x)
		}
	}
	r.pending = rest
	return taken
}

// release returns the permits of an attempt that has ended, in the background.
func (r *permitReturns) release(t *Task) {
	r.note(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	// While an execution waits, a permit is not delayed by the return of another one, which may take several
	// calls.
	flushes := r.flushes
	if len(r.pending) > 0 && (flushes == 0 || flushes < maxReturnFlushes && r.limits.isContended(r.pending)) {
		r.flushes++
		// The run waits for the flush when it stops, as for tasks. The caller is one of the tasks, so the run
		// still waits.
		r.slots.goTask(r.flush)
	}
}

// note adds the permits of an attempt that has ended to the pending ones, once for each task.
func (r *permitReturns) note(t *Task) {
	if t.permit.returned {
		return
	}
	t.permit.returned = true
	if t.permit.pool != nil {
		t.permit.pool.leave(t.permit.granted)
		return
	}
	if t.claimed.Admission == "" || t.outcomeUnknown.Load() {
		return
	}
	x, ok := admission.PermitsOf(t.claimed)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, x)
	r.lane = t.shard.Lane
}

// flush returns permits until none is pending, and starts the executions that are leased in exchange.
func (r *permitReturns) flush() {
	for {
		r.mu.Lock()
		if len(r.pending) > 0 && !r.limits.isContended(r.pending) && !r.queue.IsClosed() {
			r.mu.Unlock()
			engine.Sleep(r.run.base, returnDelay)
			r.mu.Lock()
		}
		list, lane := r.pending, r.lane
		if len(list) == 0 {
			r.flushes--
			r.mu.Unlock()
			return
		}
		n := min(maxReturns, len(list))
		r.pending = list[n:]
		r.mu.Unlock()
		slots := r.slots.reserve(n)
		leased := admission.Admitter{Session: r.run.session}.Release(r.run.base, list[:n], r.slots.claimant(lane),
			slots)
		r.slots.startAdmitted(lane, leased, slots)
	}
}
