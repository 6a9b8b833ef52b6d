package flowgraph

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Limits of nodes whose child runs are known only when they run.
const (
	// MaxTurns is the maximum number of turns of a loop.
	MaxTurns = 1000
	// MaxExpandDepth is how deep runs of plans may be nested, and DefaultExpandDepth the default of a node.
	MaxExpandDepth, DefaultExpandDepth = 64, 16
	// MaxPlan is the maximum size of a stored plan, in bytes.
	MaxPlan = 1 << 20
	// maxMayRun bounds the activities that the plans of a node may use.
	maxMayRun = 256
)

// The kinds of faults of loops and expansions.
var (
	ErrLoop   = errors.New("bad loop")
	ErrExpand = errors.New("bad expansion")
)

// LoopSpec makes a node that runs a flow run it again and again, each time with the result of the turn before, until
// its activity, which takes that result, returns true.
type LoopSpec struct {
	// MaxTurns is how often the flow is run at most, 1 to the constant MaxTurns.
	MaxTurns int
}

// ExpandSpec makes a node run the plan that its activity returns.
type ExpandSpec struct {
	// MaxDepth is how many runs of plans may be nested below the node, 1 to MaxExpandDepth.
	MaxDepth int
	// MayRun are the names of the activities that a plan may use in addition to the node's, sorted.
	MayRun []string
}

// PlanDepth returns the depth of the run of a plan of the node in a run of g, and how deep that may be.
func (e *ExpandSpec) PlanDepth(g *Graph) (depth, limit int) {
	limit = min(g.Depth+e.MaxDepth, MaxExpandDepth)
	if g.DepthLimit > 0 {
		limit = min(limit, g.DepthLimit)
	}
	return g.Depth + 1, limit
}

// growth checks a node that is a loop or an expansion.
func (v *Validation) growth(n *Node, skip bool) {
	kinds := 0
	for _, is := range []bool{n.Loop != nil, n.Expand != nil, n.Map != nil} {
		if is {
			kinds++
		}
	}
	if kinds > 1 || n.Expand != nil && (n.Sub != nil || n.Wait != nil) {
		v.Faults.Add(n.Name, "", ErrOption, "it is more than one of waitpoint, map, loop, expansion and sub-flow")
		return
	}
	if skip {
		return
	}
	if n.Loop != nil {
		v.loop(n)
	}
	if n.Expand != nil {
		v.expansion(n)
	}
}

func (v *Validation) loop(n *Node) {
	if n.Loop.MaxTurns < 1 || n.Loop.MaxTurns > MaxTurns {
		v.Faults.Add(n.Name, "loop.max_turns", ErrLoop, "%d: must be 1 to %d", n.Loop.MaxTurns, MaxTurns)
	}
	switch {
	case n.Sub == nil:
		v.Faults.Add(n.Name, "sub", ErrLoop, "it has no flow to run")
	case n.Sub.Return == "":
		v.Faults.Add(n.Name, "sub", ErrLoop, "flow %q returns nothing, so its turns have no state", n.Sub.Name)
	}
}

func (v *Validation) expansion(n *Node) {
	e := n.Expand
	if e.MaxDepth < 1 || e.MaxDepth > MaxExpandDepth {
		v.Faults.Add(n.Name, "expand.max_depth", ErrExpand, "%d: must be 1 to %d", e.MaxDepth, MaxExpandDepth)
	}
	if n.Codec != StoredCodec {
		v.Faults.Add(n.Name, "codec", ErrCodec, "plans are json, activity %q takes %s", n.Activity, n.Codec)
	}
	if len(e.MayRun) > maxMayRun {
		v.Faults.Add(n.Name, "expand.may_run", ErrLimit, "%d activities, the limit is %d", len(e.MayRun), maxMayRun)
	}
	if !slices.IsSorted(e.MayRun) || len(slices.Compact(slices.Clone(e.MayRun))) != len(e.MayRun) {
		v.Faults.Add(n.Name, "expand.may_run", ErrExpand, "not in order, or one is there twice")
	}
	for _, name := range e.MayRun {
		if err := activityspec.CheckName(name); err != nil {
			v.Faults.Cause(n.Name, "expand.may_run", ErrName, err)
		}
	}
}

// growthText describes in words the work of a loop or an expansion; empty for other nodes.
func (n *Node) growthText() string {
	switch {
	case n.Loop != nil && n.Sub != nil:
		return fmt.Sprintf("flow %s until %s, at most %d turns", n.Sub.Name, n.Activity, n.Loop.MaxTurns)
	case n.Expand != nil && len(n.Expand.MayRun) > 0:
		return n.Activity + ", then its plan of " + strings.Join(n.Expand.MayRun, ", ")
	case n.Expand != nil:
		return n.Activity + ", then its plan"
	case n.Map != nil && n.Sub != nil && n.Map.AtOnce > 0:
		return fmt.Sprintf("flow %s for each item, %d at once", n.Sub.Name, n.Map.AtOnce)
	case n.Map != nil && n.Sub != nil:
		return "flow " + n.Sub.Name + " for each item"
	}
	return ""
}

