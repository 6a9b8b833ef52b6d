package starttest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// doubler has the dependencies of the activity's function.
type doubler struct{ factor int }

func (d *doubler) double(_ context.Context, n int) (int, error) { return d.factor * n, nil }

// One activity runs as a run of a flow with its name; the program that starts it has the declaration only.
func TestDo(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		declared := activity.Declare[int, int]("double")
		run, err := runtime.Do(ctx, b.Client, declared, 4, runtime.WithID("A-1"))
		require.NoError(t, err)
		again, err := runtime.Do(ctx, b.Client, declared, 4, runtime.WithID("A-1"))
		require.NoError(t, err)
		require.True(t, again.Existed())
		_, err = runtime.Do(ctx, b.Client, declared, 5, runtime.WithID("A-1"))
		require.ErrorIs(t, err, engine.ErrOtherInput)

		b.Worker(t, []activity.Handler{activity.Implement(declared, (&doubler{2}).double)})
		b.Keeper(t)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 8, out)
		d, err := b.Client.Run("double", "A-1").Describe(ctx)
		require.NoError(t, err)
		require.Len(t, d.Nodes, 1)
		require.Equal(t, "double", d.Nodes[0].Name)

		_, err = runtime.Do(ctx, b.Client, activity.Declare[int, int]("no name"), 1)
		require.ErrorIs(t, err, activity.ErrInvalid)
		var none *activity.Activity[int, int]
		_, err = runtime.Do(ctx, b.Client, none, 1)
		require.ErrorIs(t, err, activity.ErrInvalid)
		_, err = runtime.Do(ctx, nil, declared, 1)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		b.Settle(t)
	})
}
