package main

import (
	"context"
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// sleepLateness measures how long after its time a timer node lets the node behind it begin, and how long after the
// time of its sleep a function goes on, on an idle engine. The latter counts from before the worker suspends it.
func sleepLateness(ctx context.Context, s settings) (figures []figure, err error) {
	began := activity.New("bench.woken", func(context.Context, struct{}) (int64, error) {
		return time.Now().UnixMicro(), nil
	})
	nap := activity.New("bench.nap", func(ctx context.Context, d time.Duration) (int64, error) {
		now := func(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }
		from, err := activity.Step(ctx, "from", now)
		if err == nil {
			err = activity.Sleep(ctx, "nap", d)
		}
		return time.Now().UnixMicro() - from - d.Microseconds(), err
	})
	f := flow.New[time.Time, int64]("bench-until")
	flow.Return(f, flow.Node(f, "began", began, flow.Until(f, "until", f.Input())))
	until, err := f.Build()
	if err != nil {
		return nil, err
	}
	g := flow.New[time.Duration, int64]("bench-nap")
	flow.Return(g, flow.Node(g, "nap", nap, g.Input()))
	napping, err := g.Build()
	if err != nil {
		return nil, err
	}
	l, err := local(ctx, s, began, nap)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	node, function := newHistogram(), newHistogram()
	for range s.atMost(timers) {
		at := time.Now().Add(timerDelay).Truncate(time.Millisecond)
		woken, err := resultOf(ctx, l.Client(), until, at)
		if err == nil {
			err = node.RecordValue(max(1, woken-at.UnixMicro()))
		}
		if err != nil {
			return nil, err
		}
		late, err := resultOf(ctx, l.Client(), napping, timerDelay)
		if err == nil {
			err = function.RecordValue(max(1, late))
		}
		if err != nil {
			return nil, err
		}
	}
	return append(named("node late", node), named("function late", function)...), nil
}

// resultOf starts a run and waits for its result.
func resultOf[In, Out any](
	ctx context.Context, c *runtime.Client, def *flow.Definition[In, Out], in In,
) (out Out, err error) {
	run, err := runtime.Start(ctx, c, def, in)
	if err != nil {
		return out, err
	}
	return run.Result(ctx)
}

// named returns the quantiles of a histogram, with a word before their names.
func named(what string, h *hdrhistogram.Histogram) []figure {
	figures := quantiles(h)
	for i := range figures {
		figures[i].name = what + " " + figures[i].name
	}
	return figures
}
