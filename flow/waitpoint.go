package flow

import (
	"reflect"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Signal is a message from outside, as WaitpointAll collects it. It is activity.Signal.
type Signal[T any] = activity.Signal[T]

// What a waitpoint may do when its time is up; see activity.TimeoutBehavior.
const (
	FailOnTimeout   = activity.FailOnTimeout
	CancelOnTimeout = activity.CancelOnTimeout
	ExpireOnTimeout = activity.ExpireOnTimeout
	ResumeOnTimeout = activity.ResumeOnTimeout
	Escalate        = activity.Escalate
)

// Waitpoint adds a node that waits for a signal from outside, such as a person's approval, and returns a reference to the
// payload of the signal that ended the wait. It needs no worker and holds no slot, however long it takes. By default any
// one signal ends it.
//
//	approval := flow.Waitpoint[Approval](f, "approve", flow.After(tests),
//		flow.Signals("approve", "reject"), flow.Timeout(24*time.Hour, flow.Escalate))
//
// The waitpoint opens when its upstreams allow it, like any node. runtime's Client lists open waitpoints with the tokens
// that give the right to signal them. The payload is JSON; one that is not a T fails the nodes that use it. After
// ResumeOnTimeout the result is the zero value.
func Waitpoint[T, In, Out any](f *Builder[In, Out], name string, opts ...WaitOption) Ref[T] {
	if f == nil || f.b == nil {
		return Ref[T]{}
	}
	return Ref[T]{owner: f.b, index: f.b.waitpoint(name, flowgraph.WaitSpec{Type: reflect.TypeFor[T]().String()}, opts)}
}

// WaitpointAll is Waitpoint whose result is the list of all signals that ended the wait, in the order in which they came,
// with names and sources. After ResumeOnTimeout the list is empty.
func WaitpointAll[T, In, Out any](f *Builder[In, Out], name string, opts ...WaitOption) Ref[[]Signal[T]] {
	if f == nil || f.b == nil {
		return Ref[[]Signal[T]]{}
	}
	spec := flowgraph.WaitSpec{Type: reflect.TypeFor[T]().String(), Collect: true}
	return Ref[[]Signal[T]]{owner: f.b, index: f.b.waitpoint(name, spec, opts)}
}

// WaitOption changes a waitpoint: Signals, MatchAny, MatchAll, AtLeast, AtLeastDistinct, Decisive, Timeout, After, AfterAll,
// OnFailure, Always, AfterAny, AfterQuorum, CancelRemaining, LetRun and Tag.
type WaitOption interface {
	applyWait(*nodeSettings)
}

type waitOption activity.WaitOption

func (o waitOption) applyWait(n *nodeSettings) { o(&n.spec.Wait.Wait) }

func (o OrderOption) applyWait(n *nodeSettings) { n.addOrder(o) }

func (t TagOption) applyWait(n *nodeSettings) { n.spec.Tags = withTag(n.spec.Tags, t) }

// Signals names the signals that count, at most activity.MaxSignalNames. Names follow activity.CheckName. Used more than
// once, it adds. The default is that every signal counts.
func Signals(names ...string) WaitOption { return waitOption(activity.Signals(names...)) }

// MatchAny ends the wait with the first signal that counts. It is the default.
func MatchAny() WaitOption { return waitOption(activity.MatchAny()) }

// MatchAll ends the wait when each of the names of Signals has come once.
func MatchAll() WaitOption { return waitOption(activity.MatchAll()) }

// AtLeast ends the wait with the n-th signal that counts, of one name or of several.
func AtLeast(n int) WaitOption { return waitOption(activity.AtLeast(n)) }

// AtLeastDistinct ends the wait when signals that count have come from n different sources.
func AtLeastDistinct(n int) WaitOption { return waitOption(activity.AtLeastDistinct(n)) }

// Decisive names signals of which one ends the wait at once, whatever else it asks for: a single no, where several have to
// say yes. The names are no names of Signals.
//
//	flow.Signals("approve"), flow.AtLeastDistinct(2), flow.Decisive("reject")
func Decisive(names ...string) WaitOption { return waitOption(activity.Decisive(names...)) }

// Timeout limits the wait, from the opening of the waitpoint on, at most to activity.MaxWait, and says what happens then.
// The default is no limit.
func Timeout(limit time.Duration, then activity.TimeoutBehavior) WaitOption {
	return waitOption(activity.Timeout(limit, then))
}

// waitpoint adds a waitpoint and returns its index, also when it has faults.
func (b *builder) waitpoint(name string, wait flowgraph.WaitSpec, opts []WaitOption) int {
	wait.Wait = activity.NewWait()
	spec := flowgraph.Node{Name: name, Wait: &wait, Options: flowgraph.WaitpointOptions(), Codec: flowgraph.StoredCodec}
	settings := nodeSettings{spec: &spec}
	for i, opt := range opts {
		if opt == nil {
			b.faults.Add(name, "", flowgraph.ErrOption, "option %d is nil", i+1)
			continue
		}
		opt.applyWait(&settings)
	}
	spec.Upstreams = b.upstreams(name, flowgraph.Expr{}, slices.Concat(settings.order, b.join(&settings)))
	b.graph.Nodes = append(b.graph.Nodes, spec)
	return len(b.graph.Nodes) - 1
}
