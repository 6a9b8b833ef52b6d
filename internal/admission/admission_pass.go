package admission

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// admissionPass acquires permits for candidates and admits the executions that got them. It also admits
// executions of other calls to which a limit grants a permit in the same reply.
type admissionPass struct {
	Admitter
	ctx      context.Context
	by       Claimant
	slots    int // number of executions that the claimant can take
	admitted []admission
	leased   []LeasedExecution
	// contended holds the limits whose last reply in this pass reported that executions wait.
	contended map[enginecore.QuotaPolicyID]bool
}

// admission is an execution with permits that were granted to it.
type admission struct {
	execution enginecore.ExecutionID
	token     int64
	complete  bool // under all its limits
	limits    []submit.StoredLimit
	grants    []permit // of the limits
	// verified is set if a verification found the permit, rather than a reply that granted it just now. Then
	// another pass may be about to return it.
	verified bool
}

func (a admission) permits() PermitReturn {
	return PermitReturn{execution: a.execution, token: a.token, Limits: a.limits, grants: a.grants}
}

func (a Admitter) newPass(ctx context.Context, by Claimant, slots int) *admissionPass {
	return &admissionPass{
		Admitter: a, ctx: ctx, by: by, slots: slots, contended: make(map[enginecore.QuotaPolicyID]bool),
	}
}

// slotsLeft returns the number of further executions that the claimant can take.
func (p *admissionPass) slotsLeft() int { return max(0, p.slots-len(p.leased)) }

// candidate is an execution for which a pass acquires permits, one limit after the other.
type candidate struct {
	enginerpc.Candidate
	limits []submit.StoredLimit
	grants []permit // of the limits that it has passed
	again  bool     // its function has begun under these permits before
}

func (c *candidate) isComplete() bool { return len(c.grants) == len(c.limits) }

// permit returns the key of the permit that the candidate needs next.
func (c *candidate) permit() permitKey {
	return permitKey{c.limits[len(c.grants)].Quota, string(c.ExecutionID), c.Token}
}

// needs lists the limits of the candidate other than the one whose permit it needs next.
func (c *candidate) needs() string { return otherLimits(c.limits, len(c.grants)) }

// acquireAll decodes the limits of candidates and acquires their permits. earlier holds the permits that
// these executions already have.
func (p *admissionPass) acquireAll(list []enginerpc.Candidate, earlier map[enginecore.ExecutionID]admission) {
	candidates := make([]*candidate, 0, len(list))
	for _, c := range list {
		limits, err := submit.DecodeLimits(c.Limits)
		if err != nil || len(limits) == 0 {
			p.warn("the admission pass cannot admit an execution", errors.Join(err, errors.New(string(c.ExecutionID))))
			continue
		}
		next := &candidate{Candidate: c, limits: limits}
		p.order(next.limits)
		if first, ok := earlier[c.ExecutionID]; ok {
			next.hold(first)
		}
		candidates = append(candidates, next)
	}
	p.run(candidates)
}

