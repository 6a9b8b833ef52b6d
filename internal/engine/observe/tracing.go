package observe

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The trace travels with the run as a W3C traceparent.
var traceFormat = propagation.TraceContext{}

const traceparent = "traceparent"

// InjectTrace returns the trace context of ctx as a W3C traceparent; "" if ctx has none.
func InjectTrace(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	traceFormat.Inject(ctx, carrier)
	return carrier[traceparent]
}

// ExtractTrace returns ctx with the trace context that [InjectTrace] has stored; ctx itself for "".
func ExtractTrace(ctx context.Context, stored string) context.Context {
	if stored == "" {
		return ctx
	}
	return traceFormat.Extract(ctx, propagation.MapCarrier{traceparent: stored})
}

// EndSpan ends a span, with err as its error unless nil.
func EndSpan(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
