package permit

import (
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

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
