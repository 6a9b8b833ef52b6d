package runtime

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// policiesEvery is how often quotas and budgets are looked at that programs of the contract have created.
	policiesEvery = time.Minute
	// admissionsEvery is how often where executions are admitted by such a quota: nobody else gives their places back.
	admissionsEvery = 5 * time.Second
)

// budgetsRound notes which budgets of other programs are used up.
func (k *Keeper) budgetsRound() *round {
	return &round{
		duties: []Duty{DutyBudgetReconciliation}, family: enginecore.BudgetFamily, every: policiesEvery, mends: true,
		signs: func(p enginecore.Partition) []string { return []string{k.session.core.Keys().IndexBudgetPolicies(p)} },
		step: inPages(k, evenPace(policiesEvery),
			func(p enginecore.Partition, limit int64, cursor string) enginecore.ReconcileBudgetsCall {
				return enginecore.ReconcileBudgetsCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(_ context.Context, _ enginecore.Partition, r enginecore.ReconcileBudgetsReply) (page, error) {
				return page{next: r.NextCursor, done: dutyDone{duty: DutyBudgetReconciliation, count: r.Mended}}, nil
			}),
	}
}

// admissionsRound takes back what quotas of other programs have admitted and what does not run any more.
func (k *Keeper) admissionsRound() *round {
	return &round{
		duties: []Duty{DutyQuotaReconciliation}, family: enginecore.QuotaFamily, every: policiesEvery, mends: true,
		signs: func(p enginecore.Partition) []string { return []string{k.session.core.Keys().IndexQuotaPolicies(p)} },
		step: inPages(k, pace{page: admissionsEvery, search: policiesEvery / stepsPerRound, pass: admissionsEvery},
			func(p enginecore.Partition, limit int64, cursor string) enginecore.ReconcileQuotasCall {
				return enginecore.ReconcileQuotasCall{Partition: p, Limit: limit, Cursor: cursor}
			},
			func(ctx context.Context, p enginecore.Partition, r enginecore.ReconcileQuotasReply) (page, error) {
				dropped, err := k.dropAdmissions(ctx, p, r.Admitted)
				return page{next: r.NextCursor, done: dutyDone{duty: DutyQuotaReconciliation, count: r.Mended + dropped}, found: len(r.Admitted) > 0}, err
			}),
	}
}

var admittedFields = []string{"lifecycle_phase"}

// dropAdmissions takes back those admissions that nobody uses. An execution that is admitted and about to be claimed is
// guarded; when the guard is over, it must run. Executions and quotas live in different partitions, and one that has ended may
// be run again meanwhile: so the guard goes first, under which it would be told that it is admitted, and the execution is
// looked at once more.
func (k *Keeper) dropAdmissions(ctx context.Context, p enginecore.Partition, admitted []enginecore.Admitted) (int64, error) {
	unused, err := k.unusedAdmissions(ctx, admitted, func(phase string, guarded bool) bool {
		return phase == "" || phase == "terminal" || !guarded && phase != "active"
	})
	if err != nil || len(unused) == 0 {
		return 0, err
	}
	first, err := k.session.core.DropAdmissions(ctx, enginecore.DropAdmissionsCall{Partition: p, Admissions: unused})
	if err != nil || len(first.Again) == 0 {
		return first.Dropped, err
	}
	unused, err = k.unusedAdmissions(ctx, first.Again, func(phase string, _ bool) bool { return phase == "" || phase == "terminal" })
	if err != nil || len(unused) == 0 {
		return first.Dropped, err
	}
	second, err := k.session.core.DropAdmissions(ctx, enginecore.DropAdmissionsCall{Partition: p, Admissions: unused})
	return first.Dropped + second.Dropped, err
}

// unusedAdmissions picks those of which a rule says so, by the phase of their executions: "" of one that is not there.
func (k *Keeper) unusedAdmissions(ctx context.Context, admitted []enginecore.Admitted, isUnused func(phase string, guarded bool) bool) ([]enginecore.DropAdmissionsAdmission, error) {
	client := k.session.client
	var unused []enginecore.DropAdmissionsAdmission
	var asked []enginecore.Admitted
	var questions rueidis.Commands
	for _, a := range admitted {
		id := enginecore.ExecutionID(a.Execution)
		if _, err := id.Partition(); err != nil {
			unused = append(unused, enginecore.DropAdmissionsAdmission(a))
			continue
		}
		asked = append(asked, a)
		questions = append(questions, client.B().Hmget().Key(k.session.core.Keys().ExecCore(id)).Field(admittedFields...).Build())
	}
	for i, answer := range client.DoMulti(ctx, questions...) {
		if err := answer.Error(); err != nil {
			return nil, contractReadError("HMGET", err)
		}
		if isUnused(recordOf(answer, admittedFields)["lifecycle_phase"], asked[i].Guarded) {
			unused = append(unused, enginecore.DropAdmissionsAdmission(asked[i]))
		}
	}
	return unused, nil
}
