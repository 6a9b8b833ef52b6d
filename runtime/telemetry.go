package runtime

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// instrumentation is the scope of all spans and metrics.
const instrumentation = "github.com/flowfabric/flowfabric-go/runtime"

// telemetry holds the tracer and the instruments of an engine. Counters are read from what is counted anyway when
// somebody collects; only durations are recorded as they come.
type telemetry struct {
	tracer trace.Tracer
	meter  metric.Meter
	// producer and consumer are the kinds of spans of submissions and activities, made once.
	producer, consumer trace.SpanStartOption

	starts, claims, attempts, commits metric.Float64Histogram

	workerClaims     metric.Int64ObservableCounter
	workerExecutions metric.Int64ObservableCounter
	workerOverstays  metric.Int64ObservableCounter
	slots, busySlots metric.Int64ObservableUpDownCounter
	overstaying      metric.Int64ObservableUpDownCounter
	laneDepth        metric.Int64ObservableGauge
	laneAge          metric.Float64ObservableGauge

	dutySteps, dutyItems, dutyErrors, dutyPanics metric.Int64ObservableCounter
	dutyLag                                      metric.Float64ObservableGauge
	keeperPartitions                             metric.Int64ObservableUpDownCounter

	// options are the attributes of recorded durations, made once for each set of labels.
	options sync.Map
}

// Bounds of histograms, in seconds: of calls to the engine, and of functions.
var (
	callBounds    = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	attemptBounds = []float64{.0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600}
)

func newTelemetry(tracers trace.TracerProvider, meters metric.MeterProvider) (*telemetry, error) {
	t := &telemetry{
		tracer: tracers.Tracer(instrumentation), meter: meters.Meter(instrumentation),
		producer: trace.WithSpanKind(trace.SpanKindProducer), consumer: trace.WithSpanKind(trace.SpanKindConsumer),
	}
	var faults []error
	seconds := func(name, description string, bounds []float64) metric.Float64Histogram {
		h, err := t.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(bounds...))
		faults = append(faults, err)
		return h
	}
	counter := func(name, unit, description string) metric.Int64ObservableCounter {
		c, err := t.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	gauge := func(name, unit, description string) metric.Int64ObservableGauge {
		g, err := t.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return g
	}
	// What several of one process have together is the sum of what each has.
	share := func(name, unit, description string) metric.Int64ObservableUpDownCounter {
		c, err := t.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	t.starts = seconds("flowfabric.start.duration", "Time to submit a run.", callBounds)
	t.claims = seconds("flowfabric.claim.duration", "Time that a claim takes.", callBounds)
	t.commits = seconds("flowfabric.commit.duration", "Time to commit a result.", callBounds)
	t.attempts = seconds("flowfabric.attempt.duration", "Time from the claim of an attempt to its end.", attemptBounds)
	t.workerClaims = counter("flowfabric.worker.claims", "{claim}", "Calls that asked for work.")
	t.workerExecutions = counter("flowfabric.worker.executions", "{execution}", "Attempts that were begun.")
	t.workerOverstays = counter("flowfabric.worker.overstays", "{execution}", "Functions that had not returned one lease time after their context had ended.")
	t.overstaying = share("flowfabric.worker.slot.overstaying", "{slot}", "Slots held by such functions.")
	t.slots = share("flowfabric.worker.slot.limit", "{slot}", "Functions that may run at a time.")
	t.busySlots = share("flowfabric.worker.slot.usage", "{slot}", "Functions that run.")
	t.laneDepth = gauge("flowfabric.lane.depth", "{execution}", "Executions that stand in a lane.")
	t.dutySteps = counter("flowfabric.keeper.steps", "{step}", "Looks of a keeper at a partition.")
	t.dutyItems = counter("flowfabric.keeper.items", "{item}", "What a keeper has worked on.")
	t.dutyErrors = counter("flowfabric.keeper.errors", "{step}", "Steps of a keeper that failed.")
	t.dutyPanics = counter("flowfabric.keeper.panics", "{step}", "Steps of a keeper that panicked.")
	t.keeperPartitions = share("flowfabric.keeper.partitions", "{partition}", "Partitions that a keeper sees to.")
	age := func(name, description string) metric.Float64ObservableGauge {
		g, err := t.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
		faults = append(faults, err)
		return g
	}
	t.laneAge = age("flowfabric.lane.oldest_age", "Age of the oldest execution that waits for a worker.")
	t.dutyLag = age("flowfabric.keeper.lag", "How late the last thing was done that was due.")
	return t, errors.Join(faults...)
}

// Outcomes of claims, of attempts and of runs that were started.
const (
	outcomeStarted       = "started"
	outcomeExisted       = "existed"
	outcomeFound         = "found"
	outcomeEmpty         = "empty"
	outcomeUnanswered    = "unanswered"
	outcomeSucceeded     = "succeeded"
	outcomeFailed        = "failed"
	outcomeRetried       = "retried"
	outcomeSuspended     = "suspended"
	outcomeGivenBack     = "given_back"
	outcomeLeaseLost     = "lease_lost"
	outcomeEndedByEngine = "ended_by_engine"
	outcomeNotCommitted  = "not_committed"
)

// named is an attribute, named as those of spans are.
func named(key, value string) attribute.KeyValue { return attribute.String("flowfabric."+key, value) }

// labels are the attributes of a duration.
type labels struct{ key, value, outcome string }

func (t *telemetry) record(ctx context.Context, h metric.Float64Histogram, d time.Duration, l labels) {
	if !h.Enabled(ctx) {
		return
	}
	option, known := t.options.Load(l)
	if !known {
		set := attribute.NewSet(named(l.key, l.value), named("outcome", l.outcome))
		option, _ = t.options.LoadOrStore(l, metric.WithAttributeSet(set))
	}
	h.Record(ctx, d.Seconds(), option.(metric.RecordOption))
}

func stopper(registration metric.Registration, err error) (func(), error) {
	if err != nil {
		return nil, err
	}
	return func() { _ = registration.Unregister() }, nil
}

// outcomeOfFailure says whether another attempt follows a failed one.
func outcomeOfFailure(reply enginerpc.FailReply) string {
	switch reply.Outcome {
	case "retry_scheduled":
		return outcomeRetried
	case "cancelled":
		return outcomeEndedByEngine
	}
	return outcomeFailed
}
