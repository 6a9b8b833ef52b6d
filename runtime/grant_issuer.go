package runtime

import "context"

// GrantIssuer claims on behalf of workers that are not trusted with admission: it checks budgets, quotas, limits and
// capabilities, and issues grants. Its grants are those of the contract, so workers and schedulers of other FlowFabric
// programs may work on the same lanes, and it works in contract mode. It blocks an execution that it may not grant, with the
// reason in the record, and considers it again when the reason is gone.
//
// A grant is for the execution that a claim of the worker would lease next in that partition: turns of the keys of FairBy, ageing,
// priority, pauses and budgets of flows count as they do for workers that claim for themselves. Of the partitions that a call
// looks into, it takes the one from which this GrantIssuer has granted nothing for the longest time. In contract mode, grants
// follow the contract: the first partition that has something, there priority, then age.
//
// Keep one GrantIssuer for the life of a process: where its next call looks depends on those before. It may be used by several
// goroutines.
type GrantIssuer struct {
	issuer *grantIssuer
	fault  error // why there is no issuer
}

// NewGrantIssuer returns a grant issuer of an engine. It sends nothing.
func NewGrantIssuer(e *Engine) *GrantIssuer {
	if err := e.open(); err != nil {
		return &GrantIssuer{fault: err}
	}
	return &GrantIssuer{issuer: newGrantIssuer(e.session)}
}

// ClaimForWorker grants the worker one execution. It looks at the first ones that wait in each partition that it probes,
// asks for room in their budgets and quotas, and writes one grant. It returns ErrNoGrant when there is nothing, which in a
// deployment with more partitions than it probes says nothing of the others: call again. Other errors are ErrGrantRequest, and
// those of the engine; when a budget or a quota cannot be asked, nothing is granted.
func (g *GrantIssuer) ClaimForWorker(ctx context.Context, r GrantRequest) (Grant, error) {
	if g.fault != nil {
		return Grant{}, g.fault
	}
	return g.issuer.claimForWorker(ctx, r)
}
