package worker

import (
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
)

// permitRequest is the request of a task for the permits of its limits.
type permitRequest struct {
	// result receives whether the execution has got its permits; nil if they were not requested.
	result chan bool
	// granted is set if the task got its permits by its own request; pool is the pool of its permit, nil if it has
	// none.
	granted  bool
	pool     *permitPool
	returned bool // set by permitReturns.note, so that permits are returned once
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
