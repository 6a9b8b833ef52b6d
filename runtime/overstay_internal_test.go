package runtime

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/worker"
)

// A function is told of once its context has ended for so long, however long it had run before, and once only.
func TestWhenAFunctionOverstays(t *testing.T) {
	t.Parallel()
	const patience = time.Second
	newRunning := func(limit time.Duration) (*worker.Task, func(after time.Duration) WorkerStats) {
		w := &worker.Worker{Config: worker.WorkerConfig{Lease: time.Minute}}
		s := &worker.WorkerRun{Worker: w, Session: &engine.Session{Logger: slog.New(slog.DiscardHandler)}, Base: t.Context()}
		running := worker.NewTask(s, dispatch.LaneShard{}, enginerpc.ClaimedExecution{}, time.Now())
		until := time.Time{}
		if limit > 0 {
			until = running.Begun.Add(limit)
		}
		running.FunctionBegins(until)
		return running, func(after time.Duration) WorkerStats {
			running.CheckOverstay(running.Begun.Add(after), patience)
			return (&Worker{w}).Stats()
		}
	}
	none, one, over := WorkerStats{}, WorkerStats{Overstays: 1, Overstaying: 1}, WorkerStats{Overstays: 1}

	running, look := newRunning(0)
	require.Equal(t, none, look(time.Hour), "it may take as long as it likes")
	running.Cancel(engine.ErrCancelled)
	require.Equal(t, none, look(2*time.Hour))
	require.Equal(t, none, look(2*time.Hour+patience-1))
	require.Equal(t, one, look(2*time.Hour+patience))
	require.Equal(t, one, look(3*time.Hour), "once")
	running.FunctionEnded()
	require.Equal(t, over, look(4*time.Hour))

	running, look = newRunning(5 * time.Second)
	require.Equal(t, none, look(5*time.Second-1))
	require.Equal(t, none, look(5*time.Second))
	require.ErrorIs(t, running.CauseOfEnd(5*time.Second), engine.ErrStartToClose)
	require.Equal(t, one, look(6*time.Second))

	running, look = newRunning(0)
	running.Cancel(engine.ErrCancelled)
	require.Equal(t, none, look(time.Second))
	running.FunctionEnded()
	require.Equal(t, none, look(time.Hour), "it has returned")
}
