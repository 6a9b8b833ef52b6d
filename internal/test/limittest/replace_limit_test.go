package limittest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// writers is how many writers replace the same state at the same time.
const writers = 8

// onlyOne calls replace at the same time several times, and fails unless one call succeeds and the others get
// ErrChangedMeanwhile.
func onlyOne(t *testing.T, replace func(i int) error) {
	t.Helper()
	errs := make([]error, writers)
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() { errs[i] = replace(i) })
	}
	group.Wait()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
			continue
		}
		require.ErrorIs(t, err, enginecore.ErrChangedMeanwhile)
	}
	require.Equal(t, 1, succeeded)
}

func TestReplaceLimit(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		_, err := b.Client.Limit("crm", "").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrLimitNotFound)
		_, err = b.Client.Limit("c r m", "").Describe(ctx)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		err = b.Client.Limit("crm", "").Replace(ctx, fabrictype.Limit{Name: "crm"}, activity.LimitConfig{AtOnce: 1})
		require.ErrorIs(t, err, enginecore.ErrChangedMeanwhile, "a limit that is not there cannot be replaced")

		require.NoError(t, b.Client.Limit("crm", "").Set(ctx, activity.LimitConfig{AtMost: 7, Per: 1500 * time.Millisecond}))
		old, err := b.Client.Limit("crm", "").Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.Limit{Name: "crm", AtMost: 7, Per: fabrictype.Duration{Duration: 1500 * time.Millisecond}, Set: true}, old)
		onlyOne(t, func(i int) error {
			return b.Client.Limit(old.Name, old.Key).Replace(ctx, old, activity.LimitConfig{AtOnce: i + 1})
		})

		old, err = b.Client.Limit("crm", "").Describe(ctx)
		require.NoError(t, err)
		require.Zero(t, old.AtMost)
		require.Positive(t, old.AtOnce)
		require.NoError(t, b.Client.Limit("crm", "").Reset(ctx))
		require.ErrorIs(t, b.Client.Limit(old.Name, old.Key).Replace(ctx, old, activity.LimitConfig{AtOnce: 1}), enginecore.ErrChangedMeanwhile, "it is not set any more")
	})
}

// A limit that published flows declare is seen, and changed, before a node has used it.
func TestDeclaredLimit(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		act := activity.New("call", func(_ context.Context, n int) (int, error) { return n, nil },
			activity.Limit("crm", activity.LimitConfig{AtOnce: 3}))
		publish := func(name string, limits ...activity.LimitConfig) {
			inner := flow.New[int, int](name + "-inner")
			last := inner.Input()
			for i, l := range limits {
				last = flow.Node(inner, fmt.Sprint("n", i), act, last, activity.Limit(fmt.Sprint("l", i), l))
			}
			flow.Return(inner, last)
			sub, err := inner.Build()
			require.NoError(t, err)
			f := flow.New[int, int](name)
			flow.Sub(f, "sub", sub, f.Input())
			flow.Return(f, flow.Node(f, "own", act, f.Input()))
			def, err := f.Build()
			require.NoError(t, err)
			require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: def}))
		}
		publish("first", activity.LimitConfig{AtMost: 7, Per: time.Minute}, activity.LimitConfig{AtOnce: 2})
		publish("second", activity.LimitConfig{AtMost: 8, Per: time.Minute})
		want := []fabrictype.Limit{
			{Name: "crm", AtOnce: 3}, {Name: "l0", AtMost: 8, Per: fabrictype.Duration{Duration: time.Minute}}, {Name: "l1", AtOnce: 2},
		}
		list, err := b.Client.Limits(ctx)
		require.NoError(t, err)
		require.Equal(t, want, list, "the flow that was published last counts")
		old, err := b.Client.Limit("l0", "").Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, want[1], old)
		_, err = b.Client.Limit("l0", "key").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrLimitNotFound)
		onlyOne(t, func(i int) error {
			return b.Client.Limit("l0", "").Replace(ctx, old, activity.LimitConfig{AtOnce: 10 + i})
		})
		set, err := b.Client.Limit("l0", "").Describe(ctx)
		require.NoError(t, err)
		require.True(t, set.Set)
		require.GreaterOrEqual(t, set.AtOnce, 10)
		list, err = b.Client.Limits(ctx)
		require.NoError(t, err)
		require.Len(t, list, 3)
		require.Equal(t, set, list[1])
	})
}

