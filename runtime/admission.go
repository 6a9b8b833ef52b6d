package runtime

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// admitter takes executions through their limits. Executions and quotas live in different partitions, so it goes to and fro:
// it asks the quotas for places, and tells the executions that got one. What a crash leaves half-way, keepers complete.
type admitter struct{ session *session }

// admission is a place that an execution got, or all of its places.
type admission struct {
	execution enginecore.ExecutionID
	token     int64
	complete  bool // under all its limits
	limits    []storedLimit
	grants    []int64 // of the limits
}

// taker is who may run what has been admitted. The zero value makes it ready for others.
type taker struct {
	shift *shift
	lane  enginecore.LaneID
	slots int
}

// maxRounds bounds how often one errand asks for further places of those that have several limits. Who is left then is
// offered again by a keeper.
const maxRounds = 16

// admit takes candidates through their limits, and returns the tasks of what the taker got.
func (a admitter) admit(ctx context.Context, candidates []enginecore.Candidate, by *taker) []*task {
	w := &walk{admitter: a, ctx: ctx, by: by}
	w.apply(candidates, nil)
	w.deliver()
	return w.tasks
}

// settle gives places back, and returns the tasks of what the taker got of those that were waiting for them.
func (a admitter) settle(ctx context.Context, debts []debt, by *taker) []*task {
	w := &walk{admitter: a, ctx: ctx, by: by}
	w.giveBack(debts, false)
	w.deliver()
	return w.tasks
}

// walk is one errand between quotas and executions.
type walk struct {
	admitter
	ctx      context.Context
	by       *taker
	admitted []admission
	tasks    []*task
}

// applicant is an execution on its way through its limits.
type applicant struct {
	enginecore.Candidate
	limits []storedLimit
	grants []int64 // of the limits that it has passed
}

// apply asks for places, limit by limit: whoever is refused gives back what it has, so that it keeps nobody out while it
// waits. had are the places that brought the candidates here, by execution.
func (w *walk) apply(candidates []enginecore.Candidate, had map[enginecore.ExecutionID]admission) {
	applicants := make([]*applicant, 0, len(candidates))
	for _, c := range candidates {
		limits, err := decodeLimits(c.Limits)
		if err != nil || len(limits) == 0 {
			w.warn("an execution cannot be admitted", errors.Join(err, errors.New(string(c.ExecutionID))))
			continue
		}
		applicants = append(applicants, &applicant{Candidate: c, limits: limits})
	}
	w.pass(applicants, had)
}

// pass takes applicants through their limits. Those that have passed all are noted.
func (w *walk) pass(applicants []*applicant, had map[enginecore.ExecutionID]admission) {
	var refused []debt
	for len(applicants) > 0 {
		granted, answered := w.ask(applicants)
		var next []*applicant
		for _, x := range applicants {
			limit := x.limits[len(x.grants)]
			grant, ok := granted[place{limit.Quota, string(x.ExecutionID), x.Token}]
			if !ok {
				if answered[limit.Quota] {
					refused = append(refused, x.rest(limit, had)...)
				}
				continue
			}
			if x.grants = append(x.grants, grant); len(x.grants) < len(x.limits) {
				next = append(next, x)
				continue
			}
			w.admitted = append(w.admitted, admission{x.ExecutionID, x.Token, true, x.limits, x.grants})
		}
		applicants = next
	}
	w.giveBack(refused, true)
}

// rest is what an applicant that is refused under one limit gives back.
func (x *applicant) rest(refusing storedLimit, had map[enginecore.ExecutionID]admission) []debt {
	var debts []debt
	if len(x.grants) > 0 {
		debts = append(debts, debt{x.ExecutionID, x.Token, x.limits[:len(x.grants)], x.grants})
	}
	// What it had before counts unless it has been given again since.
	if first, ok := had[x.ExecutionID]; ok && first.limits[0].Quota != refusing.Quota {
		debts = append(debts, debt{x.ExecutionID, x.Token, first.limits, first.grants})
	}
	return debts
}

// place is a place in a quota.
type place struct {
	quota     enginecore.QuotaPolicyID
	execution string
	token     int64
}

// ask asks for the next place of each applicant. It returns who got one, and which quotas answered. Places that others got
// by the way are noted for them.
func (w *walk) ask(applicants []*applicant) (granted map[place]int64, answered map[enginecore.QuotaPolicyID]bool) {
	asked := make(map[place]bool, len(applicants))
	calls := make(exchanges)
	for _, x := range applicants {
		limit := x.limits[len(x.grants)]
		call := calls.of(w.session, limit)
		call.Requests = append(call.Requests, enginecore.ExchangeRequest{Execution: string(x.ExecutionID), Token: x.Token, Score: x.Score})
		asked[place{limit.Quota, string(x.ExecutionID), x.Token}] = true
	}
	granted, answered = make(map[place]int64), make(map[enginecore.QuotaPolicyID]bool)
	w.send(calls, func(limit storedLimit, p place, grant int64) {
		if asked[p] {
			granted[p] = grant
		} else {
			w.noteOther(limit, p, grant)
		}
	}, answered)
	return granted, answered
}

// noteOther notes a place that somebody got who had been waiting for it. Whether it is all that this one needs is not known.
func (w *walk) noteOther(limit storedLimit, p place, grant int64) {
	w.admitted = append(w.admitted, admission{enginecore.ExecutionID(p.execution), p.token, false, []storedLimit{limit}, []int64{grant}})
}

