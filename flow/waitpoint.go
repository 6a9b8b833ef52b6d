package flow

import (
	"reflect"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/jsontype"
)

// Waitpoint adds a node that waits for an external signal, such as a person's approval, and returns a reference to the
// payload of the signal that ended the wait. It needs no worker and occupies no slot. By default any one signal ends
// it.
//
//	approval := flow.Waitpoint[Approval](f, "approve", flow.After(tests),
//		activity.Signals("approve", "reject"), activity.Timeout(24*time.Hour, activity.Escalate))
//
// The waitpoint opens when its upstreams allow it, like any node. runtime's Client lists open waitpoints with the
// tokens that authorise signals to them. The payload is JSON; a signal with one that cannot be decoded into a T, or
// does not satisfy the schema of activity.AnswerSchema, is refused, and the wait continues. After ResumeOnTimeout the
// result is the zero value.
func Waitpoint[T, In, Out any](f *Builder[In, Out], name string, opts ...WaitOption) Ref[T] {
	if f == nil || f.b == nil {
		return Ref[T]{}
	}
	return refTo[T](f.b, f.b.waitpoint(name, reflect.TypeFor[T](), false, opts))
}

// WaitpointSignals is like Waitpoint, and its result is the list of all signals that ended the wait, in the order of
// their arrival, with names and sources. After ResumeOnTimeout the list is empty.
func WaitpointSignals[T, In, Out any](f *Builder[In, Out], name string, opts ...WaitOption) Ref[[]activity.Signal[T]] {
	if f == nil || f.b == nil {
		return Ref[[]activity.Signal[T]]{}
	}
	return refTo[[]activity.Signal[T]](f.b, f.b.waitpoint(name, reflect.TypeFor[T](), true, opts))
}

// Approval adds a node that waits until people have approved, and returns a reference to their approvals: who
// (activity.Signal.Source), when, and with which comment. It takes the signals "approve" and "reject".
// One person has to approve, or as many different ones as activity.Approvers says. The first rejection fails the node,
// with the category "rejected" and a message such as "rejected by ann: not on a Friday", so that nodes downstream are
// skipped, and nodes with OnFailure run.
//
//	ok := flow.Approval(f, "go-live", flow.After(tests), activity.Approvers(2), activity.Title("Deploy?"))
//
// The options are as for Waitpoint, without other ones for signals; Build refuses activity.ResumeOnTimeout, which would
// succeed without an approval. Payloads are an activity.Decision, or satisfy the schema of activity.AnswerSchema.
func Approval[In, Out any](
	f *Builder[In, Out], name string, opts ...WaitOption,
) Ref[[]activity.Signal[activity.Decision]] {
	if f == nil || f.b == nil {
		return Ref[[]activity.Signal[activity.Decision]]{}
	}
	decision := reflect.TypeFor[activity.Decision]()
	node := f.b.waitpoint(name, decision, true, append([]WaitOption{activity.Approvers(1)}, opts...))
	f.b.graph.Nodes[node].Wait.Approval = true
	return refTo[[]activity.Signal[activity.Decision]](f.b, node)
}

// WaitOption configures a waitpoint: After, AfterEach, OnFailure, OnAnyFailure, Always, AfterAny, AfterQuorum, LetRun
// and Tag, conditions made by When, the cases of a Switch, and every activity.WaitOption, such as activity.Signals or
// activity.Timeout.
type WaitOption interface {
	// WaitpointOption marks the options of waitpoints. Only this package and package activity have such options.
	WaitpointOption(activityspec.Mark)
}

// waitSetting is a WaitOption of this package.
type waitSetting interface {
	applyWait(*nodeSettings)
}

func (o OrderOption) applyWait(n *nodeSettings) { n.addOrder(o) }

func (t TagOption) applyWait(n *nodeSettings) { n.spec.Tags = withTag(n.spec.Tags, t) }

// waitpoint adds a waitpoint and returns its index, also when it has faults.
func (b *builder) waitpoint(name string, payload reflect.Type, collect bool, opts []WaitOption) int {
	wait := flowgraph.WaitSpec{
		Type: payload.String(), Collect: collect, Wait: activityspec.NewWait[activity.WaitOption](),
	}
	spec := flowgraph.Node{Name: name, Wait: &wait, Options: flowgraph.WaitpointOptions(), Codec: flowgraph.StoredCodec}
	settings := nodeSettings{spec: &spec}
	for i, opt := range opts {
		if opt == nil {
			b.faults.Add(name, "", flowgraph.ErrOption, "option %d is nil", i+1)
			continue
		}
		switch opt := opt.(type) {
		case waitSetting:
			opt.applyWait(&settings)
		case activity.WaitOption:
			if opt == nil {
				b.faults.Cause(name, "", flowgraph.ErrOption, activityspec.ErrNilOption)
				continue
			}
			opt(&wait.Wait)
		}
	}
	wait.Payload = payload
	if err := jsontype.Check(payload); err != nil {
		b.faults.Cause(name, "payload", flowgraph.ErrType, err)
	}
	spec.Upstreams = b.upstreams(name, flowgraph.Expr{}, slices.Concat(settings.order, b.join(&settings)))
	b.add(spec)
	return len(b.graph.Nodes) - 1
}
