package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// readLog reads a run's whole log by pages of so many events.
func readLog(t *testing.T, b *enginetest.Bench, run *runtime.Run[int], after string, limit int64) (events []enginerpc.FlowEvent) {
	t.Helper()
	core := enginerpc.ConnOf(b.Engine)
	p, err := core.FlowPartition(run.FlowID())
	require.NoError(t, err)
	for {
		reply, err := core.ReadEvents(t.Context(), enginerpc.ReadEventsCall{Partition: p, FlowID: run.FlowID(), After: after, Limit: limit})
		require.NoError(t, err)
		events = append(events, reply.Events...)
		if int64(len(reply.Events)) < limit {
			return events
		}
		after = events[len(events)-1].ID
	}
}

// logEntries are the entries of the stream in which a run's log is kept.
func logEntries(t *testing.T, b *enginetest.Bench, run *runtime.Run[int]) []rueidis.XRangeSlice {
	t.Helper()
	core := enginerpc.ConnOf(b.Engine)
	p, err := core.FlowPartition(run.FlowID())
	require.NoError(t, err)
	read := core.Client().B().Xrange().Key(core.Keys().FlowEvents(p, run.FlowID())).Start("-").End("+").Build()
	entries, err := core.Client().Do(t.Context(), read).AsXRangeSlices()
	require.NoError(t, err)
	return entries
}

// logAsBefore appends an event as builds did that wrote an entry for each.
func logAsBefore(t *testing.T, b *enginetest.Bench, run *runtime.Run[int], event, node, attempt, detail string) {
	t.Helper()
	core := enginerpc.ConnOf(b.Engine)
	p, err := core.FlowPartition(run.FlowID())
	require.NoError(t, err)
	write := core.Client().B().Xadd().Key(core.Keys().FlowEvents(p, run.FlowID())).Id("*").
		FieldValue().FieldValue("event", event).FieldValue("node", node).FieldValue("attempt", attempt).FieldValue("detail", detail).Build()
	require.NoError(t, core.Client().Do(t.Context(), write).Error())
}

// gated is a flow of a node that runs until the gate is opened, and others that wait for it.
func gated(t *testing.T, gate <-chan struct{}, others int) *flow.Definition[int, int] {
	t.Helper()
	act := activity.New("gated", func(ctx context.Context, n int) (int, error) {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return n, nil
	})
	pass := activity.New("pass", func(_ context.Context, n int) (int, error) { return n, nil })
	f := flow.New[int, int]("gated")
	first := flow.Node(f, "first", act, f.Input())
	last := first
	for i := range others {
		last = flow.Node(f, fmt.Sprintf("other-%d", i), pass, first)
	}
	flow.Return(f, last)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func textOf(e enginerpc.FlowEvent) string {
	return strings.Join([]string{e.Event, e.Node, e.Attempt, e.Detail}, "|")
}

// A log that is read by pages of any size, or from any of its events on, has the same events in the same order, though
// many of them share an entry and some were written by an earlier build.
func TestEventLogByPages(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const others = 80
		ctx := enginetest.Context(t)
		gate := make(chan struct{})
		defer close(gate)
		def := gated(t, gate, others)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		logAsBefore(t, b, run, "flow_paused", "", "", "by an old build")
		logAsBefore(t, b, run, "budget_soft", "first", "0", "of it, too")
		b.Worker(t, def.Handlers())
		awaitRunning(t, run, "first")
		require.NoError(t, run.Cancel(ctx, "no  longer wanted"))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		logAsBefore(t, b, run, "flow_resumed", "", "", "")

		all := readLog(t, b, run, "", 500)
		texts := make([]string, len(all))
		for i, e := range all {
			texts[i] = textOf(e)
		}
		require.Equal(t, []string{"flow_submitted|||", "flow_paused|||by an old build", "budget_soft|first|0|of it, too"}, texts[:3])
		require.Equal(t, []string{"started", "first", "0"}, strings.Split(texts[3], "|")[:3])
		require.Equal(t, "flow_cancel_requested|||no  longer wanted", texts[4])
		require.Equal(t, []string{"flow_cancelled|||", "flow_resumed|||"}, texts[len(texts)-2:])
		cancelled := texts[5 : len(texts)-2]
		require.Len(t, cancelled, others+1)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(cancelled))), others+1)

		entries := logEntries(t, b, run)
		require.Less(t, len(entries), 12, "events of one call share entries")
		for _, e := range entries {
			require.LessOrEqual(t, len(e.FieldValues), 64, e.ID)
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

// A watch from the middle of an entry on yields the rest of it at once, and what follows as it happens.
func TestWatchFromWithinAnEntry(t *testing.T) {
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
		for _, bad := range []string{"1", "1-2-3", "1-2.", "1-2.x", ".1", "1-2.3.4"} {
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
		def := gated(t, nil, 1)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		other, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		core := enginerpc.ConnOf(b.Engine)
		p, err := core.FlowPartition(run.FlowID())
		require.NoError(t, err)
		// The rows are of a form that the library does not know.
		write := core.Client().B().Setrange().Key(core.Keys().FlowNodes(p, run.FlowID())).Offset(0).Value("\xff").Build()
		require.NoError(t, core.Client().Do(ctx, write).Error())
		require.Error(t, run.Cancel(ctx, "breaks"))
		require.NoError(t, other.Pause(ctx, "later"))
		require.Len(t, readLog(t, b, run, "", 500), 1)
		log := readLog(t, b, other, "", 500)
		require.Equal(t, []string{"flow_submitted|||", "flow_paused|||"}, []string{textOf(log[0]), textOf(log[len(log)-1])})
		b.Wipe(t) // what is left of the run is not whole
	})
}

func awaitRunning(t *testing.T, run *runtime.Run[int], node string) {
	t.Helper()
	enginetest.Eventually(t, enginetest.Patience, func() string {
		d, err := run.Describe(context.Background())
		if err != nil {
			return err.Error()
		}
		for _, n := range d.Nodes {
			if n.Name == node && n.State == runtime.NodeActive {
				return ""
			}
		}
		return node + " does not run yet"
	})
}
