package flow

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// When adds a condition: a node that decides by the result of another one, or by the flow's input, whether nodes run.
// The Condition is an option of the nodes that run if predicate returns true, and its Not of those that run otherwise:
//
//	large := flow.When(scan, "large", func(l Listing) bool { return l.Size > 1<<20 })
//	deep := flow.Node(f, "deep", deepScan, scan, large)
//	quick := flow.Node(f, "quick", quickScan, scan, large.Not())
//	flow.Return(f, flow.Node(f, "report", report, flow.AnyOf(deep, quick)))
//
// A worker calls predicate once, when ref has succeeded, and the decision is recorded as the result of the condition:
// retries of other nodes, lost workers and reruns of nodes after the condition do not change it; a rerun of the
// condition decides anew. Nodes of the other case are skipped at once, with the reason; the run does not fail because
// of them. predicate must depend on nothing but its argument. If it panics, the condition is retried, and then fails,
// as any node: five attempts within some 16 s, unless Condition.Retry sets another policy.
//
// name is the name of the node. The activity that decides has the name "<flow>.<name>". Stored runs name it, and
// workers claim the condition only if they have registered it: Definition.Handlers has the conditions of the flow. The
// codec of ref must be JSON. The condition has the lane and the priority of the node that ref refers to; for a
// waitpoint and the flow's input the lane of the flow's first activity.
func When[T any](ref Ref[T], name string, predicate func(T) bool) Condition {
	decide := func(_ context.Context, value T) (string, error) {
		if predicate(value) {
			return flowgraph.CaseTrue, nil
		}
		return flowgraph.CaseFalse, nil
	}
	spec := flowgraph.Condition{Cases: []string{flowgraph.CaseTrue, flowgraph.CaseFalse}}
	return Condition{conditionNode(ref, name, spec, decide, reflect.ValueOf(predicate))}
}

// Condition is a condition made by When. As an option of a node, a waitpoint or a timer it lets that run only when the
// predicate is true. A node may have several conditions, which all must hold.
type Condition struct{ ref Ref[string] }

// Name returns the name of the condition.
func (c Condition) Name() string { return c.ref.Name() }

// Not is the option of nodes that run only when the predicate is false.
func (c Condition) Not() BranchOption { return BranchOption{c.ref, flowgraph.CaseFalse} }

// Retry sets the retry policy of the condition, as activity.Retry does for a node, and returns the condition:
//
//	large := flow.When(scan, "large", isLarge).Retry(activity.RetryPolicy{Attempts: 1})
func (c Condition) Retry(policy activity.RetryPolicy) Condition {
	retryCondition(c.ref, policy)
	return c
}

// NodeOption marks an option of nodes.
func (Condition) NodeOption(activityspec.Mark) {}

// WaitpointOption marks an option of waitpoints.
func (Condition) WaitpointOption(activityspec.Mark) {}

// TimerOption marks an option of timers.
func (Condition) TimerOption(activityspec.Mark) {}

func (c Condition) whenTrue() BranchOption { return BranchOption{c.ref, flowgraph.CaseTrue} }

func (c Condition) applyNode(_ *builder, n *nodeSettings) { n.addBranch(c.whenTrue()) }

func (c Condition) applyWait(n *nodeSettings) { n.addBranch(c.whenTrue()) }

// Switch adds a condition with several cases: choose returns the one that is taken, and nodes with the option of
// another case are skipped. The rules of When for predicate apply to choose.
//
//	kind := flow.Switch(scan, "kind", func(l Listing) Kind { return l.Kind }, Image, Video)
//	thumb := flow.Node(f, "thumb", makeThumb, scan, kind.Case(Image))
//	clip := flow.Node(f, "clip", makeClip, scan, kind.Case(Video))
//	other := flow.Node(f, "other", store, scan, kind.Default())
//
// Each case needs a node with its option, which Build checks. When choose returns something else than the cases, the
// condition fails, without a retry, unless a node has the option Default. Names of cases follow the rule of names of
// nodes and are not "default"; there are at most 31 of them, the default included.
func Switch[T any, C ~string](ref Ref[T], name string, choose func(T) C, cases ...C) Choice[C] {
	decide := func(_ context.Context, value T) (string, error) { return string(choose(value)), nil }
	spec := flowgraph.Condition{Cases: make([]string, len(cases))}
	for i, c := range cases {
		spec.Cases[i] = string(c)
	}
	return Choice[C]{conditionNode(ref, name, spec, decide, reflect.ValueOf(choose))}
}

// Choice is a condition made by Switch.
type Choice[C ~string] struct{ ref Ref[string] }

// Name returns the name of the condition.
func (c Choice[C]) Name() string { return c.ref.Name() }

// Retry sets the retry policy of the condition, as Condition.Retry does.
func (c Choice[C]) Retry(policy activity.RetryPolicy) Choice[C] {
	retryCondition(c.ref, policy)
	return c
}

// retryCondition sets the retry policy of a condition, or adds the fault of a bad one.
func retryCondition(ref Ref[string], policy activity.RetryPolicy) {
	if ref.owner == nil || ref.index == inputIndex {
		return
	}
	spec := &ref.owner.graph.Nodes[ref.index]
	if err := activity.Retry(policy)(activityspec.Target{Options: &spec.Options, Node: true}); err != nil {
		ref.owner.faults.Cause(spec.Name, "condition", flowgraph.ErrOption, err)
	}
}

