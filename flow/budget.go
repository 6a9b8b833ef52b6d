package flow

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// BudgetEffect is the consequence when a node exceeds a hard limit. In any case the node's call of ReportUsage or
// Reserve returns an error and counts nothing.
type BudgetEffect string

// The effects.
const (
	// FailNode fails the node, without another attempt, if its function returns the error. Other nodes continue.
	FailNode BudgetEffect = "fail"
	// BlockNodes stops the start of nodes in all runs that share the budget until it is reset or raised, or until
	// reservations are returned. The node whose function returns the error waits too, and then starts its attempt anew.
	BlockNodes BudgetEffect = "block"
	// CancelRun cancels the run.
	CancelRun BudgetEffect = "cancel"
)

// BudgetConfig declares a budget: amounts in one or more dimensions, up to 16, such as tokens, calls or hundredths of a
// cent. Hard, Soft and Counted name the dimensions.
type BudgetConfig struct {
	// Hard bounds dimensions: the usage of a dimension plus its reservations never exceed the amount, at least 1.
	Hard map[string]int64
	// Soft reports usage of dimensions above the amount, at least 1 and at most the hard one.
	Soft map[string]int64
	// Counted are dimensions without a limit.
	Counted []string
	// PerFlow shares the budget between all runs of the flow. By default each run has its own.
	PerFlow bool
	// Shared shares the budget between all flows of the namespace that name it. If flows declare different limits, the
	// limits of the latest started run apply; BudgetRef.Create and BudgetRef.Set of package runtime override them. It
	// may have no dimension, if BudgetRef.Create has created it.
	Shared bool
	// PerKey is Shared with one budget for each value that the flow's input has at a path of field names, such as
	// "tenant", "id". The value must be a string, a number or a boolean: Build checks the type of the input, and the
	// start of a run checks the value.
	PerKey []string
	// ResetEvery resets the usage to 0 at an interval of 100 ms to 366 days. Reservations remain. By default the usage
	// is never reset.
	ResetEvery time.Duration
	// OnExceeded is the consequence of exceeding a hard limit. Defaults to FailNode.
	OnExceeded BudgetEffect
}

// Budget bounds the amounts that the nodes of the flow use together. A flow has at most 8, with different names.
// Reports and reservations count for every budget of the flow that has the dimension.
func Budget(name string, config BudgetConfig) Option {
	return flowOption(func(b *builder) {
		spec := flowgraph.NewBudget(name, flowgraph.BudgetConfig[BudgetEffect](config))
		b.graph.Budgets = append(b.graph.Budgets, spec)
		slices.SortStableFunc(b.graph.Budgets, func(x, y flowgraph.Budget) int { return cmp.Compare(x.Name, y.Name) })
	})
}
