package admission

import (
	"context"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// HardBreach is the kind of a breach of a hard limit. effectCancel is the effect of a breach that cancels the
// run.
const (
	HardBreach   = "hard"
	effectCancel = "cancel"
)

// BudgetBreach is the task to record that a run exceeded a limit of a budget, and to cancel the target run if
// the effect is effectCancel.
type BudgetBreach struct{ enginerpc.BreachTaskText }

// ErrBudgetTask is returned for the text of a task that cannot be parsed.
var ErrBudgetTask = errors.New("malformed task of a budget")

// ParseBreach parses the text of the task to record a breach. It returns ErrBudgetTask for any other text.
func ParseBreach(text string) (BudgetBreach, error) {
	task, ok := enginerpc.ParseBreachTaskText(text)
	if !ok {
		return BudgetBreach{}, ErrBudgetTask
	}
	return BudgetBreach{task}, nil
}

// Apply records the breach in the event log of the run, and cancels the target run if the breach is hard and
// its effect is to cancel. It can be repeated: a target run that is finished or missing is not an error.
func (b BudgetBreach) Apply(ctx context.Context, e *engine.Session) error {
	p, err := e.Core.FlowPartition(b.FlowID)
	if err != nil {
		return err
	}
	_, err = e.Core.NoteBreach(ctx, enginerpc.NoteBreachCall{
		Partition: p, FlowID: b.FlowID, BudgetID: b.BudgetID, ID: b.EntryID, Kind: b.Kind, Node: b.Node,
		Attempt: b.Attempt, Words: b.Words,
	})
	if err != nil || b.Kind != HardBreach || b.Effect != effectCancel {
		return err
	}
	if p, err = e.Core.FlowPartition(b.Target); err != nil {
		return err
	}
	call := enginerpc.CancelFlowCall{
		Partition: p, FlowID: b.Target, Reason: b.Words, Actor: "budget", Policy: submit.CancelAll,
	}
	for {
		reply, err := e.Core.CancelFlow(ctx, call)
		switch {
		case errors.Is(err, enginecore.ErrFlowNotFound), errors.Is(err, enginecore.ErrFlowAlreadyTerminal):
			return nil // there is nothing left to cancel
		case err != nil:
			return err
		case !reply.More:
			return nil
		}
	}
}

// FinishedTask returns the entry of a BudgetDone call that removes a task; with a non-zero dueAgain, the
// engine returns the task again at that time.
func FinishedTask(text string, dueAgain time.Time) enginerpc.BudgetDoneDone {
	return enginerpc.BudgetDoneDone{Text: text, AgainAt: dueAgain}
}
