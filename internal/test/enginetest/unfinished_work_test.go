package enginetest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// tick performs due work until nothing is left.
func (l *waitFixture) tick() {
	l.t.Helper()
	for {
		reply, err := l.e.Tick(l.ctx, enginerpc.TickCall{Partition: l.p, Limit: 256})
		require.NoError(l.t, err)
		if !reply.More {
			return
		}
	}
}

// cancelFlow cancels the flow with its members, and repeats the call until nothing is left.
func (l *waitFixture) cancelFlow() {
	l.t.Helper()
	for {
		reply, err := l.e.CancelFlow(l.ctx, enginerpc.CancelFlowCall{Partition: l.p, FlowID: l.id, Reason: "test", Actor: "test"})
		require.NoError(l.t, err)
		if !reply.More {
			return
		}
	}
}

// rerun makes ended nodes run again.
func (l *waitFixture) rerun(names ...string) {
	l.t.Helper()
	call := enginerpc.RerunCall{Partition: l.p, FlowID: l.id, RerunID: uuid.NewString(), Mode: "failed", Actor: "test", Begin: true}
	for _, name := range names {
		call.Nodes = append(call.Nodes, l.node(name))
	}
	for more := true; more; {
		reply, err := l.e.Rerun(l.ctx, call)
		require.NoError(l.t, err)
		more = reply.More
	}
}

func (l *waitFixture) flowCore() map[string]string { return l.flowFields() }

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "n" + strconv.Itoa(i)
	}
	return names
}

// A replay before all edges of a node's first end have been resolved discards the remaining edges.
func TestReplayDiscardsPostponedEdges(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		names := numbered(258)
		links := make([]link, len(names))
		for i, name := range names {
			links[i] = link{"root", name, "always"}
		}
		l.submit(append([]string{"root"}, names...), nil, links...)

		l.cancel("root")
		require.Zero(t, l.replay("root"))
		l.tick()
		require.Equal(t, "waiting_children", l.state("n257"))
		l.cancel("root")
		l.tick()
		require.Equal(t, "waiting", l.state("n7"))
		require.Equal(t, "waiting", l.state("n257"))
		b.Check(t, invariant.AnyTime)
	})
}

// A node that was cancelled before its upstream had ended, which then closed the flow, does not wait for that upstream
// when it is replayed.
func TestReplayOfNodeWithUnresolvedEdge(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"a", "b"}, nil, link{"a", "b", "success_only"})
		l.cancel("b")
		l.take("a")
		l.end("a", "success")
		require.NotEmpty(t, l.flowCore()["closed_at"])
		require.Zero(t, l.replay("b"))
		require.Equal(t, "waiting", l.state("b"))
		b.Check(t, invariant.AnyTime)
	})
}

// An edge that a replay has opened again waits for its upstream, whatever that came to after the skip and before the replay.
func TestReplayReopensEdgeAfterSkip(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"a", "b", "c"}, nil, link{"a", "c", "always"}, link{"b", "c", "success_only"})
		l.cancel("b")
		require.Equal(t, "skipped", l.state("c"))
		require.Zero(t, l.replay("b"))
		l.take("b")
		l.end("b", "success")
		require.Equal(t, "skipped", l.state("c"))
		require.Zero(t, l.replay("b"))

		require.EqualValues(t, 2, l.replay("c"))
		l.cancel("a")
		require.Equal(t, "waiting_children", l.state("c"))
		b.Check(t, invariant.AnyTime)
		l.take("b")
		l.end("b", "success")
		require.Equal(t, "waiting", l.state("c"))
		b.Check(t, invariant.AnyTime)
	})
}

