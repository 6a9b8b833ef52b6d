package keepertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/runrecord"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A graph of which no run was submitted goes after an hour, one that was used goes with its last run.
func TestUnusedGraphs(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		p := keyspace.Partition{Family: keyspace.FlowFamily}
		abandoned := strings.Repeat("ab", 16)
		put := chain(p, abandoned, 40)
		_, err := d.core.PutGraph(d.ctx, put[0])
		require.NoError(t, err)

		double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		b.Worker(t, []activity.Handler{double})
		f := flow.New[int, int]("kept")
		flow.Return(f, flow.Node(f, "only", double, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(d.ctx, b.Client, def, 4, runtime.WithID("kept"))
		require.NoError(t, err)
		_, err = run.Result(d.ctx)
		require.NoError(t, err)
		require.Len(t, d.keysLike(":graph:"), 2)
		b.Check(t, invariant.AnyTime)

		// The index is of the time at which a graph goes.
		past := func(p keyspace.Partition) {
			for _, hash := range strings.Fields(d.unused(p)) {
				require.EqualValues(t, 0, d.count("ZADD", d.keys.FfxUnusedGraphs(p), "5", hash))
			}
		}
		require.Zero(t, d.run("retention").Done)
		past(p)
		require.EqualValues(t, 1, d.run("retention").Done)
		require.Len(t, d.keysLike(":graph:"), 1)
		_, err = d.core.PutGraph(d.ctx, put[1])
		require.ErrorContains(t, err, "part 1 of the graph is missing")

		require.NoError(t, run.Purge(d.ctx))
		require.Empty(t, d.keysLike("graph"), "it goes with its last run")
		_, err = d.core.PutGraph(d.ctx, put[0])
		require.NoError(t, err)
		require.EqualValues(t, 1, d.count("DEL", d.keys.FfxUnusedGraphs(p)))
		require.Equal(t, map[string]int64{"unused_graphs": 1}, d.run("key_reconciliation").Repaired)
		b.Check(t, invariant.AnyTime)
		_, err = d.core.PutGraph(d.ctx, put[1])
		require.NoError(t, err)
		submit := enginerpc.SubmitCall{
			Partition: p, Class: runrecord.Class{Graph: abandoned, GraphHash: "h", FlowName: "chain"}.Encode(),
			Runs: []enginerpc.SubmitRun{{
				FlowID: keyspace.FlowIDFor("test", "chain", "x"), Record: runrecord.Record{RunID: "x"}.Encode(),
			}},
		}
		_, err = d.core.Submit(d.ctx, submit)
		require.NoError(t, err)
		require.Empty(t, d.unused(p))
		b.Check(t, invariant.AnyTime)
	})
}

func (d *fixture) unused(p keyspace.Partition) string {
	d.t.Helper()
	hashes, err := d.do("ZRANGE", d.keys.FfxUnusedGraphs(p), "0", "-1").AsStrSlice()
	require.NoError(d.t, err)
	return strings.Join(hashes, " ")
}

// chain returns the calls that store a chain of count nodes.
func chain(p keyspace.Partition, hash string, count int) []enginerpc.PutGraphCall {
	var calls []enginerpc.PutGraphCall
	edge := func(ordinal int) []byte { return []byte{byte(ordinal), byte(ordinal >> 8), 0} }
	for first := 1; first <= count; first += 32 {
		call := enginerpc.PutGraphCall{
			Partition: p, Graph: hash, First: int64(first), Last: first+32 > count, Edges: int64(count - 1), Result: int64(count),
		}
		for at := first; at <= min(count, first+31); at++ {
			n := enginerpc.PutGraphNode{Name: fmt.Sprint("n", at), Kind: "work", LaneID: "default"}
			if at > 1 {
				n.Ups = edge(at - 1)
			}
			if at < count {
				n.Downs = edge(at + 1)
			}
			call.Nodes = append(call.Nodes, n)
		}
		calls = append(calls, call)
	}
	return calls
}

