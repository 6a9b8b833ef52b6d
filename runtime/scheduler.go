package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// ErrNoGrant is returned by Scheduler.ClaimForWorker when it found nothing that the worker may run, and ErrGrantRequest for a
// request that is not valid.
var (
	ErrNoGrant      = errors.New("nothing to grant")
	ErrGrantRequest = errors.New("bad request for a grant")
)

const (
	// MaxGrantTTL bounds GrantRequest.TTL.
	MaxGrantTTL = time.Minute
	// maxGrantCapabilities and maxGrantCapabilityBytes bound what a worker offers, in number and as a sorted list.
	maxGrantCapabilities    = 256
	maxGrantCapabilityBytes = 4096
	// probedPartitions is how many partitions one call looks into, and rotationWindow how long calls begin at the same one.
	probedPartitions = 32
	rotationWindow   = 250 * time.Millisecond
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

// Granter issues grants. A Scheduler is one; so is a client of a service around a Scheduler.
type Granter interface {
	ClaimForWorker(ctx context.Context, r GrantRequest) (Grant, error)
}

// Scheduler claims on behalf of workers that are not trusted with admission: it checks budgets, quotas, limits and
// capabilities, and hands out grants. Its grants are those of the contract, so workers and schedulers of other FlowFabric
// programs may work on the same lanes, and it works in contract mode. What it may not grant, it takes out of the way with the
// reason in the record, and takes up again when the reason is gone.
//
// A grant is for the execution that a claim of the worker would lease next in that partition: turns of the keys of FairBy, ageing,
// priority, pauses and budgets of flows count as they do for workers that claim for themselves. Of the partitions that a call
// looks into, it takes the one from which this Scheduler has granted nothing for the longest time. In contract mode, grants
// follow the contract: the first partition that has something, there priority, then age.
//
// Keep one Scheduler for the life of a process: where its next call looks depends on those before. It may be used by several
// goroutines.
type Scheduler struct {
	session *session

	mu     sync.Mutex
	window int64
	cursor int
	grants int64
	last   map[grantPlace]int64 // number of the last grant
}

// grantPlace is a lane in a partition.
type grantPlace struct {
	lane      enginecore.LaneID
	partition enginecore.Partition
}

// NewScheduler returns a scheduler of an engine.
func NewScheduler(e *Engine) *Scheduler {
	s := &Scheduler{last: make(map[grantPlace]int64)}
	if e.open() == nil {
		s.session = e.session
	}
	return s
}

// ClaimForWorker grants the worker one execution. It looks at the first ones that wait in each partition that it probes,
// asks for room in their budgets and quotas, and writes one grant. It returns ErrNoGrant when there is nothing, which in a
// deployment with more partitions than it probes says nothing of the others: call again. Other errors are ErrGrantRequest, and
// those of the engine; when a budget or a quota cannot be asked, nothing is granted.
func (s *Scheduler) ClaimForWorker(ctx context.Context, r GrantRequest) (Grant, error) {
	p, err := s.newProbe(ctx, r)
	if err != nil {
		return Grant{}, err
	}
	// What was taken out of the way, or taken by others meanwhile, has made room for others.
	for range maxProbes {
		p.moved = false
		grant, granted, err := p.look(ctx)
		if err != nil {
			return Grant{}, fmt.Errorf("claim for worker %s: %w", r.Instance, err)
		}
		if granted {
			return grant, nil
		}
		if !p.moved {
			break
		}
	}
	return Grant{}, ErrNoGrant
}

// check returns the capabilities as the engine wants them.
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

// rotate moves the first partition on, once in each window of time.
func (s *Scheduler) rotate(now time.Time, partitions int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if window := now.UnixMilli() / rotationWindow.Milliseconds(); window != s.window {
		s.window = window
		s.cursor = (s.cursor + probedPartitions) % partitions
	}
	return s.cursor
}

// noteGrant moves a partition to the end of the line of its lane.
func (s *Scheduler) noteGrant(at grantPlace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants++
	s.last[at] = s.grants
}

// retakeEvery is how often a grant looks first at what was blocked.
const retakeEvery = 8

// isRetakeTurn tells that the next grant looks first at what was blocked.
func (s *Scheduler) isRetakeTurn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grants%retakeEvery == retakeEvery-1
}

// inLine sorts partitions of a lane by how long nothing has been granted from them.
func (s *Scheduler) inLine(lane enginecore.LaneID, spots []grantSpot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(spots, func(a, b grantSpot) int {
		return cmp.Compare(s.last[grantPlace{lane, a.partition}], s.last[grantPlace{lane, b.partition}])
	})
}
