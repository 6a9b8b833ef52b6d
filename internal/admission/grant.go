package admission

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// ErrNoGrant is returned by GrantIssuer.ClaimForWorker if no execution can be granted to the worker.
var ErrNoGrant = errors.New("nothing to grant")

const (
	// MaxGrantTTL bounds GrantRequest.TTL.
	MaxGrantTTL = time.Minute
	// maxGrantID is the longest id of a worker or of its instance, in bytes.
	maxGrantID = 256
)

// GrantRequest describes the worker that a grant is for. It is the internal form of runtime.GrantRequest.
type GrantRequest struct {
	// Lane is the lane from which the execution is taken.
	Lane string
	// WorkerID and Instance identify the worker. The grant is valid for this instance only.
	WorkerID enginecore.WorkerID
	Instance enginecore.WorkerInstanceID
	// Capabilities are offered by the worker: it can run executions that require a subset of them.
	Capabilities []string
	// Activities are the names of the activities that the worker can run; nil means all.
	Activities []string
	// TTL is the time within which the worker must claim by the grant: 1 ms to MaxGrantTTL.
	TTL time.Duration
	// Partition is the tag of the partition to which the search is restricted, such as {fp:7}; "" searches up to 32
	// partitions, in rotation. Where one server has all partitions, eligible executions of all partitions wait in
	// partition 0.
	Partition string
}

// IssuedGrant permits one worker instance to claim one execution until ExpiresAt. It is the internal form of
// runtime.Grant.
type IssuedGrant struct {
	// ExecutionID and Lane identify the granted execution.
	ExecutionID enginecore.ExecutionID
	Lane        enginecore.LaneID
	// WorkerID and Instance identify the worker that may claim it.
	WorkerID enginecore.WorkerID
	Instance enginecore.WorkerInstanceID
	// Key is the key under which the engine stores the grant.
	Key string
	// ExpiresAt is the end of the grant, by the clock of the engine.
	ExpiresAt time.Time
	// Reclaim reports whether the claim takes over an execution whose worker was lost.
	Reclaim bool
}

// check validates a request and returns its capabilities as the engine takes them: sorted, without
// duplicates, comma-separated.
func (r GrantRequest) check() (csv string, err error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: grant request: "+format, append([]any{engine.ErrInvalid}, args...)...))
	}
	if _, err := keyspace.ParseLaneID(r.Lane); err != nil {
		fault("lane: %w", err)
	}
	for _, id := range []struct{ name, text string }{
		{"worker id", string(r.WorkerID)}, {"instance", string(r.Instance)},
	} {
		if id.text == "" || len(id.text) > maxGrantID || !utf8.ValidString(id.text) ||
			strings.ContainsFunc(id.text, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
			fault("%s %.80q: must have 1 to %d bytes, without white space and control characters", id.name,
				id.text, maxGrantID)
		}
	}
	if r.TTL < time.Millisecond || r.TTL > MaxGrantTTL {
		fault("ttl %s: must be 1ms to %s", r.TTL, MaxGrantTTL)
	}
	list, wrong := activityspec.Offered(r.Capabilities)
	for _, err := range wrong {
		fault("%w", err)
	}
	return strings.Join(list, ","), errors.Join(faults...)
}
