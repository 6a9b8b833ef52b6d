package viewtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// asking is a flow of one waitpoint.
func asking(t *testing.T) *flow.Definition[int, int] {
	t.Helper()
	f := flow.New[int, int]("asking")
	flow.Return(f, flow.Waitpoint[int](f, "asks"))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// readers counts the clients of a server that wait for streams.
func readers(t *testing.T, b *enginetest.Bench) int {
	t.Helper()
	client := engine.ConnOf(b.Engine.Internal()).Client()
	list, err := client.Do(t.Context(), client.B().Arbitrary("CLIENT", "LIST").Build()).ToString()
	require.NoError(t, err)
	return strings.Count(list, "cmd=xread")
}

// Watches of runs of many partitions share one connection, and each receives the events of its run at once.
func TestWatchesShareAReader(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			// A separate server, whose connections are counted.
			isServer := kind != testserver.Embedded && kind != testserver.OnCluster
			url := ""
			if isServer {
				url = testserver.Start(t, testserver.Options{Kind: kind}).URL()
			} else {
				url = enginetest.URL(t, kind)
			}
			b := enginetest.Open(t, kind, url, enginetest.NewPrefix(), runtime.OpenConfig{Partitions: 16})
			ctx := enginetest.Context(t)
			def := asking(t)
			const watchers = 64
			runs := make([]*runtime.Run[int], watchers)
			var submitted, ended sync.WaitGroup
			for i := range runs {
				run, err := runtime.Start(ctx, b.Client, def, i)
				require.NoError(t, err)
				runs[i] = run
				submitted.Add(1)
				ended.Go(func() {
					var seen []fabrictype.EventKind
					for event, err := range run.Watch(ctx, "") {
						if !assert.NoError(t, err) {
							break
						}
						if seen = append(seen, event.Kind); event.Kind == fabrictype.EventSuspended {
							submitted.Done()
						}
					}
					assert.Equal(t, []fabrictype.EventKind{
						fabrictype.EventRunSubmitted, fabrictype.EventSuspended, fabrictype.EventSignalled, fabrictype.EventSucceeded, fabrictype.EventRunSucceeded,
					}, seen)
				})
			}
			submitted.Wait()
			if isServer {
				enginetest.Eventually(t, func() string {
					if n := readers(t, b); n != 1 {
						return fmt.Sprintf("%d connections wait for streams", n)
					}
					return ""
				})
			}
			for i, run := range runs {
				waits, err := run.Waitpoints(ctx)
				require.NoError(t, err)
				require.Len(t, waits, 1)
				fixture.Send(t, ctx, b, waits[0], runtime.Signal{Name: "asks", Payload: i})
			}
			ended.Wait()
		})
	}
}

// A watcher that is slow, or whose partition has been busy, misses nothing although the feed has been trimmed.
func TestSlowWatcherMissesNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const pairs = 400 // of events: more than the feed has entries
		run, err := runtime.Start(ctx, b.Client, asking(t), 1)
		require.NoError(t, err)
		turn := func(do func(context.Context, ...runtime.ActionOption) error) {
			t.Helper()
			require.NoError(t, do(ctx))
		}
		pause := func(ctx context.Context, _ ...runtime.ActionOption) error { return run.Pause(ctx, "") }
		var seen []fabrictype.EventKind
		watched, enough := context.WithCancel(ctx)
		defer enough()
		for event, err := range run.Watch(watched, "") {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				break
			}
			seen = append(seen, event.Kind)
			switch len(seen) {
			case 2: // it waits for news, and they come while it does something else
				for range pairs {
					turn(pause)
					turn(run.Resume)
				}
			case 2 + 2*pairs:
				turn(pause)
			case 3 + 2*pairs:
				enough()
			}
		}
		require.Len(t, seen, 3+2*pairs)
		for i, kind := range seen[2:] {
			want := fabrictype.EventRunPaused
			if i%2 == 1 {
				want = fabrictype.EventRunResumed
			}
			require.Equal(t, want, kind, i)
		}
		conn := engine.ConnOf(b.Engine.Internal())
		p, err := conn.FlowPartition(run.FlowID())
		require.NoError(t, err)
		entries, err := conn.Client().Do(ctx, conn.Client().B().Xlen().Key(conn.Keys().FfxFeed(p)).Build()).AsInt64()
		require.NoError(t, err)
		require.Less(t, entries, int64(2*pairs), "the feed is trimmed")
		b.Wipe(t)
	})
}

// A feed that is gone costs a watcher a few seconds, and no event.
func TestWatchWithoutHints(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		gate := make(chan struct{})
		def := fixture.Gated(t, gate, 1)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		conn := engine.ConnOf(b.Engine.Internal())
		p, err := conn.FlowPartition(run.FlowID())
		require.NoError(t, err)
		client, feed := conn.Client(), conn.Keys().FfxFeed(p)
		// Hints with an id before the last one are never read.
		far := fmt.Sprintf("%d-0", time.Now().Add(time.Hour).UnixMilli())
		require.NoError(t, client.Do(ctx, client.B().Xadd().Key(feed).Id(far).FieldValue().FieldValue("flows", "*").Build()).Error())
		b.Worker(t, def.Handlers())
		var seen []fabrictype.EventKind
		for event, err := range run.Watch(ctx, "") {
			require.NoError(t, err)
			if seen = append(seen, event.Kind); len(seen) == 2 {
				require.NoError(t, client.Do(ctx, client.B().Unlink().Key(feed).Build()).Error())
				close(gate)
			}
		}
		require.Equal(t, fabrictype.EventRunSucceeded, seen[len(seen)-1])
		require.Len(t, seen, 6)
	})
}

// A stream of frames notices the end of an attempt that emits nothing while it waits.
func TestStream_EndsWithItsRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		gate := make(chan struct{})
		quiet := activity.New("quiet", func(ctx context.Context, n int) (int, error) {
			info, _ := activity.Info(ctx)
			if info.Attempt == 1 {
				if err := activity.Emit(ctx, activity.Frame{Kind: "one", Payload: nil}); err != nil {
					return 0, err
				}
				<-gate
				return 0, fmt.Errorf("attempt %d", info.Attempt)
			}
			return n, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Factor: 1}))
		def := fixture.OneNode(t, "quiet", quiet)
		enginetest.HoldWatches(t, b.Engine, time.Hour)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		var frames []string
		for frame, err := range run.Stream(ctx, "node", "") {
			require.NoError(t, err)
			frames = append(frames, frame.Kind)
			close(gate)
		}
		require.Equal(t, []string{"one"}, frames)
	})
}
