package runtime

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// gateNews is what the partitions of flows have to be told about a budget: that it is used up, and why, or that it is not.
type gateUpdate struct {
	session   *session
	partition enginecore.Partition // of the budget
	budget    enginecore.BudgetID
	flow      enginecore.FlowID // the run that has the budget to itself; empty for others
	version   int64
	closed    string
	// forget tells that the budget is gone.
	forget bool
}

// publish tells all partitions that it concerns, lets go what waits there if the budget is not used up, and then says that it is
// done. Keepers do what it leaves undone.
func (n gateUpdate) publish(ctx context.Context) error {
	partitions, err := n.partitions()
	if err != nil {
		return err
	}
	if err := n.sendTo(ctx, partitions); err != nil || n.forget {
		return err
	}
	_, err = n.session.core.BudgetDone(ctx, enginecore.BudgetDoneCall{Partition: n.partition, Done: []enginecore.BudgetDoneDone{
		{Text: taskGate + " " + string(n.budget), Gate: n.version},
	}})
	return err
}

func (n gateUpdate) partitions() ([]enginecore.Partition, error) {
	if n.flow == "" {
		return n.session.partitions(), nil
	}
	p, err := n.session.core.FlowPartition(n.flow)
	return []enginecore.Partition{p}, err
}

// sendTo tells some partitions.
func (n gateUpdate) sendTo(ctx context.Context, partitions []enginecore.Partition) error {
	for len(partitions) > 0 {
		calls := make([]enginecore.SetBudgetGatesCall, len(partitions))
		for i, p := range partitions {
			calls[i] = enginecore.SetBudgetGatesCall{Partition: p, Gates: []enginecore.SetBudgetGatesGate{
				{BudgetID: n.budget, Gate: n.version, Closed: n.closed, Forget: n.forget},
			}}
		}
		answers, err := sendAll(ctx, n.session.core, calls)
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

// Kinds of what is owed because of a use of a budget.
const (
	taskGate        = "gate"
	taskBreach      = "breach"
	taskReservation = "held"
	taskRun         = "run"
)

// Kinds of breaches in what is owed, and the effect that has to be carried out.
const (
	hardBreach   = "hard"
	effectCancel = "cancel"
)

// breach is what is owed to a run that has passed a limit.
type budgetBreach struct {
	text      string // by which the engine knows it
	budget    enginecore.BudgetID
	id        string
	kind      string
	effect    string
	flow      enginecore.FlowID
	target    enginecore.FlowID // the run that the effect is on
	node      string
	attempt   int64
	dimension string
	message   string
}

var errBudgetTask = errors.New("malformed text of what is owed for a budget")

// parseBreach reads "breach <budget> <id> <kind> <effect> <flow> <whose> <node> <attempt> <dimension> <words>".
func parseBreach(text string) (budgetBreach, error) {
	const fields = 11
	parts := strings.SplitN(text, " ", fields)
	if len(parts) < fields {
		return budgetBreach{}, errBudgetTask
	}
	attempt, err := strconv.ParseInt(parts[8], 10, 64)
	return budgetBreach{
		text: text, budget: enginecore.BudgetID(parts[1]), id: parts[2], kind: parts[3], effect: parts[4], flow: enginecore.FlowID(parts[5]),
		target: enginecore.FlowID(parts[6]), node: parts[7], attempt: attempt, dimension: parts[9], message: parts[10],
	}, err
}

// apply notes the breach in the run's log, and cancels the run if that is the effect.
func (b budgetBreach) apply(ctx context.Context, e *session) error {
	p, err := e.core.FlowPartition(b.flow)
	if err != nil {
		return err
	}
	_, err = e.core.NoteBreach(ctx, enginecore.NoteBreachCall{
		Partition: p, FlowID: b.flow, BudgetID: b.budget, ID: b.id, Kind: b.kind, Node: b.node, Attempt: b.attempt, Words: b.message,
	})
	if err != nil || b.kind != hardBreach || b.effect != effectCancel {
		return err
	}
	if p, err = e.core.FlowPartition(b.target); err != nil {
		return err
	}
	call := enginecore.CancelFlowCall{Partition: p, FlowID: b.target, Reason: b.message, Actor: "budget", Policy: cancelAll}
	for {
		reply, err := e.core.CancelFlow(ctx, call)
		switch {
		case errors.Is(err, enginecore.ErrFlowNotFound), errors.Is(err, enginecore.ErrFlowAlreadyTerminal):
			return nil // there is nothing to cancel any more
		case err != nil:
			return err
		case !reply.More:
			return nil
		}
	}
}

// finishedTask is by what the engine is told that a text need not be kept any more, or not before a time.
func finishedTask(text string, again time.Time) enginecore.BudgetDoneDone {
	return enginecore.BudgetDoneDone{Text: text, AgainAt: again}
}

// removeBudget removes a budget that nobody can wait for, after the partitions of flows have forgotten it.
func (n gateUpdate) removeBudget(ctx context.Context) error {
	n.closed, n.forget = "", true
	if err := n.publish(ctx); err != nil {
		return err
	}
	_, err := n.session.core.RemoveBudget(ctx, enginecore.RemoveBudgetCall{Partition: n.partition, BudgetID: n.budget, Over: true})
	return err
}
