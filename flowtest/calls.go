package flowtest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
)

// Call is one call of an activity's function: one attempt of a node, or a part of one that waited in between.
type Call struct {
	Flow, Run, Node string
	// Activity is the name under which the flow knows the activity.
	Activity string
	// Attempt counts from 1.
	Attempt int
	// Input and Result are encoded by the activity's codec. Result is nil while the function runs and after an error.
	Input, Result []byte
	// Err is the error of the function, its fake or the fault.
	Err error
	// Began and Ended are times of the test's clock; Ended is zero while the function runs, and after a panic.
	Began, Ended time.Time
}

// Decode decodes the input of a call that is encoded as JSON.
func (c Call) Decode(target any) error { return json.Unmarshal(c.Input, target) }

// recorder holds the fakes and faults of a test, and all calls.
type recorder struct {
	mu     sync.Mutex
	calls  []*Call
	fakes  map[string]*fake
	faults []*fault
	// effects are the effects of all calls, storm adds random faults; nil for none.
	effects []effect
	storm   *storm
}

func (r *recorder) init() { r.fakes = make(map[string]*fake) }

// begin records a call, and returns the fake and the fault for it.
func (r *recorder) begin(info activity.ExecutionInfo, names []string, input []byte) (*Call, *fake, *fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Call{
		Flow: info.Flow, Run: info.RunID, Node: info.Node, Activity: info.Kind, Attempt: info.Attempt,
		Input: slices.Clone(input), Began: time.Now(),
	}
	r.calls = append(r.calls, c)
	var with *fake
	for _, name := range names {
		if f := r.fakes[name]; f != nil {
			with = f
		}
	}
	for _, f := range r.faults {
		if f.target.matches(info.Node, names) && f.when.matches(info.Attempt) {
			if f.before != nil {
				f.happened++
			}
			return c, with, f
		}
	}
	return c, with, nil
}

// happened records that a fault has happened.
func (r *recorder) happened(f *fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.happened++
}

// end records how a call ended.
func (r *recorder) end(c *Call, result []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Result, c.Err, c.Ended = slices.Clone(result), err, time.Now()
}

// Calls returns the calls so far of the functions that a target names, in the order in which they began.
func (t *T) Calls(of Target) []Call {
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	var list []Call
	for _, c := range t.record.calls {
		if targetOf(of).matches(c.Node, []string{c.Activity}) {
			list = append(list, *c)
		}
	}
	return list
}

// handler is an activity whose calls are recorded, and whose function can be replaced.
type handler struct {
	activity.Handler
	member *member
}

// Invoke implements activity.Handler.
func (h *handler) Invoke(ctx context.Context, input []byte) ([]byte, error) {
	t := h.member.fleet.t
	info, _ := activity.Info(ctx)
	call, with, fault := t.record.begin(info, append(h.Aliases(), h.Name()), input)
	result, err := h.invoke(ctx, info, with, fault, input)
	t.record.end(call, result, err)
	return result, err
}

// invoke runs the function as the test wants it.
func (h *handler) invoke(
	ctx context.Context, info activity.ExecutionInfo, with *fake, fault *fault, input []byte,
) ([]byte, error) {
	if fault != nil && fault.before != nil {
		if err := fault.before(ctx, h.member); err != nil {
			return nil, err
		}
	}
	result, err := h.weather(ctx, info, func() ([]byte, error) { return h.run(ctx, with, input) })
	if fault != nil && fault.after != nil {
		fault.after(info, h.member, func() { h.member.fleet.t.record.happened(fault) })
	}
	return result, err
}

// run runs the fake, or the function itself.
func (h *handler) run(ctx context.Context, with *fake, input []byte) ([]byte, error) {
	real := h.member.fleet.handlerOf(h.Name())
	if with == nil {
		return real.Invoke(ctx, input)
	}
	return with.invoke(ctx, real.Codec(), input)
}
