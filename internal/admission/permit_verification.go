package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// CompleteTick completes a tick of limits, on behalf of the caller of the engine: it admits the executions that were
// granted permits, and returns permits whose holders no longer run. Errors are logged; the next tick repeats failed
// calls.
func (a Admitter) CompleteTick(ctx context.Context, reply enginerpc.QuotaTickReply) {
	limits := make(map[enginecore.QuotaPolicyID]submit.StoredLimit, len(reply.Quotas))
	for _, q := range reply.Quotas {
		limits[q.QuotaPolicyID] = submit.StoredLimit{
			Quota: q.QuotaPolicyID, Name: q.Name, Key: q.Key, Rate: q.Rate, WindowMS: q.WindowMs, Cap: q.Cap,
		}
	}
	p := a.newPass(ctx, promoter{a.Session.Core}, 0)
	for _, g := range reply.Granted {
		p.addGrant(limits[g.QuotaPolicyID], permitKey{g.QuotaPolicyID, g.Execution, g.Token},
			permit{grant: g.Grant})
	}
	p.deliver() // before the verification, which takes further calls
	p.verify(reply.Checks, limits)
	for _, pool := range reply.Blocks {
		p.verifyPool(pool, limits[pool.QuotaPolicyID])
	}
	p.deliver()
}

// verify reads the states of executions and returns the permits that they do not use.
func (p *admissionPass) verify(checks []enginerpc.QuotaCheck, limits map[enginecore.QuotaPolicyID]submit.StoredLimit) {
	calls := make(map[keyspace.Partition]*enginerpc.VerifyAdmissionsCall)
	checked := make(map[keyspace.Partition][]enginerpc.QuotaCheck)
	for _, check := range checks {
		id := enginecore.ExecutionID(check.Execution)
		at, err := keyspace.PartitionOf(id)
		if err != nil {
			p.warn("the permit verification found an entry of a limit that is not an execution ID", err)
			continue
		}
		if calls[at] == nil {
			calls[at] = &enginerpc.VerifyAdmissionsCall{Partition: at}
		}
		calls[at].Admissions = append(calls[at].Admissions, enginerpc.VerifyAdmissionsAdmission{
			ExecutionID: id, Token: check.Token, Stale: check.Stale,
		})
		checked[at] = append(checked[at], check)
	}
	partitions := slices.Collect(maps.Keys(calls))
	list := make([]enginerpc.VerifyAdmissionsCall, len(partitions))
	for i, at := range partitions {
		list[i] = *calls[at]
	}
	// each answer has its error
	answers, _ := batching.SendAll[enginerpc.VerifyAdmissionsReply](p.ctx, p.Session.Core, list)
	for n, a := range answers {
		if a.Err != nil {
			p.warn("the permit verification could not read the states of executions", a.Err)
			continue
		}
		for _, fault := range a.Reply.Faults {
			p.warn("the permit verification could not read the state of an execution",
				fmt.Errorf("%s: %s", fault.Item, fault.Error))
		}
		for i, state := range a.Reply.States {
			check := checked[partitions[n]][i]
			limit := limits[check.QuotaPolicyID]
			p.settle(state.State, admission{
				execution: state.ExecutionID, token: state.Token, limits: []submit.StoredLimit{limit},
				grants: []permit{{grant: check.Grant}}, verified: true,
			})
		}
	}
}

// settle returns a permit or admits its execution, by the state of the execution.
func (p *admissionPass) settle(state string, a admission) {
	switch state {
	case "waiting":
		p.admitted = append(p.admitted, a)
	case "revoked":
		p.returnPermits([]PermitReturn{a.permits()}, true)
	case "gone":
		p.returnPermits([]PermitReturn{a.permits()}, false)
	}
}

// verifyPool returns the permits that a lost worker holds in a pool for executions which it no longer runs.
// The engine ignores the call if the worker has reported on its pool in between.
func (p *admissionPass) verifyPool(pool enginerpc.QuotaBlock, limit submit.StoredLimit) {
	core := p.Session.Core
	client := core.Client()
	live, err := client.Do(p.ctx,
		client.B().Exists().Key(core.Keys().WorkerAlive(pool.WorkerInstanceID)).Build()).AsInt64()
	if err != nil {
		p.warn("the permit verification could not read the liveness of a worker", enginerpc.ConnectError(err))
		return
	}
	if live > 0 {
		return
	}
	held, err := p.leasedAhead(pool.WorkerInstanceID)
	if err != nil {
		p.warn("the permit verification could not count the executions of a dead worker", err)
		return
	}
	if held >= pool.Places {
		return
	}
	partition, _ := core.Partitioning().QuotaPartition(pool.QuotaPolicyID) // the call itself refuses a malformed id
	reply, err := core.HoldPlaces(p.ctx, enginerpc.HoldPlacesCall{
		Partition: partition, QuotaPolicyID: limit.Quota, Name: limit.Name, Key: limit.Key, Rate: limit.Rate,
		WindowMs: limit.WindowMS,
		Cap:      limit.Cap, WorkerInstanceID: pool.WorkerInstanceID, Places: held, Needed: held, Seq: pool.Seq + 1,
	})
	if err != nil {
		p.warn("the permit verification could not reclaim the permits of a dead worker", err)
		return
	}
	for _, g := range reply.Granted {
		p.addGrant(limit, permitKey{limit.Quota, g.Execution, g.Token}, permit{grant: g.Grant})
	}
}

// leasedAhead counts the executions that a worker has leased before acquiring their permits, in all
// partitions.
func (p *admissionPass) leasedAhead(instance enginecore.WorkerInstanceID) (int64, error) {
	core := p.Session.Core
	calls := make([]enginerpc.LeasedAheadCall, core.Partitioning().Flow)
	for i := range calls {
		calls[i] = enginerpc.LeasedAheadCall{
			Partition:        keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(i)},
			WorkerInstanceID: instance,
		}
	}
	answers, _ := batching.SendAll[enginerpc.LeasedAheadReply](p.ctx, core, calls)
	var count int64
	for _, a := range answers {
		if a.Err != nil {
			return 0, a.Err
		}
		count += a.Reply.Executions
	}
	return count, nil
}
