package activity

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Future is a step that Go has started. It is safe for concurrent use.
type Future[T any] struct {
	done  chan struct{}
	value T
	err   error
	panic *activitycontext.Panic
}

// Go starts a durable step, as Step runs one, in a separate goroutine, for steps that run at the same time:
//
//	var pages []*activity.Future[Page]
//	for _, url := range urls {
//		pages = append(pages, activity.Go(ctx, "fetch", func(ctx context.Context) (Page, error) { return fetch(ctx, url) }))
//	}
//	for _, page := range pages {
//		p, err := page.Result(ctx)
//		…
//	}
//
// The calls of Go give the steps their places, whatever order the steps end in. So they may have one name, as long as
// every run of the function makes the calls in the same order, in one goroutine. Faults of the name, and the errors of
// Step, are returned by Result.
//
// Call Result of each step before the function returns or waits: the context of those that run then ends, and they run
// again in the next run of the function. How many steps run at once is up to the function. Outside a worker and
// activitytest, Go only starts fn.
func Go[T any](ctx context.Context, name string, fn func(context.Context) (T, error)) *Future[T] {
	f := &Future[T]{done: make(chan struct{})}
	step, err := newStep[T](ctx, name, fn, false)
	if err != nil {
		f.err = err
		close(f.done)
		return f
	}
	go func() {
		defer close(f.done)
		returned := false
		defer func() {
			if r := recover(); r != nil {
				f.panic = panicOf(r)
			} else if !returned {
				f.err = fmt.Errorf("step %q: %w", name, errStepExited)
			}
		}()
		f.value, f.err = step.run(ctx)
		returned = true
	}()
	return f
}

var errStepExited = Category(errors.New("the function ended its goroutine (runtime.Goexit)"),
	activityspec.CategoryPanic)

// panicOf returns a panic with the place where it was raised.
func panicOf(r any) *activitycontext.Panic {
	if p, elsewhere := r.(*activitycontext.Panic); elsewhere {
		return p
	}
	return &activitycontext.Panic{Value: r, Stack: debug.Stack()}
}

// Result waits for the step and returns the same values as Step. A panic of the step's function is raised again here.
// If ctx ends first, the error is the cause of its end, and the step continues.
func (f *Future[T]) Result(ctx context.Context) (T, error) {
	select {
	case <-f.done:
	default:
		select {
		case <-f.done:
		case <-ctx.Done():
			var zero T
			return zero, context.Cause(ctx)
		}
	}
	if f.panic != nil {
		panic(f.panic)
	}
	return f.value, f.err
}
