package observe

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// instrumentation is the scope of all spans and metrics.
const instrumentation = "github.com/flowfabric/flowfabric-go/runtime"

// Telemetry holds the tracer and the instruments of an engine. Counters and gauges are observed when metrics are
// collected, from counts that exist anyway; only durations are recorded as they occur.
type Telemetry struct {
	Tracer trace.Tracer
	Meter  metric.Meter
	// Producer and Consumer are the span kinds of submissions and of activities.
	Producer, Consumer trace.SpanStartOption

	Starts, Claims, Attempts, Commits metric.Float64Histogram

	WorkerClaims     metric.Int64ObservableCounter
	WorkerExecutions metric.Int64ObservableCounter
	WorkerOverstays  metric.Int64ObservableCounter
	Slots, BusySlots metric.Int64ObservableUpDownCounter
	Overstaying      metric.Int64ObservableUpDownCounter
	LaneDepth        metric.Int64ObservableGauge
	LaneAge          metric.Float64ObservableGauge

	TaskSteps, TaskItems, TaskErrors, TaskPanics, TaskFailed metric.Int64ObservableCounter
	TaskLag                                                  metric.Float64ObservableGauge
	KeeperPartitions                                         metric.Int64ObservableUpDownCounter
	Siblings, SiblingsDispatched, SiblingGroups              metric.Int64ObservableCounter

	// options are the attributes of recorded durations, made once for each set of labels.
	options sync.Map

	// unset is the global provider of OpenTelemetry as long as the program has not set one; nil for another provider.
	unset trace.TracerProvider
}

// placeholders is the package of the global provider that OpenTelemetry has until a program sets one.
const placeholders = "go.opentelemetry.io/otel/internal/global"

// isPlaceholder reports whether a provider records nothing, unless another one takes its place.
func isPlaceholder(tracers trace.TracerProvider) bool {
	typ := reflect.TypeOf(tracers)
	return typ.Kind() == reflect.Pointer && typ.Elem().PkgPath() == placeholders
}

// Traces reports whether spans go anywhere. While no provider is set, none are begun, since each costs allocations.
func (t *Telemetry) Traces() bool { return t.unset == nil || otel.GetTracerProvider() != t.unset }

// Bounds of histograms, in seconds: of calls to the engine, and of functions.
var (
	callBounds    = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	attemptBounds = []float64{.0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600}
)

