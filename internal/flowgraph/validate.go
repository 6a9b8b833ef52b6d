package flowgraph

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Validate returns every fault of the graph, joined, or nil: names, limits, options, edges to missing nodes, edges that
// contradict the inputs, incompatible codecs, and cycles with their path. It cannot check Go types, which Build does.
func (g *Graph) Validate() error {
	if g == nil {
		return errors.New("the graph is nil: check the error of ParseGraph")
	}
	v := Validation{G: g, Faults: FaultList{Flow: g.Name}}
	v.Run()
	return v.Faults.Err()
}

// Validation is one pass over a graph.
type Validation struct {
	G      *Graph
	Faults FaultList
	Skip   map[int]Reported // by node index
	index  map[string]int
}

// Reported are the parts of a node whose faults are known before its validation.
type Reported struct{ Activity, Input, Join bool }

// Run checks the graph and collects the faults.
func (v *Validation) Run() {
	v.flow()
	v.names()
	for i := range v.G.Nodes {
		n := &v.G.Nodes[i]
		v.settings(n, v.Skip[i].Activity)
		v.child(n, v.Skip[i].Activity)
		v.condition(n)
		v.finally(n)
		if n.Wait != nil {
			v.wait(n, v.Skip[i].Activity)
		}
		if n.IsTimer() {
			v.timer(n, v.Skip[i].Input)
		}
		if n.HasInput() && !v.Skip[i].Input {
			v.expr(n, &n.Input, &Position{Name: "input"})
		}
		v.upstreams(n)
		if !v.Skip[i].Join {
			v.join(n)
		}
	}
	v.edgeLimits()
	v.branches()
	v.contradictions()
	for _, path := range newTopology(v.G, v.index).cycles() {
		v.Faults.Add("", "", ErrCycle, "%s", path)
	}
	v.returned()
}

func (v *Validation) flow() {
	g := v.G
	if err := activityspec.CheckName(g.Name); err != nil {
		v.Faults.Cause("", "name", ErrName, err)
	}
	if err := activityspec.CheckName(g.Codec); err != nil {
		v.Faults.Cause("", "codec", ErrName, err)
	}
	if len(g.Description) > maxDescription {
		v.Faults.Add("", "description", ErrLimit, "%d bytes, the limit is %d", len(g.Description), maxDescription)
	}
	if !utf8.ValidString(g.Description) {
		v.Faults.Add("", "description", ErrOption, "not valid UTF-8")
	}
	switch {
	case g.Deadline < 0:
		v.Faults.Add("", "deadline", ErrOption, "%s is negative", g.Deadline)
	case g.Deadline%time.Millisecond != 0:
		v.Faults.Add("", "deadline", ErrOption, "%s is not in whole milliseconds", g.Deadline)
	}
	if g.Depth < 0 || g.Depth > g.DepthLimit || g.DepthLimit > MaxExpandDepth {
		v.Faults.Add("", "depth", ErrExpand, "%d of %d: must be 0 to %d", g.Depth, g.DepthLimit, MaxExpandDepth)
	}
	v.keep()
	v.fairBy()
	v.budgets()
	v.tags("", g.Tags)
	if len(g.Nodes) == 0 {
		v.Faults.Add("", "", ErrEmptyFlow, "")
	}
	if len(g.Nodes) > MaxNodes {
		v.Faults.Add("", "nodes", ErrLimit, "%d nodes, the limit is %d", len(g.Nodes), MaxNodes)
	}
}

func (v *Validation) fairBy() {
	g := v.G
	if slices.Contains(g.FairBy, "") {
		v.Faults.Add("", "fair_by", ErrOption, "%q: a field has no name", strings.Join(g.FairBy, "."))
	}
	if len(g.FairBy) > 0 && g.Codec != StoredCodec {
		v.Faults.Add("", "fair_by", ErrOption, "the input is %s, not JSON", g.Codec)
	}
}

func (v *Validation) names() {
	v.index = make(map[string]int, len(v.G.Nodes))
	for i := range v.G.Nodes {
		name := v.G.Nodes[i].Name
		if err := activityspec.CheckName(name); err != nil {
			v.Faults.Cause(name, "name", ErrName, err)
		}
		if first, taken := v.index[name]; taken {
			v.Faults.Add(name, "name", ErrDuplicateName, "by nodes %d and %d", first+1, i+1)
			continue
		}
		v.index[name] = i
	}
}

