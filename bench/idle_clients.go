package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// idleCounts are the numbers of idle clients of the idle-clients workload, and idleWaits is how many runs each has
// waited for before.
var idleCounts = []int{0, 16, 64}

const idleWaits = 50

// idleClients measures the cost that clients which have waited before, and wait for nothing now, add to the runs of
// others. Each has connections of its own.
func idleClients(ctx context.Context, s settings) (figures []figure, err error) {
	def, err := chain(1)
	if err != nil {
		return nil, err
	}
	l, err := local(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var idle []*runtime.Engine
	defer func() {
		for _, e := range idle {
			err = errors.Join(err, e.Close())
		}
	}()
	alone := 0.0
	for _, count := range idleCounts {
		for len(idle) < count {
			e, err := idleClient(ctx, s, l.Engine(), def)
			if err != nil {
				return nil, err
			}
			idle = append(idle, e)
		}
		more, cpu, err := besideIdle(ctx, s, l, def, count)
		if err != nil {
			return nil, err
		}
		figures = append(figures, more...)
		if count == 0 {
			alone = cpu
		} else if alone > 0 {
			figures = append(figures, figure{fmt.Sprintf("%d idle: more", count), "%", 100 * (cpu/alone - 1)})
		}
	}
	return figures, nil
}

// besideIdle measures the runs of a client while a number of others are idle. It also returns the CPU of the server for
// each run (µs), 0 in this process.
func besideIdle(
	ctx context.Context, s settings, l *runtime.Local, def *flow.Definition[int, int], count int,
) (figures []figure, cpu float64, err error) {
	before, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, 0, err
	}
	begun := time.Now()
	times, err := load(ctx, s, s.clients, func(i int) error { return one(ctx, l.Client(), def, i) })
	if err != nil {
		return nil, 0, err
	}
	took := time.Since(begun)
	after, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, 0, err
	}
	runs := float64(times.TotalCount())
	figures = []figure{{fmt.Sprintf("%d idle: flows", count), "1/s", runs / took.Seconds()}}
	if cost := after.since(before); cost.calls > 0 {
		cpu = float64(cost.cpu.Microseconds()) / runs
		figures = append(figures, figure{fmt.Sprintf("%d idle: server CPU per run", count), "µs", cpu},
			figure{fmt.Sprintf("%d idle: sent to clients per run", count), "bytes", float64(cost.output) / runs})
	}
	return figures, cpu, nil
}

// idleClient opens an engine once more and waits for some runs.
func idleClient(
	ctx context.Context, s settings, of *runtime.Engine, def *flow.Definition[int, int],
) (e *runtime.Engine, err error) {
	config := s.open()
	if of.Embedded() != nil {
		config.Internal = enginelink.HandleOf(&enginelink.Link{Shared: of.Embedded()})
	}
	e, err = runtime.Open(ctx, s.url, config)
	if err != nil {
		return nil, err
	}
	client, err := runtime.NewClient(e)
	if err == nil {
		s.flows = s.atMost(idleWaits)
		_, err = load(ctx, s, s.clients, func(i int) error { return one(ctx, client, def, i) })
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}
