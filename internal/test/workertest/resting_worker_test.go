package workertest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A worker without work checks the engine less often, and is ready all the time: for an hour, and when work comes
// again.
func TestRestingWorkersStayReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := enginetest.New(t, testserver.Embedded)
		w := enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{NoKeeper: true})
		work := fixture.AddOne()
		require.NoError(t, w.Register([]activity.Handler{work}...))
		b.Run(t, "worker", w.Run)
		for range 2 {
			for second := range 3600 {
				time.Sleep(time.Second) //nolint:forbidigo // by the virtual clock
				require.NoError(t, w.Check(t.Context()), "second %d", second)
			}
			_, err := startOne(enginetest.Context(t), t, &lossy{Bench: b}, fixture.Single(t, work)).Result(enginetest.Context(t))
			require.NoError(t, err)
			require.NoError(t, w.Check(t.Context()))
		}
	})
}