// settings checks a node's fields other than its input and edges.
func (v *Validation) settings(n *Node, skipActivity bool) {
	if !skipActivity && n.Wait == nil && (n.Sub == nil || n.Loop != nil) {
		if err := activityspec.CheckName(n.Activity); err != nil {
			v.Faults.Cause(n.Name, "activity", ErrName, err)
		}
		if err := activityspec.CheckName(n.Codec); err != nil {
			v.Faults.Cause(n.Name, "codec", ErrName, err)
		}
	}
	if err := n.Options.Validate(); err != nil {
		v.Faults.Cause(n.Name, "", ErrOption, err)
	} else if n.Retry != n.Retry.Normalized() {
		v.Faults.Add(n.Name, "retry", ErrOption, "one attempt has no delays")
	}
	if !slices.IsSorted(n.Capabilities) || len(slices.Compact(slices.Clone(n.Capabilities))) != len(n.Capabilities) {
		v.Faults.Add(n.Name, "capabilities", ErrOption, "not in order, or one is there twice")
	}
	v.tags(n.Name, n.Tags)
}

// wait checks the fields of a waitpoint, and that all others are empty.
func (v *Validation) wait(n *Node, skip bool) {
	if !skip && n.Wait.Timer == nil {
		if err := n.Wait.Validate(); err != nil {
			v.Faults.Cause(n.Name, "wait", ErrOption, err)
		}
	}
	if !skip && n.Wait.Approval {
		v.approval(n)
	}
	switch {
	case n.Activity != "":
		v.Faults.Add(n.Name, "activity", ErrOption, "a waitpoint runs no activity, this one has %q", n.Activity)
	case n.Input.Kind != "" && !n.HasInput():
		v.Faults.Add(n.Name, "input", ErrBinding, "a waitpoint has none")
	case n.Codec != StoredCodec:
		v.Faults.Add(n.Name, "codec", ErrCodec, "the result of a waitpoint is json, not %s", n.Codec)
	case !reflect.DeepEqual(n.Options, WaitpointOptions()):
		v.Faults.Add(n.Name, "", ErrOption,
			"a waitpoint has no retry, timeouts, priority, lane or capabilities of its own")
	}
}

// approval checks that an approval takes its own signals alone, and cannot succeed without them.
func (v *Validation) approval(n *Node) {
	switch w := n.Wait; {
	case !w.IsApproval() || !w.Collect || w.Timer != nil:
		v.Faults.Add(n.Name, "wait", ErrOption, "an approval takes the signals %q and %q: set how many people approve "+
			"with activity.Approvers, and no other signals", activityspec.Approve, activityspec.Reject)
	case w.OnTimeout == activityspec.ResumeOnTimeout:
		v.Faults.Add(n.Name, "wait", ErrOption, "an approval does not succeed with its timeout: choose another behaviour "+
			"than %q", w.OnTimeout)
	}
}

// WaitpointOptions belong to the stored form.
func WaitpointOptions() activityspec.Options {
	return activityspec.Options{Retry: storedRetry(), Lane: storedLane}
}

func (v *Validation) tags(node string, tags map[string]string) {
	if len(tags) > maxTags {
		v.Faults.Add(node, "tags", ErrLimit, "%d tags, the limit is %d", len(tags), maxTags)
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		value := tags[key]
		switch {
		case !validTagKey(key):
			v.Faults.Add(node, "tags", ErrTag,
				"key %.80q: it begins with a lower-case letter, goes on with a-z, 0-9 and _, "+
					"then '.', then something other than '.'", key)
		case len(key) > maxTagKey:
			v.Faults.Add(node, "tags", ErrLimit, "key %.80q is %d bytes long, the limit is %d", key, len(key),
				maxTagKey)
		case len(value) > MaxTagValue:
			v.Faults.Add(node, "tags", ErrLimit, "value of %q is %d bytes long, the limit is %d", key, len(value),
				MaxTagValue)
		case activityspec.CheckText(key) != nil:
			v.Faults.Add(node, "tags", ErrTag, "key %q: %v", key, activityspec.CheckText(key))
		case activityspec.CheckText(value) != nil:
			v.Faults.Add(node, "tags", ErrTag, "value %.80q of %q: %v", value, key, activityspec.CheckText(value))
		}
	}
}

