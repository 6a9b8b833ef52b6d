package admin_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// An execution names the run and the node that it is of, before it has begun and after it has failed.
func TestExecutionNamesItsRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newDesk(t, b)
		fails := activity.New("fails", func(_ context.Context, n int) (int, error) { return 0, context.Canceled },
			activity.Retry(activity.RetryPolicy{Attempts: 1}))
		f := flow.New[int, int]("shop")
		flow.Return(f, flow.Node(f, "charge", fails, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(d.ctx, b.Client, def, 1, runtime.WithID("order 7"))
		require.NoError(t, err)
		check := func() {
			described, err := run.Describe(d.ctx)
			require.NoError(t, err)
			e, err := d.Execution(d.ctx, enginecore.ExecutionID(described.Nodes[0].ExecutionID))
			require.NoError(t, err)
			require.Equal(t, []string{"charge", "shop", "order 7"}, []string{e.Node, e.FlowName, e.Run})
		}
		check()
		b.KeepingWorker(t, def.Handlers(), runtime.WorkerConfig{})
		_, err = run.Result(d.ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		check()
	})
}
