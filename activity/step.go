package activity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Step runs fn as a durable step and records its result. When the function runs again, for a signal, after a failure or
// on another worker, Step returns the recorded result and does not run fn. An error of fn is not recorded.
//
// fn runs more than once only if the worker is lost after fn did its work and before the result is recorded; of several
// results all callers get the one recorded first. The record is fenced: a worker that has lost the execution cannot
// write it.
//
// The name identifies the step. Calls with the same name are distinguished by their order, which must be the same in
// every run of the function. So no two of them may run at once (ErrInvalid); Go starts steps that do. The result is
// stored as JSON, at most 1 MiB. Outside a worker and activitytest, Step only runs fn.
//
// fn may itself run steps, with the context that it gets: their names are counted within the step, and recorded as
// "outer/inner", of at most 256 bytes together. It cannot wait (ErrInvalid), but may call OpenWaitpoint for a wait
// after the step.
func Step[T any](ctx context.Context, name string, fn func(context.Context) (T, error)) (T, error) {
	s, err := newStep(ctx, name, fn, true)
	if err != nil {
		var zero T
		return zero, err
	}
	return s.run(ctx)
}

// step is a call of Step or Go.
type step[T any] struct {
	fn        func(context.Context) (T, error)
	*stepCall // nil outside a worker
}

// newStep checks and names a call; see newStepCall.
func newStep[T any](ctx context.Context, name string, fn func(context.Context) (T, error), hold bool) (step[T], error) {
	fail := func(err error) (step[T], error) { return step[T]{}, fmt.Errorf("step %q: %w", name, err) }
	if err := activityspec.CheckName(name); err != nil {
		return fail(NonRetryable(err))
	}
	if fn == nil {
		return fail(NonRetryable(errors.New("the function is nil")))
	}
	steps, ok := activitycontext.StepsFrom(ctx)
	if !ok {
		if err := batchFault(ctx); err != nil {
			return fail(err)
		}
		return step[T]{fn: fn}, nil
	}
	call, err := newStepCall(ctx, steps, name, hold)
	if err != nil {
		return fail(err)
	}
	return step[T]{fn, call}, nil
}

// run returns the recorded result, or runs the function and records its result.
func (s step[T]) run(ctx context.Context) (value T, err error) {
	if s.stepCall == nil {
		return s.fn(ctx)
	}
	defer s.end()
	steps := s.scope.steps
	if data, done := steps.Recorded(s.step); done {
		return decodeStep[T](s.name, data)
	}
	withinStep(steps.Names(), func() { value, err = s.fn(s.context(ctx)) })
	if err != nil {
		var zero T
		return zero, err
	}
	return s.record(ctx, value)
}

// record records a result and returns the one that is recorded first.
func (s step[T]) record(ctx context.Context, value T) (T, error) {
	var zero T
	fail := func(err error) (T, error) { return zero, fmt.Errorf("step %q: %w", s.name, err) }
	data, err := (JSON{}).Encode(value)
	if err != nil {
		return fail(NonRetryable(Category(fmt.Errorf("result of type %T does not encode: %w", value, err),
			activityspec.CategoryEncode)))
	}
	if len(data) > activityspec.MaxStep {
		return fail(NonRetryable(fmt.Errorf("result has %d bytes, at most %d are allowed", len(data), activityspec.MaxStep)))
	}
	first, err := s.scope.steps.Record(ctx, s.step, data)
	if err != nil {
		return fail(err)
	}
	return decodeStep[T](s.name, first)
}

func decodeStep[T any](name string, data []byte) (T, error) {
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		return value, NonRetryable(Category(fmt.Errorf("step %q: the recorded result does not decode into %T: %w", name,
			value, err),
			activityspec.CategoryDecode))
	}
	return value, nil
}
