package runtime

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// watchMetrics exports what the keeper does and what stands in the lanes until the returned function is called.
func (k *keeper) watchMetrics() (stop func(), err error) {
	unwatchLanes, err := k.watchLanes()
	if err != nil {
		return nil, fmt.Errorf("keeper: metrics: %w", err)
	}
	unwatchTasks, err := k.watchTasks()
	if err != nil {
		unwatchLanes()
		return nil, fmt.Errorf("keeper: metrics: %w", err)
	}
	return func() {
		unwatchTasks()
		unwatchLanes()
	}, nil
}

// watchTasks exports what the keeper has done of its tasks.
func (k *keeper) watchTasks() (stop func(), err error) {
	t := k.session.telemetry
	registration, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(t.keeperPartitions, int64(k.partitions()))
		for _, s := range k.taskStats() {
			duty := metric.WithAttributes(named("duty", string(s.task)))
			o.ObserveInt64(t.dutySteps, s.steps, duty)
			o.ObserveInt64(t.dutyItems, s.done, duty)
			o.ObserveInt64(t.dutyErrors, s.errors, duty)
			o.ObserveInt64(t.dutyPanics, s.panics, duty)
			o.ObserveFloat64(t.dutyLag, s.lag.Seconds(), duty)
		}
		return nil
	}, t.keeperPartitions, t.dutySteps, t.dutyItems, t.dutyErrors, t.dutyPanics, t.dutyLag)
	return stopper(registration, err)
}

// watchLanes exports what stands in the lanes. The engine is asked when metrics are collected.
func (k *keeper) watchLanes() (stop func(), err error) {
	t := k.session.telemetry
	registration, err := t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		list, err := k.session.laneTotals(ctx)
		if err != nil {
			return err
		}
		for _, lane := range list {
			observeLane(t, o, lane)
		}
		return nil
	}, t.laneDepth, t.laneAge)
	return stopper(registration, err)
}

func observeLane(t *telemetry, o metric.Observer, lane enginerpc.LaneState) {
	name := named("lane", string(lane.LaneID))
	for state, n := range map[string]int64{
		"eligible": lane.Eligible, "delayed": lane.Delayed, "active": lane.Active, "suspended": lane.Suspended,
		"blocked_by_dependencies": lane.BlockedDependencies, "blocked_by_budget": lane.BlockedBudget,
		"blocked_by_quota": lane.BlockedQuota, "blocked_by_route": lane.BlockedRoute,
		"blocked_by_operator": lane.BlockedOperator,
	} {
		o.ObserveInt64(t.laneDepth, n, metric.WithAttributes(name, named("state", state)))
	}
	age := 0.0
	if !lane.OldestEligibleAt.IsZero() {
		age = max(0, time.Since(lane.OldestEligibleAt).Seconds())
	}
	o.ObserveFloat64(t.laneAge, age, metric.WithAttributes(name))
}
