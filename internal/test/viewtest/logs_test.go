package viewtest

import (
	"context"
	"fmt"
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

// logsOf reads the lines of the node of a run.
func logsOf(ctx context.Context, t *testing.T, run *runtime.RunRef, q runtime.LogQuery) (lines []fabrictype.LogLine) {
	t.Helper()
	for line, err := range run.Logs(ctx, "node", q) {
		require.NoError(t, err)
		lines = append(lines, line)
	}
	return lines
}

// Lines of attempts can be read while they run and afterwards, from any line on, and are kept apart from emitted
// frames.
func TestLogs(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		seen := make(chan struct{})
		talker := activity.New("talker", func(ctx context.Context, n int) (int, error) {
			log := activity.Logger(ctx).With("part", 7)
			log.Debug("below the level")
			log.Info("began\x1b[2J", "group", slog.GroupValue(slog.Int("n", n)))
			if info, _ := activity.Info(ctx); info.Attempt == 1 {
				select {
				case <-seen: // the reader has the line although the attempt continues
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
				panic("first attempt")
			}
			for i := range n {
				log.Warn(fmt.Sprint("line ", i))
			}
			if err := activity.Emit(ctx, activity.Frame{Kind: "frame", Payload: n}); err != nil {
				return 0, err
			}
			log.Info(strings.Repeat("x", 40<<10), "dropped", true)
			return n, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Factor: 1}))
		def := fixture.OneNode(t, "talker", talker)
		const lines = 250
		run, err := runtime.Start(ctx, b.Client, def, lines)
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		var all []fabrictype.LogLine
		for line, err := range run.Logs(ctx, "node", runtime.LogQuery{Follow: true}) {
			require.NoError(t, err)
			if len(all) == 0 {
				close(seen)
			}
			all = append(all, line)
		}
		require.Len(t, all, 2+1+lines+1)
		require.Equal(t, "began\x1b[2J", all[0].Message)
		require.Equal(t, slog.LevelInfo, all[0].Level)
		require.JSONEq(t, `{"part":7,"group":{"n":250}}`, string(all[0].Attrs))
		require.False(t, all[0].At.IsZero())
		require.Equal(t, slog.LevelError, all[1].Level)
		require.Equal(t, "panic: first attempt", all[1].Message)
		require.Contains(t, string(all[1].Attrs), "logs_test.go")
		require.Equal(t, 1, all[1].Attempt)
		for i, line := range all[3 : 3+lines] {
			require.Equal(t, fmt.Sprint("line ", i), line.Message)
			require.Equal(t, 2, line.Attempt)
		}
		last := all[len(all)-1]
		require.True(t, last.Shortened)
		require.Empty(t, last.Attrs)

		ref := b.Client.Run("talker", run.ID())
		require.Equal(t, all, logsOf(ctx, t, ref, runtime.LogQuery{}))
		require.Equal(t, all[:2], logsOf(ctx, t, ref, runtime.LogQuery{Attempt: 1}))
		require.Equal(t, all[2:], logsOf(ctx, t, ref, runtime.LogQuery{Attempt: 2}))
		for _, at := range []int{0, 1, 2, 50, 101, 102, 103, 200} {
			require.Equal(t, all[at+1:], logsOf(ctx, t, ref, runtime.LogQuery{After: all[at].Cursor, Follow: true}))
		}
		for frame, err := range ref.Frames(ctx, "node", "") {
			require.NoError(t, err)
			require.Equal(t, "frame", frame.Kind)
		}
		b.Settle(t)
	})
}

// A worker stores as many lines as its config allows, and the number of the further ones; or none.
func TestLogBounds(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		for name, c := range map[string]struct {
			config       runtime.LogConfig
			lines, total int
		}{
			"lines": {runtime.LogConfig{Lines: 3}, 3, 4},
			"bytes": {runtime.LogConfig{Bytes: 1}, 0, 1},
			"off":   {runtime.LogConfig{Off: true}, 0, 0},
		} {
			talker := activity.New("talker-"+name, func(ctx context.Context, n int) (int, error) {
				for range n {
					activity.Logger(ctx).Info("line")
				}
				return n, nil
			}, activity.Lane(name))
			def := fixture.OneNode(t, "talker-"+name, talker)
			b.Worker(t, def.Handlers(), runtime.WorkerConfig{Lanes: []string{name}, Logs: c.config})
			run, err := runtime.Start(ctx, b.Client, def, 10)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err)
			lines := logsOf(ctx, t, b.Client.Run(def.Name(), run.ID()), runtime.LogQuery{})
			require.Len(t, lines, c.total, name)
			if c.total > 0 {
				require.Equal(t, 10-c.lines, lines[c.total-1].Cut, name)
			}
		}
		b.Settle(t)
	})
}

func TestLogFaults(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		quiet := activity.New("quiet", func(_ context.Context, n int) (int, error) { return n, nil })
		run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "quiet", quiet), 1)
		require.NoError(t, err)
		for _, cursor := range []string{"x", "1/1-1/x", "1/1-1/-1", "1/1-1", "x/1"} {
			for _, err := range run.Logs(ctx, "node", runtime.LogQuery{After: cursor}) {
				require.ErrorIs(t, err, runtime.ErrCursor, cursor)
			}
		}
		for _, err := range run.Logs(ctx, "node", runtime.LogQuery{Attempt: -1}) {
			require.ErrorIs(t, err, runtime.ErrInvalid)
		}
		for _, err := range run.Logs(ctx, "other", runtime.LogQuery{}) {
			require.ErrorIs(t, err, engine.ErrUnknownNode)
		}
	})
	_, err := runtime.NewWorker(nil, runtime.WorkerConfig{Logs: runtime.LogConfig{Lines: -1, Bytes: 5 << 20}})
	require.ErrorContains(t, err, "Logs.Lines")
	require.ErrorContains(t, err, "Logs.Bytes")
}
