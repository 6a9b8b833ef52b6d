package flow

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// MapFlow is like Map for a flow instead of an activity: it adds a node that runs a flow once for each item of a list,
// a pipeline for each, and returns a reference to the list of their results, in the order of the items. A flow with a
// Map makes nested maps.
//
//	reports := flow.MapFlow(f, "files", perFile, files, flow.ItemsAtOnce(8))
//
// Each item is a node of the child run, and has its own run. It takes the options of Sub, MaxMapItems and ItemsAtOnce;
// Retry applies to each item. With ItemsAtOnce(n), an item starts when the one n places before it in the list has
// ended. When an item fails, the node fails, as with Map; MapFlowOutcomes tolerates failures.
//
// An item whose run succeeds without a result, because the node that the flow returns was skipped, has no element in
// the list: so a condition in the flow filters, and the list of results can be shorter than the list of items.
// MapFlowOutcomes keeps the place of each.
func MapFlow[I, O, In, Out any](
	f *Builder[In, Out], name string, def *Definition[I, O], items Binding[[]I], opts ...NodeOption,
) Ref[[]O] {
	if f == nil || f.b == nil {
		return Ref[[]O]{}
	}
	return refTo[[]O](f.b, f.b.flowNode(name, partsOf(def), items, mapping(false), opts))
}

// MapFlowOutcomes is like MapFlow and tolerates failed items, as MapOutcomes does. The list has an outcome for each
// item, in their order; an item whose run succeeds without a result is fabrictype.OutcomeSkipped.
func MapFlowOutcomes[I, O, In, Out any](
	f *Builder[In, Out], name string, def *Definition[I, O], items Binding[[]I], opts ...NodeOption,
) Ref[[]ItemOutcome[O]] {
	if f == nil || f.b == nil {
		return Ref[[]ItemOutcome[O]]{}
	}
	return refTo[[]ItemOutcome[O]](f.b, f.b.flowNode(name, partsOf(def), items, mapping(true), opts))
}

// mapping makes a node a map.
func mapping(outcomes bool) func(*flowgraph.Node) {
	return func(n *flowgraph.Node) { n.Map = &flowgraph.MapSpec{MaxItems: flowgraph.MaxItems, Outcomes: outcomes} }
}

// Loop adds a node that runs a flow again and again, and returns a reference to its last result. The first turn gets
// start, each further one the result of the turn before. After each turn a worker calls until with the result; the loop
// ends when it returns true. A turn runs at least once, and at most maxTurns do, 1 to 1,000: if until is still false
// then, the node fails with category "too_many_turns", without a retry.
//
//	state := flow.Loop(f, "agent", turn, done, start, 20)
//
// Each turn is a child run as of Sub, kept as long as its parent. RunRef.Turns of package runtime lists them. The
// result of a turn and the step to the next are recorded atomically; until is called again only if a worker was lost
// before that. Loop takes the options of Sub; the default of Lane is the lane of until. A rerun continues at the turn
// that failed.
//
// A turn that succeeds without a result, because the node that the flow returns was skipped, fails the loop: there is
// no state for the next turn. For a turn that leaves the state as it is, return a join of both branches, AnyOf for
// example.
func Loop[S, In, Out any](
	f *Builder[In, Out], name string, body *Definition[S, S], until *activity.Activity[S, bool], start Binding[S],
	maxTurns int, opts ...NodeOption,
) Ref[S] {
	if f == nil || f.b == nil {
		return Ref[S]{}
	}
	handler := handlerOf(until)
	index := f.b.flowNode(name, partsOf(body), start, func(n *flowgraph.Node) {
		n.Loop = &flowgraph.LoopSpec{MaxTurns: maxTurns}
		if handler != nil {
			n.Activity, n.Lane = handler.Name(), activityspec.OptionsOf(handler.Internal()).Lane
		}
	}, opts)
	f.b.loopEnd(index, handler)
	return refTo[S](f.b, index)
}

// loopEnd records the activity by which a loop ends.
func (b *builder) loopEnd(index int, handler activity.Handler) {
	n := &b.graph.Nodes[index]
	known := b.reported[index]
	switch {
	case handler == nil:
		b.faults.Add(n.Name, "", flowgraph.ErrNilActivity, "")
		known.Activity = true
	case handler.Err() != nil:
		b.faults.Cause(n.Name, "", flowgraph.ErrInvalidActivity, handler.Err())
		known.Activity = true
	case handler.Codec().Name() != n.Codec:
		b.faults.Add(n.Name, "codec", flowgraph.ErrCodec, "the flow is %s, activity %q takes %s", n.Codec,
			handler.Name(), handler.Codec().Name())
		known.Activity = true
	}
	if handler != nil {
		b.use(n.Name, handler)
	}
	if known != (flowgraph.Reported{}) {
		b.reported[index] = known
	}
}

