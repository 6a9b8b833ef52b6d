package admission

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Admitter acquires the permits that executions need under their limits. Executions and limits live in
// different partitions: an Admitter requests permits of the limits, then admits the executions that got all
// of theirs. After a crash between the two steps, keepers complete the work. An Admitter has no state of its
// own; its methods are safe for concurrent use.
type Admitter struct{ Session *engine.Session }

// Claimant is the component that an admission pass works for. The run of a worker leases admitted executions
// into its free slots; a promoter leases nothing.
type Claimant interface {
	// Request returns the claim that an Admit call carries, to lease up to slots of the admitted executions.
	Request(slots int) enginerpc.ClaimRequest
	// Admit sends an Admit call and returns the executions that it leased.
	Admit(ctx context.Context, call enginerpc.AdmitCall) ([]LeasedExecution, enginerpc.AdmitReply, error)
	// TakeReturns removes and returns permits that the claimant has to return to this limit and to no other,
	// so that the next call to the limit can carry them.
	TakeReturns(limit enginecore.QuotaPolicyID) []PermitReturn
	// UpdateLimit records the state of a limit as the limit's last reply reported it.
	UpdateLimit(limit enginecore.QuotaPolicyID, state LimitState)
	// BeginsWithin returns the time within which the claimant begins executions that get permits, counted from its
	// request to the limit; false if it begins none, so that the worker that leases them requests permits again.
	BeginsWithin(limit submit.StoredLimit) (time.Duration, bool)
	// IsContended reports whether executions wait for a permit of a limit, by its last recorded state.
	IsContended(limit enginecore.QuotaPolicyID) bool
}

// LimitState is the state of a limit as its last reply reported it. It may be out of date; then a permit is
// refused, or returned a little later. The zero value means that the state is unknown.
type LimitState struct {
	Contended bool  // an execution waits for a permit
	Room      int64 // further permits before the limit comes near; 0 while an execution waits
	Rate      Rate
}

// Rate states whether a limit bounds starts in a time, which may be set for the limit and not declared.
type Rate int8

// Values of Rate.
const (
	RateUnknown Rate = iota
	Rated
	Unrated
)

func rateOf(rated bool) Rate {
	if rated {
		return Rated
	}
	return Unrated
}

// StateOf returns the state of a limit from a reply of the limit.
func StateOf(contended bool, room int64, rated bool) LimitState {
	return LimitState{contended, room, rateOf(rated)}
}

// LeasedExecution is an execution that an Admit call leased to its claimant.
type LeasedExecution struct {
	// Partition is the partition of the execution, Claimed its description in the reply.
	Partition keyspace.Partition
	Claimed   enginerpc.ClaimedExecution
	SentAt    time.Time // when the call was sent; the lease duration counts from it
	// BeginBy is until when its function may begin under the permits with which it was leased, see [permit].
	BeginBy time.Time
}

// Admit acquires the permits of candidates and returns the executions that were leased to the claimant, at
// most slots of them. The other admitted executions become eligible for any worker. Errors are logged; keepers retry
// failed calls.
func (a Admitter) Admit(
	ctx context.Context, candidates []enginerpc.Candidate, by Claimant, slots int,
) []LeasedExecution {
	p := a.newPass(ctx, by, slots)
	p.acquireAll(candidates, nil)
	p.deliver()
	return p.leased
}

// Promote acquires the permits of candidates and makes those eligible that got all of theirs. want is the
// number of them that the caller can use at once.
func (a Admitter) Promote(ctx context.Context, candidates []enginerpc.Candidate, want int) {
	a.Admit(ctx, candidates, promoter{a.Session.Core}, want)
}

// Release returns permits to their limits. Executions that waited for these permits are admitted; Release returns the
// executions that were leased to the claimant, at most slots.
func (a Admitter) Release(ctx context.Context, returns []PermitReturn, by Claimant, slots int) []LeasedExecution {
	p := a.newPass(ctx, by, slots)
	p.returnPermits(returns, false)
	p.deliver()
	return p.leased
}

// Deliver admits executions to which a limit granted permits outside of a pass, and returns those that were
// leased to the claimant, at most slots of them.
func (a Admitter) Deliver(
	ctx context.Context, limit submit.StoredLimit, granted []enginerpc.Place, by Claimant, slots int,
) []LeasedExecution {
	p := a.newPass(ctx, by, slots)
	for _, g := range granted {
		p.addGrant(limit, permitKey{limit.Quota, g.Execution, g.Token}, permit{grant: g.Grant})
	}
	p.deliver()
	return p.leased
}

// Acquire acquires the permits of executions that are leased already, and renews those that they have: their starts
// count from now on. It calls acquired for each with its index in held, whether it got all of its permits, and until
// when its function may begin under them. It then admits the other executions to which the limits granted permits in
// between.
func (a Admitter) Acquire(
	ctx context.Context, held []PermitReturn, by Claimant, acquired func(i int, all bool, beginBy time.Time),
) {
	p := a.newPass(ctx, by, 0)
	candidates := make([]*candidate, len(held))
	for i, h := range held {
		candidates[i] = &candidate{
			Candidate: enginerpc.Candidate{ExecutionID: h.execution, Token: h.token}, limits: h.Limits, again: h.Again,
		}
	}
	p.run(candidates)
	for i, c := range candidates {
		acquired(i, c.isComplete(), beginBy(c.grants))
	}
	p.dropComplete()
	p.deliver()
}

// promoter is the claimant of keepers, clients and grant issuers. It leases nothing, so the executions that
// it admits become eligible.
type promoter struct{ core *enginerpc.Conn }

// promoterLease is the lease duration of a claim that leases nothing; the call requires a value.
const promoterLease = 10 * time.Second

// Request returns a claim of no executions.
func (promoter) Request(int) enginerpc.ClaimRequest {
	return enginerpc.ClaimRequest{WorkerID: "keeper", LeaseTTL: promoterLease}
}

// Admit sends an Admit call. It never returns a leased execution.
func (p promoter) Admit(
	ctx context.Context, call enginerpc.AdmitCall,
) ([]LeasedExecution, enginerpc.AdmitReply, error) {
	reply, err := p.core.Admit(ctx, call)
	return nil, reply, err
}

// TakeReturns returns nil: a promoter collects no permits.
func (promoter) TakeReturns(enginecore.QuotaPolicyID) []PermitReturn { return nil }

// UpdateLimit does nothing: a promoter keeps no state of limits.
func (promoter) UpdateLimit(enginecore.QuotaPolicyID, LimitState) {}

// BeginsWithin returns false: a promoter runs nothing.
func (promoter) BeginsWithin(submit.StoredLimit) (time.Duration, bool) { return 0, false }

// IsContended returns false: a promoter keeps no state of limits.
func (promoter) IsContended(enginecore.QuotaPolicyID) bool { return false }