// CheckTags validates the tags that a run of a flow gets in addition to the tags of its definition, by the rules of
// Tag. Faults are of the kinds ErrTag and ErrLimit.
func CheckTags(flowName string, tags map[string]string) error {
	v := Validation{Faults: FaultList{Flow: flowName}}
	v.tags("", tags)
	return v.Faults.Err()
}

func validTagKey(key string) bool {
	if key == "" || key[0] < 'a' || key[0] > 'z' || !utf8.ValidString(key) {
		return false
	}
	i := 1
	for i < len(key) && (key[i] >= 'a' && key[i] <= 'z' || key[i] >= '0' && key[i] <= '9' || key[i] == '_') {
		i++
	}
	return i+1 < len(key) && key[i] == '.' && key[i+1] != '.'
}

func (v *Validation) expr(n *Node, e *Expr, at *Position) {
	if at.Depth > MaxDepth {
		v.Faults.Add(n.Name, at.String(), ErrLimit, "nested deeper than %d", MaxDepth)
		return
	}
	composed := at.Depth > 0
	switch e.Kind {
	case ExprInput:
		v.codec(n, v.G.Codec, "the flow's input", composed, at)
	case ExprConst:
		v.constant(n, e, at)
	case ExprNode:
		v.source(n, e, composed, at)
	case ExprFailure:
		v.failure(n, e, composed, at)
	case ExprOrElse:
		v.orElse(n, e, composed, at)
	case ExprList:
		v.composable(n, composed, "list", at)
		for i := range e.Items {
			v.expr(n, &e.Items[i], at.Item(i))
		}
	case ExprFirst:
		for i := range e.Items {
			v.source(n, &e.Items[i], composed, at.Item(i))
		}
	case ExprSome:
		v.composable(n, composed, "list", at)
		for i := range e.Items {
			v.source(n, &e.Items[i], true, at.Item(i))
		}
	case ExprStruct:
		v.composable(n, composed, "struct", at)
		v.fields(n, e.Fields, at)
	default:
		v.Faults.Add(n.Name, at.String(), ErrBinding, "unknown kind %q", e.Kind)
	}
}

// source checks a node's result as part of an input.
func (v *Validation) source(n *Node, e *Expr, composed bool, at *Position) {
	if i, ok := v.index[e.Node]; ok {
		v.codec(n, v.G.Nodes[i].Codec, e.source(), composed, at)
	} else {
		v.Faults.Add(n.Name, at.String(), ErrUnknownNode, "%q", e.Node)
	}
}

// orElse checks a part of an input that is a result or a constant. Only JSON distinguishes a result from none.
func (v *Validation) orElse(n *Node, e *Expr, composed bool, at *Position) {
	v.source(n, e, true, at)
	v.composable(n, composed, "result or constant", at)
	if len(e.Value) > MaxConst {
		v.Faults.Add(n.Name, at.String(), ErrLimit, "constant of %d bytes, the limit is %d", len(e.Value), MaxConst)
	}
	if n.Codec == StoredCodec && !json.Valid(e.Value) {
		v.Faults.Add(n.Name, at.String(), ErrConst, "not JSON")
	}
}

func (v *Validation) fields(n *Node, fields []ExprField, at *Position) {
	for i := range fields {
		f := &fields[i]
		if !utf8.ValidString(f.Name) {
			v.Faults.Add(n.Name, at.String(), ErrBinding, "field name %q is not valid UTF-8", f.Name)
		}
		if i > 0 && fields[i-1].Name >= f.Name {
			v.Faults.Add(n.Name, at.String(), ErrBinding, "fields %q and %q are not in order", fields[i-1].Name, f.Name)
		}
		v.expr(n, &f.Value, at.Field(f.Name))
	}
}

func (v *Validation) constant(n *Node, e *Expr, at *Position) {
	if len(e.Value) > MaxConst {
		v.Faults.Add(n.Name, at.String(), ErrLimit, "constant of %d bytes, the limit is %d", len(e.Value), MaxConst)
	}
	if n.Codec == StoredCodec && !json.Valid(e.Value) {
		v.Faults.Add(n.Name, at.String(), ErrConst, "not JSON")
	}
}

