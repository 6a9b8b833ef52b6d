package interceptor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"go.opentelemetry.io/otel/propagation"
)

// Propagator carries values of a context from a start of a run to its activities. runtime.OpenConfig.Propagators has
// those of a program: the one that starts runs takes values from the context of the call by Inject, they are stored
// once with the run, and each worker adds them to the contexts of functions by Extract: of all attempts, after retries
// and reruns, in maps and sub-flows, also if a worker between them has no propagators. A schedule has the values of the
// context in which it was declared.
//
// Both methods are called concurrently.
type Propagator interface {
	// Inject returns values by names; none or nil if ctx has none. Names and values are valid UTF-8, names are not used
	// by two propagators, and all of one start have at most 4 KiB in JSON; otherwise the start fails with
	// runtime.ErrInvalid or runtime.ErrTooLarge. Do not put secrets there: they are stored as they are.
	Inject(ctx context.Context) map[string]string
	// Extract returns ctx with what it reads of the values of the run. It gets the values of all propagators, also of
	// other programs.
	Extract(ctx context.Context, values map[string]string) context.Context
}

// PropagateBaggage propagates the baggage of OpenTelemetry (package go.opentelemetry.io/otel/baggage) in its W3C form,
// under the name "baggage".
func PropagateBaggage() Propagator { return baggage{} }

type baggage struct{}

var baggageFormat = propagation.Baggage{}

// Inject implements Propagator.
func (baggage) Inject(ctx context.Context) map[string]string {
	carrier := propagation.MapCarrier{}
	baggageFormat.Inject(ctx, carrier)
	return carrier
}

// Extract implements Propagator.
func (baggage) Extract(ctx context.Context, values map[string]string) context.Context {
	return baggageFormat.Extract(ctx, propagation.MapCarrier(values))
}

// PropagateValue propagates the value of type T that a context has under a key, in JSON and under a name that is the
// same in every program. A value that has no JSON form, or is of another type, is left out. runtime.Open refuses an
// empty name, and a key that no context can have: nil, or of a type that cannot be compared.
//
//	interceptor.PropagateValue[string]("tenant", tenantKey{})
func PropagateValue[T any](name string, key any) Propagator {
	return contextValue[T]{name, key}
}

type contextValue[T any] struct {
	name string
	key  any
}

// Check reports what is wrong with the name or the key.
func (v contextValue[T]) Check() error {
	switch {
	case v.name == "":
		return errors.New("the name is empty")
	case v.key == nil:
		return fmt.Errorf("the key of value %q is nil", v.name)
	case !reflect.TypeOf(v.key).Comparable():
		return fmt.Errorf("the key of value %q is of type %T, which cannot be compared", v.name, v.key)
	}
	return nil
}

// Inject implements Propagator.
func (v contextValue[T]) Inject(ctx context.Context) map[string]string {
	value, ok := ctx.Value(v.key).(T)
	if !ok {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return map[string]string{v.name: string(text)}
}

// Extract implements Propagator.
func (v contextValue[T]) Extract(ctx context.Context, values map[string]string) context.Context {
	text, found := values[v.name]
	if !found {
		return ctx
	}
	var value T
	if json.Unmarshal([]byte(text), &value) != nil {
		return ctx
	}
	return context.WithValue(ctx, v.key, value)
}