func TestReplaceBudget(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		ref := fabrictype.BudgetName{Name: "money"}
		err := b.Client.Budget(ref).Replace(ctx, fabrictype.Budget{BudgetName: ref}, flow.BudgetConfig{Hard: map[string]int64{"calls": 1}})
		require.ErrorIs(t, err, enginecore.ErrChangedMeanwhile, "a budget that is not there cannot be replaced")
		_, err = b.Client.Budget(ref).Describe(ctx)
		require.ErrorIs(t, err, engine.ErrBudgetNotFound)

		require.NoError(t, b.Client.Budget(ref).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 4}, Soft: map[string]int64{"cents": 3}, ResetEvery: time.Hour, OnExceeded: flow.BlockNodes}))
		first, err := b.Client.Budget(ref).Describe(ctx)
		require.NoError(t, err)
		onlyOne(t, func(i int) error {
			return b.Client.Budget(first.BudgetName).Replace(ctx, first, flow.BudgetConfig{Hard: map[string]int64{"calls": int64(10 + i)}})
		})

		second, err := b.Client.Budget(ref).Describe(ctx)
		require.NoError(t, err)
		require.Len(t, second.Amounts, 1)
		require.Zero(t, second.ResetEvery)
		require.NoError(t, b.Client.Budget(ref).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 1, "cents": 1}}))
		require.ErrorIs(t, b.Client.Budget(second.BudgetName).Replace(ctx, second, flow.BudgetConfig{Hard: map[string]int64{"calls": 2}}), enginecore.ErrChangedMeanwhile)
		require.NoError(t, b.Client.Budget(ref).Delete(ctx))
		require.ErrorIs(t, b.Client.Budget(second.BudgetName).Replace(ctx, second, flow.BudgetConfig{Hard: map[string]int64{"calls": 2}}), enginecore.ErrChangedMeanwhile)
	})
}

func TestScheduleNamed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		hourly := runtime.ScheduleConfig{Every: time.Hour}
		_, err := b.Client.Flow("shipping").Schedule(ctx, "hourly", nil, hourly)
		require.ErrorIs(t, err, enginecore.ErrFlowNotPublished)

		require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: fixture.Shipping(t, fixture.Declared())}))
		_, err = b.Client.Flow("shipping").Schedule(ctx, "hourly", json.RawMessage(`{"weight":"heavy"}`), hourly)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		var faults *fabrictype.ValueError
		require.ErrorAs(t, err, &faults)
		_, err = b.Client.Flow("shipping").Schedule(ctx, "hour ly", json.RawMessage(`{"to":"Lima","weight":3}`),
			runtime.ScheduleConfig{})
		require.ErrorContains(t, err, "Cron, Every")
		require.ErrorContains(t, err, "hour ly")
		for schedule, err := range b.Client.Schedules(ctx) {
			require.NoError(t, err)
			t.Fatalf("a schedule was written: %+v", schedule)
		}

		made, err := b.Client.Flow("shipping").Schedule(ctx, "hourly", json.RawMessage(`{"to":"Lima","weight":3}`), hourly)
		require.NoError(t, err)
		require.Equal(t, "shipping", made.Flow)
		again, err := b.Client.Flow("shipping").Schedule(ctx, "hourly", json.RawMessage(`{ "to":"Lima", "weight":3}`), hourly)
		require.NoError(t, err)
		require.Equal(t, made, again, "the same declaration changes nothing")
		run, err := b.Client.Schedule("hourly").Trigger(ctx)
		require.NoError(t, err)
		require.NotEmpty(t, run)
	})
}
