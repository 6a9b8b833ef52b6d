package modetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A run of the contract has the priority and the deadline of its start; a memo and a signal are refused.
func TestContractStartOptions(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		def := fixture.OneNode(t, "plain", a)
		const apart = time.Second // at most, between the program's clock and its estimate of the engine's clock
		begun := time.Now().Add(-apart)
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithPriority(5), runtime.WithDeadline(time.Hour))
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.WithinRange(t, d.DeadlineAt, begun.Add(time.Hour), time.Now().Add(time.Hour+apart))
		operator, err := admin.New(b.Engine)
		require.NoError(t, err)
		x, err := operator.Execution(ctx, enginecore.ExecutionID(d.Nodes[0].ExecutionID))
		require.NoError(t, err)
		require.Equal(t, 5, x.Priority)
		_, err = runtime.Start(ctx, b.Client, def, 1, runtime.WithMemo("note"))
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		_, err = runtime.Start(ctx, b.Client, def, 1, runtime.WithSignal(runtime.WaitName{Node: "n"}, runtime.Signal{Name: "s"}))
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		_, err = run.SignalWait(ctx, runtime.WaitName{Node: "n"}, runtime.Signal{Name: "s"})
		require.ErrorIs(t, err, runtime.ErrNotInContract)
	})
}
