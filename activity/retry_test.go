package activity_test

import (
	"math"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

func TestPlans(t *testing.T) {
	t.Parallel()
	const s, m, h = time.Second, time.Minute, time.Hour
	for name, tc := range map[string]struct {
		policy activity.RetryPolicy
		want   activityspec.RetryPlan
	}{
		"default":     {activity.RetryPolicy{}, activityspec.RetryPlan{Attempts: 5, First: s, Max: m, Factor: 2, JitterPermille: 100}},
		"attempts":    {activity.RetryPolicy{Attempts: 7}, activityspec.RetryPlan{Attempts: 7, First: s, Max: m, Factor: 2, JitterPermille: 100}},
		"no retry":    {activity.RetryPolicy{Attempts: 1}, activityspec.RetryPlan{Attempts: 1}},
		"once":        {activity.RetryPolicy{Attempts: 1, First: h}, activityspec.RetryPlan{Attempts: 1}},
		"long first":  {activity.RetryPolicy{First: h}, activityspec.RetryPlan{Attempts: 5, First: h, Max: h, Factor: 2, JitterPermille: 100}},
		"no jitter":   {activity.RetryPolicy{JitterPermille: -1}, activityspec.RetryPlan{Attempts: 5, First: s, Max: m, Factor: 2}},
		"fractions":   {activity.RetryPolicy{First: 1, Max: s + 1, Factor: 1.5}, activityspec.RetryPlan{Attempts: 5, First: time.Millisecond, Max: s + time.Millisecond, Factor: 1.5, JitterPermille: 100}},
		"fixed":       {activity.RetryPolicy{Factor: 1}, activityspec.RetryPlan{Attempts: 5, First: s, Max: s, Factor: 1}},
		"fixed given": {activity.RetryPolicy{First: 3 * s, Attempts: 2, Factor: 1}, activityspec.RetryPlan{Attempts: 2, First: 3 * s, Max: 3 * s, Factor: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := activity.PlanOf(tc.policy)
			if got != tc.want || got.Normalized() != got {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
	if got := activityspec.DefaultRetry(); got != activity.PlanOf(activity.RetryPolicy{}) || got.Retries() != 4 {
		t.Errorf("default %+v with %d retries", got, got.Retries())
	}
	if got := (activityspec.RetryPlan{}).Retries(); got != 0 {
		t.Errorf("%d retries of the zero plan", got)
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	plan := activity.PlanOf(activity.RetryPolicy{First: time.Second, Max: 10 * time.Second, JitterPermille: 500})
	odd := activity.PlanOf(activity.RetryPolicy{First: 333 * time.Millisecond, Factor: 1.1, JitterPermille: 7})
	longest := activityspec.RetryPlan{Attempts: 9, First: math.MaxInt64, Max: math.MaxInt64, Factor: 1000, JitterPermille: 1000}
	for _, tc := range []struct {
		plan   activityspec.RetryPlan
		retry  int
		random float64
		want   time.Duration
	}{
		{plan, 1, 0, time.Second},
		{plan, 0, 0, time.Second},
		{plan, -5, 0, time.Second},
		{plan, 2, 0, 2 * time.Second},
		{plan, 4, 0, 8 * time.Second},
		{plan, 5, 0, 10 * time.Second},
		{plan, math.MaxInt, 0, 10 * time.Second},
		{plan, 1, 1, 1500 * time.Millisecond},
		{plan, 1, 2, 1500 * time.Millisecond},
		{plan, 1, -1, time.Second},
		{odd, 3, 0.123456, 403 * time.Millisecond},
		{activity.PlanOf(activity.RetryPolicy{First: time.Minute, Factor: 1}), 100, 1, time.Minute},
		{activityspec.RetryPlan{Attempts: 1}, 1, 1, 0},
	} {
		if got := tc.plan.Delay(tc.retry, tc.random); got != tc.want {
			t.Errorf("%+v, retry %d, random %v: got %v, want %v", tc.plan, tc.retry, tc.random, got, tc.want)
		}
	}
	if got := longest.Delay(9, 1); got <= 0 || got%time.Millisecond != 0 {
		t.Errorf("the longest delay became %d", got)
	}
}

func FuzzDelayIsWholeMilliseconds(f *testing.F) {
	f.Add(int64(333), int64(60_000), 1.7, 13, 3, 0.5)
	f.Fuzz(func(t *testing.T, first, longest int64, factor float64, jitter, retry int, random float64) {
		plan := activityspec.RetryPlan{Attempts: 5, First: time.Duration(first), Max: time.Duration(longest), Factor: factor, JitterPermille: jitter}.Normalized()
		if plan.Validate() != nil {
			t.Skip()
		}
		got := plan.Delay(retry, random)
		if got%time.Millisecond != 0 || got < 0 || got/2 > plan.Max {
			t.Errorf("%+v, retry %d, random %v: %d", plan, retry, random, got)
		}
	})
}
