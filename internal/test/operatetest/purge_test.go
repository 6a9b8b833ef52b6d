package operatetest

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
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// runAll runs every flow of a variety to its end; runs that hang are cancelled.
func runAll(t testing.TB, b *enginetest.Bench, defs map[string]*flow.Definition[fixture.None, string], id string) []*runtime.Run[string] {
	t.Helper()
	ctx := enginetest.Context(t)
	var runs []*runtime.Run[string]
	for name, def := range defs {
		run, err := runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithID(id))
		require.NoError(t, err)
		runs = append(runs, run)
		if name == "hanging" {
			require.NoError(t, run.Cancel(ctx, "enough"))
		}
		_, err = run.Result(ctx)
		var over *runtime.RunError
		purged := errors.Is(err, engine.ErrRunNotFound)
		require.True(t, err == nil || purged || errors.As(err, &over), "%v", err)
	}
	return runs
}

func TestPurgeLeavesNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{
			Concurrency: 8, Lanes: []string{"default", "wide"},
		})
		b.Keeper(t)
		defs := c.Variety(t)
		for range 2 { // the ids may be used again
			runs := runAll(t, b, defs, "again")
			b.Settle(t)
			for _, run := range runs {
				require.False(t, run.Existed())
				require.NoError(t, run.Purge(ctx))
				require.ErrorIs(t, run.Purge(ctx), engine.ErrRunNotFound)
				_, err := run.Describe(ctx)
				require.ErrorIs(t, err, engine.ErrRunNotFound)
			}
			fixture.NothingLeft(t, b)
		}
	})
}

func TestPurgeRefusesAnOpenRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		f := flow.New[fixture.None, string]("open")
		flow.Return(f, c.Nodes(f, "ok")[0])
		run := fixture.StartOf(t, b, f)
		require.ErrorIs(t, run.Purge(ctx), runtime.ErrRunOpen)
		require.ErrorIs(t, b.Client.Run("open", "nobody").Purge(ctx), engine.ErrRunNotFound)
		b.Check(t, invariant.AnyTime)
	})
}

// A run that is purged in part cannot be run again, and its id can be used again at once.
func TestPurgeInParts(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		worker := b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{
			Concurrency: 8, Lanes: []string{"default", "wide"},
		})
		defs := c.Variety(t)
		wide := map[string]*flow.Definition[fixture.None, string]{"wide": defs["wide"]}
		// Rows of more than one call.
		big := flow.New[fixture.None, string]("wide")
		leaves := make([]flow.Ref[string], 1200)
		for i := range leaves {
			leaves[i] = flow.Node(big, fmt.Sprintf("leaf-%d", i), c.Act, flow.Const("ok"))
		}
		flow.Return(big, flow.Node(big, "sum", c.Sum, flow.List(leaves...)))
		defs["wide"] = fixture.DefinitionOf(t, big)
		wide["wide"] = defs["wide"]
		run := runAll(t, b, wide, "id")[0]
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		b.Settle(t)
		require.NoError(t, worker.Stop())
		plan, err := fixture.NewPlan(b.Client, defs["wide"], fixture.None{}, "id")
		require.NoError(t, err)

		core := engine.ConnOf(b.Engine.Internal())
		reply, err := core.PurgeFlow(ctx, enginerpc.PurgeFlowCall{Partition: plan.Partition, FlowID: plan.FlowID})
		require.NoError(t, err)
		require.True(t, reply.More)
		b.Check(t, invariant.AnyTime)
		listed, err := b.Client.ListRuns(ctx, runtime.RunQuery{Flow: "wide"}, "", 10)
		require.NoError(t, err)
		require.Empty(t, listed.Items)
		_, err = core.ReplayExecution(ctx, enginerpc.ReplayExecutionCall{ExecutionID: enginecore.ExecutionID(d.Nodes[1100].ExecutionID), LaneID: "default"})
		require.ErrorIs(t, err, enginecore.ErrExecutionNotFound)

		again, err := runtime.Start(ctx, b.Client, defs["wide"], fixture.None{}, runtime.WithID("id"))
		require.NoError(t, err)
		require.False(t, again.Existed())
		b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{
			Concurrency: 8, Lanes: []string{"default", "wide"},
		})
		_, err = again.Result(ctx)
		require.NoError(t, err)
		b.Settle(t)
		// The next call of the purge that began before names the end that it met.
		_, err = core.PurgeFlow(ctx, enginerpc.PurgeFlowCall{
			Partition: plan.Partition, FlowID: plan.FlowID, ClosedAt: reply.ClosedAt,
		})
		require.ErrorIs(t, err, enginecore.ErrChangedMeanwhile)
		require.NoError(t, again.Purge(ctx))
		fixture.NothingLeft(t, b)
	})
}

