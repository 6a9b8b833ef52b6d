package runtime

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// watchMetrics exports the counts of a run of the worker until the returned function is called.
func (s *shift) watchMetrics() (stop func(), err error) {
	w, t := s.worker, s.session.telemetry
	name := named("worker", w.config.id)
	found := metric.WithAttributes(name, named("outcome", outcomeFound))
	empty := metric.WithAttributes(name, named("outcome", outcomeEmpty))
	registration, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		stats := w.Stats()
		o.ObserveInt64(t.workerClaims, stats.Claims-stats.EmptyClaims, found)
		o.ObserveInt64(t.workerClaims, stats.EmptyClaims, empty)
		o.ObserveInt64(t.workerExecutions, stats.Executions, metric.WithAttributes(name))
		o.ObserveInt64(t.workerOverstays, stats.Overstays, metric.WithAttributes(name))
		o.ObserveInt64(t.overstaying, stats.Overstaying, metric.WithAttributes(name))
		o.ObserveInt64(t.slots, int64(w.config.slots), metric.WithAttributes(name))
		o.ObserveInt64(t.busySlots, int64(s.leases.size()), metric.WithAttributes(name))
		return nil
	}, t.workerClaims, t.workerExecutions, t.workerOverstays, t.overstaying, t.slots, t.busySlots)
	return stopper(registration, err)
}
