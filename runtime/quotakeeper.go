package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// quotaKeeper is the part of a keeper that looks after limits: it lets waiting executions go when a rate allows more of
// them, and takes back the places of executions that do not run any more.
type quotaKeeper struct {
	admitter
	agenda *agenda
}

func newQuotaKeeper(e *Engine) *quotaKeeper {
	var partitions []enginecore.Partition
	if _, whole := e.calls.(composites); whole {
		for i := range e.core.Partitioning().Quota {
			partitions = append(partitions, enginecore.Partition{Family: enginecore.QuotaFamily, Index: uint16(i)})
		}
	}
	return &quotaKeeper{admitter{e}, newAgenda(partitions)}
}

func (k *quotaKeeper) run(ctx context.Context) {
	for {
		due, wait := k.agenda.due(time.Now())
		for _, p := range due {
			k.tick(ctx, p)
		}
		if len(due) > 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-k.agenda.changed:
			timer.Stop()
		}
	}
}

// admit takes candidates through their limits that nobody else did.
func (k *quotaKeeper) admit(ctx context.Context, candidates []enginecore.Candidate) {
	k.admitter.admit(ctx, candidates, &taker{})
}

// tick does what is due in one partition of quotas.
func (k *quotaKeeper) tick(ctx context.Context, p enginecore.Partition) {
	reply, err := k.engine.core.QuotaTick(ctx, enginecore.QuotaTickCall{Partition: p})
	if err != nil {
		if ctx.Err() == nil {
			k.engine.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: keeper could not look at limits, it tries again", eventLimitsFailed.attr(), slog.Any("error", err))
			pause(ctx, time.Second)
			k.agenda.ticked(p, time.Now())
		}
		return
	}
	limits := make(map[enginecore.QuotaPolicyID]storedLimit, len(reply.Quotas))
	for _, q := range reply.Quotas {
		limits[q.QuotaPolicyID] = storedLimit{q.QuotaPolicyID, q.Name, q.Key, q.Rate, q.WindowMs, q.Cap}
	}
	w := &walk{admitter: k.admitter, ctx: ctx, by: &taker{}}
	for _, g := range reply.Granted {
		w.admitted = append(w.admitted, admission{enginecore.ExecutionID(g.Execution), g.Token, false, []storedLimit{limits[g.QuotaPolicyID]}, []int64{g.Grant}})
	}
	w.verify(reply.Checks, limits)
	w.deliver()
	if !reply.NextDueAt.IsZero() {
		k.agenda.ticked(p, time.Now().Add(reply.NextDueAt.Sub(reply.Now)))
	}
}

// verify asks executions whether they use their places, and takes those back that they do not.
func (w *walk) verify(checks []enginecore.QuotaCheck, limits map[enginecore.QuotaPolicyID]storedLimit) {
	calls := make(map[enginecore.Partition]*enginecore.VerifyAdmissionsCall)
	asked := make(map[enginecore.Partition][]enginecore.QuotaCheck)
	for _, check := range checks {
		id := enginecore.ExecutionID(check.Execution)
		p, err := id.Partition()
		if err != nil {
			w.warn("a limit names something that is no execution", err)
			continue
		}
		if calls[p] == nil {
			calls[p] = &enginecore.VerifyAdmissionsCall{Partition: p}
		}
		calls[p].Admissions = append(calls[p].Admissions, enginecore.VerifyAdmissionsAdmission{ExecutionID: id, Token: check.Token, Stale: check.Stale})
		asked[p] = append(asked[p], check)
	}
	for p, call := range calls {
		reply, err := w.engine.core.VerifyAdmissions(w.ctx, *call)
		if err != nil {
			w.warn("executions could not be asked whether they run", err)
			continue
		}
		for i, state := range reply.States {
			held, grants := []storedLimit{limits[asked[p][i].QuotaPolicyID]}, []int64{asked[p][i].Grant}
			switch state.State {
			case "waiting":
				w.admitted = append(w.admitted, admission{state.ExecutionID, state.Token, false, held, grants})
			case "revoked":
				w.giveBack([]debt{{state.ExecutionID, state.Token, held, grants}}, true)
			case "gone":
				w.giveBack([]debt{{state.ExecutionID, state.Token, held, grants}}, false)
			}
		}
	}
}
