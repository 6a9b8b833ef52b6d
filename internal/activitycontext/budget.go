package activitycontext

import "context"

// Budgets is the interface of a worker, or of a test in its place, for the budgets of a run. Its methods are safe for
// concurrent use. Dimensions follow activityspec.CheckName, amounts are not negative.
type Budgets interface {
	// ReportUsage counts usage of one or more dimensions, each by itself; a non-empty key makes it count once for the
	// execution. Errors are joined.
	ReportUsage(ctx context.Context, usage []Usage, key string) error
	// Reserve sets an amount aside.
	Reserve(ctx context.Context, dimension string, n int64) (Reservation, error)
	// BudgetAmounts returns the state of the budgets.
	BudgetAmounts(ctx context.Context) ([]BudgetAmount, error)
}

// Usage is an amount of one dimension.
type Usage struct {
	Dimension string
	Amount    int64
}

// UsageOf checks amounts by their dimensions as activity.ReportUsages does. Package activity sets it when it is
// initialized.
var UsageOf func(usage map[string]int64) ([]Usage, error)

// Reservation is an amount that was set aside. What is called second does nothing.
type Reservation interface {
	Settle(ctx context.Context, actual int64) error
	Release(ctx context.Context) error
}

// BudgetAmount has the fields of activity.BudgetAmount, which documents them.
type BudgetAmount struct {
	Budget, Key, Dimension      string
	Spent, Reserved, Hard, Soft int64
}

// BudgetsFrom returns what provides the budgets of the function that ctx belongs to, and false where nothing does.
func BudgetsFrom(ctx context.Context) (Budgets, bool) {
	b, ok := ctx.Value(key{}).(Budgets)
	return b, ok
}
