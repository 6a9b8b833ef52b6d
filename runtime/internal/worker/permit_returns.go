package worker

import (
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
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
// after returnDelay, or with the next request to their limit. mu guards the other fields.
type permitReturns struct {
	mu      sync.Mutex
	pending []admission.PermitReturn
	lane    enginecore.LaneID // lane of the last attempt, for which executions are leased in exchange
	flushes int               // number of running flushReturns
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

// releasePermits returns the permits of an attempt that has ended, in the background.
func (s *WorkerRun) releasePermits(t *Task) {
	s.noteReturn(t)
	s.returns.mu.Lock()
	defer s.returns.mu.Unlock()
	// While an execution waits, a permit is not delayed by the return of another one, which may take several
	// calls.
	flushes := s.returns.flushes
	if len(s.returns.pending) > 0 && (flushes == 0 || flushes < maxReturnFlushes && s.limits.isContended(s.returns.pending)) {
		s.returns.flushes++
		// The run waits for the flush when it stops, as for tasks. The caller is one of the tasks, so the run
		// still waits.
		s.tasks.Go(s.flushReturns)
	}
}

// noteReturn adds the permits of an attempt that has ended to the pending ones, once for each task.
func (s *WorkerRun) noteReturn(t *Task) {
	if t.permitsReturned {
		return
	}
	t.permitsReturned = true
	if t.pool != nil {
		t.pool.leave(t.permitted)
		return
	}
	if t.claimed.Admission == "" || t.OutcomeUnknown.Load() {
		return
	}
	x, ok := admission.PermitsOf(&t.claimed)
	if !ok {
		return
	}
	s.returns.mu.Lock()
	defer s.returns.mu.Unlock()
	s.returns.pending = append(s.returns.pending, x)
	s.returns.lane = t.shard.Lane
}

// flushReturns returns permits until none is pending, and starts the executions that are leased in exchange.
func (s *WorkerRun) flushReturns() {
	for {
		s.returns.mu.Lock()
		if len(s.returns.pending) > 0 && !s.limits.isContended(s.returns.pending) && !s.queue.IsClosed() {
			s.returns.mu.Unlock()
			engine.Pause(s.Base, returnDelay)
			s.returns.mu.Lock()
		}
		list, lane := s.returns.pending, s.returns.lane
		if len(list) == 0 {
			s.returns.flushes--
			s.returns.mu.Unlock()
			return
		}
		n := min(maxReturns, len(list))
		s.returns.pending = list[n:]
		s.returns.mu.Unlock()
		slots := s.reserve(n)
		by := runClaimant{s, lane}
		tasks := by.tasks(admission.Admitter{Session: s.Session}.Release(s.Base, list[:n], by, slots))
		s.begin(tasks)
		s.queue.Restore(slots - len(tasks))
	}
}
