package flow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// BudgetEffect is the consequence when a node exceeds a hard limit. In any case the node's call of ReportUsage or
// Reserve returns an error and counts nothing.
type BudgetEffect = flowgraph.BudgetEffect

// The effects.
const (
	// FailNode fails the node, without another attempt, if its function returns the error. Other nodes continue.
	FailNode = flowgraph.FailNode
	// BlockNodes stops the start of nodes in all runs that share the budget until it is reset or raised, or until
	// reservations are returned. The node whose function returns the error waits too, and then starts its attempt anew.
	BlockNodes = flowgraph.BlockNodes
	// CancelRun cancels the run.
	CancelRun = flowgraph.CancelRun
)

// BudgetOption configures a budget.
type BudgetOption func(*flowgraph.Budget)

// Budget bounds the amounts that the nodes of the flow use together. A flow has at most 8, with different names. The
// defaults are one budget for each run, and FailNode. Reports and reservations count for every budget of the flow that
// has the dimension.
func Budget(name string, opts ...BudgetOption) Option {
	return flowOption(func(b *builder) {
		b.graph.Budgets = append(b.graph.Budgets, flowgraph.NewBudget(name, opts...))
		slices.SortStableFunc(b.graph.Budgets, func(x, y flowgraph.Budget) int { return cmp.Compare(x.Name, y.Name) })
	})
}

// HardLimit bounds a dimension: its usage plus reservations never exceed n, which is at least 1.
func HardLimit(dimension string, n int64) BudgetOption {
	return func(s *flowgraph.Budget) {
		s.Limit(dimension, "hard", n, func(l *flowgraph.BudgetLimit) *int64 { return &l.Hard })
	}
}

// SoftLimit reports usage of a dimension above n, which is at least 1.
func SoftLimit(dimension string, n int64) BudgetOption {
	return func(s *flowgraph.Budget) {
		s.Limit(dimension, "soft", n, func(l *flowgraph.BudgetLimit) *int64 { return &l.Soft })
	}
}

// Counted adds dimensions without a limit.
func Counted(dimensions ...string) BudgetOption {
	return func(s *flowgraph.Budget) {
		for _, dimension := range dimensions {
			s.Dimension(dimension)
		}
	}
}

// PerFlow shares the budget between all runs of the flow.
func PerFlow() BudgetOption {
	return func(s *flowgraph.Budget) { s.Scope, s.KeyFrom = flowgraph.ScopeFlow, nil }
}

// Shared shares the budget between all flows of the namespace that name it. If flows declare different limits, the
// limits of the latest started run apply; runtime's Client.CreateBudget and Client.SetBudget override them.
func Shared() BudgetOption {
	return func(s *flowgraph.Budget) { s.Scope, s.KeyFrom = flowgraph.ScopeShared, nil }
}

// PerKey is Shared with one budget for each value that the flow's input has at a path of field names: PerKey("tenant",
// "id"). The value must be a string, a number or a boolean: Build checks the type of the input, and the start of a run
// checks the value.
func PerKey(path ...string) BudgetOption {
	return func(s *flowgraph.Budget) {
		if len(path) == 0 {
			s.Faults = append(s.Faults, errors.New("PerKey: the path must name at least one field of the input"))
		}
		s.Scope, s.KeyFrom = flowgraph.ScopeShared, path
	}
}

// ResetEvery resets the usage to 0 at an interval of 100 ms to 366 days. Reservations remain.
func ResetEvery(d time.Duration) BudgetOption {
	return func(s *flowgraph.Budget) {
		s.Every = activityspec.Milliseconds(d)
		if d < flowgraph.MinBudgetReset || d > flowgraph.MaxBudgetReset {
			s.Faults = append(s.Faults, fmt.Errorf("ResetEvery %s: must be %s to %s", d, flowgraph.MinBudgetReset,
				flowgraph.MaxBudgetReset))
		}
	}
}

// OnExceeded sets the consequence of exceeding a hard limit.
func OnExceeded(effect BudgetEffect) BudgetOption {
	return func(s *flowgraph.Budget) { s.Effect = effect }
}
