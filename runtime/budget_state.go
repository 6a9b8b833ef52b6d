package runtime

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// checkBudgetRef returns the fault of a reference in a namespace.
func checkBudgetRef(r fabrictype.BudgetName, namespace keyspace.Namespace) error {
	err := activityspec.CheckName(r.Name)
	switch {
	case err != nil:
	case r.Key != "" && r.Flow != "":
		err = fmt.Errorf("the Key %.80q: must be empty for a budget of a flow or of a run", r.Key)
	case r.Run != "" && r.Flow == "":
		err = fmt.Errorf("the Run %.80q: Flow must be set, too", r.Run)
	case r.FlowID != "" && r.Run == "":
		err = fmt.Errorf("the FlowID %.80q: Flow and Run must be set, too", r.FlowID)
	case r.FlowID != "" && r.FlowID != string(keyspace.FlowIDFor(namespace, r.Flow, r.Run)):
		err = fmt.Errorf("the FlowID %.80q: is not that of run %s of flow %s", r.FlowID, r.Run, r.Flow)
	case len(r.Key) > submit.MaxLimitKey:
		err = fmt.Errorf("the Key has %d bytes, at most %d are allowed", len(r.Key), submit.MaxLimitKey)
	default:
		return nil
	}
	return invalid("budget reference: %w", err)
}

func readBudgetState(b enginerpc.BudgetState) fabrictype.Budget {
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

// budgetStates reads the states of budgets. The amounts of a budget that was never used are zero.
func budgetStates(ctx context.Context, core *enginerpc.Conn, list []submit.StoredBudget) ([]fabrictype.Budget, error) {
	found, err := submit.ReadBudgets(ctx, core, list)
	if err != nil {
		return nil, err
	}
	states := make([]fabrictype.Budget, len(list))
	for i := range list {
		if found[i] != nil {
			states[i] = readBudgetState(*found[i])
		} else {
			states[i] = unusedBudgetState(&list[i])
		}
	}
	return states, nil
}

// unusedBudgetState returns the state of a budget before its first use.
func unusedBudgetState(b *submit.StoredBudget) fabrictype.Budget {
	return fabrictype.Budget{
		BudgetName: fabrictype.BudgetName{Name: b.Name, Key: b.Key}, Effect: string(b.Effect),
		ResetEvery: fabrictype.Duration{Duration: b.Declaration().Interval},
		Amounts:    b.UnusedAmounts(),
	}
}
