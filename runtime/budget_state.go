package runtime

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// BudgetRef names a budget: a shared budget by Name, and Key if it has keys; the budget of a flow by Name and Flow; the
// budget of a run by Name, Flow and Run.
type BudgetRef struct {
	Name string
	// Key selects the budget of one key of a shared budget with flow.PerKey; empty for a budget without keys.
	Key string
	// Flow and Run name the owner of a budget of a flow or of a run; empty for a shared budget.
	Flow, Run string
	// FlowID is set by Client.Budgets and Describe instead of Flow and Run when the run was purged and its names are
	// not known. Calls refuse such a reference with ErrInvalid. If Flow and Run are set, it must be the flow id of that
	// run.
	FlowID enginecore.FlowID
}

// String returns the reference in readable form, for texts and logs.
func (r BudgetRef) String() string { return submit.BudgetRef(r).String() }

// check reports what is wrong with a reference in a namespace.
func (r BudgetRef) check(namespace keyspace.Namespace) error {
	err := activityspec.CheckName(r.Name)
	switch {
	case err != nil:
	case r.Key != "" && r.Flow != "":
		err = fmt.Errorf("the Key %.80q: must be empty for a budget of a flow or of a run", r.Key)
	case r.Run != "" && r.Flow == "":
		err = fmt.Errorf("the Run %.80q: Flow must be set, too", r.Run)
	case r.FlowID != "" && r.Run == "":
		err = fmt.Errorf("the FlowID %.80q: Flow and Run must be set, too", r.FlowID)
	case r.FlowID != "" && r.FlowID != keyspace.FlowIDFor(namespace, r.Flow, r.Run):
		err = fmt.Errorf("the FlowID %.80q: is not that of run %s of flow %s", r.FlowID, r.Run, r.Flow)
	case len(r.Key) > submit.MaxLimitKey:
		err = fmt.Errorf("the Key has %d bytes, at most %d are allowed", len(r.Key), submit.MaxLimitKey)
	default:
		return nil
	}
	return invalid("budget reference: %w", err)
}

// BudgetState is the state of a budget: its limits, and what is spent and reserved.
type BudgetState struct {
	// Ref refers to the budget, for all calls that take a reference.
	Ref BudgetRef
	// FlowID is the flow id of the run that owns the budget; empty for the budget of a flow and for a shared budget.
	FlowID enginecore.FlowID
	Effect flow.BudgetEffect
	// Every is the interval between resets and ResetsAt the time of the next one; both are zero for a budget without
	// resets.
	Every    time.Duration
	ResetsAt time.Time
	// Set reports whether CreateBudget or SetBudget determined the limits. If it is false, the limits are those that
	// flows declare.
	Set bool
	// UsedUp describes in English why nodes that use the budget do not start; empty when they do.
	UsedUp string
	// Amounts are the states of the dimensions, by name.
	Amounts []activity.BudgetAmount
	// Breaches counts how often a hard limit began to refuse amounts, SoftBreaches how often a soft limit was exceeded,
	// and Resets the resets.
	Breaches, SoftBreaches, Resets int
}

// Amount returns the state of a dimension, or the zero value when the budget does not have the dimension.
func (s BudgetState) Amount(dimension string) activity.BudgetAmount {
	i := slices.IndexFunc(s.Amounts, func(a activity.BudgetAmount) bool { return a.Dimension == dimension })
	if i < 0 {
		return activity.BudgetAmount{}
	}
	return s.Amounts[i]
}

func readBudgetState(b enginerpc.BudgetState) BudgetState {
	s := BudgetState{
		Ref: BudgetRef{Name: b.Name, Key: b.Key}, Effect: flow.BudgetEffect(b.Effect), Every: b.Interval,
		ResetsAt: b.NextResetAt, Set: b.Pinned, UsedUp: b.Closed, Breaches: int(b.BreachCount),
		SoftBreaches: int(b.SoftBreachCount),
		Resets:       int(b.ResetCount),
	}
	switch flowgraph.BudgetScope(b.ScopeType) {
	case flowgraph.ScopeRun:
		s.FlowID = enginecore.FlowID(b.ScopeID)
	case flowgraph.ScopeFlow:
		s.Ref.Flow = b.ScopeID
	case flowgraph.ScopeShared:
		if b.Key != "" {
			s.Ref.Key = b.ScopeID // as it was given; the other one is fit to be shown
		}
	}
	s.Amounts = submit.BudgetAmounts(&b)
	return s
}

// budgetStates reads the states of budgets. The amounts of a budget that was never used are zero.
func budgetStates(ctx context.Context, core *enginerpc.Conn, list []submit.StoredBudget) ([]BudgetState, error) {
	found, err := submit.ReadBudgets(ctx, core, list)
	if err != nil {
		return nil, err
	}
	states := make([]BudgetState, len(list))
	for i := range list {
		if found[i] != nil {
			states[i] = readBudgetState(*found[i])
		} else {
			states[i] = unusedBudgetState(&list[i])
		}
	}
	return states, nil
}

// unusedBudgetState is how a budget stands before its first use.
func unusedBudgetState(b *submit.StoredBudget) BudgetState {
	return BudgetState{
		Ref: BudgetRef{Name: b.Name, Key: b.Key}, Effect: b.Effect, Every: b.Declaration().Interval,
		Amounts: b.UnusedAmounts(),
	}
}
