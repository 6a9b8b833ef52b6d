package childtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/runsubmit"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// crash is a process that dies when the engine has got its n-th call of a function, without the reply.
type crash struct {
	function string
	calls    int
}

// mappedSub maps a list in a sub-flow, so that a run has both kinds of nodes.
func mappedSub(t testing.TB) *flow.Definition[int, []int] {
	inner := mapFlow(t, double())
	f := flow.New[int, []int]("crashing")
	flow.Return(f, flow.Sub(f, "inner", inner, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// onServers runs a test on every server.
func onServers(t *testing.T, test func(t *testing.T, kind testserver.Kind)) {
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// A worker or a keeper dies at any step between a node and its child run. Others continue: nothing is lost or done
// twice.
func TestCrashBetweenParentAndChild(t *testing.T) {
	t.Parallel()
	const items = 150 // more than one call submits
	workers := []crash{
		{"ffx3_link_child", 1}, {"ffx3_submit", 1}, {"ffx3_await_child", 1}, {"ffx3_link_child", 2}, {"ffx3_submit", 3},
		{"ffx3_submit", 4}, {"ffx3_put_graph", 3}, {"ffx3_await_child", 2}, {"ffx3_read_results", 1},
	}
	keepers := []crash{{"ffx3_child_ended", 1}, {"ffx3_end_errand", 1}, {"ffx3_child_ended", 2}, {"ffx3_end_errand", 2}}
	test := func(t *testing.T, kind testserver.Kind, at crash, worker bool) {
		t.Parallel() // most of it is waiting for leases to run out
		ctx := enginetest.Context(t)
		server := testserver.Shared(t, kind)
		p := proxy.Start(t, server.Addr())
		prefix := enginetest.NewPrefix()
		b := enginetest.Open(t, kind, server.URL(), prefix)
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), prefix)
		def := mappedSub(t)
		stalled := make(chan struct{})
		p.Intercept(proxy.StallAfter(at.function, at.calls, stalled))
		near := func() { b.Worker(t, def.Handlers()) }
		if worker {
			b.Keeper(t)
			far.Worker(t, def.Handlers(), runtime.WorkerConfig{Lease: 2 * time.Second, Grace: -1})
		} else {
			near()
			far.Keeper(t)
			near = func() { b.Keeper(t) }
		}
		run, err := runtime.Start(ctx, b.Client, def, items)
		require.NoError(t, err)
		select {
		case <-stalled:
		case <-ctx.Done():
			t.Fatal("the call never came")
		}
		b.Check(t, invariant.AnyTime)
		near()
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Len(t, out, items)
		for i, v := range out {
			require.Equal(t, 2*(i+1), v)
		}
		p.Intercept(nil)
		p.Break()
		require.Len(t, b.Settle(t).FlowIDs(), 3)
	}
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		for _, at := range workers {
			t.Run(fmt.Sprintf("worker, %s %d", at.function, at.calls), func(t *testing.T) { test(t, kind, at, true) })
		}
		for _, at := range keepers {
			t.Run(fmt.Sprintf("keeper, %s %d", at.function, at.calls), func(t *testing.T) { test(t, kind, at, false) })
		}
	})
}

// A keeper takes the relay entry about the end of a child run, and dies. Another keeper gets the entry again.
func TestRelayEntryIsHandedOutAgain(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := around(t, "outer", plusOne(t, "told", double()))
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 2)
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			for _, p := range engine.ConnOf(b.Engine.Internal()).Partitioning().FlowPartitions() {
				reply, err := engine.ConnOf(b.Engine.Internal()).Keep(ctx, enginerpc.KeepCall{Partition: p, Limit: 64})
				require.NoError(t, err)
				if hasEnded(reply.RelayEntries) {
					return ""
				}
			}
			return "a relay entry"
		})
		b.Keeper(t)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 4, out)
		b.Settle(t)
	})
}

// hasEnded reports whether an entry is about the end of a child run. Other entries are about child runs to check.
func hasEnded(entries []enginerpc.RelayEntry) bool {
	return slices.ContainsFunc(entries, func(e enginerpc.RelayEntry) bool { return e.Kind == "ended" })
}

// A child run has ended, but its node was not notified, and the relay list lacks an entry for it: the reconciler adds
// the entry, once.
func TestUnreportedEndOfChildIsFound(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := around(t, "outer", plusOne(t, "told", double()))
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 2)
		require.NoError(t, err)
		core := engine.ConnOf(b.Engine.Internal())
		client := core.Client()
		enginetest.Eventually(t, func() string {
			for _, p := range core.Partitioning().FlowPartitions() {
				reply, err := core.Keep(ctx, enginerpc.KeepCall{Partition: p, Limit: 64})
				require.NoError(t, err)
				if hasEnded(reply.RelayEntries) {
					require.NoError(t, client.Do(ctx, client.B().Del().Key(core.Keys().FfxChildren(p)).Build()).Error())
					return ""
				}
			}
			return "a relay entry"
		})
		report, err := b.RunKeeperTask(ctx, "index_reconciliation")
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"children": 1}, report.Repaired)
		b.Keeper(t)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 4, out)
		b.Settle(t)
		report, err = b.RunKeeperTask(ctx, "index_reconciliation")
		require.NoError(t, err)
		require.Empty(t, report.Repaired, "the node has been notified")
	})
}

// A child run is started for a node that has ended in the meantime, and for a node that no longer exists: keepers find
// these orphans, end them, and remove runs without a node.
func TestOrphansAreEnded(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		core := engine.ConnOf(b.Engine.Internal())
		def := plusOne(t, "orphan", double())
		place := b.Locate(t, def.Name(), "r")
		run := runsubmit.Run{
			Partition: place.Partition, FlowID: place.FlowID, FlowName: "orphan", RunID: "r", Namespace: "default", GraphHash: "g", InputHash: "i",
			Definition: []byte("{}"),
			Nodes:      []enginerpc.PutGraphNode{{Name: "add", Kind: "nobody", LaneID: "default", Policy: []byte("{}")}},
			Parents:    []enginerpc.SubmitParent{{ExecutionID: string(keyspace.NodeExecutionID(place.Partition, place.FlowID, 2))}},
		}
		_, err := run.Submit(ctx, core)
		require.NoError(t, err)
		b.Check(t, invariant.AnyTime)
		// The first look is some seconds away.
		client := core.Client()
		key := core.Keys().FfxChildren(place.Partition)
		due := func() error {
			return client.Do(ctx, client.B().Zadd().Key(key).ScoreMember().ScoreMember(0, string(place.FlowID)).Build()).Error()
		}
		for range 2 { // the run is cancelled, then removed
			require.NoError(t, due())
			_, err = b.RunKeeperTask(ctx, "child_runs")
			require.NoError(t, err)
		}
		require.Empty(t, b.Settle(t).FlowIDs())
	})
}
