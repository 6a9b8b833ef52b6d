package waittest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Many waits that time out in the same moment all continue, and in time; signals that come at that very moment either
// end their wait or return that it is closed.
func TestManyWaits_TimeOutTogether(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	def := fixture.Waiter(t, "late", activity.Timeout(patience, activity.ResumeOnTimeout))
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*enginetest.Patience)
		defer cancel()
		count := waitingCount(t)
		b.Keeper(t)
		runs := make([]*runtime.Run[int], count)
		tokens := make([]activity.Token, count)
		parallel(t, count, func(i int) error {
			var err error
			if runs[i], err = runtime.Start(ctx, b.Client, def, i); err != nil {
				return err
			}
			if waits, err := runs[i].Waitpoints(ctx); err == nil && len(waits) == 1 {
				tokens[i] = waits[0].Token
			}
			return nil
		})
		due := time.Now().Add(patience)
		time.Sleep(time.Until(due) - 20*time.Millisecond) //nolint:forbidigo // so that signals and timeouts meet
		resumed := make([]bool, count)
		parallel(t, count, func(i int) error {
			if i%4 != 0 || tokens[i].IsZero() {
				return nil
			}
			d, err := b.Client.Signal(ctx, tokens[i], runtime.Signal{Name: "x", Payload: i + 1})
			resumed[i] = d.Outcome == fabrictype.SignalResumed
			if err == nil && !resumed[i] && d.Outcome != fabrictype.SignalExpired && d.Outcome != fabrictype.SignalClosed {
				err = fmt.Errorf("signal %d: %s", i, d.Outcome)
			}
			return err
		})
		for i, run := range runs {
			out, err := run.Result(ctx)
			require.NoError(t, err)
			want := 0
			if resumed[i] {
				want = i + 1
			}
			require.Equal(t, want, out)
		}
		t.Logf("%d waits ended %s after their time", count, time.Since(due))
		b.Settle(t)
	})
}

// A watch and a stream that wait for events continue when the server has been away.
func TestWatchOutlivesTheServer(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		ctx := enginetest.Context(t)
		talk := activity.New("talk", func(ctx context.Context, n int) (int, error) {
			if err := activity.Emit(ctx, activity.Frame{Kind: "call", Payload: n}); err != nil {
				return 0, err
			}
			return activity.Await[int](ctx, "w")
		})
		def := fixture.OneNode(t, "talk", talk)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		frames := make(chan int, 1)
		firstFrame := make(chan struct{})
		go func() {
			seen := 0
			for _, err := range run.Stream(ctx, "node", "") {
				if err != nil {
					t.Error(err)
					break
				}
				if seen++; seen == 1 {
					close(firstFrame)
				}
			}
			frames <- seen
		}()
		<-firstFrame
		token := fixture.OpenWaits(t, ctx, run, 1)[0].Token
		var kinds []fabrictype.EventKind
		for event, err := range run.Watch(ctx, "") {
			require.NoError(t, err)
			kinds = append(kinds, event.Kind)
			if event.Kind != fabrictype.EventSuspended {
				continue
			}
			server.Kill()
			server.Restart()
			enginetest.Eventually(t, func() string {
				d, err := b.Client.Signal(ctx, token, runtime.Signal{Name: "x", Payload: 5, IdempotencyKey: "once"})
				if err != nil {
					return err.Error()
				}
				require.Equal(t, fabrictype.SignalResumed, d.Answer())
				return ""
			})
		}
		require.Equal(t, []fabrictype.EventKind{
			fabrictype.EventRunSubmitted, fabrictype.EventStarted, fabrictype.EventSuspended, fabrictype.EventSignalled, eventkind.Resumed,
			fabrictype.EventSucceeded, fabrictype.EventRunSucceeded,
		}, kinds)
		require.Equal(t, 2, <-frames)
		b.Settle(t)
	})
}
