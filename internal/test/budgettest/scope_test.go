package budgettest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The items of a map use the budget of the run that contains the map, wait for it, and are released with it.
func TestMapUsesBudgetOfItsRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		list := activity.New("list", func(_ context.Context, n int) ([]int, error) { return make([]int, n), nil })
		spend := activity.New("spend", func(ctx context.Context, n int) (int, error) { return n, activity.ReportUsage(ctx, "calls", 1) })
		f := flow.New[int, []int]("mapped", flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}, OnExceeded: flow.BlockNodes}))
		flow.Return(f, flow.Map(f, "spend", spend, flow.Node(f, "list", list, f.Input())))
		def, err := f.Build()
		require.NoError(t, err)
		work(t, b, def)
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, def, 8)
		require.NoError(t, err)
		ref := fabrictype.BudgetName{Name: "calls", Flow: "mapped", Run: run.ID()}
		enginetest.Eventually(t, func() string {
			if s, err := b.Client.Budget(ref).Describe(ctx); err != nil || s.Amount("calls").Spent != 5 || s.UsedUp == "" {
				return fmt.Sprintf("%+v %v", s, err)
			}
			return ""
		})
		require.NoError(t, b.Client.Budget(ref).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 9}, OnExceeded: flow.BlockNodes}))
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Len(t, out, 8)
		require.EqualValues(t, 8, amountIn(t, run, "calls").Spent)
		b.Settle(t)
		require.NoError(t, run.Purge(ctx))
		_, err = b.Client.Budget(ref).Describe(ctx)
		require.ErrorIs(t, err, engine.ErrBudgetNotFound)
	})
}

func amountIn[Out any](t *testing.T, run *runtime.Run[Out], dimension string) fabrictype.BudgetAmount {
	t.Helper()
	d, err := run.Describe(context.Background())
	require.NoError(t, err)
	require.Len(t, d.Budgets, 1)
	return d.Budgets[0].Amount(dimension)
}

// An item that exceeds the budget cancels the run that the map belongs to.
func TestMapCancelsItsRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		list := activity.New("list", func(_ context.Context, n int) ([]int, error) { return make([]int, n), nil })
		spend := activity.New("spend", func(ctx context.Context, n int) (int, error) { return n, activity.ReportUsage(ctx, "calls", 1) })
		f := flow.New[int, []int]("mapped", flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 2}, OnExceeded: flow.CancelRun}))
		flow.Return(f, flow.Map(f, "spend", spend, flow.Node(f, "list", list, f.Input())))
		def, err := f.Build()
		require.NoError(t, err)
		work(t, b, def)
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, def, 5)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		b.Settle(t)
	})
}

type job struct {
	Tenant string `json:"tenant"`
	N      int64  `json:"n"`
}

// Runs with one key share a budget and those with another do not; one without is refused before anything is written.
func TestBudgetOfKey(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		spend := activity.New("spend", func(ctx context.Context, j job) (int64, error) { return j.N, activity.ReportUsage(ctx, "tokens", j.N) })
		f := flow.New[job, int64]("tenants", flow.Budget("tenant", flow.BudgetConfig{Hard: map[string]int64{"tokens": 10}, PerKey: []string{"tenant"}}))
		flow.Return(f, flow.Node(f, "spend", spend, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		work(t, b, def)
		b.Keeper(t)
		result := func(tenant string, n int64) error {
			run, err := runtime.Start(ctx, b.Client, def, job{tenant, n})
			require.NoError(t, err)
			_, err = run.Result(ctx)
			return err
		}
		require.NoError(t, result("acme", 7))
		require.NoError(t, result("umbrella", 7))
		require.ErrorContains(t, result("acme", 7), `budget "tenant" of "acme"`)
		list, err := b.Client.Budgets(ctx)
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, fabrictype.BudgetName{Name: "tenant", Key: "acme"}, list[0].BudgetName)
		require.EqualValues(t, 7, list[0].Amount("tokens").Spent)
		require.Equal(t, 1, list[0].Breaches)
		_, err = runtime.Start(ctx, b.Client, def, job{})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		// An operator's settings override the flow's declaration, until the budget is removed.
		acme := fabrictype.BudgetName{Name: "tenant", Key: "acme"}
		require.NoError(t, b.Client.Budget(acme).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"tokens": 20}}))
		require.NoError(t, result("acme", 13))
		require.NoError(t, b.Client.Budget(acme).Delete(ctx))
		require.NoError(t, result("acme", 10))
		require.Error(t, result("acme", 1))
		b.Settle(t)
	})
}

