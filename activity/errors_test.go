package activity_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

var errBase = errors.New("base")

func TestErrorMarks(t *testing.T) {
	t.Parallel()
	type marks struct {
		final    bool
		delay    time.Duration
		delayed  bool
		category string
	}
	for name, tc := range map[string]struct {
		err  error
		want marks
	}{
		"plain":       {errBase, marks{category: "error"}},
		"final":       {activity.NonRetryable(errBase), marks{final: true, category: "error"}},
		"wrapped":     {fmt.Errorf("more: %w", activity.NonRetryable(errBase)), marks{final: true, category: "error"}},
		"joined":      {errors.Join(errors.New("x"), activity.NonRetryable(errBase)), marks{final: true, category: "error"}},
		"delay":       {activity.RetryAfter(errBase, time.Second), marks{delay: time.Second, delayed: true, category: "error"}},
		"fraction":    {activity.RetryAfter(errBase, 1), marks{delay: time.Millisecond, delayed: true, category: "error"}},
		"at once":     {activity.RetryAfter(errBase, -time.Second), marks{delayed: true, category: "error"}},
		"outer delay": {activity.RetryAfter(activity.RetryAfter(errBase, time.Hour), time.Second), marks{delay: time.Second, delayed: true, category: "error"}},
		"category":    {activity.Category(errBase, "quota"), marks{category: "quota"}},
		"outer":       {activity.Category(activity.Category(errBase, "a"), "b"), marks{category: "b"}},
		"empty":       {activity.Category(errBase, ""), marks{category: "error"}},
		"all": {activity.NonRetryable(activity.Category(activity.RetryAfter(errBase, time.Minute), "c")),
			marks{final: true, delay: time.Minute, delayed: true, category: "c"}},
		"decode": {&activityspec.DecodeError{Err: errBase}, marks{final: true, category: "decode"}},
		"encode": {&activityspec.EncodeError{Err: errBase}, marks{final: true, category: "encode"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := marks{final: activitytest.IsNonRetryable(tc.err), category: activitytest.CategoryOf(tc.err)}
			got.delay, got.delayed = activityspec.RetryDelay(tc.err)
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if !errors.Is(tc.err, errBase) {
				t.Error("the error is lost")
			}
		})
	}
	if got := activity.NonRetryable(activity.Category(activity.RetryAfter(errBase, 0), "x")).Error(); got != "base" {
		t.Errorf("the text became %q", got)
	}
}

func TestNilErrorsStayNil(t *testing.T) {
	t.Parallel()
	if activity.NonRetryable(nil) != nil || activity.RetryAfter(nil, time.Second) != nil || activity.Category(nil, "x") != nil {
		t.Error("a mark made an error out of nil")
	}
	_, delayed := activityspec.RetryDelay(nil)
	if activitytest.IsNonRetryable(nil) || delayed || activitytest.CategoryOf(nil) != "" {
		t.Error("nil has a mark")
	}
}

// A time that has no form as text is none to delay until.
func TestDelayUntilNever(t *testing.T) {
	t.Parallel()
	for _, bad := range []time.Time{time.UnixMilli(math.MaxInt64), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		err := activity.DelayUntil(bad)
		if !activitytest.IsNonRetryable(err) || activityspec.IsMark(err) || !strings.Contains(err.Error(), "delay until ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := activity.DelayUntil(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)); !activityspec.IsMark(err) {
		t.Error(err)
	}
}
