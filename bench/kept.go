package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// kept compares the cost of runs of one node on an empty engine and on one that keeps many runs that are over.
func kept(ctx context.Context, s settings) (figures []figure, err error) {
	def, err := chain(1)
	if err != nil {
		return nil, err
	}
	l, err := local(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	cost := func() (cpu float64, err error) {
		before, err := serverStats(ctx, l.Engine())
		if err != nil {
			return 0, err
		}
		times, err := load(ctx, s, s.clients, func(i int) error { return one(ctx, l.Client(), def, i) })
		if err != nil {
			return 0, err
		}
		after, err := serverStats(ctx, l.Engine())
		return float64(after.since(before).cpu.Microseconds()) / float64(times.TotalCount()), err
	}
	few, err := cost()
	if err != nil {
		return nil, err
	}
	before, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, err
	}
	begun, runs := time.Now(), s.atMost(s.backlog)
	for left := runs; left > 0; left -= manyStarts {
		if _, err := startAll(ctx, l.Client(), def, min(left, manyStarts)); err != nil {
			return nil, err
		}
	}
	if err := one(ctx, l.Client(), def, 0); err != nil { // it waits for all others
		return nil, err
	}
	took := time.Since(begun).Seconds()
	after, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, err
	}
	many, err := cost()
	figures = []figure{{"filled", "1/s", float64(runs) / took}}
	if few > 0 {
		figures = append(figures, figure{"a run at first", "µs", few},
			figure{fmt.Sprintf("a run with %d", runs), "µs", many}, figure{"more", "%", 100 * (many/few - 1)},
			figure{"memory per kept run", "B", float64(after.since(before).memory) / float64(runs)})
	}
	return figures, err
}

// startAll starts runs of a flow, many with one call.
func startAll[T any](
	ctx context.Context, client *runtime.Client, def *flow.Definition[T, T], count int, opts ...runtime.StartOption,
) ([]*runtime.Run[T], error) {
	list := make([]runtime.NewRun[T], count)
	for i := range list {
		list[i].Options = opts
	}
	started, err := runtime.StartMany(ctx, client, def, list)
	if err != nil {
		return nil, err
	}
	runs := make([]*runtime.Run[T], count)
	for i, one := range started {
		if one.Err != nil {
			return nil, fmt.Errorf("start: %w", one.Err)
		}
		runs[i] = one.Run
	}
	return runs, nil
}
