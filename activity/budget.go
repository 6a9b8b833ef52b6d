package activity

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// ErrBudgetExceeded matches a *BudgetError, for errors.Is.
var ErrBudgetExceeded = activityspec.ErrBudgetExceeded

// BudgetError reports the budget that an amount did not fit into. It matches ErrBudgetExceeded. A function that cannot
// continue returns it: then the budget's effect decides whether the node fails without another attempt, waits, or the
// run is cancelled.
type BudgetError struct {
	// Budget and Key identify the budget.
	Budget, Key string
	// Dimension cannot fit Asked: Spent and Reserved of its limit Hard are used.
	Dimension                    string
	Asked, Spent, Reserved, Hard int64
	// Waits reports that the node waits until the budget is reset or raised if the function returns the error. It is
	// false for an amount above the whole limit, which could never fit.
	Waits bool
}

// Error describes the requested and the remaining amount.
func (e *BudgetError) Error() string {
	of := ""
	if e.Key != "" {
		of = fmt.Sprintf(" of %q", e.Key)
	}
	return fmt.Sprintf("%v: budget %q%s: %d %s asked, %d of %d spent and %d reserved", ErrBudgetExceeded, e.Budget, of,
		e.Asked, e.Dimension,
		e.Spent, e.Hard, e.Reserved)
}

// Unwrap returns ErrBudgetExceeded.
func (e *BudgetError) Unwrap() error { return ErrBudgetExceeded }

// ReportUsage counts n as used in the budgets of the run that have the dimension. It returns a *BudgetError if a hard
// limit would be exceeded; that budget then does not count it, others do.
//
// A call counts once, however often the worker has to repeat it. A function that runs again, after a failure, a signal
// or on another worker, uses and reports the amount again. Put the work and its report into one Step if neither is
// repeated, or use ReportUsageOnce.
//
// Without budgets, and outside a worker and activitytest, reports are ignored. In a run with budgets, a dimension that
// none of them has, and a negative amount, are ErrInvalid; 0 reports nothing. While the engine is
// unavailable, the call waits until ctx ends.
func ReportUsage(ctx context.Context, dimension string, n int64) error {
	return reportUsage(ctx, []activitycontext.Usage{{Dimension: dimension, Amount: n}}, "")
}

// ReportUsageOnce is ReportUsage for several dimensions at once, and for work that is done once however many attempts
// the execution has: for 30 days, reports of the execution with the same key and dimension after the first do nothing.
// The key is a name by the rule of the package.
//
// Each dimension counts by itself: the error joins the errors of all dimensions, and a *BudgetError of one does not
// keep the others from being counted. An invalid amount or an unknown dimension is an error before any is counted.
func ReportUsageOnce(ctx context.Context, key string, usage map[string]int64) error {
	if err := activityspec.CheckName(key); err != nil {
		return badUsage("report", "", fmt.Errorf("key: %w", err))
	}
	return reportUsage(ctx, activitycontext.UsageOf(usage), key)
}

func reportUsage(ctx context.Context, usage []activitycontext.Usage, key string) error {
	what := "report"
	for _, u := range usage {
		if err := checkUsage("report", u); err != nil {
			return err
		}
		what += fmt.Sprintf(" %d %s", u.Amount, u.Dimension)
	}
	if len(usage) == 0 {
		return nil
	}
	budgets, ok := activitycontext.BudgetsFrom(ctx)
	if !ok {
		return batchFault(ctx)
	}
	if err := budgets.ReportUsage(ctx, usage, key); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Reservation is an amount of a budget reserved before its use. The zero value, and one of a run without budgets,
// reserves nothing. It may be used by several goroutines.
type Reservation struct{ held activitycontext.Reservation }

// Reserve sets n aside in the budgets of the run that have the dimension, before the work that uses it: usage and
// reservations together never exceed a hard limit, however many nodes run at a time. If n does not fit, it returns a
// *BudgetError and reserves nothing.
//
// Settle reports the amount used. A reservation left when the attempt ends is released unused; for a lost worker, after
// its lease has expired and a keeper has noticed, within about a minute. It returns the same errors as ReportUsage.
func Reserve(ctx context.Context, dimension string, n int64) (*Reservation, error) {
	if err := checkUsage("reserve", activitycontext.Usage{Dimension: dimension, Amount: n}); err != nil {
		return nil, err
	}
	budgets, ok := activitycontext.BudgetsFrom(ctx)
	if !ok {
		return &Reservation{}, batchFault(ctx)
	}
	held, err := budgets.Reserve(ctx, dimension, n)
	if err != nil {
		return nil, fmt.Errorf("reserve %d %s: %w", n, dimension, err)
	}
	return &Reservation{held}, nil
}

// Settle counts the amount used and returns the rest. More than was reserved counts if it fits; otherwise the reserved
// amount counts, and the error is a *BudgetError. Calls after the first Settle or Release have no effect.
func (r *Reservation) Settle(ctx context.Context, actual int64) error {
	if actual < 0 || actual > activitycontext.MaxUsage {
		return badUsage("settle", "", fmt.Errorf("amount %d: must be 0 to %d", actual, int64(activitycontext.MaxUsage)))
	}
	if r == nil || r.held == nil {
		return nil
	}
	if err := r.held.Settle(ctx, actual); err != nil {
		return fmt.Errorf("settle %d: %w", actual, err)
	}
	return nil
}

// Release returns the whole reservation.
func (r *Reservation) Release(ctx context.Context) error {
	if r == nil || r.held == nil {
		return nil
	}
	if err := r.held.Release(ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// Budgets returns the state of the run's budgets, ordered by budget and dimension. Other nodes may use them
// concurrently, so it helps to choose how to work; only reservations prevent exceeding a limit. It is empty for a run
// without budgets and outside a worker.
func Budgets(ctx context.Context) ([]fabrictype.BudgetAmount, error) {
	budgets, ok := activitycontext.BudgetsFrom(ctx)
	if !ok {
		return nil, nil
	}
	amounts, err := budgets.BudgetAmounts(ctx)
	if err != nil {
		return nil, fmt.Errorf("budgets: %w", err)
	}
	return amounts, nil
}

func checkUsage(what string, u activitycontext.Usage) error {
	if err := u.Check(); err != nil {
		return badUsage(what, u.Dimension, err)
	}
	return nil
}

func badUsage(what, dimension string, err error) error {
	if dimension != "" {
		what += fmt.Sprintf(" %q", dimension)
	}
	return NonRetryable(fmt.Errorf("%s: %w: %w", what, activityspec.ErrUsage, err))
}
