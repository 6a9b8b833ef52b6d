package viewtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// openFeed opens a feed for a test.
func openFeed(t testing.TB, c *runtime.Client, filter runtime.FeedFilter, cursor string) *runtime.Feed {
	t.Helper()
	feed, err := c.Feed(enginetest.Context(t), filter, cursor)
	require.NoError(t, err)
	t.Cleanup(feed.Close)
	return feed
}

// nextEvents takes as many events from a feed, and stops in the middle of whatever the engine has sent.
func nextEvents(t testing.TB, feed *runtime.Feed, count int) []fabrictype.FeedEvent {
	t.Helper()
	var list []fabrictype.FeedEvent
	if count == 0 {
		return nil
	}
	for e, err := range feed.Events(enginetest.Context(t)) {
		require.NoError(t, err)
		require.False(t, e.At.IsZero())
		if list = append(list, e); len(list) == count {
			break
		}
	}
	return list
}

// kindsOf are the kinds of the events of each run, in their order, with the nodes that they are about.
func kindsOf(events []fabrictype.FeedEvent) map[string][]string {
	kinds := make(map[string][]string)
	for _, e := range events {
		text := string(e.Kind)
		if e.Node != "" {
			text += " " + e.Node
		}
		kinds[e.Run] = append(kinds[e.Run], text)
	}
	return kinds
}

func TestFeedOfRuns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		good, bad := oneWay(t, c, "good", "ok"), oneWay(t, c, "bad", "fail")
		waiting := flow.New[fixture.None, string]("waiting")
		flow.Return(waiting, flow.Waitpoint[string](waiting, "ask", activity.Signals("yes")))
		b.Worker(t, []activity.Handler{c.Act, c.Sum})
		b.Keeper(t)
		early, err := runtime.Start(ctx, b.Client, good, fixture.None{}, runtime.WithID("early"))
		require.NoError(t, err)
		_, err = early.Result(ctx)
		require.NoError(t, err)

		feed := openFeed(t, b.Client, runtime.FeedFilter{}, "")
		start := feed.Cursor()
		first, err := runtime.Start(ctx, b.Client, good, fixture.None{}, runtime.WithID("one two"))
		require.NoError(t, err)
		_, err = first.Result(ctx)
		require.NoError(t, err)
		second, err := runtime.Start(ctx, b.Client, bad, fixture.None{}, runtime.WithID("second"))
		require.NoError(t, err)
		_, err = second.Result(ctx)
		require.Error(t, err)
		third, err := runtime.Start(ctx, b.Client, fixture.DefinitionOf(t, waiting), fixture.None{}, runtime.WithID("third"))
		require.NoError(t, err)
		ref := b.Client.Run("waiting", "third")
		require.NoError(t, ref.Pause(ctx, "wait"))
		require.NoError(t, ref.Resume(ctx))
		waits, err := ref.Waitpoints(ctx)
		require.NoError(t, err)
		_, err = b.Client.Signal(ctx, waits[0].Token, runtime.Signal{Name: "yes", Payload: "fine"})
		require.NoError(t, err)
		_, err = third.Result(ctx)
		require.NoError(t, err)
		want := map[string][]string{
			"one two": {"flow_submitted", "flow_success"},
			"second":  {"flow_submitted", "flow_failed a"},
			"third":   {"flow_submitted", "suspended ask", "flow_paused", "flow_resumed", "signalled ask", "flow_success"},
		}
		events := nextEvents(t, feed, 10)
		require.Equal(t, want, kindsOf(events))
		for _, e := range events {
			require.EqualValues(t, keyspace.FlowIDFor("default", e.Flow, e.Run), e.FlowID)
		}

		// From any cursor, reading continues with the next event, also in another feed and with another filter.
		for stop := range 11 {
			part := openFeed(t, b.Client, runtime.FeedFilter{}, start)
			before := nextEvents(t, part, stop)
			rest := openFeed(t, b.Client, runtime.FeedFilter{}, part.Cursor())
			require.Equal(t, want, kindsOf(append(before, nextEvents(t, rest, 10-stop)...)), stop)
			part.Close()
			rest.Close()
		}
		ends := openFeed(t, b.Client, runtime.FeedFilter{Kinds: []fabrictype.EventKind{fabrictype.EventRunSucceeded}}, start)
		require.Equal(t, map[string][]string{"one two": {"flow_success"}, "third": {"flow_success"}}, kindsOf(nextEvents(t, ends, 2)))
		of := openFeed(t, b.Client, runtime.FeedFilter{Flow: "bad"}, start)
		require.Equal(t, map[string][]string{"second": want["second"]}, kindsOf(nextEvents(t, of, 2)))
		b.Check(t, invariant.AnyTime)
	}, runtime.OpenConfig{Partitions: 3})
}

