package viewtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// readLog reads a run's whole log by pages of limit events.
func readLog(t *testing.T, b *enginetest.Bench, run *runtime.Run[int], after string, limit int64) (events []enginerpc.FlowEvent) {
	t.Helper()
	core := engine.ConnOf(b.Engine.Internal())
	p, err := core.FlowPartition(run.FlowID())
	require.NoError(t, err)
	for {
		reply, err := core.ReadEvents(t.Context(), enginerpc.ReadEventsCall{Partition: p, FlowID: run.FlowID(), After: after, Limit: limit})
		require.NoError(t, err)
		events = append(events, reply.Events...)
		if int64(len(reply.Events)) < limit && len(reply.Gone) == 0 {
			return events
		}
		after = events[len(events)-1].ID
	}
}

// logEntries are the elements of the list in which a run's log is kept.
func logEntries(t *testing.T, b *enginetest.Bench, run *runtime.Run[int]) []string {
	t.Helper()
	client, log := fixture.LogOf(t, b, run)
	entries, err := client.Do(t.Context(), client.B().Lrange().Key(log).Start(0).Stop(-1).Build()).AsStrSlice()
	require.NoError(t, err)
	return entries
}

// fillLog appends elements to a log that have one event each, of a run that begins to be long.
func fillLog(t *testing.T, b *enginetest.Bench, run *runtime.Run[int], count int, element string) {
	t.Helper()
	client, log := fixture.LogOf(t, b, run)
	for count > 0 {
		chunk := slices.Repeat([]string{element}, min(count, 1000))
		require.NoError(t, client.Do(t.Context(), client.B().Rpush().Key(log).Element(chunk...).Build()).Error())
		count -= len(chunk)
	}
}

// logAll has the events of a run logged from now on: they follow from its rows no longer.
func logAll(t *testing.T, run *runtime.Run[int]) {
	t.Helper()
	require.NoError(t, run.Pause(t.Context(), "to log"))
	require.NoError(t, run.Resume(t.Context()))
}

func textOf(e enginerpc.FlowEvent) string {
	return strings.Join([]string{e.Event, e.Node, e.Attempt, e.Detail}, "|")
}

// A call that shortens a log leaves nothing of the run in the interpreter, which the next call would take for stored.
func TestShortenedLog_LeavesNoRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, fixture.Gated(t, nil, 1), 1)
		require.NoError(t, err)
		logAll(t, run)
		fillLog(t, b, run, 21_000, "1\nflow_paused   ")
		core := engine.ConnOf(b.Engine.Internal())
		p, err := core.FlowPartition(run.FlowID())
		require.NoError(t, err)
		_, err = core.PauseFlow(ctx, enginerpc.PauseFlowCall{Partition: p, FlowID: run.FlowID()})
		require.NoError(t, err)
		require.Less(t, len(logEntries(t, b, run)), 21_000)
		client := core.Client()
		require.NoError(t, client.Do(ctx, client.B().Del().Key(core.Keys().FlowNodes(p, run.FlowID())).Build()).Error())
		_, err = core.FindNode(ctx, enginerpc.FindNodeCall{Partition: p, FlowID: run.FlowID(), Node: "first"})
		require.ErrorIs(t, err, enginecore.ErrFlowNotFound)
		b.Wipe(t)
	})
}

