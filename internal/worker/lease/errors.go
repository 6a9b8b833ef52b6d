package lease

import (
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
)

// Pauses between two tries of a call while the engine is unavailable.
const (
	// ReportPause is the pause of calls for a leased execution.
	ReportPause = 100 * time.Millisecond
	// ClaimPause is the pause between tries of a claim, and the pause of a shard after a failed claim.
	ClaimPause = 200 * time.Millisecond
)

// IsFence reports whether an error means that the caller does not hold the lease of the execution.
func IsFence(err error) bool {
	for _, code := range []enginecore.Code{
		enginecore.ErrExecutionNotActive, enginecore.ErrLeaseRevoked, errorcode.LeaseExpired,
		enginecore.ErrStaleLease,
		enginecore.ErrExecutionNotFound,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
