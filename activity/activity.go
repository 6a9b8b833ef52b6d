package activity

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/jsontype"
)

// Activity is a named function that workers run for the nodes of a flow. It is immutable and may be used by several
// goroutines and flows at once. The zero value and a nil pointer are not usable: their Err returns an error.
type Activity[In, Out any] struct {
	name     string
	aliases  []string
	fn       func(context.Context, In) (Out, error)
	resolved activityspec.Options
	codec    Codec
	err      error
	declared bool // by Declare, without a function
}

// New declares an activity. The name is stored with each flow and announced by workers; it follows the rule of the
// package and should never change (see Alias for a rename). fn must be safe to run more than once for the same input,
// and several times at once for different inputs.
//
// New does not fail: it keeps the faults of the declaration, which Err, flow.Builder.Build and the registration with a
// worker return.
func New[In, Out any](name string, fn func(context.Context, In) (Out, error), opts ...Option) *Activity[In, Out] {
	return declare(name, fn, fn == nil, opts)
}

// Declare declares an activity whose function another program has. Flows of such activities can be built, published and
// started, so a program that starts runs does not need the dependencies of the workers' functions. A worker refuses to
// register such an activity: Implement gives it a function. Give it the types and options that New has there: they are
// part of the flow, and with others its hash differs.
func Declare[In, Out any](name string, opts ...Option) *Activity[In, Out] {
	a := declare[In, Out](name, nil, false, opts)
	a.declared = true
	return a
}

func declare[In, Out any](
	name string, fn func(context.Context, In) (Out, error), isMissing bool, opts []Option,
) *Activity[In, Out] {
	d := declaration{options: activityspec.DefaultOptions(), codec: JSON{}}
	if err := activityspec.CheckName(name); err != nil {
		d.fault("name: %w", err)
	}
	if isMissing {
		d.fault("function is nil")
	}
	for i, opt := range opts {
		if opt == nil {
			d.fault("option %d is nil", i+1)
			continue
		}
		opt.applyActivity(&d)
	}
	d.checkAliases(name)
	d.checkTypes(reflect.TypeFor[In](), reflect.TypeFor[Out]())
	a := &Activity[In, Out]{name: name, aliases: d.aliases, fn: fn, resolved: d.options.Normalized(), codec: d.codec}
	if err := d.options.Validate(); err != nil {
		d.faults = append(d.faults, err)
		a.resolved = activityspec.DefaultOptions()
	}
	if joined := errors.Join(d.faults...); joined != nil {
		a.err = &declarationError{Activity: name, Err: joined}
	}
	return a
}

// Handler is an activity without its types, in the form in which a worker runs it. *Activity implements it.
type Handler interface {
	// Name is the name that flows store.
	Name() string
	// Aliases are further names under which stored flows may know the activity.
	Aliases() []string
	// Internal has the options for packages of this module; programs can do nothing with it, and it may change.
	Internal() activityspec.Handle
	// Codec turns the input and the result into bytes and back. It is never nil.
	Codec() Codec
	// Err returns the faults of the declaration, nil if there are none. It matches ErrInvalid.
	Err() error
	// InputType and OutputType are the Go types of the function.
	InputType() reflect.Type
	OutputType() reflect.Type
	// Invoke decodes input, runs the function and encodes its result. Errors of the codec are not retried, and have the
	// category "decode" or "encode"; other errors come from the function, unchanged. A panic of the function is not
	// recovered.
	Invoke(ctx context.Context, input []byte) ([]byte, error)
}

// Name returns the name that flows store.
func (a *Activity[In, Out]) Name() string {
	if a == nil {
		return ""
	}
	return a.name
}

// Aliases returns the names given by Alias.
func (a *Activity[In, Out]) Aliases() []string {
	if a == nil {
		return nil
	}
	return slices.Clone(a.aliases)
}

// Internal implements Handler.
func (a *Activity[In, Out]) Internal() activityspec.Handle {
	if a == nil {
		return activityspec.Handle{}
	}
	return activityspec.HandleOf(&a.resolved)
}

// Codec returns the codec of the input and the result, JSON by default.
func (a *Activity[In, Out]) Codec() Codec {
	if a == nil || a.codec == nil {
		return JSON{}
	}
	return a.codec
}

