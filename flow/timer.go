package flow

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Sleep adds a node that waits for a time to pass: it begins when its upstreams allow it, like any node, and succeeds d
// later. It needs no worker and occupies no slot, survives restarts of everything, and may last up to 10 years.
//
//	coolOff := flow.Sleep(f, "cool-off", 48*time.Hour, flow.After(order))
//	flow.Node(f, "ship", ship, order, flow.After(coolOff))
//
// RunRef.MoveTimer and SkipTimer of package runtime move or end a timer that runs. d is rounded up to whole
// milliseconds.
func Sleep[In, Out any](f *Builder[In, Out], name string, d time.Duration, opts ...TimerOption) Ref[struct{}] {
	if f == nil || f.b == nil {
		return Ref[struct{}]{}
	}
	wait := flowgraph.WaitSpec{Wait: activityspec.NewWait[activity.WaitOption](), Timer: &flowgraph.TimerSpec{}}
	wait.Timeout, wait.OnTimeout = activityspec.Milliseconds(d), activityspec.ResumeOnTimeout
	return refTo[struct{}](f.b, f.b.timer(name, &wait, nil, opts))
}

// Until adds a node that waits until a time: the result of a node, the flow's input, a constant, or, with TimeIn, a
// field in one of these. It begins when its upstreams allow it and succeeds at that time, at once if that is over. The
// engine reads the time as a JSON string in the form of RFC 3339, which is the JSON form of time.Time. Any other value,
// and a time more than 100 years ahead, fails the node with category "decode", without a retry.
//
//	flow.Until(f, "due", flow.TimeIn(invoice, "due"))
//
// Everything else is as with Sleep.
func Until[In, Out any](
	f *Builder[In, Out], name string, at Binding[time.Time], opts ...TimerOption,
) Ref[struct{}] {
	if f == nil || f.b == nil {
		return Ref[struct{}]{}
	}
	wait := flowgraph.WaitSpec{
		Wait: activityspec.NewWait[activity.WaitOption](), Timer: &flowgraph.TimerSpec{Until: true},
	}
	return refTo[struct{}](f.b, f.b.timer(name, &wait, at, opts))
}

// TimeIn is a time in another value, the flow's input or the result of a node: TimeIn(order, "delivery", "at") is the
// field at of the field delivery. The names are those in JSON. Build checks that the type of the value has a time
// there. It is for Until only.
func TimeIn[T any](from Binding[T], path ...string) Binding[time.Time] {
	d := draft{kind: draftTimeIn, typ: reflect.TypeFor[time.Time](), path: slices.Clone(path)}
	if from != nil {
		d.items = []draft{from.constOrRef()}
	}
	return bound[time.Time]{d}
}

// TimerOption configures a timer: After, AfterEach, OnFailure, OnAnyFailure, Always, AfterAny, AfterQuorum, LetRun and
// Tag, conditions made by When, and the cases of a Switch.
type TimerOption interface {
	// TimerOption marks the options of timers. Only this package has such options.
	TimerOption(activityspec.Mark)
}

// TimerOption marks an option of timers.
func (OrderOption) TimerOption(activityspec.Mark) {}

// TimerOption marks an option of timers.
func (JoinOption) TimerOption(activityspec.Mark) {}

// TimerOption marks an option of timers.
func (TagOption) TimerOption(activityspec.Mark) {}

// timer adds a timer and returns its index, also when it has faults.
func (b *builder) timer(name string, wait *flowgraph.WaitSpec, at AnyBinding, opts []TimerOption) int {
	index := len(b.graph.Nodes)
	spec := flowgraph.Node{Name: name, Wait: wait, Options: flowgraph.WaitpointOptions(), Codec: flowgraph.StoredCodec}
	settings := nodeSettings{spec: &spec}
	for i, opt := range opts {
		if opt == nil {
			b.faults.Add(name, "", flowgraph.ErrOption, "option %d is nil", i+1)
			continue
		}
		if opt, ok := opt.(waitSetting); ok {
			opt.applyWait(&settings)
		}
	}
	if wait.Timer.Until {
		b.bind(index, &spec, &settings, activity.JSON{}, at, flowgraph.Reported{})
		return index
	}
	spec.Upstreams = b.upstreams(name, flowgraph.Expr{}, slices.Concat(settings.order, b.join(&settings)))
	b.add(spec)
	return index
}

// timeIn lowers a time in another value: the input of the timer is that value.
func (l lowering) timeIn(d draft, at *flowgraph.Position) flowgraph.Expr {
	switch {
	case l.timer == nil || at.Depth > 0:
		l.b.faults.Add(l.node, at.String(), flowgraph.ErrTimer, "flow.TimeIn is for flow.Until only")
	case len(d.items) == 0:
		l.b.faults.Add(l.node, at.String(), flowgraph.ErrNilBinding, "")
	case len(d.path) == 0:
		l.b.faults.Add(l.node, at.String(), flowgraph.ErrTimer, "flow.TimeIn names no field")
	case d.items[0].kind == draftTimeIn || d.items[0].kind == draftConst:
		l.b.faults.Add(l.node, at.String(), flowgraph.ErrTimer,
			"flow.TimeIn takes a field of the flow's input or of the result of a node")
	default:
		from := d.items[0]
		found, fault := typeAt(from.typ, d.path)
		if found != nil && pointedTo(found) != reflect.TypeFor[time.Time]() && found.Kind() != reflect.Interface {
			fault = found.String() + " is not a time.Time"
		}
		if fault != "" {
			l.b.faults.Add(l.node, at.String(), flowgraph.ErrUnknownField, "%q: %s", strings.Join(d.path, "."), fault)
		}
		l.timer.Path = d.path
		return l.lower(from, at)
	}
	return flowgraph.Expr{}
}
