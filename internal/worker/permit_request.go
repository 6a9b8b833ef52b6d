package worker

import (
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
)

// permitRequest is the request of a task for the permits of its limits.
type permitRequest struct {
	// result receives the reply to the request; nil if the permits were not requested.
	result chan permitResult
	// granted is set if the task got its permits by its own request; pool is the pool of its permit, nil if it has
	// none.
	granted bool
	pool    *permitPool
	// beginBy is until when the function may begin under its permits; begun is set once it may.
	beginBy  time.Time
	begun    bool
	returned bool // set by permitReturns.note, so that permits are returned once
}

// permitResult is the reply to a request for permits: whether all of them were granted, and until when a function may
// begin under them. For a permit of a pool, that is not used.
type permitResult struct {
	all     bool
	beginBy time.Time
}

// admittedStarter starts executions that were leased when permits were acquired or returned.
type admittedStarter interface {
	// claimant returns the claimant that leases executions of a lane to this worker.
	claimant(enginecore.LaneID) admission.Claimant
	// reserve takes up to n free slots for executions that get returned permits, and returns their number.
	reserve(n int) int
	// startAdmitted starts executions of a lane in reserved slots and frees those that are left.
	startAdmitted(lane enginecore.LaneID, leased []admission.LeasedExecution, slots int)
	// goTask runs a function in a goroutine that the run waits for like for its tasks.
	goTask(func())
}