// A shared budget is created once, used by flows that name it, and unknown to Start before.
func TestSharedBudget(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		spend := activity.New("spend", func(ctx context.Context, in string) (string, error) {
			if err := activity.ReportUsage(ctx, "cents", 5); err != nil {
				return "", err
			}
			err := activity.ReportUsage(ctx, "miles", 1)
			if !errors.Is(err, activityspec.ErrUnknownDimension) || !activityspec.IsNonRetryable(err) {
				return "", fmt.Errorf("unknown dimension: %w", err)
			}
			return in, nil
		})
		def := fan(t, "sharing", spend, 2, flow.Budget("company", flow.BudgetConfig{Shared: true}))
		work(t, b, def)
		b.Keeper(t)
		_, err := runtime.Start(ctx, b.Client, def, "x")
		require.ErrorIs(t, err, engine.ErrBudgetNotFound)
		company := fabrictype.BudgetName{Name: "company"}
		require.NoError(t, b.Client.Budget(company).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"cents": 1000}, ResetEvery: time.Hour}))
		require.ErrorIs(t, b.Client.Budget(company).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"cents": 1}}), engine.ErrBudgetExists)
		run := start(ctx, t, b, def, "x")
		_, err = run.Result(ctx)
		require.NoError(t, err)
		s, err := b.Client.Budget(company).Describe(ctx)
		require.NoError(t, err)
		require.True(t, s.Set)
		require.Equal(t, fabrictype.BudgetAmount{Budget: "company", Dimension: "cents", Spent: 10, Hard: 1000}, s.Amount("cents"))
		require.WithinDuration(t, time.Now().Add(time.Hour), s.ResetsAt, 30*time.Minute)
		require.NoError(t, b.Client.Budget(company).Reset(ctx))
		require.Zero(t, amountOf(ctx, t, b, company, "cents").Spent)
		require.ErrorIs(t, b.Client.Budget(fabrictype.BudgetName{Name: "nobody"}).Reset(ctx), engine.ErrBudgetNotFound)
		require.ErrorIs(t, b.Client.Budget(fabrictype.BudgetName{Name: "n", Run: "r"}).Reset(ctx), runtime.ErrInvalid)
		require.ErrorContains(t, b.Client.Budget(company).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"cents": 0}}), "must be 1 to")
		require.ErrorContains(t, b.Client.Budget(company).Set(ctx, flow.BudgetConfig{}), "no dimension")
		b.Settle(t)
	})
}

// Usage of a failed attempt counts, and so does usage of the next one; a step reports its usage once, and so does a
// key.
func TestRetriesSpendAnew(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("retry", func(ctx context.Context, in string) (string, error) {
			err := errors.Join(
				activity.ReportUsage(ctx, "anew", 1), activity.ReportUsage(ctx, "anew", 1),
				activity.ReportUsageOnce(ctx, "call", map[string]int64{"keyed": 1}))
			if _, stepErr := activity.Step(ctx, "ask", func(ctx context.Context) (int, error) {
				return 1, activity.ReportUsage(ctx, "once", 1)
			}); stepErr != nil {
				err = errors.Join(err, stepErr)
			}
			if err != nil {
				return "", activity.NonRetryable(err)
			}
			if info, _ := activity.Info(ctx); info.Attempt < 3 {
				return "", errors.New("again")
			}
			return in, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 5}))
		def := fan(t, "retrying", a, 1, flow.Budget("use", flow.BudgetConfig{Counted: []string{"anew", "keyed", "once"}}))
		work(t, b, def)
		b.Keeper(t)
		run := start(ctx, t, b, def, "x")
		_, err := run.Result(ctx)
		require.NoError(t, err)
		for dimension, want := range map[string]int64{"anew": 6, "keyed": 1, "once": 1} {
			require.Equal(t, want, amountIn(t, run, dimension).Spent, dimension)
		}
		b.Settle(t)
	})
}

// Reservations that are not settled when an attempt ends are released. A reservation above the limit is refused at
// once, whatever the budget's effect.
func TestUnsettledReservations(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("forgetful", func(ctx context.Context, in string) (string, error) {
			kept, err := activity.Reserve(ctx, "tokens", 5)
			if err != nil {
				return "", err
			}
			if err := errors.Join(kept.Settle(ctx, 3), kept.Settle(ctx, 3), kept.Release(ctx)); err != nil {
				return "", err
			}
			_, err = activity.Reserve(ctx, "tokens", 4)
			if err != nil {
				return "", err
			}
			var exceeded *activity.BudgetError
			if _, err := activity.Reserve(ctx, "tokens", 11); !errors.As(err, &exceeded) || exceeded.Waits {
				return "", fmt.Errorf("more than the limit: %w", err)
			}
			return in, nil
		})
		def := fan(t, "forgetful", a, 1, flow.Budget("llm", flow.BudgetConfig{Hard: map[string]int64{"tokens": 10}, OnExceeded: flow.BlockNodes}))
		work(t, b, def)
		b.Keeper(t)
		run := start(ctx, t, b, def, "x")
		_, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.BudgetAmount{Budget: "llm", Dimension: "tokens", Spent: 3, Hard: 10}, amountIn(t, run, "tokens"))
		b.Settle(t)
	})
}

// In contract mode, a flow with budgets is refused by name, and so are the client's calls.
func TestBudgetsAreNotInContract(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := fan(t, "refused", idle("idle"), 1, flow.Budget("llm", flow.BudgetConfig{Hard: map[string]int64{"tokens": 10}}))
		_, err := runtime.Start(ctx, b.Client, def, "x")
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		require.ErrorContains(t, err, "budgets")
		_, err = b.Client.Budgets(ctx)
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		require.ErrorIs(t, b.Client.Budget(fabrictype.BudgetName{Name: "x"}).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"tokens": 1}}), runtime.ErrNotInContract)
	})
}

// A run without budgets counts nothing, and queries the engine once for each run and worker.
func TestRunWithoutBudgets(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("free", func(ctx context.Context, in string) (string, error) {
			r, err := activity.Reserve(ctx, "tokens", 5)
			amounts, err2 := activity.Budgets(ctx)
			if len(amounts) != 0 {
				return "", fmt.Errorf("%+v", amounts)
			}
			return in, errors.Join(err, err2, r.Settle(ctx, 5), activity.ReportUsage(ctx, "calls", 1))
		})
		def := fan(t, "free", a, 1)
		work(t, b, def)
		b.Keeper(t)
		_, err := start(ctx, t, b, def, "x").Result(ctx)
		require.NoError(t, err)
	})
}
