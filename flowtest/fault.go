package flowtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// Target selects the attempts of a fault or of a list of calls: an activity, or Named for the name of one; a Ref of
// package flow, or Node for the name of a node.
type Target interface{ Name() string }

// Named is the target of the activity with that name.
type Named string

// Name returns the name.
func (n Named) Name() string { return string(n) }

// Node is the target of the node with that name.
type Node string

// Name returns the name.
func (n Node) Name() string { return string(n) }

// target is a Target that can be compared.
type target struct {
	name   string
	isNode bool
}

func targetOf(of Target) target {
	switch of.(type) {
	case Node, flow.Upstream:
		return target{of.Name(), true}
	}
	return target{of.Name(), false}
}

func (t target) matches(node string, activities []string) bool {
	if t.isNode {
		return node == t.name
	}
	return slices.Contains(activities, t.name)
}

// When is the attempts at which a fault happens.
type When struct{ attempts []int }

// Attempt is the attempts with these numbers, counted from 1 in each node.
func Attempt(numbers ...int) When { return When{numbers} }

// EveryAttempt is all attempts.
func EveryAttempt() When { return When{} }

func (w When) matches(attempt int) bool {
	return len(w.attempts) == 0 || slices.Contains(w.attempts, attempt)
}

// String returns the attempts as a fault that did not happen names them.
func (w When) String() string {
	if len(w.attempts) == 0 {
		return "every attempt"
	}
	return "attempt " + strings.Trim(strings.ReplaceAll(fmt.Sprint(w.attempts), " ", ", "), "[]")
}

// Fault is a fault that a test injects into an attempt.
type Fault struct {
	what string
	// before happens in place of the function if it returns an error, after happens when it has returned. Either may be
	// nil. after calls happened when the fault has happened.
	before func(context.Context, *member) error
	after  func(of activity.ExecutionInfo, m *member, happened func())
}

// Error lets an attempt fail with an error, without a call of the function.
func Error(err error) Fault {
	return Fault{what: "Error", before: func(context.Context, *member) error { return err }}
}

// Panic lets an attempt panic with a value, without a call of the function.
func Panic(value any) Fault {
	return Fault{what: "Panic", before: func(context.Context, *member) error { panic(value) }}
}

// Hang lets an attempt do nothing until its context ends: because of a timeout, a cancel, the deadline of the run, or
// the end of the test.
func Hang() Fault {
	return Fault{what: "Hang", before: func(ctx context.Context, _ *member) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}}
}

// LoseWorker lets the worker of an attempt die when the function has returned and before its end is reported, with
// everything else that runs on it. Another worker takes its place; it gets the executions when the leases of the dead
// one are over (runtime.WorkerConfig.Lease).
func LoseWorker() Fault {
	return Fault{what: "LoseWorker", after: func(_ activity.ExecutionInfo, m *member, happened func()) {
		happened()
		m.lose()
	}}
}

// LoseReply loses the engine's reply to the report of an attempt: the engine knows how it ended, the worker does not
// know that, and repeats the report.
func LoseReply() Fault {
	return Fault{what: "LoseReply", after: func(of activity.ExecutionInfo, m *member, happened func()) {
		m.link.loseReply(of.ExecutionID, happened)
	}}
}

// fault is a Fault that a test has set up.
type fault struct {
	Fault
	target   target
	when     When
	happened int
}

// Inject lets a fault happen at attempts of the functions that the target names. Of several faults for one attempt, the
// first that was set up happens. A test in which a fault did not happen fails at its end.
func (t *T) Inject(of Target, when When, f Fault) {
	t.Helper()
	if of == nil || of.Name() == "" {
		t.Fatalf("flowtest: Inject: the target has no name")
	}
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	t.record.faults = append(t.record.faults, &fault{Fault: f, target: targetOf(of), when: when})
}

// String names the fault.
func (f *fault) String() string { return fmt.Sprintf("%s of %s at %s", f.what, f.target.name, f.when) }

// why returns why a fault did not happen.
func (f *fault) why(calls []*Call) string {
	most := 0
	for _, c := range calls {
		if f.target.matches(c.Node, []string{c.Activity}) {
			most = max(most, c.Attempt)
		}
	}
	if most == 0 {
		return "it was never called"
	}
	return fmt.Sprintf("the last attempt was number %d", most)
}
