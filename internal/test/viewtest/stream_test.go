package viewtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
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

// A reader that comes before the first frame sees them all, live, across attempts, and ends with the node.
func TestStreamTail(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		seen := make(chan struct{})
		chatty := activity.New("chatty", func(ctx context.Context, n int) (int, error) {
			info, _ := activity.Info(ctx)
			if err := activity.Emit(ctx, activity.Frame{Kind: "begin", Payload: info.Attempt}); err != nil {
				return 0, err
			}
			if info.Attempt == 1 {
				select {
				case <-seen: // the reader has it although the attempt continues
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
				return 0, errors.New("first attempt")
			}
			for i := range n {
				if err := activity.Emit(ctx, activity.Frame{Kind: "line", Payload: []byte(fmt.Sprint(i))}); err != nil {
					return 0, err
				}
			}
			return n, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Factor: 1}))
		const lines = 500
		def := fixture.OneNode(t, "chatty", chatty)
		run, err := runtime.Start(ctx, b.Client, def, lines)
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		var frames []fabrictype.Frame
		for frame, err := range run.Stream(ctx, "node", "") {
			require.NoError(t, err)
			if len(frames) == 0 {
				close(seen)
			}
			frames = append(frames, frame)
		}
		require.Len(t, frames, lines+2)
		var attempt int
		require.NoError(t, frames[0].Decode(&attempt))
		require.Equal(t, 1, attempt)
		require.NoError(t, frames[1].Decode(&attempt))
		require.Equal(t, 2, attempt)
		for i, frame := range frames[2:] {
			require.Equal(t, fmt.Sprint(i), string(frame.Payload()))
			require.Equal(t, 2, frame.Attempt)
			require.Equal(t, "line", frame.Kind)
			require.Error(t, frame.Decode(&attempt))
		}
		// From a cursor, and when everything is over.
		ref := b.Client.Run("chatty", run.ID())
		for _, read := range []func(context.Context, string, string) iter.Seq2[fabrictype.Frame, error]{ref.Stream, ref.Frames} {
			again := 0
			for frame, err := range read(ctx, "node", frames[99].Cursor) {
				require.NoError(t, err)
				require.Equal(t, frames[100+again].Cursor, frame.Cursor)
				again++
			}
			require.Equal(t, lines+2-100, again)
		}
		b.Settle(t)
	})
}

func TestStreamFaults(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		enginetest.HoldWatches(t, b.Engine, time.Hour) // a read ends early by its context
		quiet := activity.New("quiet", func(_ context.Context, n int) (int, error) { return n, nil })
		run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "quiet", quiet), 1)
		require.NoError(t, err)
		for _, cursor := range []string{"x", "0/1-1", "1/1", "1/1-x", "1/(1-1"} {
			for _, err := range run.Stream(ctx, "node", cursor) {
				require.ErrorIs(t, err, runtime.ErrCursor)
			}
		}
		for _, err := range b.Client.Run("quiet", "nobody").Stream(ctx, "node", "") {
			require.ErrorIs(t, err, engine.ErrRunNotFound)
		}
		for _, err := range run.Stream(ctx, "nod", "") {
			require.ErrorIs(t, err, engine.ErrUnknownNode)
		}
		for range run.Frames(ctx, "node", "") {
			t.Fatal("a frame")
		}
		// Waiting for news ends with the context, and not with the read.
		waiting, cancel := context.WithCancelCause(ctx)
		enough := errors.New("enough")
		timer := time.AfterFunc(50*time.Millisecond, func() { cancel(enough) })
		defer timer.Stop()
		for _, err := range run.Stream(waiting, "node", "") {
			require.ErrorIs(t, err, enough)
		}
		for event, err := range run.Watch(waiting, "") {
			if err != nil {
				require.ErrorIs(t, err, enough)
			} else {
				require.Equal(t, fabrictype.EventRunSubmitted, event.Kind)
			}
		}
	})
}

// The last frames are kept, as many as the activity sets.
func TestStreamKeepsTheLast(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("long", func(ctx context.Context, n int) (int, error) {
			for i := range n {
				if err := activity.Emit(ctx, activity.Frame{Kind: "n", Payload: i}); err != nil {
					return 0, err
				}
			}
			return n, nil
		}, activity.KeepFrames(10))
		def := fixture.OneNode(t, "long", a)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 100)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		want := 90
		for frame, err := range run.Stream(ctx, "node", "") {
			require.NoError(t, err)
			var got int
			require.NoError(t, frame.Decode(&got))
			require.Equal(t, want, got)
			want++
		}
		require.Equal(t, 100, want)
	})
}

// Emit returns an error when the frame's worker has lost the execution.
func TestEmitAfterTheEnd(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var late atomic.Pointer[error]
		begun, done := make(chan struct{}), make(chan struct{})
		a := activity.New("late", func(ctx context.Context, n int) (int, error) {
			close(begun)
			<-ctx.Done()
			// The run is cancelled: the stream is closed although the function still runs.
			free := context.WithoutCancel(ctx)
			for {
				if err := activity.Emit(free, activity.Frame{Kind: "late", Payload: n}); err != nil {
					late.Store(&err)
					close(done)
					return 0, err
				}
				time.Sleep(time.Millisecond) //nolint:forbidigo // between two attempts to write
			}
		})
		def := fixture.OneNode(t, "late", a)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		<-begun
		require.NoError(t, run.Cancel(ctx, "enough"))
		<-done
		require.ErrorIs(t, *late.Load(), runtime.ErrLeaseLost)
	})
}

// The reports of a function are among the events, the last report also for later watches.
func TestWatchShowsProgress(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		seen := make(chan struct{}, 2)
		a := activity.New("busy", func(ctx context.Context, n int) (int, error) {
			for i := range 2 {
				if err := activity.Progress(ctx, float64(50*(i+1))-0.5, fmt.Sprintf("part %d of 2", i+1)); err != nil {
					return 0, err
				}
				select {
				case <-seen:
				case <-ctx.Done():
				}
				time.Sleep(150 * time.Millisecond) //nolint:forbidigo // reports that follow each other closely may be dropped
			}
			return n, nil
		})
		def := fixture.OneNode(t, "busy", a)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		var live, later []string
		var cursors []string
		for event, err := range run.Watch(ctx, "") {
			require.NoError(t, err)
			cursors = append(cursors, event.ID)
			if event.Kind == fabrictype.EventProgress {
				live = append(live, fmt.Sprintf("%s %d %v %s", event.Node, event.Attempt, event.Percent, event.Message))
				seen <- struct{}{}
			}
		}
		require.Equal(t, []string{"node 1 49.5 part 1 of 2", "node 1 99.5 part 2 of 2"}, live)
		for event, err := range run.Watch(ctx, cursors[0]) {
			require.NoError(t, err)
			later = append(later, string(event.Kind))
		}
		require.Equal(t, []string{"started", "progress", "success", "flow_success"}, later)
		b.Settle(t)
	})
}