// order sorts the limits of a candidate by how likely they are to refuse it, so that it seldom has to return permits:
// first the limits that executions wait for, then the limits with a rate.
func (p *admissionPass) order(limits []submit.StoredLimit) {
	rank := func(l submit.StoredLimit) int {
		switch {
		case p.contended[l.Quota] || p.by.IsContended(l.Quota):
			return 0
		case l.Rate > 0:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(limits, func(a, b submit.StoredLimit) int { return cmp.Compare(rank(a), rank(b)) })
}

// hold makes the limit of a permit that the candidate has the first one. A verified permit is requested again,
// so that a concurrent pass which returns it does not take it from this one.
func (c *candidate) hold(first admission) {
	i := slices.IndexFunc(c.limits, func(l submit.StoredLimit) bool { return l.Quota == first.limits[0].Quota })
	if i < 0 {
		return
	}
	held := c.limits[i]
	c.limits = slices.Insert(slices.Delete(c.limits, i, i+1), 0, held)
	if !first.verified {
		c.grants = slices.Clone(first.grants)
	}
}

// run acquires the permits of candidates, one limit after the other. A candidate that a limit refuses returns
// the permits that it holds with the next calls, so that it blocks no other execution while it waits.
// Candidates that get all of their permits are added to admitted.
func (p *admissionPass) run(candidates []*candidate) {
	candidates = slices.DeleteFunc(slices.Clone(candidates), p.admitIfComplete)
	var returns []limitReturn
	for len(candidates) > 0 {
		granted, answered := p.requestPermits(candidates, returns)
		returns = nil
		var next []*candidate
		for _, c := range candidates {
			limit := c.limits[len(c.grants)]
			grant, ok := granted[c.permit()]
			if !ok {
				if answered[limit.Quota] {
					returns = append(returns, c.returns()...)
				}
				continue
			}
			if c.grants = append(c.grants, grant); !p.admitIfComplete(c) {
				next = append(next, c)
			}
		}
		candidates = next
	}
	p.sendReturns(returns)
}

// admitIfComplete adds a candidate to admitted if it has all of its permits, and reports whether it has.
func (p *admissionPass) admitIfComplete(c *candidate) bool {
	if c.isComplete() {
		p.admitted = append(p.admitted, admission{
			execution: c.ExecutionID, token: c.Token, complete: true, limits: c.limits, grants: c.grants,
		})
	}
	return c.isComplete()
}

// returns lists the permits that a candidate returns when its next limit refuses it. If the candidate waits for
// that limit, the others do not grant these permits to executions that it would refuse as well.
func (c *candidate) returns() []limitReturn {
	var full enginecore.QuotaPolicyID
	if c.Score != "" {
		full = c.limits[len(c.grants)].Quota
	}
	returns := make([]limitReturn, len(c.grants))
	for i, grant := range c.grants {
		returns[i] = limitReturn{c.limits[i], full, enginerpc.ExchangeRelease{
			Execution: string(c.ExecutionID), Token: c.Token, Refund: true, Grant: grant.grant,
		}}
	}
	return returns
}

// addGrant adds a permit that a limit granted to an execution which had been waiting for it. The pass does
// not know whether the execution needs further permits.
func (p *admissionPass) addGrant(limit submit.StoredLimit, to permitKey, grant permit) {
	p.admitted = append(p.admitted, admission{
		execution: enginecore.ExecutionID(to.execution), token: to.token, limits: []submit.StoredLimit{limit},
		grants: []permit{grant},
	})
}

// dropComplete removes executions that have all of their permits from admitted; they are leased already.
func (p *admissionPass) dropComplete() {
	p.admitted = slices.DeleteFunc(p.admitted, func(a admission) bool { return a.complete })
}

func (p *admissionPass) warn(message string, err error) {
	if p.ctx.Err() == nil {
		p.Session.Logger.LogAttrs(p.ctx, slog.LevelWarn, "flowfabric: "+message,
			observe.EventLimitsFailed.Attr(), slog.Any("error", err))
	}
}

// deliver admits the executions that have permits, and repeats this for executions that get permits in between. The
// loop ends, because a limit that knows of another one's refusal grants no permit to an execution that the other would
// refuse again.
func (p *admissionPass) deliver() {
	for len(p.admitted) > 0 && p.ctx.Err() == nil {
		batch := p.admitted
		p.admitted = nil
		earlier := make(map[enginecore.ExecutionID]admission)
		for _, a := range batch {
			earlier[a.execution] = a
		}
		gone, incomplete := p.notifyAll(batch)
		p.returnPermits(gone, true)
		p.acquireAll(incomplete, earlier)
	}
}

// notifyAll sends executions the permits that were granted to them, to all partitions concurrently. It
// returns the permits of executions that no longer need them, and the executions that have further limits.
func (p *admissionPass) notifyAll(batch []admission) (gone []PermitReturn, incomplete []enginerpc.Candidate) {
	byPartition := make(map[keyspace.Partition][]admission)
	for _, a := range batch {
		at, err := keyspace.PartitionOf(a.execution)
		if err != nil {
			p.warn("the admission pass found an entry of a limit that is not an execution ID", err)
			continue
		}
		byPartition[at] = append(byPartition[at], a)
	}
	var mu sync.Mutex
	var calls sync.WaitGroup
	slots := p.slotsLeft()
	for at, list := range byPartition {
		some := min(slots, len(list))
		slots -= some
		calls.Go(func() {
			result := p.notifyExecutions(at, list, some)
			mu.Lock()
			defer mu.Unlock()
			p.leased = append(p.leased, result.leased...)
			gone, incomplete = append(gone, result.gone...), append(incomplete, result.incomplete...)
		})
	}
	calls.Wait()
	return gone, incomplete
}

// admitResult is the result of an Admit call.
type admitResult struct {
	leased     []LeasedExecution
	gone       []PermitReturn        // permits to return to their limits
	incomplete []enginerpc.Candidate // executions that have further limits
}

// notifyExecutions sends the executions of one partition the permits that were granted to them, and leases up
// to slots of them to the claimant.
func (p *admissionPass) notifyExecutions(at keyspace.Partition, list []admission, slots int) (result admitResult) {
	call := enginerpc.AdmitCall{Partition: at, ClaimRequest: p.by.Request(slots)}
	byID := make(map[enginecore.ExecutionID]admission, len(list))
	for _, a := range list {
		byID[a.execution] = a
		call.Admissions = append(call.Admissions, enginerpc.AdmitAdmission{
			ExecutionID: a.execution, Token: a.token, Complete: a.complete,
		})
	}
	leased, reply, err := p.by.Admit(p.ctx, call)
	if err != nil {
		p.warn("the admission pass could not notify admitted executions; keepers do", err)
		return result
	}
	for i, x := range leased {
		leased[i].BeginBy = beginBy(byID[x.Claimed.ExecutionID].grants)
	}
	result.leased, result.incomplete = leased, reply.Incomplete
	for _, id := range reply.Gone {
		result.gone = append(result.gone, byID[id].permits())
	}
	return result
}
