package budgettest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// fan is a flow of some nodes that run at a time, and one that waits for all of them.
func fan(t *testing.T, name string, a *activity.Activity[string, string], width int, opts ...flow.Option) *flow.Definition[string, string] {
	t.Helper()
	f := flow.New[string, string](name, opts...)
	var refs []flow.Ref[string]
	for i := range width {
		refs = append(refs, flow.Node(f, fmt.Sprint("n", i), a, f.Input()))
	}
	last := activity.New("last", func(_ context.Context, in []string) (string, error) { return fmt.Sprint(len(in)), nil })
	flow.Return(f, flow.Node(f, "last", last, flow.List(refs...)))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func work(t *testing.T, b *enginetest.Bench, def interface{ Handlers() []activity.Handler }, config ...runtime.WorkerConfig) {
	t.Helper()
	b.Worker(t, def.Handlers(), config...)
}

func start(ctx context.Context, t *testing.T, b *enginetest.Bench, def *flow.Definition[string, string], in string, opts ...runtime.StartOption) *runtime.Run[string] {
	t.Helper()
	run, err := runtime.Start(ctx, b.Client, def, in, opts...)
	require.NoError(t, err)
	return run
}

func amountOf(ctx context.Context, t *testing.T, b *enginetest.Bench, ref fabrictype.BudgetName, dimension string) fabrictype.BudgetAmount {
	t.Helper()
	s, err := b.Client.Budget(ref).Describe(ctx)
	require.NoError(t, err)
	return s.Amount(dimension)
}

// Concurrent nodes reserve and never exceed the limit; the settled amounts count.
func TestParallelNodesDoNotOvershoot(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const hard = 100
		var mu sync.Mutex
		taken, spent := int64(0), int64(0)
		a := activity.New("reserve", func(ctx context.Context, in string) (string, error) {
			r, err := activity.Reserve(ctx, "tokens", 30)
			if errors.Is(err, activity.ErrBudgetExceeded) {
				return "refused", nil
			}
			if err != nil {
				return "", err
			}
			mu.Lock()
			taken += 30
			assert.LessOrEqual(t, taken+spent, int64(hard))
			mu.Unlock()
			amounts, err := activity.Budgets(ctx)
			if err != nil || len(amounts) != 1 || amounts[0].Reserved < 30 {
				return "", fmt.Errorf("%+v %w", amounts, err)
			}
			time.Sleep(2 * time.Millisecond) //nolint:forbidigo // the work that the reservation is for
			mu.Lock()
			taken -= 30
			spent += 20
			mu.Unlock()
			return "done", r.Settle(ctx, 20)
		})
		def := fan(t, "reserving", a, 12, flow.Budget("llm", flow.BudgetConfig{Hard: map[string]int64{"tokens": hard}}))
		work(t, b, def)
		b.Keeper(t)
		run := start(ctx, t, b, def, "x")
		_, err := run.Result(ctx)
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Len(t, d.Budgets, 1)
		require.Equal(t, fabrictype.BudgetAmount{Budget: "llm", Dimension: "tokens", Spent: spent, Hard: hard}, d.Budgets[0].Amount("tokens"))
		require.Equal(t, fabrictype.BudgetName{Name: "llm", Flow: "reserving", Run: run.ID(), FlowID: string(run.FlowID())}, d.Budgets[0].BudgetName)
		require.NoError(t, run.Purge(ctx))
		_, err = b.Client.Budget(d.Budgets[0].BudgetName).Describe(ctx)
		require.ErrorIs(t, err, engine.ErrBudgetNotFound)
		b.Settle(t)
	})
}

// Usage above a hard limit fails the node for good. The breaches of the soft and the hard limit are events of the run,
// and arguments of the callback.
func TestBreachesAreReported(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var attempts atomic.Int64
		a := activity.New("report", func(ctx context.Context, in string) (string, error) {
			attempts.Add(1)
			for _, n := range []int64{60, 25, 30, 30} {
				if err := activity.ReportUsage(ctx, "tokens", n); err != nil {
					return "", err
				}
			}
			return in, nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 5}))
		def := fan(t, "breaching", a, 1, flow.Budget("llm", flow.BudgetConfig{Hard: map[string]int64{"tokens": 100}, Soft: map[string]int64{"tokens": 80}}))
		var breaches []fabrictype.BudgetBreach
		work(t, b, def, runtime.WorkerConfig{
			OnBudget: func(_ context.Context, x fabrictype.BudgetBreach) { breaches = append(breaches, x) },
		})
		b.Keeper(t)
		run := start(ctx, t, b, def, "x")
		_, err := run.Result(ctx)
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, activityspec.CategoryBudget, failed.Category)
		require.Contains(t, failed.Reason, `budget "llm": 30 tokens asked, 85 of 100 spent and 0 reserved`)
		require.EqualValues(t, 1, attempts.Load())
		var kinds []fabrictype.EventKind
		for event, err := range run.Watch(ctx, "") {
			require.NoError(t, err)
			if event.Kind == fabrictype.EventBudgetSoft || event.Kind == fabrictype.EventBudgetHard {
				kinds = append(kinds, event.Kind)
				require.Equal(t, "n0", event.Node)
				require.Equal(t, 1, event.Attempt)
				require.Contains(t, event.Detail, `budget "llm": 85 of 100 tokens used`)
			}
		}
		require.Equal(t, []fabrictype.EventKind{fabrictype.EventBudgetSoft, fabrictype.EventBudgetHard}, kinds)
		require.Len(t, breaches, 2)
		require.False(t, breaches[0].Hard)
		require.True(t, breaches[1].Hard)
		require.EqualValues(t, 30, breaches[1].Asked)
		require.EqualValues(t, 85, amountOf(ctx, t, b, fabrictype.BudgetName{Name: "llm", Flow: "breaching", Run: run.ID()}, "tokens").Spent)
		b.Settle(t)
	})
}