// A log that is read by pages of any size, or from any of its events on, has the same events in the same order, though
// many of them share an element.
func TestEventLogByPages(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const others = 80
		ctx := enginetest.Context(t)
		gate := make(chan struct{})
		defer close(gate)
		def := fixture.Gated(t, gate, others)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		b.Worker(t, def.Handlers())
		awaitRunning(t, run, "first")
		core := engine.ConnOf(b.Engine.Internal())
		p, err := core.FlowPartition(run.FlowID())
		require.NoError(t, err)
		for more := true; more; {
			reply, err := core.CancelFlow(ctx, enginerpc.CancelFlowCall{
				Partition: p, FlowID: run.FlowID(), Reason: "no  longer\nwanted\\n \\",
			})
			require.NoError(t, err)
			more = reply.More
		}
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)

		all := readLog(t, b, run, "", 500)
		texts := make([]string, len(all))
		for i, e := range all {
			texts[i] = textOf(e)
		}
		require.Equal(t, "flow_submitted|||", texts[0])
		require.Equal(t, []string{"started", "first", "0"}, strings.Split(texts[1], "|")[:3])
		require.Equal(t, "flow_cancel_requested|||no  longer\nwanted\\n \\", texts[2])
		require.Equal(t, "flow_cancelled|||", texts[len(texts)-1])
		cancelled := texts[3 : len(texts)-1]
		require.Len(t, cancelled, others+1)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(cancelled))), others+1)

		entries := logEntries(t, b, run)
		require.Less(t, len(entries), 12, "events of one call share elements")
		for _, e := range entries {
			require.LessOrEqual(t, strings.Count(e, "\n"), 64)
		}
		for limit := range int64(len(all) + 2) {
			if limit > 0 {
				require.Equal(t, all, readLog(t, b, run, "", limit), "by pages of %d", limit)
			}
		}
		for i, e := range all {
			require.Equal(t, all[i+1:], append([]enginerpc.FlowEvent{}, readLog(t, b, run, e.ID, 500)...), "after %s", textOf(e))
		}
		for i := 0; i < len(all); i += 7 {
			rest := []enginerpc.FlowEvent{}
			for event, err := range run.Watch(ctx, all[i].ID) {
				require.NoError(t, err)
				rest = append(rest, all[i+1+len(rest)])
				require.Equal(t, rest[len(rest)-1].ID, event.ID)
			}
			require.Len(t, rest, len(all)-i-1)
		}
	})
}

// A watch from the middle of an element on yields the rest of it at once, and later events as they happen.
func TestWatchFromWithinAnElement(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		gate := make(chan struct{})
		pass := activity.New("pass", func(_ context.Context, n int) (int, error) { return n, nil })
		wait := activity.New("wait", func(ctx context.Context, n int) (int, error) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return n, nil
		})
		f := flow.New[int, int]("handed")
		flow.Return(f, flow.Node(f, "second", wait, flow.Node(f, "first", pass, f.Input())))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		logAll(t, run)
		b.Worker(t, def.Handlers())
		awaitRunning(t, run, "second")
		ids := make(map[string]string)
		for _, e := range readLog(t, b, run, "", 500) {
			ids[e.Event+" "+e.Node] = e.ID
		}
		within := ids["success first"]
		require.Equal(t, ids["started second"]+".1", within, "one call ends a node and starts the next")
		var seen []string
		for event, err := range run.Watch(ctx, within) {
			require.NoError(t, err)
			seen = append(seen, string(event.Kind)+" "+event.Node)
			if len(seen) == 1 {
				close(gate)
			}
		}
		require.Equal(t, []string{"started second", "success second", "flow_success "}, seen)
		for _, bad := range []string{"1", "1-2", "1-2.3", "1-2-3-4", "1-2-3.", "1-2-3.x", "-1-2.1", "1-2-3.4.5"} {
			for _, err := range run.Watch(ctx, bad) {
				require.ErrorIs(t, err, runtime.ErrCursor, bad)
			}
		}
	})
}

// A call that an error breaks off in the middle does not leave its events to the next one.
func TestEventsOfABrokenCall(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := fixture.Gated(t, nil, 1)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		other, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		core := engine.ConnOf(b.Engine.Internal())
		p, err := core.FlowPartition(run.FlowID())
		require.NoError(t, err)
		// The rows are of a form that the library does not know.
		write := func(form byte) {
			command := core.Client().B().Setrange().Key(core.Keys().FlowNodes(p, run.FlowID())).Offset(0).Value(string([]byte{form})).Build()
			require.NoError(t, core.Client().Do(ctx, command).Error())
		}
		write(0xff)
		require.Error(t, run.Cancel(ctx, "breaks"))
		write(rowread.RunHeadForm)
		require.NoError(t, other.Pause(ctx, "later"))
		require.Len(t, readLog(t, b, run, "", 500), 1)
		log := readLog(t, b, other, "", 500)
		require.Equal(t, []string{"flow_submitted|||", "flow_paused|||client"}, []string{textOf(log[0]), textOf(log[len(log)-1])})
		b.Wipe(t) // the rest of the run is incomplete
	})
}

