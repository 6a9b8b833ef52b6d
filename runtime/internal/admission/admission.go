package admission

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// admitter acquires the permits that executions need under their limits. Executions and limits live in different partitions:
// it requests permits of the limits, and admits the executions that got them all. Keepers complete what a crash leaves half done.
type Admitter struct{ Session *engine.Session }

// claimant is who an admission pass works for. The run of a worker leases what is admitted into its free slots; promoter
// leases nothing.
type claimant interface {
	// request returns the claim that an Admit call carries, to lease up to slots of the admitted executions.
	Request(slots int) enginerpc.ClaimRequest
	// admit sends an Admit call and returns what it leased.
	Admit(ctx context.Context, call enginerpc.AdmitCall) ([]LeasedExecution, enginerpc.AdmitReply, error)
	// takeReturns removes and returns permits that the claimant has to give back to this limit and to no other, for a call to it.
	TakeReturns(limit enginecore.QuotaPolicyID) []PermitReturn
	// updateLimit records the state that a reply of the limit reported.
	UpdateLimit(limit enginecore.QuotaPolicyID, state LimitState)
}

// limitState is what the last reply of a limit said about it. It may be out of date; then a permit is refused, or given back
// a little later.
type LimitState struct {
	Contended bool  // an execution waits for a permit
	Room      int64 // permits left before the limit comes near
}

// leasedExecution is an execution that an Admit call leased to its claimant.
type LeasedExecution struct {
	Partition enginecore.Partition
	Claimed   enginerpc.ClaimedExecution
	SentAt    time.Time // when the call was sent, from where the lease counts
}

// admit acquires the permits of candidates and returns what was leased to the claimant, at most as many as it has slots. The
// other admitted executions become eligible for any worker.
func (a Admitter) Admit(ctx context.Context, candidates []enginerpc.Candidate, by claimant, slots int) []LeasedExecution {
	p := a.newPass(ctx, by, slots)
	p.acquireAll(candidates, nil)
	p.deliver()
	return p.leased
}

// promote acquires the permits of candidates and makes those eligible that got them all. want is how many of them the caller
// can use at once.
func (a Admitter) Promote(ctx context.Context, candidates []enginerpc.Candidate, want int) {
	a.Admit(ctx, candidates, promoter{a.Session.Core}, want)
}

// release gives permits back and returns what was leased to the claimant of the executions that waited for them.
func (a Admitter) Release(ctx context.Context, returns []PermitReturn, by claimant, slots int) []LeasedExecution {
	p := a.newPass(ctx, by, slots)
	p.giveBack(returns, false)
	p.deliver()
	return p.leased
}

// deliver admits executions to which a limit granted permits outside of a pass, and returns what was leased to the claimant.
func (a Admitter) Deliver(
	ctx context.Context, limit submit.StoredLimit, granted []enginerpc.Place, by claimant, slots int,
) []LeasedExecution {
	p := a.newPass(ctx, by, slots)
	for _, g := range granted {
		p.addGrant(limit, permitKey{limit.Quota, g.Execution, g.Token}, g.Grant)
	}
	p.deliver()
	return p.leased
}

// acquire acquires the permits of executions that are leased already, and calls acquired for each with its index and whether
// it got them all. After that it admits the other executions to which the limits granted permits meanwhile.
func (a Admitter) Acquire(ctx context.Context, held []PermitReturn, by claimant, acquired func(i int, all bool)) {
	p := a.newPass(ctx, by, 0)
	candidates := make([]*candidate, len(held))
	for i, h := range held {
		candidates[i] = &candidate{
			Candidate: enginerpc.Candidate{ExecutionID: h.execution, Token: h.token}, limits: h.Limits,
		}
	}
	p.run(candidates, nil)
	for i, c := range candidates {
		acquired(i, c.isComplete())
	}
	p.dropComplete()
	p.deliver()
}

// promoter is the claimant of keepers, clients and grant issuers. It leases nothing, so what it admits becomes eligible.
type promoter struct{ core *enginerpc.Conn }

// promoterLease fills in the lease of a claim that leases nothing.
const promoterLease = 10 * time.Second

func (promoter) Request(int) enginerpc.ClaimRequest {
	return enginerpc.ClaimRequest{WorkerID: "keeper", LeaseTTL: promoterLease}
}

func (p promoter) Admit(
	ctx context.Context, call enginerpc.AdmitCall,
) ([]LeasedExecution, enginerpc.AdmitReply, error) {
	reply, err := p.core.Admit(ctx, call)
	return nil, reply, err
}

func (promoter) TakeReturns(enginecore.QuotaPolicyID) []PermitReturn { return nil }

func (promoter) UpdateLimit(enginecore.QuotaPolicyID, LimitState) {}
