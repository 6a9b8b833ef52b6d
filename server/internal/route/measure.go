package route

import (
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// Instruments measure requests. The nil value measures nothing.
type Instruments struct {
	duration metric.Float64Histogram
	streams  metric.Int64UpDownCounter
}

// NewInstruments returns the instruments of a meter.
func NewInstruments(meter metric.Meter) (*Instruments, error) {
	duration, err := meter.Float64Histogram("flowfabric.api.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Time to answer a request of the HTTP API; streams are not measured."),
		metric.WithExplicitBucketBoundaries(
			0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30))
	if err != nil {
		return nil, err
	}
	streams, err := meter.Int64UpDownCounter("flowfabric.api.stream.count",
		metric.WithDescription("Open streams of the HTTP API."))
	if err != nil {
		return nil, err
	}
	return &Instruments{duration, streams}, nil
}

// measure returns the middleware that measures an operation.
func (i *Instruments) measure(op httpapi.Operation) func(huma.Context, func(huma.Context)) {
	name := attribute.String("flowfabric.operation", op.Name)
	return func(ctx huma.Context, next func(huma.Context)) {
		if i == nil {
			next(ctx)
			return
		}
		if op.Streams {
			i.streams.Add(ctx.Context(), 1, metric.WithAttributes(name))
			defer i.streams.Add(ctx.Context(), -1, metric.WithAttributes(name))
			next(ctx)
			return
		}
		begun := time.Now()
		next(ctx)
		status := attribute.String("http.response.status_code", strconv.Itoa(ctx.Status()))
		i.duration.Record(ctx.Context(), time.Since(begun).Seconds(), metric.WithAttributes(name, status))
	}
}
