package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
)

// GrantIssuer claims on behalf of workers that are not trusted with admission: it checks budgets, quotas, limits and
// capabilities, and issues grants. Its grants are those of the contract, so workers and schedulers of other FlowFabric
// programs may work on the same lanes, and it works in contract mode. It blocks an execution that it may not grant,
// with the reason in the record, and considers it again when the reason is gone.
//
// A grant is for the execution that a claim of the worker would lease next in that partition: turns of the keys of
// FairBy, ageing, priority, pauses and budgets of flows count as they do for workers that claim for themselves. Of the
// partitions that a call looks into, it takes the one from which this GrantIssuer has granted nothing for the longest
// time. In contract mode, grants follow the contract: the first partition that has something, there priority, then age.
//
// Keep one GrantIssuer for the life of a process: where its next call looks depends on those before. It may be used by
// several goroutines.
type GrantIssuer struct{ issuer *admission.GrantIssuer }

// NewGrantIssuer returns a grant issuer of an engine. It sends nothing. The error matches ErrInvalid, there is no
// engine, or enginecore.ErrClosed.
func NewGrantIssuer(e *Engine) (*GrantIssuer, error) {
	if err := e.open(); err != nil {
		return nil, fmt.Errorf("grant issuer: %w", err)
	}
	return &GrantIssuer{admission.NewGrantIssuer(e.session)}, nil
}

var errUnmadeIssuer = invalid("the grant issuer was not made by NewGrantIssuer")

// ClaimForWorker grants the worker one execution. It looks at the first ones that wait in each partition that it
// probes, asks for room in their budgets and quotas, and writes one grant. It returns ErrNoGrant when there is nothing,
// which in a deployment with more partitions than it probes says nothing of the others: call again. Other errors are
// ErrInvalid for a bad request, and those of the engine; when a budget or a quota cannot be asked, nothing is granted.
func (g *GrantIssuer) ClaimForWorker(ctx context.Context, r GrantRequest) (Grant, error) {
	if g == nil || g.issuer == nil {
		return Grant{}, errUnmadeIssuer
	}
	granted, err := g.issuer.ClaimForWorker(ctx, admission.GrantRequest(r))
	return Grant(granted), err
}

// GrantRequest names the worker of a grant, and what it may be granted.
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
	// TTL is how long the worker has to claim by the grant: 1 ms to 1 min.
	TTL time.Duration
	// Partition to take from; nil looks into 32 of them, others from call to call.
	Partition *enginecore.Partition
}

// Grant lets one worker instance claim one execution, for a short time. After ExpiresAt the execution may be granted to
// another worker.
type Grant struct {
	ExecutionID enginecore.ExecutionID
	Partition   enginecore.Partition
	Lane        enginecore.LaneID
	WorkerID    enginecore.WorkerID
	Instance    enginecore.WorkerInstanceID
	// Key is where the engine keeps the grant.
	Key       string
	ExpiresAt time.Time
	// Reclaim reports that another worker lost the execution: it is claimed with ff_reclaim_execution, others with
	// ff_claim_execution or, as that says, ff_claim_resumed_execution.
	Reclaim bool
}

// Granter issues grants. A GrantIssuer is one; so is a client of a service around a GrantIssuer.
type Granter interface {
	ClaimForWorker(ctx context.Context, r GrantRequest) (Grant, error)
}
