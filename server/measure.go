package server

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/server/internal/route"
)

const meterName = "github.com/flowfabric/flowfabric-go/server"

// measure returns the instruments of requests, nil without a meter provider, and lets the meter read the lanes if it is
// to.
func (s *Server) measure() (*route.Instruments, error) {
	s.unmeasure = func() {}
	if s.config.MeterProvider == nil {
		return nil, nil
	}
	meter := s.config.MeterProvider.Meter(meterName)
	instruments, err := route.NewInstruments(meter)
	if err != nil || !s.config.ReportLanes {
		return instruments, err
	}
	depth, err := meter.Int64ObservableGauge("flowfabric.lane.depth",
		metric.WithUnit("{execution}"), metric.WithDescription("Executions in a lane."))
	if err != nil {
		return nil, err
	}
	age, err := meter.Float64ObservableGauge("flowfabric.lane.oldest_age",
		metric.WithUnit("s"), metric.WithDescription("Age of the oldest eligible execution of a lane."))
	if err != nil {
		return nil, err
	}
	reading, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		lanes, err := s.service.Lanes(ctx)
		if err != nil {
			return err
		}
		for _, l := range lanes {
			observeLane(o, depth, age, l)
		}
		return nil
	}, depth, age)
	if err != nil {
		return nil, err
	}
	s.unmeasure = func() { _ = reading.Unregister() }
	return instruments, nil
}

func observeLane(o metric.Observer, depth metric.Int64Observable, age metric.Float64Observable, l fabrictype.Lane) {
	name := attribute.String("flowfabric.lane", l.Name)
	for state, n := range map[string]int{
		"eligible": l.Eligible, "delayed": l.Delayed, "active": l.Active, "suspended": l.Suspended,
		"blocked_by_dependencies": l.Blocked.Dependencies, "blocked_by_budget": l.Blocked.Budget,
		"blocked_by_quota": l.Blocked.Quota, "blocked_by_route": l.Blocked.Route,
		"blocked_by_operator": l.Blocked.Operator,
	} {
		o.ObserveInt64(depth, int64(n), metric.WithAttributes(name, attribute.String("flowfabric.state", state)))
	}
	seconds := 0.0
	if !l.Oldest.IsZero() {
		seconds = max(0, time.Since(l.Oldest).Seconds())
	}
	o.ObserveFloat64(age, seconds, metric.WithAttributes(name))
}
