package main

import (
	"context"
	"errors"
	"fmt"
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
			runs, err := runtime.StartMany(ctx, client, def, make([]runtime.NewRun[int], manyStarts))
			if err != nil {
				return err
			}
			for _, r := range runs {
				if r.Err != nil {
					return fmt.Errorf("start: %w", r.Err)
				}
			}
			started += len(runs)
		}
		figures = []figure{{"starts", "1/s", float64(started) / time.Since(begun).Seconds()}}
		return nil
	})
	return figures, err
}
