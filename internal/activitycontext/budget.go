package activitycontext

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Budgets is the interface of a worker, or of a test in its place, for the budgets of a run. Its methods are safe for
// concurrent use. Dimensions follow activityspec.CheckName, amounts are not negative.
type Budgets interface {
	// ReportUsage counts usage of one or more dimensions, each by itself; a non-empty key makes it count once for the
	// execution. Errors are joined.
	ReportUsage(ctx context.Context, usage []Usage, key string) error
	// Reserve sets an amount aside.
	Reserve(ctx context.Context, dimension string, n int64) (Reservation, error)
	// BudgetAmounts returns the state of the budgets.
	BudgetAmounts(ctx context.Context) ([]fabrictype.BudgetAmount, error)
}

// Usage is an amount of one dimension.
type Usage struct {
	Dimension string
	Amount    int64
}

// MaxUsage is the largest amount of one report or reservation.
const MaxUsage = 1 << 50

// UsageOf returns amounts in the order of their dimensions.
func UsageOf(usage map[string]int64) []Usage {
	list := make([]Usage, 0, len(usage))
	for _, dimension := range slices.Sorted(maps.Keys(usage)) {
		list = append(list, Usage{Dimension: dimension, Amount: usage[dimension]})
	}
	return list
}

// Check returns the fault of a dimension or an amount, nil without one.
func (u Usage) Check() error {
	if err := activityspec.CheckName(u.Dimension); err != nil {
		return fmt.Errorf("dimension: %w", err)
	}
	if u.Amount < 0 || u.Amount > MaxUsage {
		return fmt.Errorf("amount %d: must be 0 to %d", u.Amount, int64(MaxUsage))
	}
	return nil
}

// Reservation is an amount that was set aside. Only the first call of either method has an effect.
type Reservation interface {
	Settle(ctx context.Context, actual int64) error
	Release(ctx context.Context) error
}

// BudgetsFrom returns the budgets of the function that ctx belongs to, and false if ctx has none.
func BudgetsFrom(ctx context.Context) (Budgets, bool) {
	b, ok := ctx.Value(key{}).(Budgets)
	return b, ok
}
