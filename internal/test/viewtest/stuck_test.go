package viewtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A call of Result that waits for a run without a worker logs why, once, and its error has the reason when the deadline
// passes; a worker logs its lanes and activities.
func TestResultTellsWhyRunWaits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		pass := func(_ context.Context, n int) (int, error) { return n, nil }
		known, missing := activity.New("known", pass), activity.New("missing", pass)
		inner := flow.New[int, int]("inner")
		flow.Return(inner, flow.Node(inner, "b", missing, inner.Input()))
		f := flow.New[int, int]("outer")
		flow.Return(f, flow.Sub(f, "a", fixture.Build(t, inner), f.Input()))
		b.Worker(t, []activity.Handler{known}, runtime.WorkerConfig{Concurrency: 3})
		enginetest.Eventually(t, func() string {
			for line := range strings.Lines(b.Log()) {
				if strings.Contains(line, "worker.started") {
					require.Contains(t, line, "lanes=[default] activities=[known] slots=3")
					return ""
				}
			}
			return "not logged: " + b.Log()
		})
		run, err := runtime.Start(ctx, b.Client, fixture.Build(t, f), 1)
		require.NoError(t, err)
		why := `node a waits for run \S+/a of flow inner: node b waits: no running worker knows activity .?"missing.?"`
		waiting, stop := context.WithCancel(ctx)
		ended := make(chan error)
		go func() {
			_, err := run.Result(waiting)
			ended <- err
		}()
		enginetest.Eventually(t, func() string {
			if strings.Contains(b.Log(), "run.stuck") {
				return ""
			}
			return "not logged: " + b.Log()
		})
		require.Regexp(t, `run.stuck flow=outer run=\S+ why="`+why, b.Log())
		stop()
		err = <-ended
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, strings.Count(b.Log(), "run.stuck"))

		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_, err = run.Result(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Regexp(t, `context deadline exceeded; `+why, err.Error())
		require.NoError(t, run.Cancel(ctx, ""))
	})
}