// A breach cancels the run when that is the effect.
func TestBreachCancels(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("report", func(ctx context.Context, in string) (string, error) {
			return in, activity.ReportUsage(ctx, "calls", 2)
		})
		def := fan(t, "cancelled", a, 1, flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 1}, OnExceeded: flow.CancelRun}))
		work(t, b, def)
		b.Keeper(t)
		run := start(ctx, t, b, def, "x")
		_, err := run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.Contains(t, err.Error(), "calls used, 2 refused")
		b.Settle(t)
	})
}

// An exhausted budget blocks nodes of all runs that share it, with the reason, and releases them by priority when it is
// reset or raised.
func TestBlockedNodesWait(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var mu sync.Mutex
		var order []string
		a := activity.New("spend", func(ctx context.Context, in string) (string, error) {
			if err := activity.ReportUsage(ctx, "calls", 1); err != nil {
				return "", err
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, in)
			return in, nil
		})
		def := fan(t, "blocked", a, 1, flow.Budget("shared", flow.BudgetConfig{Hard: map[string]int64{"calls": 3}, PerFlow: true, OnExceeded: flow.BlockNodes}))
		work(t, b, def, runtime.WorkerConfig{Concurrency: 1})
		b.Keeper(t)
		ref := fabrictype.BudgetName{Name: "shared", Flow: "blocked"}
		var runs []*runtime.Run[string]
		for i := range 8 {
			runs = append(runs, start(ctx, t, b, def, fmt.Sprint(i)))
		}
		blocked := func() (n int) {
			for _, run := range runs {
				d, err := run.Describe(ctx)
				require.NoError(t, err)
				if d.Nodes[0].State == fabrictype.NodeRateLimited {
					n++
					require.Equal(t, `budget "shared": 3 of 3 calls used`, d.Nodes[0].Waiting.Sentence)
				}
			}
			return n
		}
		awaitBlocked := func(want int) {
			enginetest.Eventually(t, func() string {
				if n := blocked(); n != want {
					return fmt.Sprint(n, " blocked, not ", want)
				}
				return ""
			})
		}
		awaitBlocked(5)
		s, err := b.Client.Budget(ref).Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, `budget "shared": 3 of 3 calls used`, s.UsedUp)
		require.NoError(t, b.Client.Budget(ref).Reset(ctx))
		awaitBlocked(2)
		require.NoError(t, b.Client.Budget(ref).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 6}, OnExceeded: flow.BlockNodes}))
		for _, run := range runs {
			_, err := run.Result(ctx)
			require.NoError(t, err)
		}
		require.Len(t, order, 8)
		require.EqualValues(t, 5, amountOf(ctx, t, b, ref, "calls").Spent)
		b.Settle(t)
	})
}

// A node whose reservation does not fit waits without using an attempt, and continues when another node returns one.
func TestReservation_NodeWaitsForAmount(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		release := make(chan struct{})
		a := activity.New("hold", func(ctx context.Context, in string) (string, error) {
			r, err := activity.Reserve(ctx, "tokens", 60)
			if err != nil {
				return "", err
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return in, r.Settle(ctx, 10)
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		def := fan(t, "waiting", a, 3, flow.Budget("llm", flow.BudgetConfig{Hard: map[string]int64{"tokens": 100}, OnExceeded: flow.BlockNodes}))
		work(t, b, def)
		b.Keeper(t)
		run := start(ctx, t, b, def, "x")
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			waiting := 0
			for _, n := range d.Nodes {
				if n.State == fabrictype.NodeRateLimited {
					waiting++
				}
			}
			if waiting != 2 {
				return fmt.Sprint(waiting, " wait")
			}
			return ""
		})
		close(release)
		_, err := run.Result(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 30, amountOf(ctx, t, b, fabrictype.BudgetName{Name: "llm", Flow: "waiting", Run: run.ID()}, "tokens").Spent)
		b.Settle(t)
	})
}
