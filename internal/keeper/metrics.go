package keeper

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// watchMetrics exports the work of the keeper and the depth of the lanes until the returned function is called.
func (k *Keeper) watchMetrics() (stop func(), err error) {
	unwatchLanes := func() {}
	if k.Session.IsWhole() { // the contract has no counts of lanes
		if unwatchLanes, err = k.watchLanes(); err != nil {
			return nil, fmt.Errorf("keeper: metrics: %w", err)
		}
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

// dispositions are the possible results of processing upstreams that joins did not need.
var dispositions = []string{"cancelled", "already_terminal", "not_found", "needed"}

// dispatchReasons are the reasons of cancels of siblings, reconcileActions the actions on groups with open cancels.
var (
	dispatchReasons  = []string{quorumSatisfied, quorumImpossible}
	reconcileActions = []string{"sremmed_stale", "completed_drain", "no_op"}
)

// watchTasks exports the counters of the keeper's tasks.
func (k *Keeper) watchTasks() (stop func(), err error) {
	t := k.Session.Telemetry
	registration, err := t.Meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(t.KeeperPartitions, int64(k.Partitions()))
		for _, s := range k.TaskStats() {
			task := metric.WithAttributes(observe.Named("task", string(s.Task)))
			o.ObserveInt64(t.TaskSteps, s.Steps, task)
			o.ObserveInt64(t.TaskItems, s.Done, task)
			o.ObserveInt64(t.TaskErrors, s.Errors, task)
			o.ObserveInt64(t.TaskPanics, s.Panics, task)
			o.ObserveInt64(t.TaskFailed, s.Failed, task)
			o.ObserveFloat64(t.TaskLag, s.Lag.Seconds(), task)
		}
		siblings := k.Siblings()
		for _, disposition := range dispositions {
			o.ObserveInt64(t.Siblings, siblings[disposition],
				metric.WithAttributes(observe.Named("disposition", disposition)))
		}
		dispatched, reconciled := k.siblingCancels()
		for _, reason := range dispatchReasons {
			label := metric.WithAttributes(observe.Named("reason", reason))
			o.ObserveInt64(t.SiblingsDispatched, dispatched[reason], label)
		}
		for _, action := range reconcileActions {
			label := metric.WithAttributes(observe.Named("action", action))
			o.ObserveInt64(t.SiblingGroups, reconciled[action], label)
		}
		return nil
	}, t.KeeperPartitions, t.Siblings, t.SiblingsDispatched, t.SiblingGroups,
		t.TaskSteps, t.TaskItems, t.TaskErrors, t.TaskPanics,
		t.TaskFailed, t.TaskLag)
	return observe.Stopper(registration, err)
}

// watchLanes exports the number of executions by lane and state. It queries the engine whenever metrics are
// collected.
func (k *Keeper) watchLanes() (stop func(), err error) {
	t := k.Session.Telemetry
	registration, err := t.Meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		list, err := k.Session.LaneTotals(ctx)
		if err != nil {
			return err
		}
		for _, lane := range list {
			observeLane(t, o, lane)
		}
		return nil
	}, t.LaneDepth, t.LaneAge)
	return observe.Stopper(registration, err)
}

// observeLane records the depth and age of one lane.
func observeLane(t *observe.Telemetry, o metric.Observer, lane enginerpc.LaneState) {
	name := observe.Named("lane", string(lane.LaneID))
	for state, n := range map[string]int64{
		"eligible": lane.Eligible, "delayed": lane.Delayed, "active": lane.Active, "suspended": lane.Suspended,
		"blocked_by_dependencies": lane.BlockedDependencies, "blocked_by_budget": lane.BlockedBudget,
		"blocked_by_quota": lane.BlockedQuota, "blocked_by_route": lane.BlockedRoute,
		"blocked_by_operator": lane.BlockedOperator,
	} {
		o.ObserveInt64(t.LaneDepth, n, metric.WithAttributes(name, observe.Named("state", state)))
	}
	age := 0.0
	if !lane.OldestEligibleAt.IsZero() {
		age = max(0, time.Since(lane.OldestEligibleAt).Seconds())
	}
	o.ObserveFloat64(t.LaneAge, age, metric.WithAttributes(name))
}
