package keeper

import (
	"context"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

var admittedFields = []string{"lifecycle_phase"}

// dropAdmissions drops the admissions of a quota partition whose executions do not use them, and returns their
// number, and the items that could not be read. An admitted execution that is about to be claimed is guarded for a
// while; after that it must be active. Executions and quotas live in different partitions, and an ended execution may
// be replayed in between. So the first call removes the guard, under which a replay would reuse the admission; then the
// executions are read again, and only those still ended or missing are dropped.
func (m *maintainer) dropAdmissions(
	ctx context.Context, p keyspace.Partition, admitted []enginerpc.Admitted,
) (dropped int64, faults []enginerpc.ItemFault, err error) {
	unused, faults, err := m.unusedAdmissions(ctx, admitted, func(phase string, guarded bool) bool {
		return phase == "" || phase == "terminal" || !guarded && phase != "active"
	})
	if err != nil || len(unused) == 0 {
		return 0, faults, err
	}
	first, err := m.maintenance.DropAdmissions(ctx, enginerpc.DropAdmissionsCall{Partition: p, Admissions: unused})
	faults = append(faults, first.Faults...)
	if err != nil || len(first.Again) == 0 {
		return first.Dropped, faults, err
	}
	unused, _, err = m.unusedAdmissions(ctx, first.Again, func(phase string, _ bool) bool {
		return phase == "" || phase == "terminal"
	})
	if err != nil || len(unused) == 0 {
		return first.Dropped, faults, err
	}
	second, err := m.maintenance.DropAdmissions(ctx, enginerpc.DropAdmissionsCall{Partition: p, Admissions: unused})
	return first.Dropped + second.Dropped, append(faults, second.Faults...), err
}

// unusedAdmissions returns the admissions that a rule selects by the lifecycle phase of their executions: "" for a
// missing one. Executions that cannot be read are faults, and not returned.
func (m *maintainer) unusedAdmissions(
	ctx context.Context, admitted []enginerpc.Admitted, isUnused func(phase string, guarded bool) bool,
) (unused []enginerpc.DropAdmissionsAdmission, faults []enginerpc.ItemFault, err error) {
	var asked []enginerpc.Admitted
	var ids []enginecore.ExecutionID
	for _, a := range admitted {
		id := enginecore.ExecutionID(a.Execution)
		if _, err := keyspace.PartitionOf(id); err != nil {
			unused = append(unused, enginerpc.DropAdmissionsAdmission(a))
			continue
		}
		asked = append(asked, a)
		ids = append(ids, id)
	}
	records, err := m.Session.ReadExecutions(ctx, ids, admittedFields)
	unread := make(map[int]bool)
	for i, id := range ids {
		if err == nil {
			break
		}
		// One of them may be the cause.
		some, fault := m.Session.ReadExecutions(ctx, ids[i:i+1], admittedFields)
		switch {
		case retry.IsUnavailable(fault):
			return nil, nil, fault
		case fault != nil:
			faults = append(faults, enginerpc.ItemFault{
				Task: string(engine.TaskQuotaReconciliation), Item: string(id), Error: fault.Error(),
			})
			records, unread[i] = append(records, nil), true
		default:
			records = append(records, some...)
		}
	}
	for i, record := range records {
		if unread[i] {
			continue
		}
		if isUnused(record["lifecycle_phase"], asked[i].Guarded) {
			unused = append(unused, enginerpc.DropAdmissionsAdmission(asked[i]))
		}
	}
	return unused, faults, nil
}
