package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// admissionRounds is the number of rounds in which the ways of admission take turns, so that other load of the machine
// affects them equally.
const admissionRounds = 3

// admission compares runs of one node without a limit, under one that is never reached, and under a large blocking
// budget: one that it does not use, and one to which it reports. Each gets as many runs, or as long, as a workload of
// one.
func admission(ctx context.Context, s settings) (figures []figure, err error) {
	budget := []flow.Option{flow.Budget("bench", flow.BudgetConfig{Hard: map[string]int64{"calls": 1 << 40}, PerFlow: true, OnExceeded: flow.BlockNodes})}
	ways := []struct {
		name string
		run  *activity.Activity[int, int]
		opts []flow.NodeOption
		flow []flow.Option
	}{
		{name: "free", run: noop},
		{name: "limit", run: noop, opts: []flow.NodeOption{activity.Limit("bench", activity.LimitConfig{AtOnce: 100_000})}},
		{name: "budget", run: noop, flow: budget},
		{name: "used budget", run: report, flow: budget},
	}
	l, err := local(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	s.time, s.flows = s.time/admissionRounds, s.flows/admissionRounds
	runs, took, used := make([]float64, len(ways)), make([]float64, len(ways)), make([]stats, len(ways))
	for range admissionRounds {
		for i, way := range ways {
			f := flow.New[int, int]("bench-"+strings.ReplaceAll(way.name, " ", "-"), way.flow...)
			flow.Return(f, flow.Node(f, "only", way.run, f.Input(), way.opts...))
			def, err := f.Build()
			if err != nil {
				return nil, err
			}
			for i := range s.warmUp() {
				if err := one(ctx, l.Client(), def, i); err != nil {
					return nil, err
				}
			}
			before, err := serverStats(ctx, l.Engine())
			if err != nil {
				return nil, err
			}
			begun := time.Now()
			times, err := load(ctx, s, s.clients, func(i int) error { return one(ctx, l.Client(), def, i) })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", way.name, err)
			}
			runs[i] += float64(times.TotalCount())
			took[i] += time.Since(begun).Seconds()
			after, err := serverStats(ctx, l.Engine())
			if err != nil {
				return nil, err
			}
			used[i] = used[i].plus(after.since(before))
		}
	}
	each := func(i int, of func(stats) float64) float64 { return of(used[i]) / runs[i] }
	commands := func(s stats) float64 { return float64(s.commands) }
	calls := func(s stats) float64 { return float64(s.calls) }
	micros := func(s stats) float64 { return float64(s.cpu.Microseconds()) }
	free := runs[0] / took[0]
	for i, way := range ways {
		rate := runs[i] / took[i]
		figures = append(figures, figure{way.name, "1/s", rate})
		if i > 0 {
			figures = append(figures, figure{way.name + " costs", "%", 100 * (1 - rate/free)})
		}
		if used[i].commands == 0 {
			continue // an engine in this process does not count
		}
		figures = append(figures, figure{way.name + " commands", "/run", each(i, commands)},
			figure{way.name + " calls", "/run", each(i, calls)},
			figure{way.name + " server CPU", "µs/run", each(i, micros)})
		if i > 0 {
			figures = append(figures,
				figure{way.name + " adds server CPU", "%", 100 * (each(i, micros)/each(0, micros) - 1)},
				figure{way.name + " adds", "µs/run", each(i, micros) - each(0, micros)})
		}
	}
	return figures, nil
}
