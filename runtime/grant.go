package runtime

import (
	"context"
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

// GrantRequest says for whom a grant is.
type GrantRequest struct {
	// Lane to take from.
	Lane string
	// WorkerID and Instance name the worker. The grant is good for this instance only.
	WorkerID enginecore.WorkerID
	Instance enginecore.WorkerInstanceID
	// Capabilities that the worker offers: it may run what requires a subset of them.
	Capabilities []string
	// Activities that the worker knows; others are set aside for a worker that does. Nil is all.
	Activities []string
	// TTL is how long the worker has to claim by the grant: 1 ms to MaxGrantTTL.
	TTL time.Duration
	// Partition to take from; nil looks into 32 of them, others from call to call.
	Partition *enginecore.Partition
}

// Grant lets one worker instance claim one execution, for a short time. After ExpiresAt somebody else may be granted it.
type Grant struct {
	ExecutionID enginecore.ExecutionID
	Partition   enginecore.Partition
	Lane        enginecore.LaneID
	WorkerID    enginecore.WorkerID
	Instance    enginecore.WorkerInstanceID
	// Key is where the engine keeps the grant.
	Key       string
	ExpiresAt time.Time
	// Reclaim tells that another worker has lost the execution: it is claimed with ff_reclaim_execution, others with
	// ff_claim_execution or, as that says, ff_claim_resumed_execution.
	Reclaim bool
}

// Granter issues grants. A GrantIssuer is one; so is a client of a service around a GrantIssuer.
type Granter interface {
	ClaimForWorker(ctx context.Context, r GrantRequest) (Grant, error)
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
