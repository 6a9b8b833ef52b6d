package observe

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// Spans begin once the program has set a provider, also when it does so after the engine was opened. It changes the
// global provider of the test process.
func TestTraces_FromTheFirstProviderOn(t *testing.T) {
	telemetry, err := NewTelemetry(otel.GetTracerProvider(), otel.GetMeterProvider())
	require.NoError(t, err)
	require.False(t, telemetry.Traces(), "before the program sets a provider")

	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	otel.SetTracerProvider(provider)
	require.True(t, telemetry.Traces())
	_, span := telemetry.Tracer.Start(context.Background(), "start")
	span.End()
	require.Len(t, recorder.Ended(), 1)

	given, err := NewTelemetry(provider, otel.GetMeterProvider())
	require.NoError(t, err)
	require.True(t, given.Traces())
}
