package flowtest

import (
	"context"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// fake replaces the function of an activity.
type fake struct {
	invoke func(ctx context.Context, codec activity.Codec, input []byte) ([]byte, error)
	named  bool // set by FakeName, whose name the compiler has not checked
}

// Fake replaces the function of an activity by another of the same type, for all nodes that run it, from the next call
// on. It gets the input of the node, and its result is encoded as the function's would be. It may be called again to
// change the function.
func Fake[In, Out any](t *T, a *activity.Activity[In, Out], fn func(context.Context, In) (Out, error)) {
	t.Helper()
	if err := a.Err(); err != nil {
		t.Fatalf("flowtest: Fake: %v", err)
	}
	if fn == nil {
		t.Fatalf("flowtest: Fake of %s: the function is nil", a.Name())
	}
	as := activity.New(a.Name(), fn, activity.WithCodec(a.Codec()))
	t.setFake(a.Name(), false, func(ctx context.Context, _ activity.Codec, input []byte) ([]byte, error) {
		return as.Invoke(ctx, input)
	})
}

// NamedFunc replaces the function of an activity whose Go types the test does not know. input is as the engine has it.
// The result is encoded by the activity's codec.
type NamedFunc func(ctx context.Context, input []byte) (any, error)

// Return is a function that returns a value.
func Return(value any) NamedFunc {
	return func(context.Context, []byte) (any, error) { return value, nil }
}

// FakeName replaces the function of the activity with that name, as Fake does. The compiler checks no types: a value
// that does not fit makes the nodes fail that use it. A test whose flows do not have the activity fails at its end.
func (t *T) FakeName(activityName string, fn NamedFunc) {
	t.Helper()
	if fn == nil {
		t.Fatalf("flowtest: FakeName of %s: the function is nil", activityName)
	}
	t.setFake(activityName, true, func(ctx context.Context, codec activity.Codec, input []byte) ([]byte, error) {
		out, err := fn(ctx, input)
		if err != nil {
			return nil, err
		}
		data, err := codec.Encode(out)
		if err != nil {
			return nil, &activityspec.EncodeError{Activity: activityName, Codec: codec.Name(), Err: err}
		}
		return data, nil
	})
}

func (t *T) setFake(
	name string, named bool, invoke func(context.Context, activity.Codec, []byte) ([]byte, error),
) {
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	t.record.fakes[name] = &fake{invoke: invoke, named: named}
}

// checkFakes fails the test for each name of a fake that no activity of the test's flows has, and for each fault that
// did not happen: such a test proves less than it appears to.
func (t *T) checkFakes() {
	t.Helper()
	if t.Failed() {
		return
	}
	known := t.fleet.activities()
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	for name, f := range t.record.fakes {
		if f.named && !slices.Contains(known, name) && !t.isAlias(name, known) {
			t.Errorf("flowtest: a fake for the activity %q, which no flow of the test has; they have %s", name,
				strings.Join(known, ", "))
		}
	}
	for _, f := range t.record.faults {
		if f.happened == 0 {
			t.Errorf("flowtest: the fault %s did not happen: %s", f, f.why(t.record.calls))
		}
	}
}

// isAlias reports whether a name is an alias of an activity that is known.
func (t *T) isAlias(name string, known []string) bool {
	return slices.ContainsFunc(known, func(k string) bool {
		return slices.Contains(t.fleet.handlerOf(k).Aliases(), name)
	})
}
