package worker

import (
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
)

// permitQueue acquires permits for tasks that were leased before their permits and do not qualify for a pool.
// For the first limit of each task, one call at a time is in flight; tasks that arrive meanwhile share the
// next one. It is not an engine.Batcher, which has one waiting goroutine for each request: all tasks of a claim
// request their permits with one call, before any of them runs, and each gets its result as soon as it is known.
type permitQueue struct {
	run   *services
	pools *permitPools
	slots admittedStarter

	mu sync.Mutex
	// waiting holds the tasks behind the call that is in flight for a limit. mu guards it.
	waiting map[enginecore.QuotaPolicyID][]*Task
}

// acquire requests the permits of those tasks that were leased before their permits and have not requested
// any, from a pool or through the queue. await returns the result. The caller must run in one of the run's task
// goroutines.
func (q *permitQueue) acquire(tasks ...*Task) {
	var idle []enginecore.QuotaPolicyID
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		if t.permit.result != nil || !admission.IsLeasedAhead(t.claimed) {
			continue
		}
		t.permit.result = make(chan bool, 1)
		needed, ok := admission.PermitsOf(t.claimed)
		if !ok || len(needed.Limits) == 0 {
			t.permit.result <- false
			continue
		}
		if q.pools.accepts(needed.Limits) {
			q.pools.take(&t.permit, t.shard.Lane, needed.Limits[0])
			continue
		}
		first := needed.Limits[0].Quota
		if q.waiting == nil {
			q.waiting = make(map[enginecore.QuotaPolicyID][]*Task)
		}
		behind, inFlight := q.waiting[first]
		if !inFlight {
			idle = append(idle, first)
		}
		q.waiting[first] = append(behind, t)
	}
	for _, limit := range idle {
		q.slots.goTask(func() { q.sendAll(limit) })
	}
}

// sendAll sends calls until no task waits for the limit.
func (q *permitQueue) sendAll(limit enginecore.QuotaPolicyID) {
	for {
		q.mu.Lock()
		behind := q.waiting[limit]
		if len(behind) == 0 {
			delete(q.waiting, limit)
			q.mu.Unlock()
			return
		}
		n := min(maxReturns, len(behind))
		q.waiting[limit] = behind[n:]
		q.mu.Unlock()
		q.send(behind[:n])
	}
}

// send acquires the permits of tasks and sends each of them the result.
func (q *permitQueue) send(tasks []*Task) {
	needed := make([]admission.PermitReturn, len(tasks))
	for i, t := range tasks {
		needed[i], _ = admission.PermitsOf(t.claimed)
	}
	by := q.slots.claimant(tasks[0].shard.Lane)
	admission.Admitter{Session: q.run.session}.Acquire(q.run.base, needed, by, func(i int, all bool) { tasks[i].permit.result <- all })
}

// await waits for the permits of a task that was leased before them, and reports whether the task has all of them.
func (q *permitQueue) await(t *Task) bool {
	if !admission.IsLeasedAhead(t.claimed) {
		return true
	}
	q.acquire(t)
	t.permit.granted = <-t.permit.result
	return t.permit.granted
}

// returnReason returns the reason for releasing a task that has not run.
func returnReason(permitted bool) string {
	if !permitted {
		return "its limit has no room"
	}
	return "the worker stopped"
}