// A rerun discards the work that was left for members when the flow closed.
func TestRerunAfterContractCancel(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"a", "b"}, nil, link{"a", "b", "success_only"})
		_, err := l.e.ContractCancelFlow(l.ctx, enginerpc.ContractCancelFlowCall{
			Partition: l.p, FlowID: l.id, Reason: "test", CancellationPolicy: "cancel_all", Grace: time.Millisecond,
		})
		require.NoError(t, err)
		l.cancel("a")
		l.cancel("b")
		require.NotEmpty(t, l.flowCore()["closed_at"])

		l.rerun("a", "b")
		l.tick()
		require.Equal(t, "waiting", l.state("a"))
		require.Equal(t, "waiting_children", l.state("b"))
		b.Check(t, invariant.AnyTime)
	})
}

// A cancel that has ended a part of a run, the rest of which was then cancelled node by node, ends nothing of the rerun.
func TestRerunAfterAHalfDoneCancel(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		names := numbered(100)
		l.submit(names, nil)
		reply, err := l.e.CancelFlow(l.ctx, enginerpc.CancelFlowCall{Partition: l.p, FlowID: l.id, Reason: "test", Actor: "test"})
		require.NoError(t, err)
		require.True(t, reply.More)
		for _, name := range names {
			if l.state(name) != "cancelled" {
				l.cancel(name)
			}
		}
		require.NotEmpty(t, l.flowCore()["closed_at"])

		l.rerun(names...)
		b.Check(t, invariant.AnyTime)
		l.tick()
		for _, name := range names {
			require.Equal(t, "waiting", l.state(name), name)
		}
		b.Check(t, invariant.AnyTime)
	})
}

// A run that is cancelled while its roots are released in parts closes, although some of them have ended.
func TestCancelBetweenTheReleases(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		names := numbered(300)
		l.submit(names, nil)
		for _, name := range names[:20] {
			l.cancel(name)
		}
		l.cancel("n290")
		l.cancelFlow()
		require.Equal(t, "cancelled", l.flowCore()["outcome"])
		l.tick()
		for _, name := range names {
			require.Equal(t, "cancelled", l.state(name), name)
		}
		b.Check(t, invariant.Quiescent)
	})
}

// A replay has the full timeout of an attempt, although the attempt before it was suspended with a remaining time.
func TestReplayHasFullTimeout(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		c := l.call([]string{"a"}, nil)
		c.Nodes[0].AttemptTimeout = time.Hour
		l.graph.submit(c)
		timed := func() bool {
			client := l.e.Client()
			key := l.e.Keys().IndexAttemptTimeout(l.p)
			_, err := client.Do(l.ctx, client.B().Zscore().Key(key).Member(string(l.node("a"))).Build()).ToString()
			return err == nil
		}
		x := l.take("a")
		require.True(t, timed())
		l.suspend(x, "wait", waitSpec{names: []string{"go"}})
		require.False(t, timed())
		l.cancel("a")
		require.Zero(t, l.replay("a"))
		delete(l.leases, "a")
		l.take("a")
		require.True(t, timed())
		b.Check(t, invariant.AnyTime)
	})
}

// A purge whose caller is gone is led on by the keeper.
func TestKeeperFinishesPurge(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit(numbered(200), nil)
		l.cancelFlow()
		l.tick()
		reply, err := l.e.PurgeFlow(l.ctx, enginerpc.PurgeFlowCall{Partition: l.p, FlowID: l.id})
		require.NoError(t, err)
		require.True(t, reply.More)
		client := l.e.Client()
		key := l.e.Keys().FfxPurgeDue(l.p)
		due, err := client.Do(l.ctx, client.B().Zscore().Key(key).Member(string(l.id)).Build()).AsFloat64()
		require.NoError(t, err)
		require.InDelta(t, time.Now().UnixMilli(), due, float64(time.Minute.Milliseconds()))
		require.NoError(t, client.Do(l.ctx, client.B().Zadd().Key(key).ScoreMember().ScoreMember(1, string(l.id)).Build()).Error())
		l.tick()
		require.Empty(t, l.flowCore())
		require.Empty(t, l.core("n199"))
	})
}