// Expand adds a node whose activity returns a plan: a flow that it builds when it runs, with an input. The plan is run
// as a child run, and its result is the node's.
//
//	answer := flow.Expand(f, "research", planner, question, flow.MayRun(search, read, summarize))
//
// The activity builds the flow as any other, with New, Node and Build, and returns PlanOf, or Done for a result without
// further nodes. A plan may use the activities that MayRun names and the activity of the node itself, so plans can be
// recursive: at most 16 runs of plans are nested below a node, unless ExpandDepth sets another depth. Any other
// activity, and a plan that is nested too deep, fails the node with category "plan" or "too_deep", without a retry. So
// does a condition, because only the activity that makes the plan has its function: the activity itself decides which
// nodes it plans. The activities that a run can execute are known when it starts: its graph names them all, and each
// plan has its own graph before it runs.
//
// The plan is stored before it is started, at most 1 MiB in JSON, so retries and other workers run the same one. A
// rerun of a node that failed keeps the plan and runs its nodes again that did not succeed; one of a node that
// succeeded makes a new plan. Options apply to the activity. When the run of the plan fails, the node fails without a
// retry, since the nodes of the plan have been retried by their own policies. When that run succeeds without a result,
// the node is skipped, as with Sub.
func Expand[I, O, In, Out any](
	f *Builder[In, Out], name string, a *activity.Activity[I, Plan[O]], input Binding[I], opts ...NodeOption,
) Ref[O] {
	if f == nil || f.b == nil {
		return Ref[O]{}
	}
	return refTo[O](f.b, f.b.activityNode(name, handlerOf(a), input, func(n *flowgraph.Node) {
		n.Expand = &flowgraph.ExpandSpec{MaxDepth: flowgraph.DefaultExpandDepth}
	}, opts))
}

// MayRun names the activities that the plans of an Expand may use, in addition to the one that makes them. They are
// among the Handlers of the definition. It may be given several times.
func MayRun(activities ...activity.Handler) NodeOption {
	return expandOption("MayRun", func(b *builder, n *flowgraph.Node) {
		for _, a := range activities {
			switch {
			case a == nil || reflect.ValueOf(a).IsNil():
				b.faults.Add(n.Name, "", flowgraph.ErrNilActivity, "of MayRun")
			case a.Err() != nil:
				b.faults.Cause(n.Name, "", flowgraph.ErrInvalidActivity, a.Err())
			default:
				b.use(n.Name, a)
				n.Expand.MayRun = append(n.Expand.MayRun, a.Name())
			}
		}
		slices.Sort(n.Expand.MayRun)
		n.Expand.MayRun = slices.Compact(n.Expand.MayRun)
	})
}

// ExpandDepth bounds how many runs of plans may be nested below a node: 1 allows its plan, 2 also plans of the nodes in
// that. A node in a plan cannot raise the bound of one around it. It is at most 64, and applies to nodes of Expand.
func ExpandDepth(n int) NodeOption {
	return expandOption("ExpandDepth", func(_ *builder, node *flowgraph.Node) { node.Expand.MaxDepth = n })
}

func expandOption(name string, set func(*builder, *flowgraph.Node)) NodeOption {
	return nodeOption(func(b *builder, s *nodeSettings) {
		if s.spec.Expand == nil {
			b.faults.Add(s.spec.Name, "", flowgraph.ErrOption, "%s is for nodes made by Expand", name)
			return
		}
		set(b, s.spec)
	})
}

// Plan is the result of the activity of an Expand: either a flow with its input, whose result is an O, or an O. PlanOf
// and Done make one; the zero Plan fails the node. It can be encoded as JSON, and used by several goroutines at once.
type Plan[O any] struct {
	plan flowgraph.Plan
}

// PlanOf is the plan to run a flow with an input. The flow was made by Build, in the activity or before; its codec must
// be JSON. Without AnswerSchema, the payloads of signals to its waitpoints are checked when they are decoded. The error
// wraps ErrInvalid for a definition that Build did not return.
func PlanOf[I, O any](def *Definition[I, O], input I) (Plan[O], error) {
	if def == nil || def.graph == nil {
		return Plan[O]{}, fmt.Errorf("%w: the definition of the plan is nil, or was not made by Build", ErrInvalid)
	}
	if codec := def.Codec().Name(); codec != flowgraph.StoredCodec {
		return Plan[O]{}, fmt.Errorf("%w: flow %q is %s; plans are json", ErrInvalid, def.Name(), codec)
	}
	data, err := def.EncodeInput(input)
	if err != nil {
		return Plan[O]{}, err
	}
	return Plan[O]{flowgraph.Plan{Graph: def.graph, Input: data}}, nil
}

// Done is the plan that has its result already. It returns an error if the value has no JSON form.
func Done[O any](value O) (Plan[O], error) {
	data, err := activity.JSON{}.Encode(value)
	if err != nil {
		return Plan[O]{}, fmt.Errorf("result of the plan: %w", err)
	}
	return Plan[O]{flowgraph.Plan{Value: data}}, nil
}

// Outline returns the flow of the plan as plain text, like Definition.Outline; empty for Done.
func (p Plan[O]) Outline() string {
	if p.plan.Graph == nil {
		return ""
	}
	return p.plan.Graph.Outline()
}

// MarshalJSON returns the form in which a plan is stored.
func (p Plan[O]) MarshalJSON() ([]byte, error) { return p.plan.Encode() }

// UnmarshalJSON reads that form, and checks the flow as Build does, except for Go types.
func (p *Plan[O]) UnmarshalJSON(data []byte) error {
	plan, err := flowgraph.ParsePlan(data)
	if err == nil {
		p.plan = plan
	}
	return err
}

var (
	_ json.Marshaler   = Plan[int]{}
	_ json.Unmarshaler = (*Plan[int])(nil)
)