// Many feeds of a program get every event once, while runs start and end, whatever their speed.
func TestFeedsMissNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		def := oneWay(t, c, "good", "ok")
		b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{Concurrency: 8})
		const runs, listeners = 200, 5
		feeds := make([]*runtime.Feed, listeners)
		for i := range feeds {
			feeds[i] = openFeed(t, b.Client, runtime.FeedFilter{}, "")
		}
		started := make(chan error, 1)
		go func() {
			for i := range runs {
				if _, err := runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithID(fmt.Sprint("run-", i))); err != nil {
					started <- err
					return
				}
			}
			started <- nil
		}()
		for _, feed := range feeds { // one after the other: the later ones have long queues
			kinds := kindsOf(nextEvents(t, feed, 2*runs))
			require.Len(t, kinds, runs)
			for run, list := range kinds {
				require.Equal(t, []string{"flow_submitted", "flow_success"}, list, run)
			}
		}
		require.NoError(t, <-started)
	}, runtime.OpenConfig{Partitions: 3})
}

// A feed reports trimmed events as lost, and continues with the remaining ones.
func TestFeed_ReportsLostEvents(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := oneWay(t, fixture.NewCourse(), "good", "ok")
		feed := openFeed(t, b.Client, runtime.FeedFilter{}, "")
		cursor := feed.Cursor()
		for i := range 3 {
			_, err := runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithID(fmt.Sprint("run-", i)))
			require.NoError(t, err)
		}
		require.Len(t, nextEvents(t, feed, 3), 3)
		conn := engine.ConnOf(b.Engine.Internal())
		key := conn.Keys().FfxRunFeed(keyspace.Partition{Family: keyspace.FlowFamily}, "default")
		require.NoError(t, conn.Client().Do(ctx, conn.Client().B().Xtrim().Key(key).Maxlen().Threshold("2").Build()).Error())
		late := openFeed(t, b.Client, runtime.FeedFilter{}, cursor)
		var runs []string
		for e, err := range late.Events(ctx) {
			if len(runs) == 0 && err != nil {
				require.ErrorIs(t, err, &fabrictype.EventsLostError{})
				runs = append(runs, "lost")
				continue
			}
			require.NoError(t, err)
			if runs = append(runs, e.Run); len(runs) == 3 {
				break
			}
		}
		require.Equal(t, []string{"lost", "run-1", "run-2"}, runs)
	}, runtime.OpenConfig{Partitions: 1})
}

func TestFeedsEnd(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		client := enginetest.NewClient(t, b.Engine)
		feed, err := client.Feed(ctx, runtime.FeedFilter{}, "")
		if b.Contract() {
			require.ErrorIs(t, err, runtime.ErrNotInContract)
			return
		}
		require.NoError(t, err)
		defer feed.Close()
		ended, end := context.WithCancel(ctx)
		end()
		for _, err := range feed.Events(ended) {
			require.ErrorIs(t, err, context.Canceled)
		}
		_, err = client.Feed(ctx, runtime.FeedFilter{Kinds: []fabrictype.EventKind{fabrictype.EventProgress}}, "")
		require.ErrorIs(t, err, runtime.ErrInvalid)
		for _, cursor := range []string{"x", "W10", "bnVsbA"} {
			_, err = client.Feed(ctx, runtime.FeedFilter{}, cursor)
			require.ErrorIs(t, err, runtime.ErrCursor, cursor)
		}
		time.AfterFunc(time.Millisecond, client.Close)
		for _, err := range feed.Events(ctx) {
			require.True(t, errors.Is(err, enginecore.ErrClosed), err)
		}
	})
}
