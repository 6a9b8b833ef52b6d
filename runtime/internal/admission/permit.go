package admission

import (
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// permitKey names a permit of a limit: who holds it, by the token of one lease.
type permitKey struct {
	limit     enginecore.QuotaPolicyID
	execution string
	token     int64
}

// permitReturn names permits that an attempt gives back.
type PermitReturn struct {
	execution enginecore.ExecutionID
	token     int64
	Limits    []submit.StoredLimit
	// grants are the numbers by which the permits were granted, in the order of limits. Nil gives back whatever permit the
	// execution holds.
	grants []int64
}

// isLeasedAhead reports whether an execution was leased before its permits were acquired, so that its worker has to acquire
// them before it runs the execution.
func IsLeasedAhead(claimed *enginerpc.ClaimedExecution) bool {
	return strings.HasPrefix(claimed.Admission, "?")
}

// permitsOf returns the permits that came with a claim; false when it came with none. Their text is the token, then the limits
// (encodeLimits).
func PermitsOf(claimed *enginerpc.ClaimedExecution) (PermitReturn, bool) {
	token, text, _ := strings.Cut(strings.TrimPrefix(claimed.Admission, "?"), " ")
	number, err := strconv.ParseInt(token, 10, 64)
	if err != nil {
		return PermitReturn{}, false
	}
	limits, err := submit.DecodeLimits(text)
	return PermitReturn{claimed.ExecutionID, number, limits, nil}, err == nil
}
