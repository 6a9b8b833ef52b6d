package tasktest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// halt stops the first attempt of an engine between its claim and its begin, as a process is stopped there.
type halt struct {
	noop.TracerProvider
	used             atomic.Bool
	stopped, proceed chan struct{}
}

func (h *halt) Tracer(string, ...trace.TracerOption) trace.Tracer { return haltTracer{halt: h} }

type haltTracer struct {
	noop.Tracer
	*halt
}

func (h haltTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	if strings.HasPrefix(name, "flowfabric.activity") && !h.used.Swap(true) {
		close(h.stopped)
		<-h.proceed
	}
	return h.Tracer.Start(ctx, name, opts...)
}

// A task whose lease has ended before it is handed out is not handed out: another worker has run its execution. A call
// of Next gets the next task, one of NextGranted an error.
func TestNoTaskUnderAnEndedLease(t *testing.T) {
	t.Parallel()
	for name, granted := range map[string]bool{"next": false, "granted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
				stop := &halt{stopped: make(chan struct{}), proceed: make(chan struct{})}
				b := enginetest.New(t, kind, runtime.OpenConfig{TracerProvider: stop})
				b.Keeper(t)
				h := fixture.NewHolder(t, b, runtime.WorkerConfig{Lease: 500 * time.Millisecond, ManualRenewal: true})
				run := h.Started(1)
				next := func() (*runtime.Task, error) { return h.Worker.Next(h.Ctx) }
				if granted {
					request := fixture.RequestFor("worker")
					request.Instance = h.Worker.Instance()
					grant, err := b.Engine.ClaimForWorker(h.Ctx, request)
					require.NoError(t, err)
					next = func() (*runtime.Task, error) { return h.Worker.NextGranted(h.Ctx, grant) }
				}
				var task *runtime.Task
				var err error
				returned := make(chan struct{})
				go func() {
					defer close(returned)
					task, err = next()
				}()
				<-stop.stopped
				// The program still waits for the task when its worker continues.
				other := b.Worker(t, []activity.Handler{fixture.Passing("work")})
				h.RequireResult(run, 1)
				require.NoError(t, other.Stop())
				second := h.Started(2)
				close(stop.proceed)
				<-returned
				if granted {
					require.ErrorIs(t, err, enginecore.ErrNoGrant)
					task, err = h.Worker.Next(h.Ctx)
				}
				require.NoError(t, err)
				var n int
				require.NoError(t, task.Decode(&n))
				require.Equal(t, 2, n)
				require.NoError(t, task.Complete(h.Ctx, n))
				h.RequireResult(second, 2)
				b.Settle(t)
			})
		})
	}
}
