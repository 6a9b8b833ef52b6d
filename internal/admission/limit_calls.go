package admission

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// limitCalls are the Exchange calls of one step of a pass, one for each limit.
type limitCalls map[enginecore.QuotaPolicyID]*limitCall

// limitCall is the Exchange call to one limit.
type limitCall struct {
	enginerpc.ExchangeCall
	limit submit.StoredLimit
	full  map[enginecore.QuotaPolicyID]bool // for the call's field of this name
}

// limitReturn is the return of a permit to its limit. full is the other limit for which the execution waits
// instead; empty if it waits for none.
type limitReturn struct {
	limit   submit.StoredLimit
	full    enginecore.QuotaPolicyID
	release enginerpc.ExchangeRelease
}

// otherLimits lists the limits but the one with index i, separated by commas, in the order of their ids: all
// calls about an execution name them alike.
func otherLimits(limits []submit.StoredLimit, i int) string {
	if len(limits) < 2 {
		return ""
	}
	others := make([]enginecore.QuotaPolicyID, 0, len(limits)-1)
	for k, l := range limits {
		if k != i {
			others = append(others, l.Quota)
		}
	}
	return joinLimits(others)
}

// joinLimits returns the ids of limits as a list separated by commas, in their order. It sorts ids.
func joinLimits(ids []enginecore.QuotaPolicyID) string {
	slices.Sort(ids)
	var list strings.Builder
	for i, id := range ids {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(string(id))
	}
	return list.String()
}

// to returns the call to a limit, which it adds if there is none yet.
func (calls limitCalls) to(session *engine.Session, limit submit.StoredLimit) *limitCall {
	call := calls[limit.Quota]
	if call == nil {
		// The call itself refuses a malformed id.
		partition, _ := session.Core.Partitioning().QuotaPartition(limit.Quota)
		call = &limitCall{ExchangeCall: limit.Exchange(partition), limit: limit}
		calls[limit.Quota] = call
	}
	return call
}

// add adds returns to the calls.
func (calls limitCalls) add(session *engine.Session, returns []limitReturn) {
	for _, r := range returns {
		call := calls.to(session, r.limit)
		call.Releases = append(call.Releases, r.release)
		if r.full == "" {
			continue
		}
		if call.full == nil {
			call.full = make(map[enginecore.QuotaPolicyID]bool)
		}
		call.full[r.full] = true
	}
}

// requestPermits requests the next permit of each candidate, and sends returns with the same calls. It returns
// the grants by permit, and the limits that replied. Permits that a limit granted to other executions in its
// reply are added to admitted.
func (p *admissionPass) requestPermits(candidates []*candidate, returns []limitReturn) (
	granted map[permitKey]permit, answered map[enginecore.QuotaPolicyID]bool,
) {
	requested := make(map[permitKey]bool, len(candidates))
	calls := make(limitCalls)
	calls.add(p.Session, returns)
	for _, c := range candidates {
		call := calls.to(p.Session, c.limits[len(c.grants)])
		call.Requests = append(call.Requests, enginerpc.ExchangeRequest{
			Execution: string(c.ExecutionID), Token: c.Token, Score: c.Score, Needs: c.needs(),
			Ready: len(c.grants) > 0, Again: c.again,
		})
		requested[c.permit()] = true
	}
	granted, answered = make(map[permitKey]permit), make(map[enginecore.QuotaPolicyID]bool)
	p.send(calls, func(limit submit.StoredLimit, to permitKey, grant permit) {
		if requested[to] {
			granted[to] = grant
		} else {
			p.addGrant(limit, to, grant)
		}
	}, answered)
	return granted, answered
}

// returnPermits returns permits to their limits. Executions that get them are added to admitted. With refund, a
// permit's share of a rate is returned as well, for an execution that did not start.
func (p *admissionPass) returnPermits(returns []PermitReturn, refund bool) {
	if len(returns) == 0 {
		return
	}
	var list []limitReturn
	for _, r := range returns {
		for i, limit := range r.Limits {
			release := enginerpc.ExchangeRelease{Execution: string(r.execution), Token: r.token, Refund: refund}
			if r.grants != nil {
				release.Grant = r.grants[i].grant
			} else {
				release.Needs = otherLimits(r.Limits, i)
			}
			list = append(list, limitReturn{limit: limit, release: release})
		}
	}
	p.sendReturns(list)
}

// sendReturns sends the returns of permits. Executions that get them are added to admitted.
func (p *admissionPass) sendReturns(returns []limitReturn) {
	calls := make(limitCalls)
	calls.add(p.Session, returns)
	p.send(calls, p.addGrant, nil)
}

// usable returns how much of the time within which an execution has to begin may pass before it is told to: the limit
// counts in milliseconds, and the function may lose its processor before its first instruction.
func usable(within time.Duration) time.Duration {
	return max(0, within-within/5-time.Millisecond)
}

// send sends the calls and passes each granted permit to grant. It adds the limits that replied to answered
// unless that is nil. A limit that does not reply is logged, and keepers repeat its call.
func (p *admissionPass) send(
	calls limitCalls, grant func(submit.StoredLimit, permitKey, permit), answered map[enginecore.QuotaPolicyID]bool,
) {
	if len(calls) == 0 {
		return
	}
	list := make([]enginerpc.ExchangeCall, 0, len(calls))
	limits := make([]submit.StoredLimit, 0, len(calls))
	for _, call := range calls {
		call.Want = int64(p.slotsLeft())
		call.Full = joinLimits(slices.Collect(maps.Keys(call.full)))
		within, begins := p.by.BeginsWithin(call.limit)
		call.Begins, call.WithinMs = begins, within.Milliseconds()
		for _, r := range p.by.TakeReturns(call.QuotaPolicyID) {
			call.Releases = append(call.Releases,
				enginerpc.ExchangeRelease{Execution: string(r.execution), Token: r.token})
		}
		list = append(list, call.ExchangeCall)
		limits = append(limits, call.limit)
	}
	sentAt := time.Now() // a call that the connection repeats counts from the first time
	answers, _ := batching.SendAll[enginerpc.ExchangeReply](p.ctx, p.Session.Core, list)
	for i, a := range answers {
		if a.Err != nil {
			p.warn("the admission pass could not call a limit; keepers retry", a.Err)
			continue
		}
		limit := list[i].QuotaPolicyID
		if answered != nil {
			answered[limit] = true
		}
		p.contended[limit] = a.Reply.Contended
		p.by.UpdateLimit(limit, StateOf(a.Reply.Contended, a.Reply.Room, a.Reply.Rated))
		for _, g := range a.Reply.Granted {
			got := permit{grant: g.Grant}
			switch {
			case !a.Reply.Rated:
				got.beginBy = unbounded
			case g.Begins:
				got.beginBy = sentAt.Add(usable(time.Duration(list[i].WithinMs) * time.Millisecond))
			}
			grant(limits[i], permitKey{limit, g.Execution, g.Token}, got)
		}
	}
}
