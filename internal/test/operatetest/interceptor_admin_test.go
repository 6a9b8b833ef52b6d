package operatetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A guard on the starts of a flow also sees the schedules and bulk jobs that would start or rerun its runs, and all
// other operations that the audit log records. An operation that it refuses changes nothing.
func TestClientInterceptors_GuardStartsOfSchedulesAndBulkJobs(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		def := fixture.OneNode(t, "plain", a)
		errRefused := errors.New("refused")
		refuses := false
		var seen []string
		client := b.Client.Use(func(next interceptor.ClientFunc) interceptor.ClientFunc {
			return func(ctx context.Context, call *interceptor.ClientCall) error {
				seen = append(seen, fmt.Sprintf("%s %s %s %s%s", call.Operation, call.Name, call.Flow, call.Action, call.Input))
				if refuses {
					return errRefused
				}
				return next(ctx, call)
			}
		})
		hourly := runtime.ScheduleConfig{Every: time.Hour, StartPaused: true}
		hours := fabrictype.Backfill{From: time.Now().Add(-3 * time.Hour), Until: time.Now().Add(-time.Minute)}
		steps := []struct {
			want string
			do   func() error
		}{
			{"set_schedule nightly plain 7", func() error {
				_, err := runtime.Schedule(ctx, client, "nightly", def, 7, hourly)
				return err
			}},
			{"set_schedule nightly plain 8", func() error {
				_, err := client.EditSchedule(ctx, "nightly", func(e *runtime.ScheduleEdit) error {
					e.Input = []byte("8")
					return nil
				})
				return err
			}},
			{"trigger_schedule nightly plain ", func() error { _, err := client.TriggerSchedule(ctx, "nightly"); return err }},
			{"backfill_schedule nightly plain ", func() error {
				_, err := client.BackfillSchedule(ctx, "nightly", hours)
				return err
			}},
			{"pause_schedule nightly plain ", func() error { return client.PauseSchedule(ctx, "nightly", "why not") }},
			{"resume_schedule nightly plain ", func() error { return client.ResumeSchedule(ctx, "nightly") }},
			{"start_bulk_job again plain rerun", func() error {
				_, err := client.StartBulkJob(ctx, runtime.RunQuery{Flow: "plain", States: []fabrictype.RunState{fabrictype.RunFailed}},
					fabrictype.BulkAction{Kind: fabrictype.BulkRerun, Scope: fabrictype.RerunFailed}, runtime.BulkOptions{ID: "again"})
				return err
			}},
			{"stop_bulk_job again  ", func() error { return client.StopBulkJob(ctx, "again") }},
			{"pause_lane default  ", func() error { return client.PauseLane(ctx, "default", "why not") }},
			{"resume_lane default  ", func() error { return client.ResumeLane(ctx, "default") }},
			{"pause_activity double  ", func() error { return client.PauseActivity(ctx, "double", "why not") }},
			{"resume_activity double  ", func() error { return client.ResumeActivity(ctx, "double") }},
			{"delete_schedule nightly plain ", func() error { return client.DeleteSchedule(ctx, "nightly") }},
		}
		for _, step := range steps {
			refuses = true
			require.ErrorIs(t, step.do(), errRefused, step.want)
			require.Equal(t, step.want, seen[len(seen)-1])
			refuses = false
			require.NoError(t, step.do(), step.want)
			require.Equal(t, step.want, seen[len(seen)-1])
		}
		_, err := b.Client.DescribeSchedule(ctx, "nightly")
		require.ErrorIs(t, err, runtime.ErrScheduleNotFound)
	})
}
