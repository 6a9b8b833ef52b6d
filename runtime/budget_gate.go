package runtime

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Kinds of what is owed because of a use of a budget.
const (
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
