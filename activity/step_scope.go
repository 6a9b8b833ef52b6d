package activity

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strconv"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// maxStepName is the longest name of a step with the names of the steps around it, in bytes.
const maxStepName = 256

// stepScope is the step in whose function a call is.
type stepScope struct {
	steps activitycontext.Steps // of the execution
	// prefix is put before the names of calls: the names of the steps around them, each with a slash, which no name
	// has.
	prefix string
	depth  int
}

type stepScopeKey struct{}

// stepScopeOf returns the step in whose function ctx is used; without a prefix outside of steps.
func stepScopeOf(ctx context.Context, steps activitycontext.Steps) stepScope {
	if s, ok := ctx.Value(stepScopeKey{}).(stepScope); ok && s.steps == steps {
		return s
	}
	return stepScope{steps: steps}
}

// stepCall is a call of Step or Go that has its name.
type stepCall struct {
	name string // as the caller gave it
	step string // under which the result is recorded
	// full is the name without the count; held is set if the call holds it until it returns.
	scope stepScope
	full  string
	held  bool
}

// newStepCall names a call. With hold, no other call may have the name until end.
func newStepCall(ctx context.Context, steps activitycontext.Steps, name string, hold bool) (*stepCall, error) {
	scope := stepScopeOf(ctx, steps)
	if scope.isLeft() {
		return nil, NonRetryable(fmt.Errorf("%w: use the context that this function gets", activityspec.ErrInStep))
	}
	c := &stepCall{name: name, scope: scope, full: scope.prefix + name, held: hold}
	number := steps.Names().Next
	if hold {
		number = steps.Names().Begin
	}
	count, ok := number(activitycontext.StepKind, c.full)
	if !ok {
		return nil, NonRetryable(activityspec.ErrNameInUse)
	}
	if c.step = stepName(c.full, count); len(c.step) > maxStepName {
		c.end()
		return nil, NonRetryable(fmt.Errorf("with the steps around it its name %q has %d bytes, at most %d are allowed", c.step,
			len(c.step), maxStepName))
	}
	return c, nil
}

// end ends the call.
func (c *stepCall) end() {
	if c.held {
		c.scope.steps.Names().End(activitycontext.StepKind, c.full)
	}
}

// context returns the context for the function of the step.
func (c *stepCall) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, stepScopeKey{}, stepScope{c.scope.steps, c.step + "/", c.scope.depth + 1})
}

// isLeft reports whether this goroutine is in the function of a step within the scope: then the scope belongs to the
// function around the step, whose context was used in place of the step's own.
func (s stepScope) isLeft() bool { return s.steps.Names().InStep() && stepsOnStack() > s.depth }

// checkWait returns an error if ctx is used within the function of a step, where nothing can wait.
func checkWait(ctx context.Context, steps activitycontext.Steps) error {
	if scope := stepScopeOf(ctx, steps); scope.depth == 0 && !scope.isLeft() {
		return nil
	}
	return NonRetryable(fmt.Errorf("%w: a wait ends the run of the activity's function, so it must be outside of steps",
		activityspec.ErrInStep))
}

// withinStep calls the function of a step. stepsOnStack counts its frames.
//
//go:noinline
func withinStep(names *activitycontext.StepNames, fn func()) {
	defer names.Enter()()
	fn()
}

// stepsOnStack returns in how many functions of steps this goroutine is.
func stepsOnStack() int {
	marker := runtime.FuncForPC(reflect.ValueOf(withinStep).Pointer()).Name()
	var pcs [64]uintptr
	depth := 0
	for skip := 1; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && f.Name() == marker {
				depth++
			}
		}
		if n < len(pcs) {
			return depth
		}
	}
}

// nextWait names a wait, whose kind and name no other call may have that has not returned.
func nextWait(ctx context.Context, steps activitycontext.Steps, name string) (step string, err error) {
	if err := checkWait(ctx, steps); err != nil {
		return "", err
	}
	count, ok := steps.Names().Next(activitycontext.AwaitKind, name)
	if !ok {
		return "", NonRetryable(activityspec.ErrNameInUse)
	}
	return stepName(name, count), nil
}

// awaitStep requests the signals of a wait. If the function has to end to wait for them, the name of the wait is held.
func awaitStep(
	ctx context.Context, steps activitycontext.Steps, name, step string, wait activitycontext.Wait,
) (activitycontext.Awaited, error) {
	got, err := steps.Await(ctx, step, wait)
	if activitycontext.IsSuspension(err) {
		steps.Names().Hold(activitycontext.AwaitKind, name)
	}
	return got, err
}

// stepName distinguishes calls with the same name.
func stepName(name string, count int) string {
	if count == 1 {
		return name
	}
	return name + "#" + strconv.Itoa(count)
}
