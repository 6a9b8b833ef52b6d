package main

import (
	"context"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

const (
	// timerDelay is how long the runs of the timer workload wait for their start, timers how many there are.
	timerDelay = 100 * time.Millisecond
	timers     = 100
	// manyStarts is how many runs one call of the start-many workload starts.
	manyStarts = 1000
)

// timerLateness measures how long after the time of its start the function of a run begins, on an idle engine.
func timerLateness(ctx context.Context, s settings) (figures []figure, err error) {
	began := activity.New("bench.began", func(context.Context, int) (int64, error) {
		return time.Now().UnixMicro(), nil
	})
	f := flow.New[int, int64]("bench-timer")
	flow.Return(f, flow.Node(f, "began", began, f.Input()))
	def, err := f.Build()
	if err != nil {
		return nil, err
	}
	l, err := local(ctx, s, began)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	late := newHistogram()
	for i := range s.atMost(timers) {
		at := time.Now().Add(timerDelay).Truncate(time.Millisecond)
		run, err := runtime.Start(ctx, l.Client(), def, i, runtime.StartAt(at))
		if err != nil {
			return nil, err
		}
		us, err := run.Result(ctx)
		if err != nil {
			return nil, err
		}
		if err := late.RecordValue(max(1, us-at.UnixMicro())); err != nil {
			return nil, err
		}
	}
	figures = quantiles(late)
	for i := range figures {
		figures[i].name = "late " + figures[i].name
	}
	return figures, nil
}

// startMany measures how many runs a second StartMany starts, without workers.
func startMany(ctx context.Context, s settings) (figures []figure, err error) {
	def, err := chain(1)
	if err != nil {
		return nil, err
	}
	err = withEngine(ctx, s, func(_ *runtime.Engine, client *runtime.Client) error {
		started, begun := 0, time.Now()
		for time.Since(begun) < s.time {
			runs, err := startAll(ctx, client, def, manyStarts)
			if err != nil {
				return err
			}
			started += len(runs)
		}
		figures = []figure{{"starts", "1/s", float64(started) / time.Since(begun).Seconds()}}
		return nil
	})
	return figures, err
}

// dueAhead is how long before their time the runs of a storm are started, for each of them.
const dueAhead = 100 * time.Microsecond

// dueStorm measures how fast runs of one node end whose start is delayed to one moment, from then on.
func dueStorm(count int) workload {
	return func(ctx context.Context, s settings) (figures []figure, err error) {
		def, err := chain(1)
		if err != nil {
			return nil, err
		}
		l, err := local(ctx, s)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		count := s.atMost(count)
		at := time.Now().Add(time.Duration(count) * dueAhead).Add(time.Second)
		var runs []*runtime.Run[int]
		for len(runs) < count {
			more, err := startAll(ctx, l.Client(), def, min(count-len(runs), manyStarts), runtime.StartAt(at))
			if err != nil {
				return nil, err
			}
			runs = append(runs, more...)
		}
		late := time.Since(at) // more than 0 where starts take long: they are a part of the measurement then
		if err := wait(ctx, -late); err != nil {
			return nil, err
		}
		before, err := serverStats(ctx, l.Engine())
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			if _, err := run.Result(ctx); err != nil {
				return nil, err
			}
		}
		figures = []figure{{"runs", "1/s", float64(count) / time.Since(at).Seconds()}}
		after, err := serverStats(ctx, l.Engine())
		if cost := after.since(before); cost.commands > 0 {
			figures = append(figures, figure{"server CPU", "µs/run", float64(cost.cpu.Microseconds()) / float64(count)},
				figure{"commands", "/run", float64(cost.commands) / float64(count)})
		}
		return figures, err
	}
}