// Activities returns the names of all activities that runs of the graph may start, sorted: the activities of its
// nodes, of its sub-flows, and those that plans may use.
func (g *Graph) Activities() []string {
	names := make(map[string]bool)
	for n := range g.AllNodes() {
		if n.Activity != "" {
			names[n.Activity] = true
		}
		if n.Expand != nil {
			for _, name := range n.Expand.MayRun {
				names[name] = true
			}
		}
	}
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// AllNodes yields the nodes of the graph and of its sub-flows. A flow that is used several times is visited once.
func (g *Graph) AllNodes() iter.Seq[*Node] {
	return func(yield func(*Node) bool) { g.eachNode(yield, make(map[*Graph]bool)) }
}

func (g *Graph) eachNode(yield func(*Node) bool, seen map[*Graph]bool) bool {
	if seen[g] {
		return true
	}
	seen[g] = true
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if !yield(n) || n.Sub != nil && !n.Sub.eachNode(yield, seen) {
			return false
		}
	}
	return true
}

// flowItems are the nodes for the items of a map of a flow: each runs it, and at most AtOnce do at a time, since an
// item waits for the end of the item AtOnce positions before it.
func (n *Node) flowItems(g *Graph, items []json.RawMessage) *Graph {
	options := activityspec.Options{Retry: n.Retry, Lane: n.Lane, Priority: n.Priority}
	for i, item := range items {
		node := Node{
			Name: ItemName(i), Sub: n.Sub, Codec: n.Codec, Options: options,
			Input: Expr{Kind: ExprConst, Value: item},
		}
		if i > 0 {
			node.SubOf = ItemName(0)
		}
		if at := n.Map.AtOnce; at > 0 && i >= at {
			node.Upstreams = []Edge{{Node: ItemName(i - at), Kind: AnyOutcome}}
		}
		g.Nodes[i] = node
	}
	return g
}

// Plan is the result of the activity of an expansion: a graph that is run with an input, or the result of the node.
type Plan struct {
	Graph *Graph
	Input json.RawMessage
	Value json.RawMessage // the result if Graph is nil
}

// storedPlanForm is the form of a Plan in JSON.
type storedPlanForm struct {
	Graph *Graph          `json:"graph,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Encode returns the stored form of a plan.
func (p Plan) Encode() ([]byte, error) { return activity.JSON{}.Encode(storedPlanForm(p)) }

// ParsePlan reads the stored form of a plan, and validates its graph.
func ParsePlan(data []byte) (Plan, error) {
	var stored storedPlanForm
	if err := json.Unmarshal(data, &stored); err != nil {
		return Plan{}, err
	}
	if (stored.Graph == nil) == (stored.Value == nil) {
		return Plan{}, fmt.Errorf("%w: it has neither a graph nor a value; flow.PlanOf and flow.Done make one",
			ErrExpand)
	}
	return Plan(stored), nil
}

type storedLoop struct {
	MaxTurns int `json:"max_turns"`
}

type storedExpand struct {
	MaxDepth int      `json:"max_depth"`
	MayRun   []string `json:"may_run"`
}

func (s *storedLoop) spec() *LoopSpec {
	if s == nil {
		return nil
	}
	return &LoopSpec{MaxTurns: s.MaxTurns}
}

func (s *storedExpand) spec() *ExpandSpec {
	if s == nil {
		return nil
	}
	return &ExpandSpec{MaxDepth: s.MaxDepth, MayRun: s.MayRun}
}

func (w *writer) growth(n *Node) {
	if n.Loop != nil {
		w.raw(fmt.Sprintf(`,"loop":{"max_turns":%d}`, n.Loop.MaxTurns))
	}
	if n.Expand != nil {
		w.raw(fmt.Sprintf(`,"expand":{"max_depth":%d`, n.Expand.MaxDepth))
		w.list("may_run", n.Expand.MayRun)
		w.raw("}")
	}
}

// shareSubs gives nodes that run the flow of another node that flow.
func (r *reader) shareSubs(g *Graph, stored []storedNode) {
	for i := range stored {
		if stored[i].SubOf == "" {
			continue
		}
		of := slices.IndexFunc(g.Nodes[:i], func(n Node) bool { return n.Name == stored[i].SubOf })
		if of < 0 || g.Nodes[of].Sub == nil || g.Nodes[i].Sub != nil {
			r.faults.Add(stored[i].Name, "sub_of", ErrSubFlow, "node %q before it runs no flow", stored[i].SubOf)
			continue
		}
		g.Nodes[i].Sub, g.Nodes[i].SubOf = g.Nodes[of].Sub, stored[i].SubOf
	}
}

func (n *Node) cloneGrowth() {
	if n.Loop != nil {
		loop := *n.Loop
		n.Loop = &loop
	}
	if n.Expand != nil {
		n.Expand = &ExpandSpec{MaxDepth: n.Expand.MaxDepth, MayRun: slices.Clone(n.Expand.MayRun)}
	}
}
