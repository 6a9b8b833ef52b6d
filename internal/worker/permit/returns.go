package permit

import (
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

const (
	// maxReturnFlushes bounds the goroutines that return permits.
	maxReturnFlushes = 4
	// returnDelay is the time for which a permit is kept while no execution waits for it.
	returnDelay = 5 * time.Millisecond
	// maxReturns bounds the permits that one pass returns or acquires.
	maxReturns = 256
)

// returnQueue collects the permits of attempts that have ended. While an execution waits for one of them, they are
// returned at once, together with the permits of attempts that end during the call. Otherwise they are returned after
// returnDelay, or with the next request to their limit. mu guards the fields after it.
type returnQueue struct {
	*user

	mu      sync.Mutex
	pending []admission.PermitReturn
	lane    enginecore.LaneID // lane of the last attempt, for which executions are leased in exchange
	flushes int               // number of running flush calls
}

// takeFor removes and returns pending permits that belong to one limit and to no other, at most maxReturns.
func (r *returnQueue) takeFor(limit enginecore.QuotaPolicyID) []admission.PermitReturn {
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

// release returns the permits of an attempt that has ended, in the background. unknown is set if the engine may not
// know that.
func (r *returnQueue) release(ended *Request, unknown bool) {
	r.note(ended, unknown)
	r.mu.Lock()
	defer r.mu.Unlock()
	// While an execution waits, a permit is not delayed by the return of another one, which may take several
	// calls.
	flushes := r.flushes
	if len(r.pending) > 0 && (flushes == 0 || flushes < maxReturnFlushes && r.limits.isContended(r.pending)) {
		r.flushes++
		// The run waits for the flush when it stops, as for tasks. The caller is one of the tasks, so the run
		// still waits.
		r.slots.Go(r.flush)
	}
}

// note adds the permits of an attempt that has ended to the pending ones, once for each task, unless the engine may not
// know the end.
func (r *returnQueue) note(ended *Request, unknown bool) {
	if ended.returned {
		return
	}
	ended.returned = true
	if ended.pool != nil {
		ended.pool.leave(ended.granted)
		return
	}
	if ended.Lease.Claimed.Admission == "" || unknown {
		return
	}
	x, ok := admission.PermitsOf(ended.Lease.Claimed)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, x)
	r.lane = ended.Lease.Shard.Lane
}

// flush returns permits until none is pending, and starts the executions that are leased in exchange.
func (r *returnQueue) flush() {
	for {
		r.mu.Lock()
		if len(r.pending) > 0 && !r.limits.isContended(r.pending) && !r.queue.IsClosed() {
			r.mu.Unlock()
			sleep.For(r.base, returnDelay)
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
		slots := r.slots.Reserve(n)
		leased := admission.Admitter{Session: r.session}.Release(r.base, list[:n], r.slots.Claimant(lane),
			slots)
		r.slots.StartAdmitted(lane, leased, slots)
	}
}
