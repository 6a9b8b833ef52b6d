package contractapi

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics counts requests by method, pattern and status. In Prometheus they are ff_http_requests_total and
// ff_http_request_duration_seconds, as on other servers. The zero value counts nothing.
type metrics struct {
	requests  metric.Int64Counter
	durations metric.Float64Histogram
}

// latencies are the bounds of the buckets of durations, in seconds: those for HTTP of OpenTelemetry, and the longest
// wait for a stream.
var latencies = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30}

func newMetrics(meter metric.Meter) (metrics, error) {
	if meter == nil {
		return metrics{}, nil
	}
	requests, err := meter.Int64Counter("ff_http_requests",
		metric.WithDescription("Requests to routes of the contract."))
	durations, err2 := meter.Float64Histogram("ff_http_request_duration", metric.WithUnit("s"),
		metric.WithDescription("Durations of requests to routes of the contract."),
		metric.WithExplicitBucketBoundaries(latencies...))
	return metrics{requests, durations}, errors.Join(err, err2)
}

func (m *metrics) record(ctx context.Context, route *Route, status int, took time.Duration) {
	if m.requests == nil {
		return
	}
	labels := metric.WithAttributeSet(attribute.NewSet(attribute.String("method", route.Method),
		attribute.String("path", route.Pattern), attribute.String("status", strconv.Itoa(status))))
	ctx = context.WithoutCancel(ctx)
	m.requests.Add(ctx, 1, labels)
	m.durations.Record(ctx, took.Seconds(), labels)
}
