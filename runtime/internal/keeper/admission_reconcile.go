package keeper

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

var admittedFields = []string{"lifecycle_phase"}

// dropAdmissions drops the admissions of a quota partition whose executions do not use them, and returns their
// number. An admitted execution that is about to be claimed is guarded for a while; after that it must be active.
// Executions and quotas live in different partitions, and an ended execution may be replayed meanwhile. So the first
// call removes the guard, under which a replay would reuse the admission; then the executions are read again, and
// only those still ended or missing are dropped.
func (m *maintainer) dropAdmissions(
	ctx context.Context, p enginecore.Partition, admitted []enginerpc.Admitted,
) (int64, error) {
	unused, err := m.unusedAdmissions(ctx, admitted, func(phase string, guarded bool) bool {
		return phase == "" || phase == "terminal" || !guarded && phase != "active"
	})
	if err != nil || len(unused) == 0 {
		return 0, err
	}
	first, err := m.maintenance.DropAdmissions(ctx, enginerpc.DropAdmissionsCall{Partition: p, Admissions: unused})
	if err != nil || len(first.Again) == 0 {
		return first.Dropped, err
	}
	unused, err = m.unusedAdmissions(ctx, first.Again, func(phase string, _ bool) bool { return phase == "" || phase == "terminal" })
	if err != nil || len(unused) == 0 {
		return first.Dropped, err
	}
	second, err := m.maintenance.DropAdmissions(ctx, enginerpc.DropAdmissionsCall{Partition: p, Admissions: unused})
	return first.Dropped + second.Dropped, err
}

// unusedAdmissions returns the admissions that a rule selects by the lifecycle phase of their executions: "" for a
// missing one.
func (m *maintainer) unusedAdmissions(
	ctx context.Context, admitted []enginerpc.Admitted, isUnused func(phase string, guarded bool) bool,
) ([]enginerpc.DropAdmissionsAdmission, error) {
	client := m.Session.Client
	var unused []enginerpc.DropAdmissionsAdmission
	var asked []enginerpc.Admitted
	var questions rueidis.Commands
	for _, a := range admitted {
		id := enginecore.ExecutionID(a.Execution)
		if _, err := id.Partition(); err != nil {
			unused = append(unused, enginerpc.DropAdmissionsAdmission(a))
			continue
		}
		asked = append(asked, a)
		questions = append(questions,
			client.B().Hmget().Key(m.Session.Core.Keys().ExecCore(id)).Field(admittedFields...).Build())
	}
	for i, answer := range client.DoMulti(ctx, questions...) {
		if err := answer.Error(); err != nil {
			return nil, engine.ReadError(ctx, "HMGET", err)
		}
		if isUnused(hashrecord.Read(answer, admittedFields)["lifecycle_phase"], asked[i].Guarded) {
			unused = append(unused, enginerpc.DropAdmissionsAdmission(asked[i]))
		}
	}
	return unused, nil
}
