package permit

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// Permits acquires and returns the permits of limits for the tasks of a worker run. New makes one.
type Permits struct {
	user    user
	pools   poolSet
	queue   requestQueue
	returns returnQueue
}

// user is the worker run that uses permits, and the limits that it knows.
type user struct {
	session  *engine.Session
	base     context.Context
	instance enginecore.WorkerInstanceID
	queue    *dispatch.Queue
	slots    Starter
	limits   limitCache
}

// New returns the permits of a run whose calls end with base. hasLiveKey reports whether the worker's live key is
// set.
func New(
	base context.Context, session *engine.Session, instance enginecore.WorkerInstanceID, queue *dispatch.Queue,
	slots Starter, hasLiveKey func() bool,
) *Permits {
	p := &Permits{user: user{session: session, base: base, instance: instance, queue: queue, slots: slots}}
	p.pools = poolSet{user: &p.user, hasLiveKey: hasLiveKey}
	p.queue = requestQueue{user: &p.user, pools: &p.pools, haste: haste{exact: session.Quiet}}
	p.returns = returnQueue{user: &p.user}
	return p
}

// Acquire requests the permits of tasks that were leased before them and have not requested any. Await returns the
// result. The caller must run in one of the run's task goroutines.
func (p *Permits) Acquire(requests ...*Request) { p.queue.acquire(requests...) }

// Await waits for the permits of a task that was leased before them, and reports whether the task has all of them.
func (p *Permits) Await(r *Request) bool { return p.queue.await(r) }

// Begin makes the start of a function count from now on in the limits that count starts. It is called immediately
// before the function, in the goroutine of its task. It reports whether the function may begin: if not, a limit has no
// room, and the execution is released.
func (p *Permits) Begin(r *Request) bool { return p.queue.begin(r) }

// Release returns the permits of an attempt that has ended, in the background, unless the engine may not know the end.
func (p *Permits) Release(ended *Request, unknown bool) { p.returns.release(ended, unknown) }

// Note adds the permits of an attempt that has ended to those that the next request to their limit returns.
func (p *Permits) Note(ended *Request, unknown bool) { p.returns.note(ended, unknown) }

// TakeReturns removes and returns pending permits that belong to this limit and to no other.
func (p *Permits) TakeReturns(limit enginecore.QuotaPolicyID) []admission.PermitReturn {
	return p.returns.takeFor(limit)
}

// UpdateLimit stores the state of a limit, which the next claims and permit returns use.
func (p *Permits) UpdateLimit(limit enginecore.QuotaPolicyID, state admission.LimitState) {
	p.user.limits.update(limit, state)
}

// IsContended reports whether executions wait for a permit of a limit, by its last reported state.
func (p *Permits) IsContended(limit enginecore.QuotaPolicyID) bool {
	return p.user.limits.isContendedLimit(limit)
}

// BeginsWithin returns the time within which functions begin whose permits are requested from a limit.
func (p *Permits) BeginsWithin(limit submit.StoredLimit) time.Duration {
	return p.queue.haste.within(limit.WindowMS)
}

// Rooms returns the text for a claim that states for each limit how many executions it may lease before their permits
// are acquired.
func (p *Permits) Rooms() string { return p.user.limits.rooms(p.pools.unused) }

// Request is the request of a task for the permits of its limits.
type Request struct {
	Lease *lease.Lease
	// result receives the reply to the request; nil if the permits were not requested.
	result chan result
	// granted is set if the task got its permits by its own request; pool is the pool of its permit, nil if it has
	// none.
	granted bool
	pool    *pool
	// BeginBy is until when the function may begin under its permits; begun is set once it may.
	BeginBy  time.Time
	begun    bool
	returned bool // set by returnQueue.note, so that permits are returned once
}

// IsDue reports whether the task was leased before its permits, and has not requested them.
func (r *Request) IsDue() bool {
	return r.result == nil && admission.IsLeasedAhead(r.Lease.Claimed)
}

// result is the reply to a request for permits: whether all of them were granted, and until when a function may
// begin under them. For a permit of a pool, that is not used.
type result struct {
	all     bool
	beginBy time.Time
}

// Starter starts executions that were leased when permits were acquired or returned.
type Starter interface {
	// Claimant returns the claimant that leases executions of a lane to this worker.
	Claimant(enginecore.LaneID) admission.Claimant
	// Reserve takes up to n free slots for executions that get returned permits, and returns their number.
	Reserve(n int) int
	// StartAdmitted starts executions of a lane in reserved slots and frees those that are left.
	StartAdmitted(lane enginecore.LaneID, leased []admission.LeasedExecution, slots int)
	// Go runs a function in a goroutine that the run waits for like for its tasks.
	Go(func())
}
