package starttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Names with colons that look alike when they are concatenated have separate lists and queues.
func TestNamesWithColonsShareNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		l := fixture.NewLedger()
		variants := []struct{ lane, tenant, tag, value string }{
			{"zz", "b:queue:c", "a.b:c", "d"}, {"zz:queue:b", "c", "a.b", "c:d"}, {"zz%3Aqueue%3Ab", "c", "a.b%3Ac", "d"},
			{"zz", "b:order", "a.b:c:d", ""}, {"zz:queue:b", "order", "a.b:c", ":d"},
		}
		var runs []*runtime.Run[string]
		lanes := make(map[string]bool)
		for _, v := range variants {
			f := flow.New[fixture.Job, string]("colons", flow.FairBy("Tenant"))
			flow.Return(f, flow.Node(f, "work", l.Work, f.Input(), activity.Lane(v.lane)))
			def, err := f.Build()
			require.NoError(t, err)
			run, err := runtime.Start(ctx, b.Client, def, fixture.Job{Tenant: v.tenant, Label: v.tag + "=" + v.value}, runtime.WithTag(v.tag, v.value))
			require.NoError(t, err)
			runs = append(runs, run)
			lanes[v.lane] = true
		}
		client, keys := engine.ConnOf(b.Engine.Internal()).Client(), engine.ConnOf(b.Engine.Internal()).Keys()
		p := keyspace.Partition{Family: keyspace.FlowFamily}
		for i, v := range variants {
			tagged, err := client.Do(ctx, client.B().Zrange().Key(keys.FfxTaggedRuns(p, v.tag, v.value)).Min("0").Max("-1").Build()).AsStrSlice()
			require.NoError(t, err)
			require.Equal(t, []string{string(runs[i].FlowID())}, tagged, "runs with the tag %s=%s", v.tag, v.value)
			queued, err := client.Do(ctx, client.B().Zcard().Key(keys.FfxQueue(p, enginecore.LaneID(v.lane), v.tenant)).Build()).AsInt64()
			require.NoError(t, err)
			require.EqualValues(t, 1, queued, "queue of %s in lane %s", v.tenant, v.lane)
			found, err := b.Client.ListRuns(ctx, runtime.RunQuery{Tags: map[string]string{v.tag: v.value}}, "", 0)
			require.NoError(t, err)
			require.Len(t, found.Items, 1)
			require.Equal(t, runs[i].ID(), found.Items[0].Run)
		}
		b.Check(t, invariant.AnyTime)
		for lane := range lanes {
			b.Worker(t, []activity.Handler{l.Work}, runtime.WorkerConfig{Lanes: []string{lane}})
		}
		b.Keeper(t)
		for i, run := range runs {
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, variants[i].tag+"="+variants[i].value, out)
		}
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: 1})
}
