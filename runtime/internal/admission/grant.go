package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// ErrNoGrant is returned by GrantIssuer.ClaimForWorker when it found nothing that the worker may run, and ErrGrantRequest for a
// request that is not valid.
var (
	ErrNoGrant      = errors.New("nothing to grant")
	ErrGrantRequest = errors.New("bad request for a grant")
)

const (
	// MaxGrantTTL bounds GrantRequest.TTL.
	MaxGrantTTL = time.Minute
	// maxGrantCapabilities and maxGrantCapabilityBytes bound the capabilities of a worker, in number and as a sorted list.
	maxGrantCapabilities    = 256
	maxGrantCapabilityBytes = 4096
)

// grantRequest names the worker of a grant; runtime.GrantRequest describes the fields.
type GrantRequest struct {
	Lane         string
	WorkerID     enginecore.WorkerID
	Instance     enginecore.WorkerInstanceID
	Capabilities []string
	Activities   []string
	TTL          time.Duration
	Partition    *enginecore.Partition
}

// issuedGrant lets one worker instance claim one execution; runtime.Grant describes the fields.
type IssuedGrant struct {
	ExecutionID enginecore.ExecutionID
	Partition   enginecore.Partition
	Lane        enginecore.LaneID
	WorkerID    enginecore.WorkerID
	Instance    enginecore.WorkerInstanceID
	Key         string
	ExpiresAt   time.Time
	Reclaim     bool
}

// check validates a request and returns its capabilities as the engine takes them: sorted, without duplicates, comma-separated.
func (r GrantRequest) check() (csv string, err error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrGrantRequest}, args...)...))
	}
	if _, err := enginecore.ParseLaneID(r.Lane); err != nil {
		fault("lane: %w", err)
	}
	if r.WorkerID == "" || r.Instance == "" {
		fault("worker id and instance must be given")
	}
	if r.TTL < time.Millisecond || r.TTL > MaxGrantTTL {
		fault("ttl %s: must be 1ms to %s", r.TTL, MaxGrantTTL)
	}
	list := slices.Compact(slices.Sorted(slices.Values(r.Capabilities)))
	for _, name := range list {
		if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c == ',' || unicode.IsSpace(c) || unicode.IsControl(c) }) {
			fault("capability %q: must not be empty or contain commas, white space or control characters", name)
		}
	}
	csv = strings.Join(list, ",")
	if len(list) > maxGrantCapabilities || len(csv) > maxGrantCapabilityBytes {
		fault("%d capabilities of %d bytes, at most %d of %d are allowed", len(list), len(csv), maxGrantCapabilities, maxGrantCapabilityBytes)
	}
	return csv, errors.Join(faults...)
}
