package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var await = activity.New("bench.await", func(ctx context.Context, n int) (int, error) { return activity.Await[int](ctx, "wait") })

// gated is a waitpoint and a node behind it.
func gated() (*flow.Definition[int, int], error) {
	f := flow.New[int, int]("bench-signal")
	flow.Return(f, flow.Node(f, "next", noop, flow.Waitpoint[int](f, "wait")))
	return f.Build()
}

// awaiting is a function that suspends its execution.
func awaiting() (*flow.Definition[int, int], error) {
	f := flow.New[int, int]("bench-resume")
	flow.Return(f, flow.Node(f, "await", await, f.Input()))
	return f.Build()
}

// settle is the time between the start of a client's wait for a result and the signal.
const settle = 2 * time.Millisecond

// idleSignals is how many signals an idle system gets at the most.
const idleSignals = 300

// signalLatency sends a signal to an idle system and waits for the result of the node behind the waitpoint.
func signalLatency(ctx context.Context, s settings) (figures []figure, err error) {
	def, err := gated()
	if err != nil {
		return nil, err
	}
	l, err := local(ctx, s, await)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	flows := s.atMost(idleSignals)
	times := newHistogram()
	for i := range s.warmUp() + flows {
		took, err := signalOne(ctx, l.Client(), def, i)
		if err != nil {
			return nil, err
		}
		if i >= s.warmUp() {
			if err := times.RecordValue(took.Microseconds()); err != nil {
				return nil, err
			}
		}
	}
	return quantiles(times), nil
}

// signalOne returns the time from the signal to the result.
func signalOne(
	ctx context.Context, client *runtime.Client, def *flow.Definition[int, int], n int,
) (time.Duration, error) {
	run, err := runtime.Start(ctx, client, def, n)
	if err != nil {
		return 0, err
	}
	wait, err := openWait(ctx, run)
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() {
		_, err := run.Result(ctx)
		done <- err
	}()
	time.Sleep(settle)
	begun := time.Now()
	_, sent := client.Signal(ctx, wait.Token, runtime.Signal{Name: "go", Payload: n})
	err = errors.Join(sent, <-done)
	return time.Since(begun), err
}

// openWait returns the run's waitpoint once it is open.
func openWait[T any](ctx context.Context, run *runtime.Run[T]) (runtime.Waitpoint, error) {
	for {
		waits, err := run.Waitpoints(ctx)
		if err != nil {
			return runtime.Waitpoint{}, err
		}
		if len(waits) == 1 && waits[0].State == fabrictype.WaitOpen {
			return waits[0], nil
		}
		select {
		case <-ctx.Done():
			return runtime.Waitpoint{}, fmt.Errorf("waiting for the waitpoint of run %s: %w", run.ID(),
				context.Cause(ctx))
		case <-time.After(settle):
		}
	}
}

// resumeRate suspends many executions, signals them all, and waits until the last has ended.
func resumeRate(ctx context.Context, s settings) (figures []figure, err error) {
	def, err := awaiting()
	if err != nil {
		return nil, err
	}
	l, err := local(ctx, s, await)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	flows := s.flows
	if flows == 0 {
		flows = 1000
	}
	runs := make([]*runtime.Run[int], flows)
	waits := make([]runtime.Waitpoint, flows)
	err = each(s.clients, flows, func(i int) error {
		var err error
		if runs[i], err = runtime.Start(ctx, l.Client(), def, i); err == nil {
			waits[i], err = openWait(ctx, runs[i])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	times := newHistogram()
	var mu sync.Mutex
	begun := time.Now()
	err = each(s.clients, flows, func(i int) error {
		sentAt := time.Now()
		if _, err := l.Client().Signal(ctx, waits[i].Token, runtime.Signal{Name: "go", Payload: i}); err != nil {
			return err
		}
		_, err := runs[i].Result(ctx)
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(err, times.RecordValue(time.Since(sentAt).Microseconds()))
	})
	return append([]figure{{"resumed", "1/s", float64(flows) / time.Since(begun).Seconds()}}, quantiles(times)...), err
}

// each calls do for 0 to n-1 from several goroutines.
func each(goroutines, n int, do func(i int) error) error {
	var (
		mu     sync.Mutex
		faults []error
		group  sync.WaitGroup
		next   = make(chan int)
	)
	for range goroutines {
		group.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					mu.Lock()
					faults = append(faults, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	return errors.Join(faults...)
}
