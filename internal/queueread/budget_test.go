package queueread_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/queueread"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The use of a shared budget lists the holders of reservations, and the nodes that wait until it has room again.
func TestBudgetUse(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		reader := queueread.New(b.Engine)
		ctx, release := enginetest.Context(t), make(chan struct{})
		think := activity.New("think", func(ctx context.Context, n int64) (int64, error) {
			r, err := activity.Reserve(ctx, "tokens", n)
			if err != nil {
				return 0, err
			}
			select {
			case <-release:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			return n, r.Settle(ctx, n)
		})
		f := flow.New[int64, int64]("brief", flow.Budget("models", flow.BudgetConfig{Hard: map[string]int64{"tokens": 100}, Shared: true, OnExceeded: flow.BlockNodes}))
		flow.Return(f, flow.Node(f, "step", think, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{think}, runtime.WorkerConfig{Concurrency: 4})
		id := keyspace.BudgetIDFor("default", "shared", "models", "")
		start := func(run string, n int64) {
			_, err := runtime.Start(ctx, b.Client, def, n, runtime.WithID(run))
			require.NoError(t, err)
		}
		var use queueread.BudgetUse
		reaches := func(reserving, waiting int) {
			t.Helper()
			enginetest.Eventually(t, func() string {
				use, err = reader.BudgetUse(ctx, id, 0)
				require.NoError(t, err)
				if use.Reserving != reserving || use.Waiting != waiting {
					return fmt.Sprintf("%+v", use)
				}
				return ""
			})
		}
		reaches(0, 0)
		start("small", 20)
		start("large", 60)
		reaches(2, 0)
		of := func(run string) queueread.RunOf {
			return queueread.RunOf{Namespace: "default", Flow: "brief", Run: run, Node: "step", Activity: "think"}
		}
		require.Equal(t, "tokens", use.Reserved[0].Dimension)
		require.EqualValues(t, 60, use.Reserved[0].Amount)
		require.Equal(t, of("large"), use.Reserved[0].RunOf)
		require.Equal(t, of("small"), use.Reserved[1].RunOf)
		start("third", 50)
		reaches(2, 1)
		require.Equal(t, of("third"), use.Queue[0].RunOf)
		require.False(t, use.Queue[0].Since.IsZero())
		one, err := reader.BudgetUse(ctx, id, 1)
		require.NoError(t, err)
		require.Len(t, one.Reserved, 1)
		close(release)
		reaches(0, 1)
		_, err = reader.BudgetUse(ctx, id, 501)
		require.ErrorIs(t, err, queueread.ErrInvalid)
		_, err = reader.BudgetUse(ctx, "none", 1)
		require.ErrorIs(t, err, queueread.ErrInvalid)
	})
}
