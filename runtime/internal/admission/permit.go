package admission

import (
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// permitKey identifies a permit of a limit by its holder: an execution, and the token of one of its leases.
type permitKey struct {
	limit     enginecore.QuotaPolicyID
	execution string
	token     int64
}

// PermitReturn identifies permits that an execution holds, or is to acquire, and that it returns when its
// attempt ends.
type PermitReturn struct {
	execution enginecore.ExecutionID
	token     int64
	// Limits are the limits of these permits, in the order in which they are acquired.
	Limits []submit.StoredLimit
	// grants are the numbers under which the permits were granted, in the order of Limits. Nil returns
	// whichever permit the execution holds.
	grants []int64
}

// IsLeasedAhead reports whether an execution was leased before its permits were acquired, so that its worker
// must acquire them before it runs the execution.
func IsLeasedAhead(claimed *enginerpc.ClaimedExecution) bool {
	permits, _ := enginerpc.ParsePermitsText(claimed.Admission)
	return permits.Ahead
}

// PermitsOf returns the permits that came with a claim; false if none did or their text is malformed.
func PermitsOf(claimed *enginerpc.ClaimedExecution) (PermitReturn, bool) {
	permits, ok := enginerpc.ParsePermitsText(claimed.Admission)
	if !ok {
		return PermitReturn{}, false
	}
	limits, err := submit.DecodeLimits(permits.Limits)
	return PermitReturn{claimed.ExecutionID, permits.Token, limits, nil}, err == nil
}
