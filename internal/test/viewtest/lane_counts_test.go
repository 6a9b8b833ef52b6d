package viewtest

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// keepMany enters count runs that are over into the indexes of kept runs. Their records are missing, which a call that
// only counts does not notice.
func keepMany(ctx context.Context, t *testing.T, b *enginetest.Bench, count int) {
	t.Helper()
	core := engine.ConnOf(b.Engine.Internal())
	client, keys := core.Client(), core.Keys()
	for i := range core.Partitioning().Flow {
		p := keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(i)}
		for from := 0; from < count/int(core.Partitioning().Flow); from += 1000 {
			entries := make([]string, 1000)
			for n := range entries {
				id := enginecore.FlowID(fmt.Sprintf("00000000-0000-8000-%04x-%08x0000", i, from+n))
				entries[n] = rowread.ListEntry(int64(from+n+1), id)
			}
			closed := client.B().Rpush().Key(keys.FfxClosedFlows(p)).Element(entries...).Build()
			all := client.B().Rpush().Key(keys.FfxAllRuns(p)).Element(entries...).Build()
			for _, r := range client.DoMulti(ctx, closed, all) {
				require.NoError(t, r.Error())
			}
		}
	}
}

// waitingChain is a flow of three nodes in a row, of which the first runs until the gate is opened.
func waitingChain(t *testing.T, gate <-chan struct{}) *flow.Definition[int, int] {
	t.Helper()
	wait := activity.New("wait", func(ctx context.Context, n int) (int, error) {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return n, nil
	})
	pass := activity.New("pass", func(_ context.Context, n int) (int, error) { return n, nil })
	f := flow.New[int, int]("chain")
	flow.Return(f, flow.Node(f, "three", pass, flow.Node(f, "two", pass, flow.Node(f, "one", wait, f.Input()))))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// laneStates are the eligible and active nodes of the default lane, and those that wait for upstreams.
func laneStates(ctx context.Context, t *testing.T, b *enginetest.Bench) [3]int {
	t.Helper()
	lanes, err := b.Client.Lanes(ctx)
	require.NoError(t, err)
	for _, l := range lanes {
		if l.Name == "default" {
			return [3]int{l.Eligible, l.Active, l.Blocked.Dependencies}
		}
	}
	return [3]int{}
}

// The list of lanes, the doctor and the collection of metrics read no runs: the server executes as many commands
// whether it keeps no runs, 10,000 or 100,000. The test does not run in parallel, as it counts commands of the server.
func TestLanesReadNoRuns(t *testing.T) {
	enginetest.EachAlone(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, gate := enginetest.Context(t), make(chan struct{})
		def := waitingChain(t, gate)
		for i := range 5 {
			_, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
		}
		cost := func() (spent int64) {
			before, _ := fixture.Commands(ctx, t, b)
			require.Equal(t, [3]int{5, 0, 10}, laneStates(ctx, t, b))
			after, _ := fixture.Commands(ctx, t, b)
			return after - before
		}
		cost()
		alone := cost()
		for _, kept := range []int{10_000, 90_000} {
			keepMany(ctx, t, b, kept)
			require.Equal(t, alone, cost(), "with %d more runs kept", kept)
		}
		b.Wipe(t)
	})
}

// Lanes count the nodes of runs as they are leased, released and end, whichever way; nothing is left in the end.
func TestLanesFollowTheirNodes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, gate := enginetest.Context(t), make(chan struct{})
		def := waitingChain(t, gate)
		var runs []*runtime.Run[int]
		for i := range 6 {
			run, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
			runs = append(runs, run)
		}
		require.Equal(t, [3]int{6, 0, 12}, laneStates(ctx, t, b))
		b.Worker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 4})
		await := func(want [3]int) {
			t.Helper()
			enginetest.Eventually(t, func() string {
				if got := laneStates(ctx, t, b); got != want {
					return fmt.Sprint(got)
				}
				return ""
			})
		}
		await([3]int{2, 4, 12})
		for _, run := range runs[4:] {
			require.NoError(t, run.Cancel(ctx, ""))
		}
		for _, run := range runs[:4] {
			require.NoError(t, run.Pause(ctx, "later"))
			require.NoError(t, run.Resume(ctx))
		}
		close(gate)
		for _, run := range runs {
			_, _ = run.Result(ctx)
		}
		await([3]int{})
		require.NoError(t, runs[0].Rerun(ctx, fabrictype.RerunAll))
		_, err := runs[0].Result(ctx)
		require.NoError(t, err)
		await([3]int{})
		b.Settle(t)
	})
}

// The keeper counts lanes anew in bounded steps, while nodes start and end, when a server has lost counts or they are
// wrong for another reason.
func TestLaneCountsAreRepaired(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, gate := enginetest.Context(t), make(chan struct{})
		def := waitingChain(t, gate)
		start := func(n int) {
			for i := range n {
				_, err := runtime.Start(ctx, b.Client, def, i)
				require.NoError(t, err)
			}
		}
		start(40)
		core := engine.ConnOf(b.Engine.Internal())
		var partitions []keyspace.Partition
		for i := range core.Partitioning().Flow {
			p := keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(i)}
			partitions = append(partitions, p)
			for field, by := range map[string]int64{"active default": 1000, "waiting default": 500, "active other": 7} {
				require.NoError(t, core.Client().Do(ctx, core.Client().B().Hincrby().Key(core.Keys().FfxLaneCounts(p)).
					Field(field).Increment(by).Build()).Error())
			}
		}
		require.Equal(t, 80+500*len(partitions), laneStates(ctx, t, b)[2])
		b.Worker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 8})
		for _, p := range partitions {
			for cursor := ""; ; {
				reply, err := core.Reconcile(ctx, enginerpc.ReconcileCall{Partition: p, Limit: 2, Cursor: cursor})
				require.NoError(t, err)
				if cursor = reply.NextCursor; cursor == "" {
					break
				}
				start(1)
			}
		}
		close(gate)
		enginetest.Eventually(t, func() string {
			if got := laneStates(ctx, t, b); got != [3]int{} {
				return fmt.Sprint(got)
			}
			return ""
		})
		for _, p := range partitions {
			count, err := core.Client().Do(ctx, core.Client().B().Hget().Key(core.Keys().FfxLaneCounts(p)).Field("active other").Build()).ToString()
			require.Error(t, err, "%s", strconv.Quote(count))
		}
		b.Settle(t)
	})
}
