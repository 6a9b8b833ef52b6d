package admission

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// Kinds of tasks that the use of a budget leaves in its partition, each a text that begins with the kind. A worker finishes them,
// else a keeper does.
const (
	TaskBreach      = "breach" // apply a budgetBreach
	TaskReservation = "held"   // give a reservation back when its lease is over
	TaskRun         = "run"    // remove the budget of a run when it is over
)

// hardBreach is the kind of a breach of a hard limit, effectCancel the effect that cancels the run.
const (
	HardBreach   = "hard"
	effectCancel = "cancel"
)

// budgetBreach is the task to record that a run exceeded a limit of a budget, and to cancel the run if that is the effect.
type budgetBreach struct {
	text      string // of the task
	budget    enginecore.BudgetID
	Id        string
	Kind      string
	effect    string
	flow      enginecore.FlowID
	target    enginecore.FlowID // the run that is cancelled
	node      string
	attempt   int64
	Dimension string
	Message   string
}

var ErrBudgetTask = errors.New("malformed task of a budget")

// parseBreach reads "breach <budget> <id> <kind> <effect> <flow> <target> <node> <attempt> <dimension> <message>".
func ParseBreach(text string) (budgetBreach, error) {
	const fields = 11
	parts := strings.SplitN(text, " ", fields)
	if len(parts) < fields {
		return budgetBreach{}, ErrBudgetTask
	}
	attempt, err := strconv.ParseInt(parts[8], 10, 64)
	return budgetBreach{
		text: text, budget: enginecore.BudgetID(parts[1]), Id: parts[2], Kind: parts[3], effect: parts[4], flow: enginecore.FlowID(parts[5]),
		target: enginecore.FlowID(parts[6]), node: parts[7], attempt: attempt, Dimension: parts[9], Message: parts[10],
	}, err
}

// apply records the breach in the log of the run, and cancels the target if that is the effect.
func (b budgetBreach) Apply(ctx context.Context, e *engine.Session) error {
	p, err := e.Core.FlowPartition(b.flow)
	if err != nil {
		return err
	}
	_, err = e.Core.NoteBreach(ctx, enginerpc.NoteBreachCall{
		Partition: p, FlowID: b.flow, BudgetID: b.budget, ID: b.Id, Kind: b.Kind, Node: b.node, Attempt: b.attempt, Words: b.Message,
	})
	if err != nil || b.Kind != HardBreach || b.effect != effectCancel {
		return err
	}
	if p, err = e.Core.FlowPartition(b.target); err != nil {
		return err
	}
	call := enginerpc.CancelFlowCall{Partition: p, FlowID: b.target, Reason: b.Message, Actor: "budget", Policy: submit.CancelAll}
	for {
		reply, err := e.Core.CancelFlow(ctx, call)
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
func FinishedTask(text string, dueAgain time.Time) enginerpc.BudgetDoneDone {
	return enginerpc.BudgetDoneDone{Text: text, AgainAt: dueAgain}
}
