package limittest

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
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
		_, err := b.Client.Limit(ctx, "crm", "")
		require.ErrorIs(t, err, runtime.ErrLimitNotFound)
		_, err = b.Client.Limit(ctx, "c r m", "")
		require.ErrorIs(t, err, runtime.ErrInvalid)
		err = b.Client.ReplaceLimit(ctx, fabrictype.Limit{Name: "crm"}, activity.AtOnce(1))
		require.ErrorIs(t, err, enginecore.ErrChangedMeanwhile, "a limit that is not there cannot be replaced")

		require.NoError(t, b.Client.SetLimit(ctx, "crm", "", activity.AtMost(7, 1500*time.Millisecond)))
		old, err := b.Client.Limit(ctx, "crm", "")
		require.NoError(t, err)
		require.Equal(t, fabrictype.Limit{Name: "crm", AtMost: 7, Per: fabrictype.Duration{Duration: 1500 * time.Millisecond}, Set: true}, old)
		onlyOne(t, func(i int) error { return b.Client.ReplaceLimit(ctx, old, activity.AtOnce(i+1)) })

		old, err = b.Client.Limit(ctx, "crm", "")
		require.NoError(t, err)
		require.Zero(t, old.AtMost)
		require.Positive(t, old.AtOnce)
		require.NoError(t, b.Client.ResetLimit(ctx, "crm", ""))
		require.ErrorIs(t, b.Client.ReplaceLimit(ctx, old, activity.AtOnce(1)), enginecore.ErrChangedMeanwhile, "it is not set any more")
	})
}

func TestReplaceBudget(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		ref := fabrictype.BudgetRef{Name: "money"}
		err := b.Client.ReplaceBudget(ctx, fabrictype.Budget{BudgetRef: ref}, flow.HardLimit("calls", 1))
		require.ErrorIs(t, err, enginecore.ErrChangedMeanwhile, "a budget that is not there cannot be replaced")
		_, err = b.Client.Budget(ctx, ref)
		require.ErrorIs(t, err, runtime.ErrBudgetNotFound)

		require.NoError(t, b.Client.SetBudget(ctx, ref, flow.HardLimit("calls", 4), flow.SoftLimit("cents", 3),
			flow.ResetEvery(time.Hour), flow.OnExceeded(flow.BlockNodes)))
		first, err := b.Client.Budget(ctx, ref)
		require.NoError(t, err)
		onlyOne(t, func(i int) error { return b.Client.ReplaceBudget(ctx, first, flow.HardLimit("calls", int64(10+i))) })

		second, err := b.Client.Budget(ctx, ref)
		require.NoError(t, err)
		require.Len(t, second.Amounts, 1)
		require.Zero(t, second.ResetEvery)
		require.NoError(t, b.Client.SetBudget(ctx, ref, flow.HardLimit("calls", 1), flow.HardLimit("cents", 1)))
		require.ErrorIs(t, b.Client.ReplaceBudget(ctx, second, flow.HardLimit("calls", 2)), enginecore.ErrChangedMeanwhile)
		require.NoError(t, b.Client.DeleteBudget(ctx, ref))
		require.ErrorIs(t, b.Client.ReplaceBudget(ctx, second, flow.HardLimit("calls", 2)), enginecore.ErrChangedMeanwhile)
	})
}

func TestScheduleNamed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		hourly := runtime.ScheduleConfig{Every: time.Hour}
		_, err := b.Client.ScheduleNamed(ctx, "hourly", "shipping", nil, hourly)
		require.ErrorIs(t, err, enginecore.ErrFlowNotPublished)

		require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: fixture.Shipping(t, fixture.Declared())}))
		_, err = b.Client.ScheduleNamed(ctx, "hourly", "shipping", json.RawMessage(`{"weight":"heavy"}`), hourly)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		var faults *fabrictype.ValueError
		require.ErrorAs(t, err, &faults)
		_, err = b.Client.ScheduleNamed(ctx, "hour ly", "shipping", json.RawMessage(`{"to":"Lima","weight":3}`),
			runtime.ScheduleConfig{})
		require.ErrorContains(t, err, "Cron, Every")
		require.ErrorContains(t, err, "hour ly")
		for schedule, err := range b.Client.Schedules(ctx) {
			require.NoError(t, err)
			t.Fatalf("a schedule was written: %+v", schedule)
		}

		made, err := b.Client.ScheduleNamed(ctx, "hourly", "shipping", json.RawMessage(`{"to":"Lima","weight":3}`), hourly)
		require.NoError(t, err)
		require.Equal(t, "shipping", made.Flow)
		again, err := b.Client.ScheduleNamed(ctx, "hourly", "shipping", json.RawMessage(`{ "to":"Lima", "weight":3}`), hourly)
		require.NoError(t, err)
		require.Equal(t, made, again, "the same declaration changes nothing")
		run, err := b.Client.TriggerSchedule(ctx, "hourly")
		require.NoError(t, err)
		require.NotEmpty(t, run)
	})
}
