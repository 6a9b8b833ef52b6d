package viewtest

import (
	"context"
	"log/slog"
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

// framesOf reads the frames of the node of a run.
func framesOf(ctx context.Context, t *testing.T, run *runtime.RunRef) (frames []fabrictype.Frame) {
	t.Helper()
	for frame, err := range run.Frames(ctx, "node", "") {
		require.NoError(t, err)
		frames = append(frames, frame)
	}
	return frames
}

// A refused frame is lost alone: frames and lines after it are stored, and readers see the number of missing ones.
func TestRefusedFrames(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		limited := make(chan struct{})
		talker := activity.New("talker", func(ctx context.Context, n int) (int, error) {
			if err := activity.Emit(ctx, activity.Frame{Kind: "small", Payload: "first"}); err != nil {
				return 0, err
			}
			select {
			case <-limited: // the stream takes less from now on
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
			for _, payload := range []string{strings.Repeat("x", 3000), "second"} {
				if err := activity.Emit(ctx, activity.Frame{Kind: "size", Payload: payload}); err != nil {
					return 0, err
				}
			}
			activity.Logger(ctx).Info(strings.Repeat("y", 3000))
			return n, nil
		})
		def := fixture.OneNode(t, "talker", talker)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		b.Worker(t, def.Handlers())
		for frame, err := range run.Stream(ctx, "node", "") {
			require.NoError(t, err)
			require.Zero(t, frame.Dropped)
			break
		}
		conn := engine.ConnOf(b.Engine.Internal())
		meta := conn.Keys().StreamMeta(b.Node(t, b.Locate(t, "talker", run.ID()), "node"), 0)
		client := conn.Client()
		limit := client.B().Hset().Key(meta).FieldValue().FieldValue("max_payload_bytes", "2000").Build()
		require.NoError(t, client.Do(ctx, limit).Error())
		close(limited)
		_, err = run.Result(ctx)
		require.NoError(t, err)

		ref := b.Client.Run("talker", run.ID())
		frames := framesOf(ctx, t, ref)
		require.Len(t, frames, 2)
		require.Equal(t, [2]int{0, 1}, [2]int{frames[0].Dropped, frames[1].Dropped})
		require.Equal(t, `"second"`, string(frames[1].Payload()))
		lines := logsOf(ctx, t, ref, runtime.LogQuery{})
		require.Len(t, lines, 1)
		require.Equal(t, 1, lines[0].Cut)
		require.Equal(t, slog.LevelWarn, lines[0].Level)
		require.Equal(t, 2, lines[0].Dropped, "of lines, and of emitted frames")
		b.Settle(t)
	})
}

// Readers learn how many frames the engine has dropped because an activity keeps few, also when all of those that came
// before a wait are among them.
func TestDroppedFrames(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const kept = 5
		talker := activity.New("talker", func(ctx context.Context, n int) (int, error) {
			for range n {
				if err := activity.Emit(ctx, activity.Frame{Kind: "frame", Payload: n}); err != nil {
					return 0, err
				}
			}
			if n == kept {
				return activity.Await[int](ctx, "more")
			}
			activity.Logger(ctx).Info("line")
			activity.Logger(ctx).Info("another")
			return n, nil
		}, activity.KeepFrames(kept))
		def := fixture.OneNode(t, "talker", talker)
		b.Worker(t, def.Handlers())

		waits, err := runtime.Start(ctx, b.Client, def, kept)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			d, err := waits.DescribeNode(ctx, "node")
			return err == nil && d.State == fabrictype.NodeSuspended
		}, enginetest.Patience, time.Millisecond)
		more := runtime.WaitName{Node: "node", Step: "more"}
		_, err = waits.SignalWait(ctx, more, runtime.Signal{Name: "go", Payload: 1})
		require.NoError(t, err)
		_, err = waits.Result(ctx)
		require.NoError(t, err)
		frames := framesOf(ctx, t, b.Client.Run("talker", waits.ID()))
		require.Len(t, frames, kept)
		require.Equal(t, kept, frames[0].Dropped, "the frames before the wait")
		for i, frame := range frames[1:] {
			require.Zero(t, frame.Dropped, i)
		}

		logs, err := runtime.Start(ctx, b.Client, def, kept+3)
		require.NoError(t, err)
		_, err = logs.Result(ctx)
		require.NoError(t, err)
		lines := logsOf(ctx, t, b.Client.Run("talker", logs.ID()), runtime.LogQuery{})
		require.Len(t, lines, 2)
		require.Equal(t, [2]int{4, 0}, [2]int{lines[0].Dropped, lines[1].Dropped}, "of 8 frames and one with lines")
		after := logsOf(ctx, t, b.Client.Run("talker", logs.ID()), runtime.LogQuery{After: lines[0].Cursor})
		require.Equal(t, lines[1:], after)
		b.Settle(t)
	})
}

// Lines stay with their attempts when the node runs again, and go with the run.
func TestLogsStayOverRerunUntilPurge(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		talker := activity.New("talker", func(ctx context.Context, n int) (int, error) {
			activity.Logger(ctx).Info("line")
			if info, _ := activity.Info(ctx); info.Attempt == 1 {
				panic("not yet")
			}
			return n, nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		def := fixture.OneNode(t, "talker", talker)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		b.Worker(t, def.Handlers())
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		ref := b.Client.Run("talker", run.ID())
		before := logsOf(ctx, t, ref, runtime.LogQuery{})
		require.Len(t, before, 2)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		followed := make([]fabrictype.LogLine, 0)
		for line, err := range ref.Logs(ctx, "node", runtime.LogQuery{Follow: true, After: before[1].Cursor}) {
			require.NoError(t, err)
			followed = append(followed, line)
		}
		require.Len(t, followed, 1)
		require.Equal(t, 2, followed[0].Attempt)
		require.Equal(t, append(before, followed...), logsOf(ctx, t, ref, runtime.LogQuery{}))
		require.NoError(t, ref.Purge(ctx))
		for _, err := range ref.Logs(ctx, "node", runtime.LogQuery{}) {
			require.ErrorIs(t, err, engine.ErrRunNotFound)
		}
		client := engine.ConnOf(b.Engine.Internal()).Client()
		enginetest.Eventually(t, func() string {
			keys, err := client.Do(ctx, client.B().Keys().Pattern(b.Prefix+":stream:*").Build()).AsStrSlice()
			require.NoError(t, err)
			return strings.Join(keys, " ")
		})
		b.Settle(t)
	})
}
