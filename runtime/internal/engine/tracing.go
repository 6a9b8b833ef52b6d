package engine

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The trace travels with the run as a W3C traceparent.
var traceFormat = propagation.TraceContext{}

const traceparent = "traceparent"

func InjectTrace(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	traceFormat.Inject(ctx, carrier)
	return carrier[traceparent]
}

func ExtractTrace(ctx context.Context, stored string) context.Context {
	if stored == "" {
		return ctx
	}
	return traceFormat.Extract(ctx, propagation.MapCarrier{traceparent: stored})
}

func EndSpan(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
