package graphtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Texts for the record that are too long or cannot be shown on a line are refused before anything is written.
func TestBadTextsAreRefused(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := fixture.ChainOf(t, fixture.AddOne(), 2)
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("r"), runtime.WithActor("ann"))
		require.NoError(t, err)
		_, err = runtime.Schedule(ctx, b.Client, "s", def, 1, runtime.ScheduleConfig{Every: time.Hour})
		require.NoError(t, err)
		before := partitionKeys(t, b)
		c := b.Client
		bad := map[string]string{
			"control":   "two\nlines",
			"c1":        "a\u009bb",
			"not UTF-8": "a\xff",
			"long":      strings.Repeat("x", engine.MaxReason+1),
		}
		for name, text := range bad {
			by := runtime.WithActor(text)
			for what, call := range map[string]func() error{
				"actor of a cancel":          func() error { return run.Cancel(ctx, "", by) },
				"actor of a pending cancel":  func() error { return run.CancelPending(ctx, "", by) },
				"actor of a node's cancel":   func() error { return run.CancelNode(ctx, "n0", "", by) },
				"actor of a rerun":           func() error { return run.Rerun(ctx, fabrictype.RerunAll, by) },
				"actor of a start":           func() error { _, err := runtime.Start(ctx, c, def, 1, by); return err },
				"reason of a cancel":         func() error { return run.Cancel(ctx, text) },
				"reason of a pending cancel": func() error { return run.CancelPending(ctx, text) },
				"reason of a node's cancel":  func() error { return run.CancelNode(ctx, "n0", text) },
				"reason of a run's pause":    func() error { return run.Pause(ctx, text) },
				"reason of a lane's pause":   func() error { return c.Lane("default").Pause(ctx, text) },
				"activity's pause":           func() error { return c.Activity("add").Pause(ctx, text) },
				"schedule's pause":           func() error { return c.Schedule("s").Pause(ctx, text) },
				"end of a wait":              func() error { return run.CancelWait(ctx, runtime.Waitpoint{}, text) },
				"schedule that is paused": func() error {
					_, err := runtime.Schedule(ctx, c, "t", def, 1, runtime.ScheduleConfig{
						Every: time.Hour, StartPaused: true, PauseReason: text,
					})
					return err
				},
				"actor of a schedule": func() error {
					_, err := runtime.Schedule(ctx, c, "t", def, 1, runtime.ScheduleConfig{Every: time.Hour, Actor: text})
					return err
				},
			} {
				err := call()
				require.ErrorIs(t, err, runtime.ErrInvalid, "%s: %s", what, name)
				require.Less(t, len(err.Error()), 400, "the text is shortened")
				require.Regexp(t, `(reason|PauseReason|actor|Actor) ".*"…?: it (has the control character U\+[0-9A-F]+|is not valid UTF-8|has 2049 bytes, at most (2048|256) are allowed)`, err.Error(), what)
			}
		}
		require.Equal(t, before, partitionKeys(t, b), "nothing has been written")
		long := strings.Repeat("ë", engine.MaxReason/2)
		require.NoError(t, run.Cancel(ctx, long, runtime.WithActor(strings.Repeat("x", engine.MaxActor))))
		_, err = run.Result(ctx)
		require.Equal(t, long, fixture.Failure(t, err).Reason)
	})
}

// An attempt can fail with any text and any category: invalid parts are escaped or cut.
func TestAnyTextIsAFailure(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("add", func(_ context.Context, n int) (int, error) {
			if n == 0 {
				return 0, activity.NonRetryable(activity.Category(errors.New("one\ntwo\x1b[2J\xff\x00"), "a\nb"))
			}
			panic(strings.Repeat("ë", 1<<20))
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		b.Keeper(t)
		b.Worker(t, []activity.Handler{a})
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 1), 0)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.Equal(t, "one\ntwo\\x1b[2J\ufffd\\x00", fixture.Failure(t, err).Reason)
		require.Equal(t, `a\nb`, fixture.Failure(t, err).Category)
		run, err = runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 1), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		reason := fixture.Failure(t, err).Reason
		require.LessOrEqual(t, len(reason), engine.MaxReason+40)
		require.True(t, strings.HasPrefix(reason, "panic: ëëë"))
		require.True(t, strings.HasSuffix(reason, "ë… (2097159 bytes)"), reason[len(reason)-40:])
		b.Settle(t)
	})
}
