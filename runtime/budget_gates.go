package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// taskGate begins the text of the task to publish a gateUpdate.
const taskGate = "gate"

// gateUpdate tells the partitions of flows whether a budget is used up. While its gate is closed, a partition starts no node of a
// run that uses the budget and blocks nodes.
type gateUpdate struct {
	session   *session
	partition enginecore.Partition // of the budget
	budget    enginecore.BudgetID
	flow      enginecore.FlowID // the run that has the budget to itself; empty for others
	version   int64
	closed    string // why the gate is closed; empty when it is open
	forget    bool   // the budget is removed
}

// publish sends the update to all partitions that it concerns, which release waiting nodes if the gate is open, and then
// finishes the task in the budget's partition. Keepers complete what it leaves undone.
func (u gateUpdate) publish(ctx context.Context) error {
	partitions, err := u.partitions()
	if err != nil {
		return err
	}
	if err := u.send(ctx, partitions); err != nil || u.forget {
		return err
	}
	_, err = u.session.core.BudgetDone(ctx, enginerpc.BudgetDoneCall{Partition: u.partition, Done: []enginerpc.BudgetDoneDone{
		{Text: taskGate + " " + string(u.budget), Gate: u.version},
	}})
	return err
}

// partitions returns the partitions with runs that use the budget.
func (u gateUpdate) partitions() ([]enginecore.Partition, error) {
	if u.flow == "" {
		return u.session.partitions(), nil
	}
	p, err := u.session.core.FlowPartition(u.flow)
	return []enginecore.Partition{p}, err
}

// send sends the update to some partitions, again to those that have more nodes to release.
func (u gateUpdate) send(ctx context.Context, partitions []enginecore.Partition) error {
	for len(partitions) > 0 {
		calls := make([]enginerpc.SetBudgetGatesCall, len(partitions))
		for i, p := range partitions {
			calls[i] = enginerpc.SetBudgetGatesCall{Partition: p, Gates: []enginerpc.SetBudgetGatesGate{
				{BudgetID: u.budget, Gate: u.version, Closed: u.closed, Forget: u.forget},
			}}
		}
		answers, err := sendAll(ctx, u.session.core, calls)
		if err != nil {
			return err
		}
		var left []enginecore.Partition
		for i, a := range answers {
			if a.reply.More {
				left = append(left, partitions[i])
			}
		}
		partitions = left
	}
	return nil
}

// remove removes a budget for which no node can wait, after the partitions of flows have forgotten it.
func (u gateUpdate) remove(ctx context.Context) error {
	u.closed, u.forget = "", true
	if err := u.publish(ctx); err != nil {
		return err
	}
	_, err := u.session.core.RemoveBudget(ctx, enginerpc.RemoveBudgetCall{Partition: u.partition, BudgetID: u.budget, Over: true})
	return err
}
