package runtime

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// quotaLoop looks after limits: it lets waiting executions go when a rate allows more of them, and takes back the places
// of executions that do not run any more.
func (k *keeper) quotaLoop() *maintenanceLoop {
	return &maintenanceLoop{
		tasks: []taskID{taskQuota}, family: enginecore.QuotaFamily, every: keeperSweep, hearsDue: true,
		hintKeys: func(p enginecore.Partition) []string { return []string{k.session.core.Keys().QuotaDue(p)} },
		step: func(ctx context.Context, partitions []enginecore.Partition, _ taskID) []stepResult {
			calls := make([]enginecore.QuotaTickCall, len(partitions))
			for i, p := range partitions {
				calls[i] = enginecore.QuotaTickCall{Partition: p}
			}
			answers, _ := sendAll(ctx, k.session.core, calls) // each answer has its error
			heard := time.Now()
			results := make([]stepResult, len(partitions))
			var passing sync.WaitGroup
			for i, a := range answers {
				if results[i].err = a.err; a.err == nil {
					passing.Go(func() {
						results[i] = k.passOnPlaces(ctx, a.reply)
						results[i].heard = heard
					})
				}
			}
			passing.Wait()
			return results
		},
	}
}

// passOnPlaces tells executions of the places that they got, and verifies those that others have.
func (k *keeper) passOnPlaces(ctx context.Context, reply enginecore.QuotaTickReply) stepResult {
	o := stepResult{now: reply.Now, next: untilDue(reply.Now, reply.NextDueAt)}
	o.more = o.next > 0 && !reply.NextDueAt.After(reply.Now)
	if len(reply.Granted) == 0 && len(reply.Checks) == 0 && len(reply.Blocks) == 0 {
		return o
	}
	limits := make(map[enginecore.QuotaPolicyID]storedLimit, len(reply.Quotas))
	for _, q := range reply.Quotas {
		limits[q.QuotaPolicyID] = storedLimit{q.QuotaPolicyID, q.Name, q.Key, q.Rate, q.WindowMs, q.Cap}
	}
	w := &walk{admitter: k.quotas, ctx: ctx, by: &taker{}}
	for _, g := range reply.Granted {
		w.admitted = append(w.admitted, admission{enginecore.ExecutionID(g.Execution), g.Token, false, []storedLimit{limits[g.QuotaPolicyID]}, []int64{g.Grant}})
	}
	w.deliver() // whoever has got a place does not wait for what is verified
	w.verify(reply.Checks, limits)
	for _, block := range reply.Blocks {
		w.verifyBlock(block, limits[block.QuotaPolicyID])
	}
	w.deliver()
	o.done = []taskDone{{task: taskQuota, count: int64(len(reply.Granted) + len(reply.Checks))}}
	return o
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
	partitions := slices.Collect(maps.Keys(calls))
	list := make([]enginecore.VerifyAdmissionsCall, len(partitions))
	for i, p := range partitions {
		list[i] = *calls[p]
	}
	answers, _ := sendAll[enginecore.VerifyAdmissionsReply](w.ctx, w.session.core, list) // each answer has its error
	for n, a := range answers {
		if a.err != nil {
			w.warn("executions could not be asked whether they run", a.err)
			continue
		}
		p := partitions[n]
		for i, state := range a.reply.States {
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

// verifyBlock takes back what a worker that is gone holds for executions that it does not run any more. The engine ignores it
// when the worker has been heard of its block meanwhile.
func (w *walk) verifyBlock(block enginecore.QuotaBlock, limit storedLimit) {
	core := w.session.core
	client := core.Client()
	live, err := client.Do(w.ctx, client.B().Exists().Key(core.Keys().WorkerAlive(block.WorkerInstanceID)).Build()).AsInt64()
	if err != nil {
		w.warn("it could not be found out whether a worker lives", enginecore.ConnectError(err))
		return
	}
	if live > 0 {
		return
	}
	calls := make([]enginecore.LeasedAheadCall, core.Partitioning().Flow)
	for i := range calls {
		calls[i] = enginecore.LeasedAheadCall{
			Partition: enginecore.Partition{Family: enginecore.FlowFamily, Index: uint16(i)}, WorkerInstanceID: block.WorkerInstanceID,
		}
	}
	answers, _ := sendAll[enginecore.LeasedAheadReply](w.ctx, core, calls)
	var held int64
	for _, a := range answers {
		if a.err != nil {
			w.warn("executions of a worker that is gone could not be counted", a.err)
			return
		}
		held += a.reply.Executions
	}
	if held >= block.Places {
		return
	}
	partition, _ := core.Partitioning().QuotaPartition(block.QuotaPolicyID) // a malformed id is refused by the call itself
	reply, err := core.HoldPlaces(w.ctx, enginecore.HoldPlacesCall{
		Partition: partition, QuotaPolicyID: limit.Quota, Name: limit.Name, Key: limit.Key, Rate: limit.Rate, WindowMs: limit.WindowMS,
		Cap: limit.Cap, WorkerInstanceID: block.WorkerInstanceID, Places: held, Needed: held, Seq: block.Seq + 1,
	})
	if err != nil {
		w.warn("places of a worker that is gone could not be taken back", err)
		return
	}
	for _, g := range reply.Granted {
		w.noteOther(limit, place{limit.Quota, g.Execution, g.Token}, g.Grant)
	}
}
