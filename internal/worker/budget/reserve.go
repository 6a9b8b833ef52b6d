package budget

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// entryID returns the id of an entry. Without a key, it names the lease and a serial number, by which keepers
// recognise the reservations of a lease that has ended; with a key, it is the same for all attempts of the
// execution.
func (u *Use) entryID(key string) string {
	if key != "" {
		return fmt.Sprintf("%s/key/%s", u.attempt.Claimed.ExecutionID, key)
	}
	return fmt.Sprintf("%s/%d/%d", u.attempt.Claimed.ExecutionID, u.attempt.Claimed.LeaseEpoch, u.next())
}

// ReportAll counts amounts that the function used of one or more dimensions, each in all budgets of the run that have
// the dimension. With a key, they count once for all attempts of the execution. An unknown dimension fails before any
// amount is counted.
func (u *Use) ReportAll(ctx context.Context, amounts []activitycontext.Usage, key string) error {
	var list []amount
	for _, x := range amounts {
		budgets, err := u.budgetsWith(ctx, x.Dimension)
		if err != nil {
			return err
		}
		if x.Amount > 0 && len(budgets) > 0 {
			list = append(list, amount{x, budgets})
		}
	}
	return inParallel(len(list), func(i int) error { return u.report(ctx, list[i], key) })
}

// amount is an amount of a dimension, with the budgets in which it counts.
type amount struct {
	activitycontext.Usage
	budgets []submit.StoredBudget
}

// report counts an amount in each of its budgets: in a sum of the worker if it has no key and the budget has ample
// room, else as an entry.
func (u *Use) report(ctx context.Context, x amount, key string) error {
	done := make([]bool, len(x.budgets))
	var failed error
	if key == "" {
		failed = inParallel(len(x.budgets), func(i int) (err error) {
			done[i], err = u.addUp(ctx, &x.budgets[i], x.Usage)
			done[i] = done[i] || err != nil
			return err
		})
	} else {
		key = x.Dimension + "/" + key
	}
	if !slices.Contains(done, false) {
		return failed
	}
	entry := enginerpc.UseBudgetEntry{
		Kind: "report", Dimension: x.Dimension, Amount: x.Amount, ID: u.entryID(key), Lasting: key != "",
	}
	errs := []error{failed}
	for i := range x.budgets {
		if !done[i] {
			errs = append(errs, u.send(ctx, &x.budgets[i], entry))
		}
	}
	return errors.Join(errs...)
}

// inParallel calls a function for the numbers from 0 to n-1, and returns when all calls have returned, with their
// errors joined.
func inParallel(n int, do func(int) error) error {
	if n == 1 {
		return do(0)
	}
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { errs[i] = do(i) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// Reserve reserves an amount of a dimension in all budgets of the run that have it.
func (u *Use) Reserve(ctx context.Context, dimension string, n int64) (activitycontext.Reservation, error) {
	budgets, err := u.budgetsWith(ctx, dimension)
	if err != nil {
		return nil, err
	}
	r := &reservation{use: u, dimension: dimension, id: u.entryID("")}
	for i := range budgets {
		// A reservation whose outcome is unknown has to be released as well.
		r.budgets = append(r.budgets, budgets[i])
		if i == 0 {
			u.keep(r)
		}
		entry := enginerpc.UseBudgetEntry{Kind: "reserve", Dimension: dimension, Amount: n, ID: r.id}
		if err := u.send(ctx, &budgets[i], entry); err != nil {
			if errors.Is(err, activity.ErrBudgetExceeded) {
				r.budgets = r.budgets[:i]
			}
			return nil, errors.Join(err, r.Release(ctx))
		}
	}
	return r, nil
}

// Amounts returns the states of the budgets of the run.
func (u *Use) Amounts(ctx context.Context) ([]fabrictype.BudgetAmount, error) {
	budgets, err := u.OfRun()
	if err != nil || len(budgets) == 0 {
		return nil, err
	}
	var amounts []fabrictype.BudgetAmount
	err = u.attempt.RetryUntilKnown(ctx, func() (err error) {
		amounts, err = submit.ReadBudgetAmounts(ctx, u.attempt.Run.Core, budgets)
		return err
	})
	if err != nil {
		return nil, err
	}
	return amounts, nil
}

// reservation is an amount that an attempt has reserved in one or more budgets.
type reservation struct {
	use       *Use
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
		err := r.use.send(ctx, &r.budgets[i], entry)
		if err != nil && !errors.Is(err, activity.ErrBudgetExceeded) {
			r.over = false
		}
		errs = append(errs, err)
	}
	if r.over {
		r.use.drop(r)
	}
	return errors.Join(errs...)
}

// keep records an open reservation.
func (u *Use) keep(r *reservation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == nil {
		u.open = make(map[*reservation]bool)
	}
	u.open[r] = true
}

// drop removes a reservation that is settled or released.
func (u *Use) drop(r *reservation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open, r)
}

// ReleaseReservations releases the reservations that the attempt has not settled. Keepers release those for
// which the call fails.
func (u *Use) ReleaseReservations() {
	u.mu.Lock()
	var open []*reservation
	for r := range u.open {
		open = append(open, r)
	}
	u.mu.Unlock()
	if len(open) == 0 {
		return
	}
	ctx, cancel := u.attempt.Reporting()
	defer cancel()
	for _, r := range open {
		if err := r.Release(ctx); err != nil {
			u.attempt.Log(slog.LevelWarn, observe.EventBudgetFailed,
				"the worker could not release a reservation; keepers release it",
				slog.Any("error", err))
			return
		}
	}
}