func TestKeepers_PurgeDueRuns(t *testing.T) {
	t.Parallel()
	retention := runtime.Retention{Default: 20 * time.Millisecond, Cancelled: flow.KeepForever}
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{
			Concurrency: 8, Lanes: []string{"default", "wide"},
		})
		defs := c.Variety(t)
		// Their own retention takes precedence over the engine's.
		own := flow.New[fixture.None, string]("own", flow.Retention(time.Hour), flow.Retention(10*time.Millisecond, fabrictype.OutcomeFailed))
		flow.Return(own, c.Nodes(own, "fail")[0])
		defs["own"] = fixture.DefinitionOf(t, own)
		kept := flow.New[fixture.None, string]("kept", flow.Retention(time.Hour), flow.Retention(10*time.Millisecond, fabrictype.OutcomeFailed))
		flow.Return(kept, c.Nodes(kept, "ok")[0])
		defs["kept"] = fixture.DefinitionOf(t, kept)
		b.Keeper(t)
		b.Keeper(t)
		runAll(t, b, defs, "id")
		enginetest.Eventually(t, func() string {
			var left []string
			for name := range defs {
				if _, err := b.Client.Run(name, "id").Describe(ctx); !errors.Is(err, engine.ErrRunNotFound) {
					left = append(left, name)
				}
			}
			if len(left) != 2 {
				return fmt.Sprintf("left: %v", left)
			}
			return ""
		})
		require.NoError(t, b.Client.Run("kept", "id").Purge(ctx))
		require.NoError(t, b.Client.Run("hanging", "id").Purge(ctx), "it was cancelled")
		b.Settle(t)
		fixture.NothingLeft(t, b)
	}, runtime.OpenConfig{Retention: retention})
}

func TestBadRetention(t *testing.T) {
	t.Parallel()
	for _, retention := range []runtime.Retention{{Default: flowgraph.MaxKeep + time.Hour}, {Failed: -2}, {Expired: flowgraph.MaxKeep + 1}} {
		_, err := runtime.Open(context.Background(), "embedded:", runtime.OpenConfig{Retention: retention})
		require.ErrorIs(t, err, runtime.ErrInvalid)
	}
}

// BenchmarkPurge measures how long one call holds the engine, with runs of 2,000 nodes that all lead to one.
func BenchmarkPurge(b *testing.B) {
	for _, kind := range testserver.Kinds(b) {
		b.Run(string(kind), func(b *testing.B) {
			bench := enginetest.New(b, kind)
			c := fixture.NewCourse()
			bench.Worker(b, []activity.Handler{c.Act, c.Sum}, runtime.WorkerConfig{Concurrency: 16})
			f := flow.New[fixture.None, string]("fan")
			refs := make([]flow.Ref[string], 2000)
			for i := range refs {
				refs[i] = flow.Node(f, fmt.Sprintf("n%d", i), c.Act, flow.Const("ok"))
			}
			flow.Return(f, flow.Node(f, "sum", c.Sum, flow.List(refs...)))
			def := fixture.DefinitionOf(b, f)
			var longest time.Duration
			calls := 0
			for b.Loop() {
				b.StopTimer()
				plan, err := fixture.NewPlan(bench.Client, def, fixture.None{}, "fan")
				require.NoError(b, err)
				run, err := runtime.Start(b.Context(), bench.Client, def, fixture.None{}, runtime.WithID("fan"))
				require.NoError(b, err)
				_, err = run.Result(b.Context())
				require.NoError(b, err)
				b.StartTimer()
				for more := true; more; calls++ {
					begin := time.Now()
					reply, err := engine.ConnOf(bench.Engine.Internal()).PurgeFlow(b.Context(), enginerpc.PurgeFlowCall{Partition: plan.Partition, FlowID: plan.FlowID})
					require.NoError(b, err)
					longest = max(longest, time.Since(begin))
					more = reply.More
				}
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
			b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
		})
	}
}

// A purge of one end purges that end, and no other one.
func TestPurgeIfClosedAt(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		f := flow.New[fixture.None, string]("closed")
		flow.Return(f, c.Nodes(f, "ok")[0])
		run := fixture.StartOf(t, b, f)
		require.ErrorIs(t, run.PurgeIfClosedAt(ctx, time.Now()), runtime.ErrRunOpen)
		b.Worker(t, []activity.Handler{c.Act, c.Sum})
		_, err := run.Result(ctx)
		require.NoError(t, err)
		former, err := run.Describe(ctx)
		require.NoError(t, err)
		enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 0)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		_, err = run.Result(ctx)
		require.NoError(t, err)

		require.ErrorIs(t, run.PurgeIfClosedAt(ctx, time.Time{}), runtime.ErrInvalid)
		require.ErrorIs(t, run.PurgeIfClosedAt(ctx, former.ClosedAt), enginecore.ErrChangedMeanwhile)
		present, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, present.Reruns)
		require.NoError(t, run.PurgeIfClosedAt(ctx, present.ClosedAt))
		require.ErrorIs(t, run.PurgeIfClosedAt(ctx, present.ClosedAt), engine.ErrRunNotFound)
	})
}
