package admission

import (
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// permitKey identifies a permit of a limit by its holder: an execution, and the token of one of its leases.
type permitKey struct {
	limit     enginecore.QuotaPolicyID
	execution string
	token     int64
}

// permit is a permit that a limit has granted.
type permit struct {
	// grant numbers the reply that granted it.
	grant int64
	// beginBy is until when the function of the execution may begin under it. The limit counts the start as if it were
	// then. It is the zero time for a permit under which nothing may begin before it is acquired again.
	beginBy time.Time
}

// unbounded is the beginBy of permits of limits that do not count starts.
var unbounded = time.Unix(1<<36, 0)

// beginBy returns until when a function may begin under all of these permits.
func beginBy(permits []permit) time.Time {
	first := unbounded
	for _, x := range permits {
		if x.beginBy.Before(first) {
			first = x.beginBy
		}
	}
	return first
}

// PermitReturn identifies permits that an execution holds, or is to acquire, and that it returns when its
// attempt ends.
type PermitReturn struct {
	execution enginecore.ExecutionID
	token     int64
	// Limits are the limits of these permits, in the order in which they are acquired.
	Limits []submit.StoredLimit
	// grants are the numbers under which the permits were granted, in the order of Limits. Nil returns any permits
	// that the execution holds.
	grants []permit
	// Again is set if the function of the execution has begun under these permits before, so that its next start counts
	// as another one.
	Again bool
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
	return PermitReturn{
		execution: claimed.ExecutionID, token: permits.Token, Limits: limits,
		Again: permits.Token+1 < int64(claimed.LeaseEpoch), // a lost worker had them
	}, err == nil
}
