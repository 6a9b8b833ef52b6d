package admission

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// maxDeliveries bounds the rounds in which one pass acquires further permits for executions that have several
// limits. A keeper offers the remaining ones again.
const maxDeliveries = 16

// admissionPass acquires permits for candidates and admits the executions that got them. It also admits
// executions of other calls to which a limit grants a permit in the same reply.
type admissionPass struct {
	Admitter
	ctx      context.Context
	by       Claimant
	slots    int // number of executions that the claimant can take
	admitted []admission
	leased   []LeasedExecution
}

// admission is an execution with permits that were granted to it.
type admission struct {
	execution enginecore.ExecutionID
	token     int64
	complete  bool // under all its limits
	limits    []submit.StoredLimit
	grants    []int64 // of the limits
}

func (a admission) permits() PermitReturn {
	return PermitReturn{a.execution, a.token, a.limits, a.grants}
}

func (a Admitter) newPass(ctx context.Context, by Claimant, slots int) *admissionPass {
	return &admissionPass{Admitter: a, ctx: ctx, by: by, slots: slots}
}

// slotsLeft returns the number of further executions that the claimant can take.
func (p *admissionPass) slotsLeft() int { return max(0, p.slots-len(p.leased)) }

// candidate is an execution for which a pass acquires permits, one limit after the other.
type candidate struct {
	enginerpc.Candidate
	limits []submit.StoredLimit
	grants []int64 // of the limits that it has passed
}

func (c *candidate) isComplete() bool { return len(c.grants) == len(c.limits) }

// permit returns the key of the permit that the candidate needs next.
func (c *candidate) permit() permitKey {
	return permitKey{c.limits[len(c.grants)].Quota, string(c.ExecutionID), c.Token}
}

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
		candidates = append(candidates, &candidate{Candidate: c, limits: limits})
	}
	p.run(candidates, earlier)
}

// run acquires the permits of candidates, one limit after the other. A candidate that a limit refuses returns
// the permits that it holds, so that it blocks no other execution while it waits. Candidates that get all of
// their permits are added to admitted.
func (p *admissionPass) run(candidates []*candidate, earlier map[enginecore.ExecutionID]admission) {
	var refused []PermitReturn
	for len(candidates) > 0 {
		granted, answered := p.requestPermits(candidates)
		var next []*candidate
		for _, c := range candidates {
			limit := c.limits[len(c.grants)]
			grant, ok := granted[c.permit()]
			if !ok {
				if answered[limit.Quota] {
					refused = append(refused, c.returns(limit, earlier)...)
				}
				continue
			}
			if c.grants = append(c.grants, grant); !c.isComplete() {
				next = append(next, c)
				continue
			}
			p.admitted = append(p.admitted, admission{c.ExecutionID, c.Token, true, c.limits, c.grants})
		}
		candidates = next
	}
	p.returnPermits(refused, true)
}

// returns lists the permits that a candidate returns when a limit refuses it.
func (c *candidate) returns(refusing submit.StoredLimit, earlier map[enginecore.ExecutionID]admission) []PermitReturn {
	var returns []PermitReturn
	if len(c.grants) > 0 {
		returns = append(returns, PermitReturn{c.ExecutionID, c.Token, c.limits[:len(c.grants)], c.grants})
	}
	// An earlier permit counts unless it has been granted again since.
	if first, ok := earlier[c.ExecutionID]; ok && first.limits[0].Quota != refusing.Quota {
		returns = append(returns, PermitReturn{c.ExecutionID, c.Token, first.limits, first.grants})
	}
	return returns
}

// addGrant adds a permit that a limit granted to an execution which had been waiting for it. The pass does
// not know whether the execution needs further permits.
func (p *admissionPass) addGrant(limit submit.StoredLimit, to permitKey, grant int64) {
	p.admitted = append(p.admitted, admission{
		enginecore.ExecutionID(to.execution), to.token, false, []submit.StoredLimit{limit}, []int64{grant},
	})
}

// dropComplete removes executions that have all of their permits from admitted; they are leased already.
func (p *admissionPass) dropComplete() {
	p.admitted = slices.DeleteFunc(p.admitted, func(a admission) bool { return a.complete })
}

func (p *admissionPass) warn(message string, err error) {
	if p.ctx.Err() == nil {
		p.Session.Logger.LogAttrs(p.ctx, slog.LevelWarn, "flowfabric: "+message,
			engine.EventLimitsFailed.Attr(), slog.Any("error", err))
	}
}

// deliver admits the executions that have permits, and repeats this for executions that get permits
// meanwhile, at most maxDeliveries times.
func (p *admissionPass) deliver() {
	for deliveries := 1; len(p.admitted) > 0 && p.ctx.Err() == nil; deliveries++ {
		batch := p.admitted
		p.admitted = nil
		earlier := make(map[enginecore.ExecutionID]admission)
		for _, a := range batch {
			earlier[a.execution] = a
		}
		gone, incomplete := p.notifyAll(batch)
		if deliveries >= maxDeliveries {
			for _, c := range incomplete {
				gone = append(gone, earlier[c.ExecutionID].permits())
			}
			incomplete = nil
		}
		p.returnPermits(gone, true)
		p.acquireAll(incomplete, earlier)
	}
}

// notifyAll sends executions the permits that were granted to them, to all partitions concurrently. It
// returns the permits of executions that no longer need them, and the executions that have further limits.
func (p *admissionPass) notifyAll(batch []admission) (gone []PermitReturn, incomplete []enginerpc.Candidate) {
	byPartition := make(map[enginecore.Partition][]admission)
	for _, a := range batch {
		at, err := a.execution.Partition()
		if err != nil {
			p.warn("the admission pass found an entry of a limit that is no execution ID", err)
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
func (p *admissionPass) notifyExecutions(at enginecore.Partition, list []admission, slots int) (result admitResult) {
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
	result.leased, result.incomplete = leased, reply.Incomplete
	for _, id := range reply.Gone {
		result.gone = append(result.gone, byID[id].permits())
	}
	return result
}
