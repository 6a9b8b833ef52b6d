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
	"github.com/flowfabric/flowfabric-go/internal/engine"
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
				_, err := client.Schedule("nightly").Edit(ctx, func(e *runtime.ScheduleEdit) error {
					e.Input = []byte("8")
					return nil
				})
				return err
			}},
			{"trigger_schedule nightly plain ", func() error { _, err := client.Schedule("nightly").Trigger(ctx); return err }},
			{"backfill_schedule nightly plain ", func() error {
				_, err := client.Schedule("nightly").Backfill(ctx, hours)
				return err
			}},
			{"pause_schedule nightly plain ", func() error { return client.Schedule("nightly").Pause(ctx, "why not") }},
			{"resume_schedule nightly plain ", func() error { return client.Schedule("nightly").Resume(ctx) }},
			{"start_bulk_job again plain rerun", func() error {
				_, err := client.StartBulkJob(ctx, runtime.RunQuery{Flow: "plain", States: []fabrictype.RunState{fabrictype.RunFailed}},
					fabrictype.BulkAction{Kind: "rerun", Scope: fabrictype.RerunFailed}, runtime.BulkOptions{ID: "again"})
				return err
			}},
			{"stop_bulk_job again  ", func() error { return client.BulkJob("again").Stop(ctx) }},
			{"pause_lane default  ", func() error { return client.Lane("default").Pause(ctx, "why not") }},
			{"resume_lane default  ", func() error { return client.Lane("default").Resume(ctx) }},
			{"pause_activity double  ", func() error { return client.Activity("double").Pause(ctx, "why not") }},
			{"resume_activity double  ", func() error { return client.Activity("double").Resume(ctx) }},
			{"delete_schedule nightly plain ", func() error { return client.Schedule("nightly").Delete(ctx) }},
		}
		for _, step := range steps {
			refuses = true
			require.ErrorIs(t, step.do(), errRefused, step.want)
			require.Equal(t, step.want, seen[len(seen)-1])
			refuses = false
			require.NoError(t, step.do(), step.want)
			require.Equal(t, step.want, seen[len(seen)-1])
		}
		_, err := b.Client.Schedule("nightly").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrScheduleNotFound)
	})
}
