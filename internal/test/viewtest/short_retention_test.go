package viewtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Who starts a run gets its result, also when the run is purged before the wait begins.
func TestResultOfARunThatIsPurgedSoon(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		f := flow.New[int, int]("purged-soon", flow.Retention(time.Millisecond))
		flow.Return(f, flow.Node(f, "only", a, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{a})
		b.Keeper(t)
		started, err := runtime.StartMany(ctx, b.Client, def, []runtime.NewRun[int]{{Input: 10}, {Input: 11}})
		require.NoError(t, err)
		runs := []*runtime.Run[int]{started[0].Run, started[1].Run}
		for i := range 4 {
			run, err := runtime.Start(ctx, b.Client, def, 12+i)
			require.NoError(t, err)
			runs = append(runs, run)
		}
		for i, run := range runs {
			enginetest.Eventually(t, func() string {
				if _, err := run.Describe(ctx); !errors.Is(err, engine.ErrRunNotFound) {
					return fmt.Sprint("not purged yet: ", err)
				}
				return ""
			})
			out, err := run.Result(ctx)
			require.NoError(t, err, "run %d", i)
			require.Equal(t, 11+i, out)
		}
	})
}