func awaitRunning(t *testing.T, run *runtime.Run[int], node string) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		d, err := run.Describe(context.Background())
		if err != nil {
			return err.Error()
		}
		for _, n := range d.Nodes {
			if n.Name == node && n.State == fabrictype.NodeActive {
				return ""
			}
		}
		return node + " does not run yet"
	})
}

// A log is bounded: it keeps the last events, and the first of each node. A caller that requests dropped events gets,
// at their position, an error with their nodes and numbers.
func TestEventsLost(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		gate := make(chan struct{})
		def := fixture.Gated(t, gate, 1)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		first := readLog(t, b, run, "", 500)
		require.Len(t, first, 1)
		logAll(t, run)
		fillLog(t, b, run, 20_298, first[0].ID[len(first[0].ID)-13:]+"\nflow_paused   ")
		require.NoError(t, run.Pause(ctx, "one more"))
		require.NoError(t, run.Resume(ctx))
		require.Len(t, logEntries(t, b, run), 20_001)
		b.Worker(t, def.Handlers())
		close(gate)
		_, err = run.Result(ctx)
		require.NoError(t, err)

		all := readLog(t, b, run, "", 500)
		require.Len(t, all, 32+20_001+5)
		require.Equal(t, []string{"flow_submitted", "flow_paused"}, []string{all[0].Event, all[1].Event})
		require.Equal(t, all[10_000:], readLog(t, b, run, all[9_999].ID, 500), "positions stay")
		require.Equal(t, all[20:], readLog(t, b, run, all[19].ID, 500), "also of those that are kept")
		for from, after := range map[int]string{0: "", 1: first[0].ID} {
			lost, seen := 0, from
			for event, err := range run.Watch(ctx, after) {
				if err != nil {
					require.ErrorIs(t, err, &fabrictype.EventsLostError{})
					var gone *fabrictype.EventsLostError
					require.ErrorAs(t, err, &gone)
					require.Equal(t, map[string]int{"": 270}, gone.Gone)
					require.ErrorContains(t, err, "events were dropped: 270 of the run itself")
					require.Equal(t, 32, seen)
					lost++
					continue
				}
				if seen%1000 == 0 || seen < 40 {
					require.Equal(t, all[seen].ID, event.ID)
				}
				seen++
			}
			require.Equal(t, 1, lost, after)
			require.Equal(t, len(all), seen, after)
		}
		for _, err := range run.Watch(ctx, all[len(all)-10].ID) {
			require.NoError(t, err)
		}
		b.Wipe(t) // the events put into the log have not happened
	})
}

