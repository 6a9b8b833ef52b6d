package submit

import (
	"context"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// GateUpdate carries the state of a budget's gate to the partitions of the flows that use it. While the gate is closed,
// a partition starts no node of a run that uses the budget, if the budget blocks nodes.
type GateUpdate struct {
	Session   *engine.Session
	Partition keyspace.Partition // of the budget
	Budget    enginecore.BudgetID
	Flow      enginecore.FlowID // the run that has the budget to itself; empty for others
	Version   int64
	Closed    string // why the gate is closed; empty when it is open
	Forget    bool   // the budget is removed
}

// Publish sends the update to all partitions with runs that use the budget, which release waiting nodes if the gate is
// open, and then marks the task in the budget's partition as done. If it fails, keepers complete it.
func (u GateUpdate) Publish(ctx context.Context) error {
	partitions, err := u.partitions()
	if err != nil {
		return err
	}
	if err := u.Send(ctx, partitions); err != nil || u.Forget {
		return err
	}
	done := []enginerpc.BudgetDoneDone{{Text: enginerpc.GateTaskText{BudgetID: u.Budget}.Text(), Gate: u.Version}}
	_, err = u.Session.Core.BudgetDone(ctx, enginerpc.BudgetDoneCall{Partition: u.Partition, Done: done})
	return err
}

// partitions returns the partitions with runs that use the budget.
func (u GateUpdate) partitions() ([]keyspace.Partition, error) {
	if u.Flow == "" {
		return u.Session.Partitions(), nil
	}
	p, err := u.Session.Core.FlowPartition(u.Flow)
	return []keyspace.Partition{p}, err
}

// Send sends the update to the given partitions, repeatedly to those that have more nodes to release than one call
// does.
func (u GateUpdate) Send(ctx context.Context, partitions []keyspace.Partition) error {
	for len(partitions) > 0 {
		calls := make([]enginerpc.SetBudgetGatesCall, len(partitions))
		for i, p := range partitions {
			calls[i] = enginerpc.SetBudgetGatesCall{Partition: p, Gates: []enginerpc.SetBudgetGatesGate{
				{BudgetID: u.Budget, Gate: u.Version, Closed: u.Closed, Forget: u.Forget},
			}}
		}
		answers, err := batching.SendAll(ctx, u.Session.Core, calls)
		if err != nil {
			return err
		}
		var left []keyspace.Partition
		for i, a := range answers {
			if a.Reply.More {
				left = append(left, partitions[i])
			}
		}
		partitions = left
	}
	return nil
}

// Remove makes the partitions of flows forget the budget, for which no node may wait, and then removes it.
func (u GateUpdate) Remove(ctx context.Context) error {
	u.Closed, u.Forget = "", true
	if err := u.Publish(ctx); err != nil {
		return err
	}
	_, err := u.Session.Core.RemoveBudget(ctx,
		enginerpc.RemoveBudgetCall{Partition: u.Partition, BudgetID: u.Budget, Over: true})
	return err
}