// giveBack returns places. Those who get them are noted.
func (w *walk) giveBack(debts []debt, refund bool) {
	if len(debts) == 0 {
		return
	}
	calls := make(exchanges)
	for _, d := range debts {
		for i, limit := range d.limits {
			release := enginecore.ExchangeRelease{Execution: string(d.execution), Token: d.token, Refund: refund}
			if d.grants != nil {
				release.Grant = d.grants[i]
			}
			call := calls.of(w.session, limit)
			call.Releases = append(call.Releases, release)
		}
	}
	w.send(calls, w.noteOther, nil)
}

// exchanges are calls to quotas, one for each.
type exchanges map[enginecore.QuotaPolicyID]*quotaCall

type quotaCall struct {
	enginecore.ExchangeCall
	limit storedLimit
}

func (e exchanges) of(session *session, limit storedLimit) *quotaCall {
	call := e[limit.Quota]
	if call == nil {
		// A malformed id is refused by the call itself.
		partition, _ := session.core.Partitioning().QuotaPartition(limit.Quota)
		call = &quotaCall{limit.exchange(partition), limit}
		e[limit.Quota] = call
	}
	return call
}

// send makes the calls and hands out what was granted.
func (w *walk) send(calls exchanges, grant func(storedLimit, place, int64), answered map[enginecore.QuotaPolicyID]bool) {
	if len(calls) == 0 {
		return
	}
	list := make([]enginecore.ExchangeCall, 0, len(calls))
	limits := make([]storedLimit, 0, len(calls))
	for _, call := range calls {
		call.Want = int64(max(0, w.by.slots-len(w.tasks)))
		for _, d := range w.by.debtsTo(call.QuotaPolicyID) {
			call.Releases = append(call.Releases, enginecore.ExchangeRelease{Execution: string(d.execution), Token: d.token})
		}
		list = append(list, call.ExchangeCall)
		limits = append(limits, call.limit)
	}
	answers, _ := sendAll[enginecore.ExchangeReply](w.ctx, w.session.core, list)
	for i, a := range answers {
		if a.err != nil {
			w.warn("a limit could not be asked, keepers ask again", a.err)
			continue
		}
		if answered != nil {
			answered[list[i].QuotaPolicyID] = true
		}
		w.by.heardOf(list[i].QuotaPolicyID, limitNews{a.reply.Crowded, a.reply.Room})
		for _, g := range a.reply.Granted {
			grant(limits[i], place{list[i].QuotaPolicyID, g.Execution, g.Token}, g.Grant)
		}
	}
}

func (w *walk) warn(message string, err error) {
	if w.ctx.Err() == nil {
		w.session.logger.LogAttrs(w.ctx, slog.LevelWarn, "flowfabric: "+message, eventLimitsFailed.attr(), slog.Any("error", err))
	}
}

// deliver tells executions of their places until nobody is left to tell.
func (w *walk) deliver() {
	for rounds := 1; len(w.admitted) > 0 && w.ctx.Err() == nil; rounds++ {
		round := w.admitted
		w.admitted = nil
		byPartition := make(map[enginecore.Partition][]admission)
		for _, x := range round {
			p, err := x.execution.Partition()
			if err != nil {
				w.warn("a limit names something that is no execution", err)
				continue
			}
			byPartition[p] = append(byPartition[p], x)
		}
		had := make(map[enginecore.ExecutionID]admission)
		for _, x := range round {
			had[x.execution] = x
		}
		var gone []debt
		var incomplete []enginecore.Candidate
		var mu sync.Mutex
		var telling sync.WaitGroup
		slots := max(0, w.by.slots-len(w.tasks))
		for p, list := range byPartition {
			some := min(slots, len(list))
			slots -= some
			telling.Go(func() {
				told := w.tell(p, list, some)
				mu.Lock()
				defer mu.Unlock()
				w.tasks = append(w.tasks, told.tasks...)
				gone, incomplete = append(gone, told.gone...), append(incomplete, told.incomplete...)
			})
		}
		telling.Wait()
		if rounds >= maxRounds {
			for _, c := range incomplete {
				x := had[c.ExecutionID]
				gone = append(gone, debt{x.execution, x.token, x.limits, x.grants})
			}
			incomplete = nil
		}
		w.giveBack(gone, true)
		w.apply(incomplete, had)
	}
}

// told is what came of telling executions of their places.
type told struct {
	tasks      []*task
	gone       []debt                 // to be given back
	incomplete []enginecore.Candidate // have more limits
}

// tell tells the executions of one partition, of which the taker has slots for some.
func (w *walk) tell(p enginecore.Partition, list []admission, slots int) (out told) {
	call := enginecore.AdmitCall{Partition: p, ClaimRequest: w.by.request(slots)}
	byID := make(map[enginecore.ExecutionID]admission, len(list))
	for _, x := range list {
		byID[x.execution] = x
		call.Admissions = append(call.Admissions, enginecore.AdmitAdmission{ExecutionID: x.execution, Token: x.token, Complete: x.complete})
	}
	tasks, reply, err := w.by.admit(w.ctx, w.session.core, call)
	if err != nil {
		w.warn("admitted executions could not be told, keepers tell them", err)
		return out
	}
	out.tasks, out.incomplete = tasks, reply.Incomplete
	for _, id := range reply.Gone {
		x := byID[id]
		out.gone = append(out.gone, debt{x.execution, x.token, x.limits, x.grants})
	}
	return out
}
