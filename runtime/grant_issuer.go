package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
)

// GrantIssuer issues grants to workers that are not trusted with admission: it checks budgets, quotas, limits and
// capabilities for them. Its grants are grants of the contract, so workers and schedulers of other FlowFabric programs
// can use the same lanes, and it works in contract mode. An execution that it may not grant is blocked, with the reason
// in its record, and considered again when the reason no longer applies.
//
// A GrantIssuer grants the execution that a claim by the worker itself would lease next in that partition: fairness
// keys, aging, priorities, pauses and budgets apply as they do to workers that claim for themselves. Of the partitions
// that a call probes, it uses the one from which it has granted nothing for the longest time. In contract mode it
// follows the contract: the first partition that has an execution, then priority, then age.
//
// Keep one GrantIssuer for the life of the process, because it remembers which partitions it probed. It is safe for
// concurrent use.
type GrantIssuer struct{ issuer *admission.GrantIssuer }

// NewGrantIssuer returns a grant issuer of an engine. It sends nothing. The error matches ErrInvalid for a missing
// engine, or enginecore.ErrClosed.
func NewGrantIssuer(e *Engine) (*GrantIssuer, error) {
	if err := e.open(); err != nil {
		return nil, fmt.Errorf("grant issuer: %w", err)
	}
	return &GrantIssuer{admission.NewGrantIssuer(e.session)}, nil
}

var errUnmadeIssuer = invalid("the grant issuer was not made by NewGrantIssuer")

// ClaimForWorker grants one execution to the worker. It reads the first waiting executions of each partition that it
// probes, reserves room in their budgets and quotas, and writes one grant. It returns ErrNoGrant when it found nothing;
// since it may not probe every partition, others can have work, so call it again. Other errors match ErrInvalid for an
// invalid request, or are errors of the engine. When a budget or a quota cannot be read, nothing is granted.
func (g *GrantIssuer) ClaimForWorker(ctx context.Context, r GrantRequest) (Grant, error) {
	if g == nil || g.issuer == nil {
		return Grant{}, errUnmadeIssuer
	}
	if err := checkContext(ctx); err != nil {
		return Grant{}, fmt.Errorf("claim for worker: %w", err)
	}
	granted, err := g.issuer.ClaimForWorker(ctx, admission.GrantRequest(r))
	return Grant(granted), err
}

// GrantRequest describes the worker that requests a grant, and its capabilities.
type GrantRequest struct {
	// Lane is the lane to grant from.
	Lane string
	// WorkerID and Instance identify the worker. Only this instance can use the grant.
	WorkerID enginecore.WorkerID
	Instance enginecore.WorkerInstanceID
	// Capabilities are those that the worker offers. It is granted only executions that require a subset of them.
	Capabilities []string
	// Activities are the names that the worker has registered; other executions are blocked until another worker
	// requests them. Nil means all activities.
	Activities []string
	// TTL is how long the worker may use the grant: 1 ms to 1 min.
	TTL time.Duration
	// Partition is the tag of the only partition to probe, such as {fp:7}. Empty probes 32 partitions, different ones
	// from call to call. On a server that has all partitions, executions that can start wait in partition 0,
	// whatever their own partition is.
	Partition string
}

// Grant is a time-limited right of one worker instance to claim one execution. After ExpiresAt, the execution may be
// granted to another worker.
type Grant struct {
	ExecutionID enginecore.ExecutionID
	Lane        enginecore.LaneID
	WorkerID    enginecore.WorkerID
	Instance    enginecore.WorkerInstanceID
	// Key is the key under which the engine stores the grant.
	Key       string
	ExpiresAt time.Time
	// Reclaim reports whether another worker lost the execution. Such a grant is claimed with ff_reclaim_execution,
	// others with ff_claim_execution or, if its reply requires it, with ff_claim_resumed_execution.
	Reclaim bool
}

// Granter issues grants. GrantIssuer implements it; a client of a service around a GrantIssuer can, too.
type Granter interface {
	ClaimForWorker(ctx context.Context, r GrantRequest) (Grant, error)
}
