package viewtest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Inputs and results of all lengths come out as they went in, wherever they are stored, also when nodes fail, run again
// with a result of another length, and are rerun.
func TestValuesOfAllLengthsAreKept(t *testing.T) {
	t.Parallel()
	const most = 1024 - 2 // characters of a text that is stored with the rows, but for its quotes
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var length atomic.Int64
		var fails atomic.Bool
		act := activity.New("values", func(_ context.Context, in string) (string, error) {
			if fails.Swap(false) {
				return "", fmt.Errorf("once")
			}
			return in + strings.Repeat("y", int(length.Load())), nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 2, Factor: 1}))
		b.Worker(t, []activity.Handler{act})
		b.Keeper(t)
		desk, err := admin.New(b.Engine)
		require.NoError(t, err)
		for _, nodes := range []int{1, 2, 40} {
			f := flow.New[string, string](fmt.Sprintf("values-%d", nodes))
			ref := flow.Node(f, "n0", act, f.Input())
			for i := 1; i < nodes; i++ {
				ref = flow.Node(f, fmt.Sprintf("n%d", i), act, f.Input(), flow.After(ref))
			}
			flow.Return(f, ref)
			def, err := f.Build()
			require.NoError(t, err)
			for i, in := range []int{0, 10, most, most + 1} {
				for k, out := range []int{0, 10, most - in, most + 1 - in, 5000} {
					name, input := fmt.Sprintf("%d-%d", i, k), strings.Repeat("x", in)
					length.Store(int64(max(0, out)))
					fails.Store(k == 1)
					run, err := runtime.Start(ctx, b.Client, def, input, runtime.WithID(name))
					require.NoError(t, err)
					result, err := run.Result(ctx)
					require.NoError(t, err, "%d nodes, input of %d, result of %d", nodes, in, out)
					require.True(t, input+strings.Repeat("y", max(0, out)) == result, "%d nodes, run %s: %d bytes", nodes, name, len(result))
					length.Store(int64(k * 300))
					require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
					result, err = run.Result(ctx)
					require.NoError(t, err)
					require.True(t, input+strings.Repeat("y", k*300) == result, "%d nodes, rerun %s: %d bytes", nodes, name, len(result))
					place := b.Locate(t, def.Name(), name)
					stored, found, err := desk.ExecutionResult(ctx, b.Node(t, place, fmt.Sprintf("n%d", nodes-1)))
					require.NoError(t, err)
					require.True(t, found)
					require.True(t, `"`+result+`"` == string(stored), "%d nodes, run %s: %d bytes, want %d", nodes, name, len(stored), len(result)+2)
					conn := engine.ConnOf(b.Engine.Internal())
					own, err := conn.Client().Do(ctx, conn.Client().B().Exists().Key(conn.Keys().FlowInput(place.Partition, place.FlowID)).Build()).AsBool()
					require.NoError(t, err)
					require.Equal(t, in > most, own, "%d nodes, input of %d: a key of its own", nodes, in)
					if nodes == 40 {
						break // one of each input is enough
					}
				}
			}
		}
		b.Check(t, invariant.AnyTime)
	})
}
