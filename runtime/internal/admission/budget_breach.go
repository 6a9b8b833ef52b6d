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

// Kinds of the tasks that the use of a budget leaves in the budget's partition. The text of a task begins
// with its kind. A worker carries the tasks out, or a keeper if no worker does.
const (
	TaskBreach      = "breach" // record a breach of a limit, see ParseBreach
	TaskReservation = "held"   // release a reservation when its lease has ended
	TaskRun         = "run"    // remove the budget of a run when the run has finished
)

// HardBreach is the kind of a breach of a hard limit. effectCancel is the effect of a breach that cancels the
// run.
const (
	HardBreach   = "hard"
	effectCancel = "cancel"
)

// BudgetBreach is the task to record that a run exceeded a limit of a budget, and to cancel the target run if
// the effect is effectCancel.
type BudgetBreach struct {
	text   string // of the task
	budget enginecore.BudgetID
	// Id identifies the usage entry that exceeded the limit.
	ID string
	// Kind is HardBreach, or "soft" for a breach of a soft limit.
	Kind    string
	effect  string
	flow    enginecore.FlowID
	target  enginecore.FlowID // the run that is cancelled
	node    string
	attempt int64
	// Dimension is the exceeded dimension, Message the description of the breach for people.
	Dimension string
	Message   string
}

// ErrBudgetTask is returned for the text of a task that cannot be parsed.
var ErrBudgetTask = errors.New("malformed task of a budget")

// ParseBreach parses the text of a task of kind TaskBreach, "breach <budget> <id> <kind> <effect> <flow>
// <target> <node> <attempt> <dimension> <message>". It returns ErrBudgetTask if fields are missing, and a
// strconv error if the attempt is not a number.
func ParseBreach(text string) (BudgetBreach, error) {
	const fields = 11
	parts := strings.SplitN(text, " ", fields)
	if len(parts) < fields {
		return BudgetBreach{}, ErrBudgetTask
	}
	attempt, err := strconv.ParseInt(parts[8], 10, 64)
	return BudgetBreach{
		text: text, budget: enginecore.BudgetID(parts[1]), ID: parts[2], Kind: parts[3], effect: parts[4], flow: enginecore.FlowID(parts[5]),
		target: enginecore.FlowID(parts[6]), node: parts[7], attempt: attempt, Dimension: parts[9], Message: parts[10],
	}, err
}

// Apply records the breach in the event log of the run, and cancels the target run if the breach is hard and
// its effect is to cancel. It can be repeated: a target run that is finished or missing is no error.
func (b BudgetBreach) Apply(ctx context.Context, e *engine.Session) error {
	p, err := e.Core.FlowPartition(b.flow)
	if err != nil {
		return err
	}
	_, err = e.Core.NoteBreach(ctx, enginerpc.NoteBreachCall{
		Partition: p, FlowID: b.flow, BudgetID: b.budget, ID: b.ID, Kind: b.Kind, Node: b.node, Attempt: b.attempt, Words: b.Message,
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

// FinishedTask returns the entry of a BudgetDone call that removes a task; with a non-zero dueAgain, the
// engine returns the task again at that time.
func FinishedTask(text string, dueAgain time.Time) enginerpc.BudgetDoneDone {
	return enginerpc.BudgetDoneDone{Text: text, AgainAt: dueAgain}
}
