package operatetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// removeGraphs deletes the n graphs that an engine on one server stores, and makes the server forget its library's
// cache of them. The returned function restores them.
func removeGraphs(t *testing.T, b *enginetest.Bench, n int) (restore func()) {
	t.Helper()
	ctx, client := enginetest.Context(t), b.Operator()
	graphs, err := client.Do(ctx, client.B().Keys().Pattern(b.Prefix+":*:graph:*").Build()).AsStrSlice()
	require.NoError(t, err)
	require.Len(t, graphs, n)
	var restores []rueidis.Completed
	for _, graph := range graphs {
		dump, err := client.Do(ctx, client.B().Dump().Key(graph).Build()).ToString()
		require.NoError(t, err)
		restores = append(restores, client.B().Restore().Key(graph).Ttl(0).SerializedValue(dump).Build())
		require.NoError(t, client.Do(ctx, client.B().Del().Key(graph).Build()).Error())
	}
	library, err := client.Do(ctx, client.B().FunctionDump().Build()).ToString()
	require.NoError(t, err)
	require.NoError(t, client.Do(ctx, client.B().FunctionRestore().SerializedValue(library).Replace().Build()).Error())
	return func() {
		for _, restore := range restores {
			require.NoError(t, client.Do(ctx, restore).Error())
		}
	}
}

// An operator has deleted graphs whose runs are open. Completions, renewals, claims and reads of these runs fail with
// an error that names the graph and the run. Other runs start, keep their leases and end. Once the graphs are back, all
// runs continue.
func TestDeletedGraphs_LeaveOtherRunsAlone(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix(), runtime.OpenConfig{Partitions: 1})
		ctx := enginetest.Context(t)
		begun, complete, faded, finish := make(chan struct{}, 9), make(chan struct{}), make(chan error, 1), make(chan struct{})
		held := activity.New("held", func(_ context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-complete
			return n + 1, nil
		})
		pass := activity.New("pass", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		fading := activity.New("fading", func(ctx context.Context, n int) (int, error) {
			if info, _ := activity.Info(ctx); info.Attempt > 1 {
				return n + 2, nil
			}
			begun <- struct{}{}
			<-ctx.Done()
			faded <- context.Cause(ctx)
			return 0, context.Cause(ctx)
		}, activity.Lane("leases"))
		steady := activity.New("steady", func(ctx context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-finish
			return n + 2, context.Cause(ctx)
		}, activity.Lane("leases"))
		f := flow.New[int, int]("robbed")
		flow.Return(f, flow.Node(f, "b", pass, flow.Node(f, "a", held, f.Input())))
		robbed, err := f.Build()
		require.NoError(t, err)
		start := func(def *flow.Definition[int, int], id string) *runtime.Run[int] {
			run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID(id))
			require.NoError(t, err)
			return run
		}
		b.KeepingWorker(t, []activity.Handler{held, pass}, runtime.WorkerConfig{Concurrency: 1, Lease: time.Hour})
		b.Worker(t, []activity.Handler{fading, steady}, runtime.WorkerConfig{Lanes: []string{"leases"}, Lease: time.Second})
		completing, renewed := start(robbed, "completing"), start(fixture.Single(t, fading), "renewed")
		<-begun
		<-begun
		waiting := start(robbed, "waiting")
		restore := removeGraphs(t, b, 2)
		kept := start(fixture.Single(t, steady), "kept")
		<-begun
		behind := start(fixture.Single(t, pass), "behind")

		require.ErrorContains(t, <-faded, string(errorcode.GraphUnknown))
		before, err := kept.Describe(ctx)
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			now, err := kept.Describe(ctx)
			require.NoError(t, err)
			if !now.Nodes[0].LeaseExpiresAt.After(before.Nodes[0].LeaseExpiresAt) {
				return "the lease of another run is not renewed"
			}
			return ""
		})
		close(complete)
		enginetest.Eventually(t, func() string {
			for line := range strings.Lines(b.Log()) {
				if strings.Contains(line, "event=result.not_committed") && strings.Contains(line, "run=completing") {
					require.Contains(t, line, errorcode.GraphUnknown)
					return ""
				}
			}
			return "nothing is said of the completion"
		})
		close(finish)
		for run, want := range map[*runtime.Run[int]]int{behind: 2, kept: 3} {
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, want, out)
		}

		lanes, err := b.Client.Lanes(ctx)
		require.NoError(t, err)
		require.NotEmpty(t, lanes)
		_, err = b.Engine.Inspect(ctx)
		require.NoError(t, err)
		gone := func(run *runtime.Run[int], flow string) string {
			return fmt.Sprintf("the graph of run %s of flow %s is gone", run.ID(), flow)
		}
		_, repaired := b.RunKeeperTask(ctx, "index_reconciliation")
		for run, flow := range map[*runtime.Run[int]]string{completing: "robbed", waiting: "robbed", renewed: "single"} {
			_, err = run.Describe(ctx)
			require.ErrorContains(t, err, gone(run, flow))
			require.ErrorContains(t, repaired, gone(run, flow))
		}

		restore()
		_, err = b.RunKeeperTask(ctx, "index_reconciliation")
		require.NoError(t, err)
		operator, err := admin.New(b.Engine)
		require.NoError(t, err)
		d, err := completing.Describe(ctx)
		require.NoError(t, err)
		a := d.Nodes[slices.IndexFunc(d.Nodes, func(n fabrictype.Node) bool { return n.Name == "a" })]
		_, err = operator.RevokeLease(ctx, enginecore.ExecutionID(a.ExecutionID), "", "its graph was gone")
		require.NoError(t, err)
		for _, run := range []*runtime.Run[int]{completing, waiting, renewed} {
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, 3, out)
		}
		b.Settle(t)
	})
}
