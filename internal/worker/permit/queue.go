package permit

import (
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// requestQueue acquires permits for tasks that were leased before their permits and do not qualify for a pool, and
// renews permits of tasks whose functions begin later than the limits assumed. For the first limit of each task, one
// call at a time is in flight; tasks that arrive during the call share the next one. It is not a batching.Batcher,
// which has one waiting goroutine for each request: all tasks of a claim request their permits with one call, before
// any of them runs, and each gets its result as soon as it is known.
type requestQueue struct {
	*user
	pools *poolSet
	haste haste

	mu sync.Mutex
	// waiting holds the requests that wait for the end of the call in flight for a limit. mu guards it.
	waiting map[enginecore.QuotaPolicyID][]queuedRequest
}

// queuedRequest are the permits that a task of a lane requests.
type queuedRequest struct {
	needed admission.PermitReturn
	lane   enginecore.LaneID
	result chan<- result
}

// acquire makes requests for permits, from a pool or through the queue. await returns the result. The caller must run
// in one of the run's task goroutines.
func (q *requestQueue) acquire(requests ...*Request) {
	var list []queuedRequest
	for _, r := range requests {
		if !r.IsDue() {
			continue
		}
		r.result = make(chan result, 1)
		needed, ok := admission.PermitsOf(r.Lease.Claimed)
		switch {
		case !ok || len(needed.Limits) == 0 || r.Lease.LeaseEnded():
			r.result <- result{}
		case q.pools.accepts(needed.Limits):
			q.pools.take(r, r.Lease.Shard.Lane, needed.Limits[0])
		default:
			list = append(list, queuedRequest{needed, r.Lease.Shard.Lane, r.result})
		}
	}
	q.add(list...)
}

// add adds requests to the queue. The caller must run in one of the run's task goroutines.
func (q *requestQueue) add(list ...queuedRequest) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, x := range list {
		first := x.needed.Limits[0].Quota
		if q.waiting == nil {
			q.waiting = make(map[enginecore.QuotaPolicyID][]queuedRequest)
		}
		behind, inFlight := q.waiting[first]
		q.waiting[first] = append(behind, x)
		if !inFlight {
			q.slots.Go(func() { q.sendAll(first) }) // it waits for the lock
		}
	}
}

// sendAll sends calls until no task waits for the limit.
func (q *requestQueue) sendAll(limit enginecore.QuotaPolicyID) {
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
func (q *requestQueue) send(list []queuedRequest) {
	needed := make([]admission.PermitReturn, len(list))
	for i, x := range list {
		needed[i] = x.needed
	}
	by := q.slots.Claimant(list[0].lane)
	admission.Admitter{Session: q.session}.Acquire(q.base, needed, by,
		func(i int, all bool, beginBy time.Time) { list[i].result <- result{all, beginBy} })
}

// await waits for the permits of a task that was leased before them, and reports whether the task has all of them.
func (q *requestQueue) await(r *Request) bool {
	if !admission.IsLeasedAhead(r.Lease.Claimed) {
		return true
	}
	q.acquire(r)
	got := <-r.result
	r.granted, r.BeginBy = got.all, got.beginBy
	return got.all
}

// begin makes the start of the function of a task count from now on in the limits that count starts. It is called
// immediately before the function, in the goroutine of the task. A permit that was granted for a start until now or
// later is left as it is; so it costs a call for those whose slot, program or server kept them waiting. It reports
// whether the function may begin: if not, a limit has no room, and the execution is released.
func (q *requestQueue) begin(r *Request) bool {
	if r.Lease.Claimed.Admission == "" || r.pool != nil {
		return true
	}
	needed, ok := admission.PermitsOf(r.Lease.Claimed)
	if !ok {
		return true
	}
	needed.Again = needed.Again || r.begun
	for renewed := false; ; renewed = true {
		late := time.Since(r.BeginBy)
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
		result := make(chan result, 1)
		q.add(queuedRequest{counting, r.Lease.Shard.Lane, result})
		got := <-result
		if !got.all {
			return false
		}
		r.BeginBy, needed.Again = got.beginBy, false
	}
	r.begun = true
	return true
}