// Err returns nil for a valid declaration, otherwise an error that matches ErrInvalid and lists every fault.
func (a *Activity[In, Out]) Err() error {
	switch {
	case a == nil:
		return &declarationError{Err: errors.New("activity is nil")}
	case a.err == nil && a.fn == nil && !a.declared:
		return &declarationError{Err: errors.New("activity was not made by New")}
	default:
		return a.err
	}
}

// HasFunction reports whether the activity can be run: false for one that Declare made.
func (a *Activity[In, Out]) HasFunction() bool { return a != nil && a.fn != nil }

func (a *Activity[In, Out]) errDeclared() error {
	return &declarationError{Activity: a.name, Err: errors.New("the activity is only declared: it has no function")}
}

// InputType returns the type In.
func (*Activity[In, Out]) InputType() reflect.Type { return reflect.TypeFor[In]() }

// OutputType returns the type Out.
func (*Activity[In, Out]) OutputType() reflect.Type { return reflect.TypeFor[Out]() }

// Call runs the function in this goroutine, without a worker: no encoding, no retry, no timeout. Use it in tests, and
// in code that needs the result at once. It returns Err for an invalid declaration.
func (a *Activity[In, Out]) Call(ctx context.Context, in In) (Out, error) {
	if err := a.Err(); err != nil {
		var zero Out
		return zero, err
	}
	if a.declared {
		var zero Out
		return zero, a.errDeclared()
	}
	return a.fn(ctx, in)
}

// Invoke implements Handler.
func (a *Activity[In, Out]) Invoke(ctx context.Context, input []byte) ([]byte, error) {
	if err := a.Err(); err != nil {
		return nil, NonRetryable(err)
	}
	if a.declared {
		return nil, NonRetryable(a.errDeclared())
	}
	in, err := a.DecodeInput(input)
	if err != nil {
		return nil, err
	}
	out, err := a.fn(ctx, in)
	if err != nil {
		return nil, err
	}
	return a.EncodeOutput(out)
}

// DecodeInput decodes an input as Invoke does, for a program that holds a task of the activity by itself. The error
// has the category "decode", and is not retried.
func (a *Activity[In, Out]) DecodeInput(input []byte) (In, error) {
	if a.isJSON() {
		if in, ok := activityspec.DecodeScalar[In](input); ok {
			return in, nil
		}
	}
	return a.decodeInput(input)
}

// isJSON reports whether the activity has the default codec.
func (a *Activity[In, Out]) isJSON() bool {
	_, is := a.Codec().(JSON)
	return is
}

func (a *Activity[In, Out]) decodeInput(input []byte) (In, error) {
	var in In
	if err := a.Codec().Decode(input, &in); err != nil {
		return in, &activityspec.DecodeError{
			Activity: a.Name(), Type: a.InputType().String(), Codec: a.Codec().Name(), Err: err,
		}
	}
	return in, nil
}

// EncodeOutput encodes a result as Invoke does, for a program that holds a task of the activity by itself. The error
// has the category "encode", and is not retried.
func (a *Activity[In, Out]) EncodeOutput(out Out) ([]byte, error) {
	if a.isJSON() {
		if output, ok := activityspec.EncodeScalar(out); ok {
			return output, nil
		}
	}
	output, err := a.Codec().Encode(out)
	if err != nil {
		return nil, &activityspec.EncodeError{
			Activity: a.Name(), Type: a.OutputType().String(), Codec: a.Codec().Name(), Err: err,
		}
	}
	return output, nil
}

// declaration collects the arguments of New with their faults.
type declaration struct {
	options activityspec.Options
	aliases []string
	codec   Codec
	batch   *batchOptions // of NewBatch
	faults  []error
}

func (d *declaration) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Errorf(format, args...))
}

func (d *declaration) checkAliases(name string) {
	seen := map[string]bool{name: true}
	for _, alias := range d.aliases {
		if err := activityspec.CheckName(alias); err != nil {
			d.fault("alias: %w", err)
		}
		if seen[alias] {
			d.fault("alias %q is given twice or is the name itself", alias)
		}
		seen[alias] = true
	}
}

// checkTypes finds types whose values JSON cannot hold.
func (d *declaration) checkTypes(in, out reflect.Type) {
	if d.codec.Name() != (JSON{}).Name() {
		return
	}
	if err := jsontype.Check(in); err != nil {
		d.fault("input %w", err)
	}
	if err := jsontype.Check(out); err != nil {
		d.fault("output %w", err)
	}
}
