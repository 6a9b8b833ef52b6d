package runtime

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// A function is told of once its context has ended for so long, however long it had run before, and once only.
func TestWhenAFunctionOverstays(t *testing.T) {
	t.Parallel()
	const patience = time.Second
	newRunning := func(limit time.Duration) (*task, func(after time.Duration) WorkerStats) {
		w := &worker{config: workerConfig{lease: time.Minute}}
		s := &workerRun{worker: w, session: &session{logger: slog.New(slog.DiscardHandler)}, base: t.Context()}
		running := newTask(s, laneShard{}, enginerpc.ClaimedExecution{}, time.Now())
		until := time.Time{}
		if limit > 0 {
			until = running.begun.Add(limit)
		}
		running.functionBegins(until)
		return running, func(after time.Duration) WorkerStats {
			running.checkOverstay(running.begun.Add(after), patience)
			return (&Worker{w}).Stats()
		}
	}
	none, one, over := WorkerStats{}, WorkerStats{Overstays: 1, Overstaying: 1}, WorkerStats{Overstays: 1}

	running, look := newRunning(0)
	require.Equal(t, none, look(time.Hour), "it may take as long as it likes")
	running.cancel(ErrCancelled)
	require.Equal(t, none, look(2*time.Hour))
	require.Equal(t, none, look(2*time.Hour+patience-1))
	require.Equal(t, one, look(2*time.Hour+patience))
	require.Equal(t, one, look(3*time.Hour), "once")
	running.functionEnded()
	require.Equal(t, over, look(4*time.Hour))

	running, look = newRunning(5 * time.Second)
	require.Equal(t, none, look(5*time.Second-1))
	require.Equal(t, none, look(5*time.Second))
	require.ErrorIs(t, running.causeOfEnd(5*time.Second), ErrStartToClose)
	require.Equal(t, one, look(6*time.Second))

	running, look = newRunning(0)
	running.cancel(ErrCancelled)
	require.Equal(t, none, look(time.Second))
	running.functionEnded()
	require.Equal(t, none, look(time.Hour), "it has returned")
}
