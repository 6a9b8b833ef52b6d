package workertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A flow that takes several calls to submit.
func TestManyNodes(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 32})
		begun := time.Now()
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 300), 0)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 300, out)
		t.Logf("300 in a row: %s", time.Since(begun))
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Len(t, d.Nodes, 300)
		require.Equal(t, "n0", d.Nodes[0].Name)
		require.Equal(t, "n299", d.Nodes[299].Name)
		b.Settle(t)
	})
}

// More edges leave the root, and more lead to the sum, than one call works on.
func TestFanOutAndIn(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a, sum := fixture.AddOne(), fixture.Adder()
		b.Worker(t, []activity.Handler{a, sum}, runtime.WorkerConfig{Concurrency: 32})
		begun := time.Now()
		run, err := runtime.Start(ctx, b.Client, fixture.Wide(t, a, sum, 300), 1)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 900, out)
		t.Logf("1 → 300 → 1: %s", time.Since(begun))
		b.Settle(t)
	})
}

// The failure of the root skips more nodes than one call works on, without a keeper.
func TestSkipsBeyondTheBudget(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("add", func(context.Context, int) (int, error) { return 0, fmt.Errorf("broken") }, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		sum := fixture.Adder()
		b.Worker(t, []activity.Handler{a, sum})
		run, err := runtime.Start(ctx, b.Client, fixture.Wide(t, a, sum, 300), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		require.Equal(t, "root", fixture.Failure(t, err).Node)
		b.Settle(t)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		for _, n := range d.Nodes {
			if n.Name == "sum" {
				require.Equal(t, fabrictype.NodeSkipped, n.State)
			}
		}
	})
}

// The log shows how long a chain takes. The test does not run in parallel with others.
func TestChainLatency(t *testing.T) {
	enginetest.EachModeAlone(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		b.MessageWorker(t, []activity.Handler{a})
		def := fixture.ChainOf(t, a, 10)
		var took []time.Duration
		for i := range 12 {
			begun := time.Now()
			run, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err, "each node is announced")
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		t.Logf("10 in a row: median %s, best %s, worst %s", took[6], took[0], took[11])
	})
}

func TestSpans(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	defer func() { require.NoError(t, provider.Shutdown(context.Background())) }()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, span := provider.Tracer("test").Start(enginetest.Context(t), "request")
		a := fixture.AddOne()
		b.Worker(t, []activity.Handler{a})
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 3), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		span.End()
		enginetest.Eventually(t, func() string {
			n := 0
			for _, s := range recorder.Ended() {
				if s.SpanContext().TraceID() == span.SpanContext().TraceID() {
					n++
				}
			}
			if n < 5 {
				return fmt.Sprintf("%d spans of 5", n)
			}
			return ""
		})
		var start sdktrace.ReadOnlySpan
		for _, s := range recorder.Ended() {
			if s.Name() == "flowfabric.start chain" && s.SpanContext().TraceID() == span.SpanContext().TraceID() {
				start = s
			}
		}
		require.NotNil(t, start)
		require.Equal(t, span.SpanContext().SpanID(), start.Parent().SpanID())
		nodes := make(map[string]bool)
		for _, s := range recorder.Ended() {
			if strings.HasPrefix(s.Name(), "flowfabric.activity") && s.SpanContext().TraceID() == span.SpanContext().TraceID() {
				require.Equal(t, start.SpanContext().SpanID(), s.Parent().SpanID())
				for _, kv := range s.Attributes() {
					if kv.Key == "flowfabric.node" {
						nodes[kv.Value.AsString()] = true
					}
				}
			}
		}
		require.Equal(t, map[string]bool{"n0": true, "n1": true, "n2": true}, nodes)
	}, runtime.OpenConfig{TracerProvider: provider})
}

// An activity can read the data of the attempt that it runs for.
func TestInfo_HasTheAttempt(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		seen := make(chan activity.ExecutionInfo, 1)
		a := activity.New("look", func(ctx context.Context, n int) (int, error) {
			info, ok := activity.Info(ctx)
			if !ok || !activity.LeaseHealthy(ctx) {
				return 0, fmt.Errorf("no execution in the context")
			}
			if err := activity.Progress(ctx, 40, "half way"); err != nil {
				return 0, err
			}
			seen <- info
			return n, nil
		}, activity.StartToClose(time.Minute))
		b.Worker(t, []activity.Handler{a})
		begun := time.Now().Truncate(time.Millisecond)
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a, flow.Tag("team.name", "x")), 1, runtime.WithID("r"))
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		info := <-seen
		require.Equal(t, "single", info.Flow)
		require.Equal(t, "r", info.RunID)
		require.Equal(t, "only", info.Node)
		require.Equal(t, string(run.FlowID()), info.FlowID)
		require.Equal(t, 1, info.Attempt)
		require.WithinRange(t, info.StartedAt, begun, time.Now())
		require.WithinRange(t, info.Deadline, info.StartedAt.Add(time.Minute), time.Now().Add(time.Minute))
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, string(d.Nodes[0].ExecutionID), info.ExecutionID)
		require.EqualValues(t, 40, d.Nodes[0].Percent)
		require.Equal(t, "half way", d.Nodes[0].Message)
		b.Settle(t)
	})
}
