package attempt

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// A function that has not returned is reported, only once, when its context has been ended for the patience. The time
// that it ran before does not matter.
func TestOverstayIsReportedOnce(t *testing.T) {
	t.Parallel()
	const patience = time.Second
	type counts struct{ reported, running int64 }
	newRunning := func(limit time.Duration) (*Attempt, func(after time.Duration) counts) {
		counted := new(OverstayCounts)
		s := &Shared{
			Session: &engine.Session{Logger: slog.New(slog.DiscardHandler)}, Base: t.Context(), LeaseTTL: time.Minute,
			Overstays: counted,
		}
		running := new(Attempt)
		running.Init(s, dispatch.LaneShard{}, &enginerpc.ClaimedExecution{}, time.Now())
		until := time.Time{}
		if limit > 0 {
			until = running.Begun.Add(limit)
		}
		running.FunctionBegins(until)
		return running, func(after time.Duration) counts {
			running.CheckOverstay(running.Begun.Add(after), patience)
			return counts{counted.Overstays.Load(), counted.Overstaying.Load()}
		}
	}
	none, one, over := counts{}, counts{1, 1}, counts{1, 0}

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
	require.ErrorIs(t, running.causeOfEnd(5*time.Second), engine.ErrStartToClose)
	require.Equal(t, one, look(6*time.Second))

	running, look = newRunning(0)
	running.Cancel(engine.ErrCancelled)
	require.Equal(t, none, look(time.Second))
	running.FunctionEnded()
	require.Equal(t, none, look(time.Hour), "it has returned")
}
