package activity_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

func TestBudgetOutsideWorker(t *testing.T) {
	ctx := context.Background()
	require.NoError(t, activity.ReportUsage(ctx, "tokens", 5))
	r, err := activity.Reserve(ctx, "tokens", 5)
	require.NoError(t, err)
	require.NoError(t, r.Settle(ctx, 4))
	require.NoError(t, (*activity.Reservation)(nil).Release(ctx))
	amounts, err := activity.Budgets(ctx)
	require.NoError(t, err)
	require.Empty(t, amounts)
	require.EqualValues(t, math.MaxInt64, fabrictype.BudgetAmount{}.Remaining())
}

func TestBadUsage(t *testing.T) {
	ctx := context.Background()
	for name, err := range map[string]error{
		"negative":      activity.ReportUsage(ctx, "tokens", -1),
		"too much":      activity.ReportUsage(ctx, "tokens", 1<<50+1),
		"no dimension":  activity.ReportUsage(ctx, "", 1),
		"bad dimension": activity.ReportUsage(ctx, "a b", 1),
		"bad key":       activity.ReportUsageOnce(ctx, "", map[string]int64{"tokens": 1}),
		"settle":        new(activity.Reservation).Settle(ctx, -1),
	} {
		require.ErrorIs(t, err, activity.ErrInvalid, name)
		require.True(t, activitytest.IsNonRetryable(err), name)
	}
	_, err := activity.Reserve(ctx, "tokens", -1)
	require.ErrorIs(t, err, activity.ErrInvalid)
}

func TestStepsKeepABudget(t *testing.T) {
	env := activitytest.New()
	ctx := env.Context(context.Background())
	require.NoError(t, activity.ReportUsage(ctx, "tokens", 5), "no budget at all")
	env.SetBudget("tokens", 10)
	require.ErrorIs(t, activity.ReportUsage(ctx, "miles", 1), activity.ErrInvalid)
	require.NoError(t, activity.ReportUsageOnce(ctx, "once", map[string]int64{"tokens": 2}))
	require.NoError(t, activity.ReportUsageOnce(ctx, "once", map[string]int64{"tokens": 2}))
	r, err := activity.Reserve(ctx, "tokens", 8)
	require.NoError(t, err)
	err = activity.ReportUsage(ctx, "tokens", 1)
	var exceeded *activity.BudgetError
	require.ErrorAs(t, err, &exceeded)
	require.Equal(t, [4]int64{1, 2, 8, 10}, [4]int64{exceeded.Asked, exceeded.Spent, exceeded.Reserved, exceeded.Hard})
	require.Equal(t, "budget", activitytest.CategoryOf(errors.Join(err)))
	require.True(t, activitytest.IsNonRetryable(err))
	require.NoError(t, r.Settle(ctx, 3))
	require.NoError(t, r.Settle(ctx, 3))
	require.Equal(t, fabrictype.BudgetAmount{Budget: "test", Dimension: "tokens", Spent: 5, Hard: 10}, env.Used("tokens"))
	amounts, err := activity.Budgets(ctx)
	require.NoError(t, err)
	require.Equal(t, []fabrictype.BudgetAmount{env.Used("tokens")}, amounts)
}