// codec checks that the bytes of a source can become, or be part of, the node's input.
func (v *Validation) codec(n *Node, source, what string, composed bool, at *Position) {
	switch {
	case composed && source != StoredCodec:
		v.Faults.Add(n.Name, at.String(), ErrCodec, "%s is %s; lists and structs are composed of json", what, source)
	case !composed && source != n.Codec:
		v.Faults.Add(n.Name, at.String(), ErrCodec, "%s is %s, activity %q takes %s", what, source, n.Activity, n.Codec)
	}
}

// composable reports, once for each input, that the node's codec rules out lists and structs.
func (v *Validation) composable(n *Node, inner bool, what string, at *Position) {
	if !inner && n.Codec != StoredCodec {
		v.Faults.Add(n.Name, at.String(), ErrCodec, "a %s is composed as json, activity %q takes %s", what, n.Activity,
			n.Codec)
	}
}

func (v *Validation) returned() {
	if v.G.Return == "" {
		return
	}
	i, ok := v.index[v.G.Return]
	switch {
	case !ok:
		v.Faults.Add("", "return", ErrUnknownNode, "%q", v.G.Return)
	case v.G.Nodes[i].Codec != v.G.Codec && !v.Skip[i].Activity:
		v.Faults.Add("", "return", ErrCodec, "the result of node %q is %s, the flow's is %s", v.G.Return,
			v.G.Nodes[i].Codec, v.G.Codec)
	}
}

// upstreams checks the edges to one node against its input.
func (v *Validation) upstreams(n *Node) {
	data := n.Input.InputNodes()
	if len(n.Upstreams) > MaxFan {
		v.Faults.Add(n.Name, "upstreams", ErrLimit, "%d upstreams, the limit is %d", len(n.Upstreams), MaxFan)
	}
	seen := make(map[string]bool, len(n.Upstreams))
	for i, up := range n.Upstreams {
		_, known := v.index[up.Node]
		bound := i < len(data) && data[i] == up.Node
		needed := SuccessOnly
		if bound {
			needed = n.Input.edgeKind(up.Node)
		}
		switch {
		case !slices.Contains(OrderKinds[:], up.Kind) && up.Kind != UnlessFailed:
			v.Faults.Add(n.Name, "upstreams", ErrEdge, "from %q: unknown kind %q", up.Node, up.Kind)
		case up.Data && up.Kind != needed:
			v.Faults.Add(n.Name, "upstreams", ErrEdge, "from %q: its result is used, so the edge must be %s, not %s",
				up.Node, needed, up.Kind)
		case !up.Data && up.Kind == UnlessFailed:
			v.Faults.Add(n.Name, "upstreams", ErrEdge, "from %q: an edge of kind %s carries data", up.Node, up.Kind)
		case seen[up.Node]:
			v.Faults.Add(n.Name, "upstreams", ErrEdge, "from %q twice", up.Node)
		case up.Data != bound:
			v.Faults.Add(n.Name, "upstreams", ErrEdge, "from %q: its data flag does not follow from the input", up.Node)
		case !known && !bound:
			v.Faults.Add(n.Name, OrderField(up.Kind), ErrUnknownNode, "%q", up.Node)
		}
		seen[up.Node] = true
	}
	if len(n.Upstreams) < len(data) {
		v.Faults.Add(n.Name, "upstreams", ErrEdge, "the input uses %d nodes, only %d are listed", len(data),
			len(n.Upstreams))
	}
}

func (v *Validation) edgeLimits() {
	if total := v.G.edgeCount(); total > maxEdges {
		v.Faults.Add("", "edges", ErrLimit, "%d edges, the limit is %d", total, maxEdges)
	}
	fanOut := make([]int, len(v.G.Nodes))
	for i := range v.G.Nodes {
		for _, up := range v.G.Nodes[i].Upstreams {
			if from, ok := v.index[up.Node]; ok {
				fanOut[from]++
			}
		}
	}
	for i, count := range fanOut {
		if count > MaxFan {
			v.Faults.Add(v.G.Nodes[i].Name, "", ErrLimit, "%d nodes depend on it, the limit is %d", count, MaxFan)
		}
	}
}