// Whatever is wrong with a graph is refused before anything of it is stored.
func TestBadGraphs(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		p := keyspace.Partition{Family: keyspace.FlowFamily}
		hash := strings.Repeat("0", 32)
		for _, w := range []struct {
			says  string
			spoil func(call *enginerpc.PutGraphCall)
		}{
			{"32 hexadecimal digits", func(c *enginerpc.PutGraphCall) { c.Graph = "x" }},
			{"must bring 32 nodes", func(c *enginerpc.PutGraphCall) { c.Nodes = nil }},
			{"must bring 32 nodes", func(c *enginerpc.PutGraphCall) { c.Last = false }},
			{"first must be", func(c *enginerpc.PutGraphCall) { c.First = 2 }},
			{"first must be", func(c *enginerpc.PutGraphCall) { c.First = -31 }},
			{"first must be", func(c *enginerpc.PutGraphCall) { c.First = 65537 }},
			{"part 1 of the graph is missing", func(c *enginerpc.PutGraphCall) { *c = chain(p, hash, 33)[1] }},
			{"must have a name", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Name = "" }},
			{"must have a name", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Kind = "" }},
			{"two nodes have the name n1", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Name = "n1" }},
			{"must not be negative", func(c *enginerpc.PutGraphCall) { c.Nodes[1].InputCount = -1 }},
			{"must not be negative", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Delay = -time.Second }},
			{"policy must be a JSON object", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Policy = []byte("{") }},
			{"policy must be a JSON object", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Policy = []byte(`{,"input":{}}`) }},
			{"policy must be a JSON object", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Policy = []byte(`{"a":1,"input":{"node":"x"y}}`) }},
			{"policy must be a JSON object", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Policy = []byte(`{"a":1,"input":{"node":"x"`) }},
			{"policy must be a JSON object", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Policy = []byte(`{"a":1},"input":{}}`) }},
			{"policy must be a JSON object", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Policy = []byte(`{"a":"x{"node":"y"}z","input":{}}`) }},
			{"tags must be a JSON object", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Tags = []byte("7") }},
			{"entries of 3 bytes", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Ups = []byte{1} }},
			{"each once, got: 0", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Ups = []byte{0, 0, 0} }},
			{"each once, got: 2", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Ups = []byte{2, 0, 0} }},
			{"each once, got: 1", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Ups = []byte{1, 0, 0, 1, 0, 2} }},
			{"are not those that lead to them", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Ups[2] = 3 }},
			{"unknown flags: 8", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Ups[2] = 8 }},
			{"names node 9 of 3", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Downs[0] = 9 }},
			{"are not those that lead to them", func(c *enginerpc.PutGraphCall) { c.Nodes[2].Ups[0] = 1 }},
			{"are not those that lead to them", func(c *enginerpc.PutGraphCall) { c.Nodes[2].Ups[2] = 4 }},
			{"are not those that lead to them", func(c *enginerpc.PutGraphCall) { c.Nodes[2].Ups = nil }},
			{"edges must be 2", func(c *enginerpc.PutGraphCall) { c.Edges = 3 }},
			{"result must be", func(c *enginerpc.PutGraphCall) { c.Result = 4 }},
			{"on_satisfied must be", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Join = "any_of x 0" }},
			{"quorum k is 2", func(c *enginerpc.PutGraphCall) { c.Nodes[1].Join = "quorum let_run 2" }},
		} {
			call := chain(p, hash, 3)[0]
			w.spoil(&call)
			_, err := d.core.PutGraph(d.ctx, call)
			require.ErrorIs(t, err, errorcode.InvalidInput, w.says)
			require.ErrorContains(t, err, w.says)
			require.Empty(t, d.keysLike("graph"), w.says)
		}
		good := chain(p, hash, 70)
		bad := chain(p, hash, 70)[2]
		bad.Nodes[0].Name = "n7"
		for _, call := range good[:2] {
			_, err := d.core.PutGraph(d.ctx, call)
			require.NoError(t, err)
		}
		_, err := d.core.PutGraph(d.ctx, bad)
		require.ErrorContains(t, err, "two nodes have the name n7")
		for range 2 {
			_, err = d.core.PutGraph(d.ctx, good[2])
			require.NoError(t, err)
		}
		b.Check(t, invariant.AnyTime)

		submit := enginerpc.SubmitCall{
			Partition: p, Class: runrecord.Class{Graph: hash, GraphHash: "h", FlowName: "chain"}.Encode(),
			Runs: []enginerpc.SubmitRun{{
				FlowID: keyspace.FlowIDFor("test", "chain", "x"), Record: runrecord.Record{}.Encode(),
			}},
			Limits: []enginerpc.SubmitLimit{{Run: 1, Node: 71, Text: `[{"name":"x","max":1}]`}},
		}
		before := d.keysLike(p.Tag())
		_, err = d.core.Submit(d.ctx, submit)
		require.ErrorIs(t, err, errorcode.InvalidInput)
		require.ElementsMatch(t, before, d.keysLike(p.Tag()))
	})
}

// Numbers of workers that no row names are forgotten: neither the row of a leased node, nor of one that has ended.
func TestUnusedWorkerNumbersAreRemoved(t *testing.T) {
	t.Parallel()
	b, clock := enginetest.WithClock(t, runtime.OpenConfig{Partitions: 1})
	d := newFixture(t, b)
	begun, gate := make(chan struct{}, 1), make(chan struct{})
	hold := activity.New("hold", func(_ context.Context, n int) (int, error) {
		if n == 2 {
			begun <- struct{}{}
			<-gate
		}
		return n, nil
	})
	f := flow.New[int, int]("held")
	flow.Return(f, flow.Node(f, "only", hold, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	start := func(n int) *runtime.Run[int] {
		run, err := runtime.Start(d.ctx, b.Client, def, n)
		require.NoError(t, err)
		return run
	}
	workers := d.keys.FfxWorkers(keyspace.Partition{Family: keyspace.FlowFamily})
	first := b.Worker(t, []activity.Handler{hold})
	ended := start(1)
	_, err = ended.Result(d.ctx)
	require.NoError(t, err)
	require.NoError(t, first.Stop())
	require.EqualValues(t, 3, d.count("HLEN", workers))
	second := b.Worker(t, []activity.Handler{hold}, runtime.WorkerConfig{Lease: time.Hour})
	held := start(2)
	<-begun
	require.EqualValues(t, 5, d.count("HLEN", workers))
	d.run("index_reconciliation")
	require.EqualValues(t, 5, d.count("HLEN", workers), "both may come back soon")
	clock.Jump(2 * time.Minute)
	d.run("index_reconciliation")
	require.EqualValues(t, 6, d.count("HLEN", workers), "the first has no lease, but a row names it")
	b.Check(t, invariant.AnyTime)
	close(gate)
	_, err = held.Result(d.ctx)
	require.NoError(t, err)
	require.NoError(t, second.Stop())
	require.NoError(t, held.Purge(d.ctx))
	clock.Jump(2 * time.Minute)
	d.run("index_reconciliation")
	require.EqualValues(t, 7, d.count("HLEN", workers), "a run is left that may name both")
	for event, err := range ended.Watch(d.ctx, "") {
		require.NoError(t, err)
		if event.Kind == fabrictype.EventStarted {
			require.NotEmpty(t, event.Detail)
		}
	}
	require.NoError(t, ended.Purge(d.ctx))
	d.run("index_reconciliation")
	require.EqualValues(t, 1, d.count("HLEN", workers))
}
