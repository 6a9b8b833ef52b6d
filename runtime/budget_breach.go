package runtime

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Kinds of tasks that the use of a budget leaves in its partition, each a text that begins with the kind. A worker finishes them,
// else a keeper does.
const (
	taskBreach      = "breach" // apply a budgetBreach
	taskReservation = "held"   // give a reservation back when its lease is over
	taskRun         = "run"    // remove the budget of a run when it is over
)

// hardBreach is the kind of a breach of a hard limit, effectCancel the effect that cancels the run.
const (
	hardBreach   = "hard"
	effectCancel = "cancel"
)

// budgetBreach is the task to record that a run exceeded a limit of a budget, and to cancel the run if that is the effect.
type budgetBreach struct {
	text      string // of the task
	budget    enginecore.BudgetID
	id        string
	kind      string
	effect    string
	flow      enginecore.FlowID
	target    enginecore.FlowID // the run that is cancelled
	node      string
	attempt   int64
	dimension string
	message   string
}

var errBudgetTask = errors.New("malformed task of a budget")

// parseBreach reads "breach <budget> <id> <kind> <effect> <flow> <target> <node> <attempt> <dimension> <message>".
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

// apply records the breach in the log of the run, and cancels the target if that is the effect.
func (b budgetBreach) apply(ctx context.Context, e *session) error {
	p, err := e.core.FlowPartition(b.flow)
	if err != nil {
		return err
	}
	_, err = e.core.NoteBreach(ctx, enginerpc.NoteBreachCall{
		Partition: p, FlowID: b.flow, BudgetID: b.budget, ID: b.id, Kind: b.kind, Node: b.node, Attempt: b.attempt, Words: b.message,
	})
	if err != nil || b.kind != hardBreach || b.effect != effectCancel {
		return err
	}
	if p, err = e.core.FlowPartition(b.target); err != nil {
		return err
	}
	call := enginerpc.CancelFlowCall{Partition: p, FlowID: b.target, Reason: b.message, Actor: "budget", Policy: cancelAll}
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

// finishedTask finishes a task; with a time, the engine returns the task again then.
func finishedTask(text string, dueAgain time.Time) enginerpc.BudgetDoneDone {
	return enginerpc.BudgetDoneDone{Text: text, AgainAt: dueAgain}
}
