package worker

import (
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// permitQueue acquires permits for tasks that were leased before their permits and do not qualify for a pool, and
// renews those of tasks whose functions begin later than the limits know. For the first limit of each task, one call at
// a time is in flight; tasks that arrive meanwhile share the next one. It is not an engine.Batcher, which has one
// waiting goroutine for each request: all tasks of a claim request their permits with one call, before any of them
// runs, and each gets its result as soon as it is known.
type permitQueue struct {
	run    *services
	pools  *permitPools
	limits *limitCache
	slots  admittedStarter
	haste  haste

	mu sync.Mutex
	// waiting holds the requests behind the call that is in flight for a limit. mu guards it.
	waiting map[enginecore.QuotaPolicyID][]queuedPermits
}

// queuedPermits are the permits that a task of a lane requests.
type queuedPermits struct {
	needed admission.PermitReturn
	lane   enginecore.LaneID
	result chan<- permitResult
}

// acquire requests the permits of those tasks that were leased before their permits and have not requested
// any, from a pool or through the queue. await returns the result. The caller must run in one of the run's task
// goroutines.
func (q *permitQueue) acquire(tasks ...*Task) {
	var list []queuedPermits
	for _, t := range tasks {
		if t.permit.result != nil || !admission.IsLeasedAhead(t.claimed) {
			continue
		}
		t.permit.result = make(chan permitResult, 1)
		needed, ok := admission.PermitsOf(t.claimed)
		switch {
		case !ok || len(needed.Limits) == 0 || t.leaseEnded():
			t.permit.result <- permitResult{}
		case q.pools.accepts(needed.Limits):
			q.pools.take(&t.permit, t.shard.Lane, needed.Limits[0])
		default:
			list = append(list, queuedPermits{needed, t.shard.Lane, t.permit.result})
		}
	}
	q.add(list...)
}

// add adds requests to the queue. The caller must run in one of the run's task goroutines.
func (q *permitQueue) add(list ...queuedPermits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, x := range list {
		first := x.needed.Limits[0].Quota
		if q.waiting == nil {
			q.waiting = make(map[enginecore.QuotaPolicyID][]queuedPermits)
		}
		behind, inFlight := q.waiting[first]
		q.waiting[first] = append(behind, x)
		if !inFlight {
			q.slots.goTask(func() { q.sendAll(first) }) // it waits for the lock
		}
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

// send acquires permits and sends each task the result.
func (q *permitQueue) send(list []queuedPermits) {
	needed := make([]admission.PermitReturn, len(list))
	for i, x := range list {
		needed[i] = x.needed
	}
	by := q.slots.claimant(list[0].lane)
	admission.Admitter{Session: q.run.session}.Acquire(q.run.base, needed, by,
		func(i int, all bool, beginBy time.Time) { list[i].result <- permitResult{all, beginBy} })
}

// await waits for the permits of a task that was leased before them, and reports whether the task has all of them.
func (q *permitQueue) await(t *Task) bool {
	if !admission.IsLeasedAhead(t.claimed) {
		return true
	}
	q.acquire(t)
	got := <-t.permit.result
	t.permit.granted, t.permit.beginBy = got.all, got.beginBy
	return got.all
}

// begin makes the start of the function of a task count from now on in the limits that count starts. It is called
// immediately before the function, in the goroutine of the task. A permit that was granted for a start until now or
// later is left as it is; so it costs a call for those whose slot, program or server kept them waiting. It reports
// whether the function may begin: if not, a limit has no room, and the execution is released.
func (q *permitQueue) begin(t *Task) bool {
	if t.claimed.Admission == "" || t.permit.pool != nil {
		return true
	}
	needed, ok := admission.PermitsOf(t.claimed)
	if !ok {
		return true
	}
	needed.Again = needed.Again || t.permit.begun
	for renewed := false; ; renewed = true {
		late := time.Since(t.permit.beginBy)
		if renewed {
			q.haste.observe(late)
		}
		if late <= 0 && !needed.Again {
			break
		}
		counting := needed
		counting.Limits = slices.DeleteFunc(slices.Clone(needed.Limits), func(l submit.StoredLimit) bool {
			return q.limits.rateOf(l.Quota) == admission.Unrated
		})
		if len(counting.Limits) == 0 {
			break
		}
		result := make(chan permitResult, 1)
		q.add(queuedPermits{counting, t.shard.Lane, result})
		got := <-result
		if !got.all {
			return false
		}
		t.permit.beginBy, needed.Again = got.beginBy, false
	}
	t.permit.begun = true
	return true
}

// reasonNoRoom is the reason of a release because of a limit.
const reasonNoRoom = "its limit has no room"

// returnReason returns the reason for releasing a task that has not run.
func returnReason(permitted bool) string {
	if !permitted {
		return reasonNoRoom
	}
	return reasonStopped
}
