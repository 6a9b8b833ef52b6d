package runtime

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The trace travels with the run as a W3C traceparent.
var traceFormat = propagation.TraceContext{}

const traceparent = "traceparent"

func injectTrace(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	traceFormat.Inject(ctx, carrier)
	return carrier[traceparent]
}

func extractTrace(ctx context.Context, stored string) context.Context {
	if stored == "" {
		return ctx
	}
	return traceFormat.Extract(ctx, propagation.MapCarrier{traceparent: stored})
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
