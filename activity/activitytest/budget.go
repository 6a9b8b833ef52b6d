package activitytest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// testBudget is the budget of a Env: guarded by Env.mu.
type testBudget struct {
	dimensions map[string]*fabrictype.BudgetAmount
	keys       map[string]bool
}

// SetBudget gives the run of the function under test a budget with the dimension, or changes its hard limit; 0 sets no
// limit. Without any, ReportUsage and Reserve count nothing.
func (s *Env) SetBudget(dimension string, hard int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.budget.dimensions == nil {
		s.budget = testBudget{make(map[string]*fabrictype.BudgetAmount), make(map[string]bool)}
	}
	if a := s.budget.dimensions[dimension]; a != nil {
		a.Hard = hard
		return
	}
	s.budget.dimensions[dimension] = &fabrictype.BudgetAmount{Budget: "test", Dimension: dimension, Hard: hard}
}

// Used returns the state of a dimension.
func (s *Env) Used(dimension string) fabrictype.BudgetAmount {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.budget.dimensions[dimension]; a != nil {
		return *a
	}
	return fabrictype.BudgetAmount{}
}

// amount is the dimension that a call is for; nil without any budget. Env.mu is held.
func (s *Env) amount(dimension string) (*fabrictype.BudgetAmount, error) {
	if len(s.budget.dimensions) == 0 {
		return nil, nil
	}
	a := s.budget.dimensions[dimension]
	if a == nil {
		return nil, activity.NonRetryable(activityspec.ErrUnknownDimension)
	}
	return a, nil
}

// check returns a *activity.BudgetError when n does not fit.
func check(a *fabrictype.BudgetAmount, n int64) error {
	if n <= a.Remaining() {
		return nil
	}
	return &activity.BudgetError{
		Budget: a.Budget, Dimension: a.Dimension, Asked: n, Spent: a.Spent, Reserved: a.Reserved, Hard: a.Hard,
	}
}

// ReportUsage implements activitycontext.Budgets.
func (s *stepsCall) ReportUsage(_ context.Context, usage []activitycontext.Usage, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range usage {
		if _, err := s.amount(u.Dimension); err != nil {
			return err
		}
	}
	var errs []error
	for _, u := range usage {
		errs = append(errs, s.report(u, key))
	}
	return errors.Join(errs...)
}

// report counts the usage of one dimension. It needs the lock.
func (s *stepsCall) report(u activitycontext.Usage, key string) error {
	a, err := s.amount(u.Dimension)
	if a == nil {
		return err
	}
	if key != "" && s.budget.keys[u.Dimension+" "+key] {
		return nil
	}
	if err := check(a, u.Amount); err != nil {
		return err
	}
	a.Spent += u.Amount
	s.budget.keys[u.Dimension+" "+key] = true
	return nil
}

// Reserve implements activitycontext.Budgets.
func (s *stepsCall) Reserve(_ context.Context, dimension string, n int64) (activitycontext.Reservation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.amount(dimension)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return &testReservation{}, nil
	}
	if err := check(a, n); err != nil {
		return nil, err
	}
	a.Reserved += n
	return &testReservation{env: s.Env, amount: a, n: n}, nil
}

// BudgetAmounts implements activitycontext.Budgets.
func (s *stepsCall) BudgetAmounts(context.Context) ([]fabrictype.BudgetAmount, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []fabrictype.BudgetAmount
	for _, name := range slices.Sorted(maps.Keys(s.budget.dimensions)) {
		list = append(list, *s.budget.dimensions[name])
	}
	return list, nil
}

// testReservation is one of a test; its zero value is of a run without budgets.
type testReservation struct {
	env    *Env
	amount *fabrictype.BudgetAmount
	n      int64
	once   sync.Once
}

// Settle implements activitycontext.Reservation.
func (r *testReservation) Settle(_ context.Context, actual int64) (err error) {
	if r.amount == nil {
		return nil
	}
	r.once.Do(func() {
		r.env.mu.Lock()
		defer r.env.mu.Unlock()
		r.amount.Reserved -= r.n
		if err = check(r.amount, actual); err != nil {
			actual = r.n
		}
		r.amount.Spent += actual
	})
	return err
}

// Release implements activitycontext.Reservation.
func (r *testReservation) Release(ctx context.Context) error { return r.Settle(ctx, 0) }

var _ activitycontext.Budgets = (*stepsCall)(nil)
