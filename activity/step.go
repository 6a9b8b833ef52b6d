package activity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// MaxStep is the largest encoded result of a step, in bytes.
const MaxStep = 1 << 20

// Step runs fn as a durable step and records its result. When the function runs again, for a signal, after a failure or
// on another worker, Step returns the recorded result and does not run fn. An error of fn is not recorded.
//
// fn runs more than once only if the worker is lost after fn did its work and before the result is recorded; of several
// results all callers get the one recorded first. The record is fenced: a worker that has lost the execution cannot
// write it.
//
// The name identifies the step. Calls with the same name are told apart by their order, which must be the same in every
// run of the function. The result is stored as JSON, at most MaxStep bytes. Outside a worker and activitytest, Step
// only runs fn.
func Step[T any](ctx context.Context, name string, fn func(context.Context) (T, error)) (T, error) {
	var zero T
	fail := func(err error) (T, error) { return zero, fmt.Errorf("step %q: %w", name, err) }
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
		return fn(ctx)
	}
	step := stepName(name, steps.Count(activitycontext.StepKind, name))
	if data, done := steps.Recorded(step); done {
		return decodeStep[T](name, data)
	}
	value, err := fn(ctx)
	if err != nil {
		return zero, err
	}
	data, err := (JSON{}).Encode(value)
	if err != nil {
		return fail(NonRetryable(Category(fmt.Errorf("result of type %T does not encode: %w", value, err),
			CategoryEncode)))
	}
	if len(data) > MaxStep {
		return fail(NonRetryable(fmt.Errorf("result has %d bytes, at most %d are allowed", len(data), MaxStep)))
	}
	first, err := steps.Record(ctx, step, data)
	if err != nil {
		return fail(err)
	}
	return decodeStep[T](name, first)
}

func decodeStep[T any](name string, data []byte) (T, error) {
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		return value, NonRetryable(Category(fmt.Errorf("step %q: the recorded result does not decode into %T: %w", name,
			value, err),
			CategoryDecode))
	}
	return value, nil
}
