package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// entryID returns the id of an entry. Without a key, it names the lease and a serial number, by which keepers
// recognise the reservations of a lease that has ended; with a key, it is the same for all attempts of the
// execution.
func (t *Task) entryID(key string) string {
	if key != "" {
		return fmt.Sprintf("%s/key/%s", t.claimed.ExecutionID, key)
	}
	return fmt.Sprintf("%s/%d/%d", t.claimed.ExecutionID, t.claimed.LeaseEpoch, t.usage.next())
}

// ReportUsage implements activitycontext.Budgets.
func (e *execution) ReportUsage(ctx context.Context, dimension string, n int64, key string) error {
	t := e.task
	budgets, err := t.budgetsWith(ctx, dimension)
	if err != nil || n == 0 {
		return err
	}
	if key != "" {
		key = dimension + "/" + key
	}
	entry := enginerpc.UseBudgetEntry{Kind: "report", Dimension: dimension, Amount: n, ID: t.entryID(key), Lasting: key != ""}
	var errs []error
	for i := range budgets {
		errs = append(errs, t.use(ctx, &budgets[i], entry))
	}
	return errors.Join(errs...)
}

// Reserve implements activitycontext.Budgets.
func (e *execution) Reserve(ctx context.Context, dimension string, n int64) (activitycontext.Reservation, error) {
	t := e.task
	budgets, err := t.budgetsWith(ctx, dimension)
	if err != nil {
		return nil, err
	}
	r := &reservation{task: t, dimension: dimension, id: t.entryID("")}
	for i := range budgets {
		// A reservation whose outcome is unknown has to be released as well.
		r.budgets = append(r.budgets, budgets[i])
		if i == 0 {
			t.usage.keep(r)
		}
		entry := enginerpc.UseBudgetEntry{Kind: "reserve", Dimension: dimension, Amount: n, ID: r.id}
		if err := t.use(ctx, &budgets[i], entry); err != nil {
			if errors.Is(err, activity.ErrBudgetExceeded) {
				r.budgets = r.budgets[:i]
			}
			return nil, errors.Join(err, r.Release(ctx))
		}
	}
	return r, nil
}

// BudgetAmounts implements activitycontext.Budgets.
func (e *execution) BudgetAmounts(ctx context.Context) ([]activitycontext.BudgetAmount, error) {
	budgets, err := e.task.budgets()
	if err != nil || len(budgets) == 0 {
		return nil, err
	}
	var amounts []activity.BudgetAmount
	if err := e.task.retryUntilKnown(ctx, func() (err error) {
		amounts, err = submit.ReadBudgetAmounts(ctx, e.task.run.core, budgets)
		return err
	}); err != nil {
		return nil, err
	}
	var list []activitycontext.BudgetAmount
	for _, a := range amounts {
		list = append(list, activitycontext.BudgetAmount(a))
	}
	return list, nil
}

// reservation is an amount that an attempt has reserved in one or more budgets.
type reservation struct {
	task      *Task
	budgets   []submit.StoredBudget
	dimension string
	id        string
	mu        sync.Mutex
	over      bool
}

// Settle implements activitycontext.Reservation.
func (r *reservation) Settle(ctx context.Context, actual int64) error {
	return r.end(ctx, "settle", actual)
}

// Release implements activitycontext.Reservation.
func (r *reservation) Release(ctx context.Context) error { return r.end(ctx, "release", 0) }

// end settles or releases the reservation in all its budgets. It can be repeated after an error: the engine
// ignores entries that it has counted.
func (r *reservation) end(ctx context.Context, kind string, actual int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil
	}
	var errs []error
	r.over = true
	for i := range r.budgets {
		entry := enginerpc.UseBudgetEntry{Kind: kind, Dimension: r.dimension, Amount: actual, ID: r.id}
		err := r.task.use(ctx, &r.budgets[i], entry)
		if err != nil && !errors.Is(err, activity.ErrBudgetExceeded) {
			r.over = false
		}
		errs = append(errs, err)
	}
	if r.over {
		r.task.usage.drop(r)
	}
	return errors.Join(errs...)
}

// keep records an open reservation.
func (u *budgetUse) keep(r *reservation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == nil {
		u.open = make(map[*reservation]bool)
	}
	u.open[r] = true
}

// drop removes a reservation that is settled or released.
func (u *budgetUse) drop(r *reservation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open, r)
}

// releaseReservations releases the reservations that the attempt has not settled. Keepers release those for
// which the call fails.
func (t *Task) releaseReservations() {
	t.usage.mu.Lock()
	var open []*reservation
	for r := range t.usage.open {
		open = append(open, r)
	}
	t.usage.mu.Unlock()
	if len(open) == 0 {
		return
	}
	ctx, cancel := t.reporting()
	defer cancel()
	for _, r := range open {
		if err := r.Release(ctx); err != nil {
			t.log(slog.LevelWarn, engine.EventBudgetFailed, "a reservation was not given back, keepers do it", slog.Any("error", err))
			return
		}
	}
}

var _ activitycontext.Budgets = (*execution)(nil)