// Case is the option of nodes, waitpoints and timers that run only in a case.
func (c Choice[C]) Case(name C) BranchOption { return BranchOption{c.ref, string(name)} }

// Default is the option of nodes, waitpoints and timers that run only when choose returns none of the cases.
func (c Choice[C]) Default() BranchOption {
	if owner, index := c.ref.origin(); owner != nil && index != inputIndex {
		owner.graph.Nodes[index].Condition.Default = true
	}
	return BranchOption{c.ref, flowgraph.DefaultCase}
}

// BranchOption lets a node, a waitpoint or a timer run only in one case of a condition. Condition.Not, Choice.Case and
// Choice.Default return it.
type BranchOption struct {
	ref  Ref[string]
	name string
}

// NodeOption marks an option of nodes.
func (BranchOption) NodeOption(activityspec.Mark) {}

// WaitpointOption marks an option of waitpoints.
func (BranchOption) WaitpointOption(activityspec.Mark) {}

// TimerOption marks an option of timers.
func (BranchOption) TimerOption(activityspec.Mark) {}

func (o BranchOption) applyNode(_ *builder, n *nodeSettings) { n.addBranch(o) }

func (o BranchOption) applyWait(n *nodeSettings) { n.addBranch(o) }

func (n *nodeSettings) addBranch(o BranchOption) {
	index := 0
	for _, before := range n.order {
		if before.kind == flowgraph.WhenCase {
			index++
		}
	}
	n.order = append(n.order, orderedRef{kind: flowgraph.WhenCase, ref: o.ref, index: index, branch: o.name})
}

// decider is the activity of a condition.
type decider struct {
	activity.Handler
	code uintptr // of the function that decides
	spec *flowgraph.Condition
}

// HasCase reports whether the condition has a case.
func (d *decider) HasCase(name string) bool {
	return slices.Contains(d.spec.Cases, name) || d.spec.Default && name == flowgraph.DefaultCase
}

// SameAs reports whether another activity decides by the same function, because the same flow was built once more.
func (d *decider) SameAs(other activity.Handler) bool {
	o, ok := other.(*decider)
	return ok && o.code == d.code && o.Name() == d.Name()
}

// conditionNode adds a condition to the flow that ref belongs to.
func conditionNode[T any](
	ref Ref[T], name string, spec flowgraph.Condition, decide func(context.Context, T) (string, error),
	function reflect.Value,
) Ref[string] {
	if ref.owner == nil {
		return Ref[string]{}
	}
	var handler activity.Handler
	if !function.IsNil() {
		a := activity.New(flowgraph.ConditionActivity(ref.owner.graph.Name, name), decide)
		handler = &decider{Handler: a, code: function.Pointer(), spec: &spec}
	}
	return Ref[string]{owner: ref.owner, index: ref.owner.addCondition(name, handler, ref, &spec)}
}

// addCondition adds a condition and returns its index, also when it has faults.
func (b *builder) addCondition(
	name string, handler activity.Handler, input Upstream, condition *flowgraph.Condition,
) int {
	index := len(b.graph.Nodes)
	spec := flowgraph.Node{
		Name: name, Activity: flowgraph.ConditionActivity(b.graph.Name, name), Condition: condition,
		Options: activityspec.DefaultOptions(), Codec: activity.JSON{}.Name(),
	}
	var known flowgraph.Reported
	switch {
	case handler == nil:
		b.faults.Add(name, "condition", flowgraph.ErrCondition, "its function is nil")
		known.Activity = true
	case handler.Err() != nil:
		// Bad names of flow and node are faults by themselves.
		known.Activity = true
		if activityspec.CheckName(name) == nil && activityspec.CheckName(b.graph.Name) == nil {
			b.faults.Cause(name, "condition", flowgraph.ErrInvalidActivity, handler.Err())
		}
	case !slices.ContainsFunc(b.graph.Nodes, func(n flowgraph.Node) bool { return n.Name == name }):
		b.use(name, handler)
	}
	b.inherit(&spec, input)
	if spec.Lane == "" {
		b.laneless = append(b.laneless, index)
	}
	b.bind(index, &spec, &nodeSettings{spec: &spec}, activity.JSON{}, input, known)
	return index
}

// inherit gives a condition the lane and the priority of the node that it decides on; no lane if that has none.
func (b *builder) inherit(spec *flowgraph.Node, input Upstream) {
	spec.Lane = ""
	if b.priority != nil {
		spec.Priority = *b.priority
	}
	if owner, index := input.origin(); owner == b && index != inputIndex && b.graph.Nodes[index].Wait == nil {
		spec.Lane, spec.Priority = b.graph.Nodes[index].Lane, b.graph.Nodes[index].Priority
	}
}

// settleLanes sets the lane of conditions without one to the lane of the flow's first activity.
func (b *builder) settleLanes() {
	for _, index := range b.laneless {
		b.graph.Nodes[index].Lane = ""
	}
	lane := laneOf(&b.graph)
	for _, index := range b.laneless {
		b.graph.Nodes[index].Lane = lane
	}
}

// isSame reports whether two activities are one, or decide a condition by the same function.
func isSame(a, b activity.Handler) bool {
	if a == b {
		return true
	}
	same, ok := a.(interface{ SameAs(activity.Handler) bool })
	return ok && same.SameAs(b)
}

// describeBranch names the edge of a case in a fault.
func describeBranch(e flowgraph.Edge) string {
	if e.Kind == flowgraph.WhenCase {
		return fmt.Sprintf("%s %s", e.Kind, e.Case)
	}
	return string(e.Kind)
}
