package budgets

import (
	"context"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// OfRun reads the states of the budgets of a run. stored are the budgets as the record of the run has them.
func OfRun(
	ctx context.Context, s *engine.Session, run *fabrictype.RunDetail, stored string,
) ([]fabrictype.Budget, error) {
	list, err := submit.DecodeBudgets(stored)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	budgets, err := states(ctx, s.Core, list)
	if err != nil {
		return nil, err
	}
	for i := range budgets {
		switch list[i].Scope {
		case flowgraph.ScopeRun:
			budgets[i].FlowID = list[i].ScopeID
			if budgets[i].FlowID != run.FlowID {
				continue // of the run that this one belongs to
			}
			budgets[i].Flow, budgets[i].Run = run.Flow, run.Run
		case flowgraph.ScopeFlow:
			budgets[i].Flow = run.Flow
		}
	}
	return budgets, NameRuns(ctx, s, budgets)
}

// Read returns the state of a budget. The budget of a run has the id of that, not its name; see [NameRuns].
func Read(b enginerpc.BudgetState) fabrictype.Budget {
	s := fabrictype.Budget{
		BudgetName: fabrictype.BudgetName{Name: b.Name, Key: b.Key}, Effect: b.Effect,
		ResetEvery: fabrictype.Duration{Duration: b.Interval},
		ResetsAt:   b.NextResetAt, Set: b.Pinned, UsedUp: b.Closed, Breaches: int(b.BreachCount),
		SoftBreaches: int(b.SoftBreachCount),
		Resets:       int(b.ResetCount),
	}
	switch flowgraph.BudgetScope(b.ScopeType) {
	case flowgraph.ScopeRun:
		s.FlowID = b.ScopeID
	case flowgraph.ScopeFlow:
		s.Flow = b.ScopeID
	case flowgraph.ScopeShared:
		if b.Key != "" {
			s.Key = b.ScopeID // as it was given; the other one is fit to be shown
		}
	}
	s.Amounts = submit.BudgetAmounts(&b)
	return s
}

// states reads the states of budgets. The amounts of a budget that was never used are zero.
func states(ctx context.Context, core *enginerpc.Conn, list []submit.StoredBudget) ([]fabrictype.Budget, error) {
	found, err := submit.ReadBudgets(ctx, core, list)
	if err != nil {
		return nil, err
	}
	budgets := make([]fabrictype.Budget, len(list))
	for i := range list {
		if found[i] != nil {
			budgets[i] = Read(*found[i])
		} else {
			budgets[i] = unused(&list[i])
		}
	}
	return budgets, nil
}

// unused returns the state of a budget before its first use.
func unused(b *submit.StoredBudget) fabrictype.Budget {
	return fabrictype.Budget{
		BudgetName: fabrictype.BudgetName{Name: b.Name, Key: b.Key}, Effect: string(b.Effect),
		ResetEvery: fabrictype.Duration{Duration: b.Declaration().Interval},
		Amounts:    b.UnusedAmounts(),
	}
}

// NameRuns completes the references of budgets of runs, of which a budget knows the id only, with their names. If a run
// no longer exists, the reference keeps its id, and no call takes it for another budget.
func NameRuns(ctx context.Context, s *engine.Session, states []fabrictype.Budget) error {
	var ids []enginecore.FlowID
	for i := range states {
		if b := &states[i]; b.FlowID != "" && b.Run == "" {
			ids = append(ids, enginecore.FlowID(b.FlowID))
		}
	}
	names, err := submit.ReadRunNames(ctx, s, ids)
	if err != nil {
		return err
	}
	for i := range states {
		if name, found := names[enginecore.FlowID(states[i].FlowID)]; found {
			states[i].Flow, states[i].Run = name.Flow, name.Run
		}
	}
	return nil
}