// A node that repeats something thousands of times, whatever it is, pushes out its own events, not the events of other
// nodes: their attempts are described, and the error of a watch about dropped events names that node alone. The
// description of a node reads its own events, and a bounded number of them.
func TestNoisyNode(t *testing.T) {
	t.Parallel()
	noises := map[string][]string{
		"retries": {"retry first 1 no", "started first 1 w"}, "waits": {"suspended first 1 ", "resumed first 1 w"},
		"sleeps": {"sleeping first 1 5", "released first 1 "}, "generations": {"continued first 1 2"},
		"signals": {"signalled first 1 s"}, "turns": {"waiting_children first 1 c", "released first 1 "},
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for name, lines := range noises {
			ctx, gate := enginetest.Context(t), make(chan struct{})
			def := fixture.Gated(t, gate, 3)
			run, err := runtime.Start(ctx, b.Client, def, 1)
			require.NoError(t, err)
			worker := b.Worker(t, def.Handlers())
			awaitRunning(t, run, "first")
			at := readLog(t, b, run, "", 1)[0].ID
			logAll(t, run)
			for range 3 {
				for _, line := range lines {
					fillLog(t, b, run, 12_000/len(lines), at[len(at)-13:]+"\n"+line)
				}
				require.NoError(t, run.Pause(ctx, "one more"))
				require.NoError(t, run.Resume(ctx))
			}
			close(gate)
			_, err = run.Result(ctx)
			require.NoError(t, err)
			fillLog(t, b, run, 25_000, at[len(at)-13:]+"\n"+lines[0])
			require.NoError(t, run.Rerun(ctx, fabrictype.RerunFrom("other-2")))
			_, err = run.Result(ctx)
			require.NoError(t, err)
			for node, attempts := range map[string]int{"other-0": 1, "other-1": 1, "other-2": 2} {
				n, err := run.DescribeNode(ctx, node)
				require.NoError(t, err)
				require.Len(t, n.History, attempts, "%s: %s", name, node)
				require.Equal(t, attempts-1, n.History[attempts-1].Replay)
				require.Equal(t, "success", string(n.History[0].Outcome), "%s: %s", name, node)
			}
			noisy, err := run.DescribeNode(ctx, "first")
			require.NoError(t, err)
			require.LessOrEqual(t, len(noisy.History), describe.MaxAttempts)
			lost := 0
			others := make(map[string]int)
			for event, err := range run.Watch(ctx, "") {
				if err != nil {
					var gone *fabrictype.EventsLostError
					require.ErrorAs(t, err, &gone)
					require.Len(t, gone.Gone, 1)
					require.Greater(t, gone.Gone["first"], 10_000)
					lost++
				} else if event.Node != "first" {
					others[event.Node]++
				}
			}
			require.Equal(t, 1, lost)
			require.Equal(t, map[string]int{"": 13, "other-0": 2, "other-1": 2, "other-2": 5}, others, name)
			require.NoError(t, worker.Stop())
			b.Wipe(t) // the events put into the log have not happened
		}
	})
}

// Reports of progress that later ones have replaced do not push out other events. The last events keep their ids when
// the reports are taken out.
func TestProgressDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		reports, gate := make(chan int), make(chan struct{})
		act := activity.New("reports", func(ctx context.Context, n int) (int, error) {
			for i := range reports {
				if err := activity.Progress(ctx, float64(i), ""); err != nil {
					return 0, err
				}
			}
			<-gate
			return n, nil
		})
		def := fixture.OneNode(t, "reports", act)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		b.Worker(t, def.Handlers())
		report := func(percent int) {
			t.Helper()
			enginetest.Eventually(t, func() string {
				reports <- percent // reports that follow each other closely are dropped
				if log := readLog(t, b, run, "", 500); log[len(log)-1].Detail != fmt.Sprint(percent)+" " {
					return "not reported yet"
				}
				return ""
			})
		}
		report(1)
		report(2)
		before := readLog(t, b, run, "", 500)
		require.Equal(t, []string{"flow_submitted", "started", "progress"}, []string{before[0].Event, before[1].Event, before[2].Event})
		require.Len(t, before, 3)
		fillLog(t, b, run, 20_300, "")
		report(3)
		require.Less(t, len(logEntries(t, b, run)), 20_300-1000)
		report(4)
		close(reports)
		log := readLog(t, b, run, "", 500)
		require.Equal(t, []string{"flow_submitted", "started"}, []string{log[0].Event, log[1].Event})
		require.Equal(t, "4 ", log[len(log)-1].Detail)
		last := log[len(log)-1].ID
		require.Empty(t, readLog(t, b, run, last, 500))
		close(gate)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.Len(t, readLog(t, b, run, last, 500), 2)
		b.Wipe(t) // the events put into the log have not happened
	})
}

// The id of an event of a run that was purged and begun again with the same id selects all events of the later one.
func TestEventsOfAnotherCreation(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		pass := activity.New("pass", func(_ context.Context, n int) (int, error) { return n, nil })
		def := fixture.OneNode(t, "again", pass)
		b.Worker(t, def.Handlers())
		var last string
		for range 2 {
			run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("one"))
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err)
			var seen []string
			for event, err := range run.Watch(ctx, last) {
				require.NoError(t, err)
				seen = append(seen, string(event.Kind))
			}
			require.Equal(t, []string{"flow_submitted", "started", "success", "flow_success"}, seen)
			log := readLog(t, b, run, "", 500)
			last = log[1].ID
			require.NoError(t, run.Purge(ctx))
		}
	})
}
