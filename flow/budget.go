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

// BudgetEffect is what becomes of a run of which a node exceeds a hard limit. In any case the node's call of ReportUsage or
// Reserve returns an error, and nothing is counted.
type BudgetEffect = flowgraph.BudgetEffect

// The effects.
const (
	// FailNode fails the node, without another attempt, if its function returns the error. Others go on.
	FailNode = flowgraph.FailNode
	// BlockNodes lets no node start any more, in none of the runs that share the budget, until it is reset or raised, or until
	// reserved amounts are given back. The node whose function returns the error waits too, and then begins its attempt anew.
	BlockNodes = flowgraph.BlockNodes
	// CancelRun cancels the run.
	CancelRun = flowgraph.CancelRun
)

// BudgetOption says what a budget is.
type BudgetOption func(*flowgraph.Budget)

// Budget bounds what the nodes of the flow use up together. A flow has at most 8, with different names. The defaults
// are one budget for each run, and FailNode. Reports and reservations count for every budget of the flow that has the
// dimension.
func Budget(name string, opts ...BudgetOption) Option {
	return flowOption(func(b *builder) {
		b.graph.Budgets = append(b.graph.Budgets, flowgraph.NewBudget(name, opts...))
		slices.SortStableFunc(b.graph.Budgets, func(x, y flowgraph.Budget) int { return cmp.Compare(x.Name, y.Name) })
	})
}

// HardLimit bounds a dimension: what is spent and reserved of it never exceeds n, which is at least 1.
func HardLimit(dimension string, n int64) BudgetOption {
	return func(s *flowgraph.Budget) {
		s.Limit(dimension, "hard", n, func(l *flowgraph.BudgetLimit) *int64 { return &l.Hard })
	}
}

// SoftLimit tells when more than n, which is at least 1, is spent of a dimension.
func SoftLimit(dimension string, n int64) BudgetOption {
	return func(s *flowgraph.Budget) {
		s.Limit(dimension, "soft", n, func(l *flowgraph.BudgetLimit) *int64 { return &l.Soft })
	}
}

// Counted counts dimensions without a limit.
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

// Shared shares the budget between all flows of the namespace that name it. Of several that declare limits, those of the run
// that was started last count; what runtime's Client.CreateBudget and Client.SetBudget say counts more than that.
func Shared() BudgetOption {
	return func(s *flowgraph.Budget) { s.Scope, s.KeyFrom = flowgraph.ScopeShared, nil }
}

// PerKey is Shared with one budget for each value that the flow's input has at a path of field names: PerKey("tenant", "id").
// The value must be a text, a number or a boolean: Build checks what the type of the input says of it, the start of a run the
// rest.
func PerKey(path ...string) BudgetOption {
	return func(s *flowgraph.Budget) {
		if len(path) == 0 {
			s.Faults = append(s.Faults, errors.New("the path of its key is empty"))
		}
		s.Scope, s.KeyFrom = flowgraph.ScopeShared, path
	}
}

// ResetEvery makes what is spent 0 again and again, every 100 ms to 366 days. What is reserved stays.
func ResetEvery(d time.Duration) BudgetOption {
	return func(s *flowgraph.Budget) {
		s.Every = activityspec.Milliseconds(d)
		if d < flowgraph.MinBudgetReset || d > flowgraph.MaxBudgetReset {
			s.Faults = append(s.Faults, fmt.Errorf("reset every %s, must be %s to %s", d, flowgraph.MinBudgetReset, flowgraph.MaxBudgetReset))
		}
	}
}

// OnExceeded says what becomes of a run that exceeds a hard limit.
func OnExceeded(effect BudgetEffect) BudgetOption {
	return func(s *flowgraph.Budget) { s.Effect = effect }
}
