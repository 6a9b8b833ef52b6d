package childtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var errBad = errors.New("bad item")

// numbers lists 1 to n.
func numbers() *activity.Activity[int, []int] {
	return activity.New("numbers", func(_ context.Context, n int) ([]int, error) {
		list := make([]int, n)
		for i := range list {
			list[i] = i + 1
		}
		return list, nil
	})
}

func sum() *activity.Activity[[]int, int] {
	return activity.New("sum", func(_ context.Context, list []int) (int, error) {
		total := 0
		for _, n := range list {
			total += n
		}
		return total, nil
	})
}

// mapFlow lists numbers, maps them and returns the list.
func mapFlow(t testing.TB, a *activity.Activity[int, int], opts ...flow.NodeOption) *flow.Definition[int, []int] {
	f := flow.New[int, []int]("mapping")
	list := flow.Node(f, "list", numbers(), f.Input())
	flow.Return(f, flow.Map(f, "double", a, list, opts...))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func double() *activity.Activity[int, int] {
	return activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
}

func TestMapKeepsOrder(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := mapFlow(t, double())
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		for _, n := range []int{0, 1, 2, 300} {
			run, err := runtime.Start(ctx, b.Client, def, n, runtime.ID(fmt.Sprint(n)))
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Len(t, out, n)
			for i, v := range out {
				require.Equal(t, 2*(i+1), v)
			}
		}
		b.Settle(t)
	})
}
