package childtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A node that waits for its child run has all its upstreams. The reconciler of dependencies does not release it.
func TestReconcilersKeepNodesOfChildRuns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		gate := make(chan struct{})
		list := activity.New("list", func(context.Context, int) ([]int, error) { return []int{1, 2, 3}, nil })
		item := activity.New("item", func(ctx context.Context, n int) (int, error) {
			select {
			case <-gate:
				return n * 2, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		f := flow.New[int, []int]("outer")
		first := flow.Node(f, "first", list, f.Input())
		flow.Return(f, flow.Map(f, "each", item, first))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, []activity.Handler{list, item}, runtime.WorkerConfig{Concurrency: 5})
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		each := func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			for _, n := range d.Nodes {
				if n.Name == "each" {
					return fmt.Sprint(n.State, " after ", n.Attempts)
				}
			}
			return "nothing"
		}
		waits := fmt.Sprint(fabrictype.NodeWaitingChildren, " after 1")
		enginetest.Eventually(t, func() string {
			if got := each(); got != waits {
				return got
			}
			return ""
		})
		for _, task := range []string{
			"index_reconciliation", "dependency_reconciliation", "key_reconciliation", "member_reconciliation",
		} {
			report, err := b.RunKeeperTask(ctx, task)
			require.NoError(t, err)
			require.Empty(t, report.Repaired, task)
			require.Equal(t, waits, each(), task)
		}
		close(gate)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []int{2, 4, 6}, out)
		b.Settle(t)
	})
}