// NewTelemetry creates the instruments. The error joins the errors of all instruments that could not be created.
func NewTelemetry(tracers trace.TracerProvider, meters metric.MeterProvider) (*Telemetry, error) {
	t := &Telemetry{
		Tracer: tracers.Tracer(instrumentation), Meter: meters.Meter(instrumentation),
		Producer: trace.WithSpanKind(trace.SpanKindProducer), Consumer: trace.WithSpanKind(trace.SpanKindConsumer),
	}
	if isPlaceholder(tracers) {
		t.unset = tracers
	}
	var faults []error
	seconds := func(name, description string, bounds []float64) metric.Float64Histogram {
		h, err := t.Meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(bounds...))
		faults = append(faults, err)
		return h
	}
	counter := func(name, unit, description string) metric.Int64ObservableCounter {
		c, err := t.Meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	gauge := func(name, unit, description string) metric.Int64ObservableGauge {
		g, err := t.Meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return g
	}
	// The values of several workers or keepers of a process add up.
	share := func(name, unit, description string) metric.Int64ObservableUpDownCounter {
		c, err := t.Meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	t.Starts = seconds("flowfabric.start.duration", "Duration of submitting a run, until the engine has replied.",
		callBounds)
	t.Claims = seconds("flowfabric.claim.duration", "Duration of a claim call, with its repetitions.", callBounds)
	t.Commits = seconds("flowfabric.commit.duration",
		"Duration of committing the result of an attempt, with repetitions.", callBounds)
	t.Attempts = seconds("flowfabric.attempt.duration", "Duration of an attempt, from its claim to its end.",
		attemptBounds)
	t.WorkerClaims = counter("flowfabric.worker.claims", "{claim}", "Number of claim calls of a worker.")
	t.WorkerExecutions = counter("flowfabric.worker.executions", "{execution}",
		"Number of attempts that a worker started.")
	t.WorkerOverstays = counter("flowfabric.worker.overstays", "{execution}",
		"Number of functions that had not returned one lease duration after their context ended.")
	t.Overstaying = share("flowfabric.worker.slot.overstaying", "{slot}",
		"Number of slots held by functions that overstay.")
	t.Slots = share("flowfabric.worker.slot.limit", "{slot}",
		"Number of functions that a worker runs at a time at most.")
	t.BusySlots = share("flowfabric.worker.slot.usage", "{slot}", "Number of slots in use.")
	t.LaneDepth = gauge("flowfabric.lane.depth", "{execution}", "Number of executions of a lane, by state.")
	t.TaskSteps = counter("flowfabric.keeper.steps", "{step}",
		"Number of steps of a keeper, each of one task in one partition.")
	t.TaskItems = counter("flowfabric.keeper.items", "{item}", "Number of items that a keeper processed, by task.")
	t.TaskErrors = counter("flowfabric.keeper.errors", "{step}", "Number of steps of a keeper that failed.")
	t.TaskPanics = counter("flowfabric.keeper.panics", "{step}", "Number of steps of a keeper that panicked.")
	t.TaskFailed = counter("flowfabric.keeper.failed_items", "{item}",
		"Number of times that a keeper could not work on an item and put it off, by task.")
	t.Siblings = counter("flowfabric.keeper.siblings", "{execution}",
		"Number of upstreams that joins did not need and a keeper processed, by what became of them.")
	t.SiblingsDispatched = counter("flowfabric.keeper.siblings_dispatched", "{execution}",
		"Number of cancels of upstreams that joins did not need, by the reason of the join.")
	t.SiblingGroups = counter("flowfabric.keeper.sibling_groups", "{group}",
		"Number of reconciled edge groups that owe cancels, by what was done to them.")
	t.KeeperPartitions = share("flowfabric.keeper.partitions", "{partition}",
		"Number of flow partitions that a keeper owns.")
	age := func(name, description string) metric.Float64ObservableGauge {
		g, err := t.Meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
		faults = append(faults, err)
		return g
	}
	t.LaneAge = age("flowfabric.lane.oldest_age", "Age of the oldest eligible execution of a lane.")
	t.TaskLag = age("flowfabric.keeper.lag", "Delay of the last due item when a keeper processed it, by task.")
	return t, errors.Join(faults...)
}

// Outcomes of claims, of attempts and of runs that were started.
const (
	OutcomeStarted       = "started"
	OutcomeExisted       = "existed"
	OutcomeFound         = "found"
	OutcomeEmpty         = "empty"
	OutcomeUnanswered    = "unanswered"
	OutcomeSucceeded     = "succeeded"
	OutcomeSkipped       = "skipped"
	OutcomeFailed        = "failed"
	OutcomeRetried       = "retried"
	OutcomeSuspended     = "suspended"
	OutcomeReleased      = "released"
	OutcomeCancelled     = "cancelled"
	OutcomeDelayed       = "delayed"
	OutcomeLeaseLost     = "lease_lost"
	OutcomeEndedByEngine = "ended_by_engine"
	OutcomeNotCommitted  = "not_committed"
)

// Named returns an attribute of a metric or span under the project's prefix: "flowfabric." and key.
func Named(key, value string) attribute.KeyValue { return attribute.String("flowfabric."+key, value) }

// Labels are the attributes of a recorded duration: Value under the name Key, and the outcome.
type Labels struct{ Key, Value, Outcome string }

// Record adds a duration, in seconds, to a histogram. It does nothing if the histogram is disabled.
func (t *Telemetry) Record(ctx context.Context, h metric.Float64Histogram, d time.Duration, l Labels) {
	if !h.Enabled(ctx) {
		return
	}
	option, known := t.options.Load(l)
	if !known {
		set := attribute.NewSet(Named(l.Key, l.Value), Named("outcome", l.Outcome))
		option, _ = t.options.LoadOrStore(l, metric.WithAttributeSet(set))
	}
	h.Record(ctx, d.Seconds(), option.(metric.RecordOption))
}

// Stopper turns the results of metric.Meter.RegisterCallback into a function that ends the registration.
func Stopper(registration metric.Registration, err error) (func(), error) {
	if err != nil {
		return nil, err
	}
	return func() { _ = registration.Unregister() }, nil
}

// OutcomeOfFailure returns the outcome of an attempt that failed: retried, ended by the engine, or failed for good.
func OutcomeOfFailure(reply enginerpc.FailReply) string {
	switch reply.Outcome {
	case "retry_scheduled":
		return OutcomeRetried
	case "cancelled":
		return OutcomeEndedByEngine
	}
	return OutcomeFailed
}

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
