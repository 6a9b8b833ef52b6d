package flow

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

// Validate returns every fault of the graph, joined, or nil: names, limits, options, edges to nodes that do not exist,
// edges that contradict the inputs, codecs that do not fit, and cycles with their path. It cannot check Go types:
// Build does.
func (g *Graph) Validate() error {
	if g == nil {
		return errors.New("the graph is nil: look at the error of ParseGraph")
	}
	v := validation{g: g, faults: faults{flow: g.Name}}
	v.run()
	return v.faults.err()
}

// validation is one pass over a graph.
type validation struct {
	g      *Graph
	faults faults
	skip   map[int]reported // by node index
	index  map[string]int
}

// reported are the parts of a node whose faults are known before its validation.
type reported struct{ activity, input, join bool }

func (v *validation) run() {
	v.flow()
	v.names()
	for i := range v.g.Nodes {
		n := &v.g.Nodes[i]
		v.settings(n, v.skip[i].activity)
		v.child(n, v.skip[i].activity)
		if n.Wait != nil {
			v.wait(n, v.skip[i].activity)
		} else if !v.skip[i].input {
			v.expr(n, &n.Input, &place{name: "input"})
		}
		v.upstreams(n)
		if !v.skip[i].join {
			v.join(n)
		}
	}
	v.edgeLimits()
	for _, path := range newTopology(v.g, v.index).cycles() {
		v.faults.add("", "", ErrCycle, "%s", path)
	}
	v.returned()
}

func (v *validation) flow() {
	g := v.g
	if err := activityspec.CheckName(g.Name); err != nil {
		v.faults.cause("", "name", ErrName, err)
	}
	if err := activityspec.CheckName(g.Codec); err != nil {
		v.faults.cause("", "codec", ErrName, err)
	}
	if len(g.Description) > MaxDescription {
		v.faults.add("", "description", ErrLimit, "%d bytes, the limit is %d", len(g.Description), MaxDescription)
	}
	if !utf8.ValidString(g.Description) {
		v.faults.add("", "description", ErrOption, "not valid UTF-8")
	}
	switch {
	case g.Deadline < 0:
		v.faults.add("", "deadline", ErrOption, "%s is negative", g.Deadline)
	case g.Deadline%time.Millisecond != 0:
		v.faults.add("", "deadline", ErrOption, "%s is not in whole milliseconds", g.Deadline)
	}
	v.keep()
	v.fairBy()
	v.budgets()
	v.tags("", g.Tags)
	if len(g.Nodes) == 0 {
		v.faults.add("", "", ErrEmptyFlow, "")
	}
	if len(g.Nodes) > MaxNodes {
		v.faults.add("", "nodes", ErrLimit, "%d nodes, the limit is %d", len(g.Nodes), MaxNodes)
	}
}

func (v *validation) fairBy() {
	g := v.g
	if slices.Contains(g.FairBy, "") {
		v.faults.add("", "fair_by", ErrOption, "%q: a field has no name", strings.Join(g.FairBy, "."))
	}
	if len(g.FairBy) > 0 && g.Codec != storedCodec {
		v.faults.add("", "fair_by", ErrOption, "the input is %s, not JSON", g.Codec)
	}
}

func (v *validation) names() {
	v.index = make(map[string]int, len(v.g.Nodes))
	for i := range v.g.Nodes {
		name := v.g.Nodes[i].Name
		if err := activityspec.CheckName(name); err != nil {
			v.faults.cause(name, "name", ErrName, err)
		}
		if first, taken := v.index[name]; taken {
			v.faults.add(name, "name", ErrDuplicateName, "by nodes %d and %d", first+1, i+1)
			continue
		}
		v.index[name] = i
	}
}

// settings checks what a node has besides its input and edges.
func (v *validation) settings(n *NodeSpec, skipActivity bool) {
	if !skipActivity && n.Wait == nil && n.Sub == nil {
		if err := activityspec.CheckName(n.Activity); err != nil {
			v.faults.cause(n.Name, "activity", ErrName, err)
		}
		if err := activityspec.CheckName(n.Codec); err != nil {
			v.faults.cause(n.Name, "codec", ErrName, err)
		}
	}
	if err := n.Options.Validate(); err != nil {
		v.faults.cause(n.Name, "", ErrOption, err)
	} else if n.Retry != n.Retry.Plan() {
		v.faults.add(n.Name, "retry", ErrOption, "one attempt has no delays")
	}
	if !slices.IsSorted(n.Capabilities) || len(slices.Compact(slices.Clone(n.Capabilities))) != len(n.Capabilities) {
		v.faults.add(n.Name, "capabilities", ErrOption, "not in order, or one is there twice")
	}
	v.tags(n.Name, n.Tags)
}

// wait checks what a waitpoint has, and that it has nothing else.
func (v *validation) wait(n *NodeSpec, skip bool) {
	if !skip {
		if err := n.Wait.Validate(); err != nil {
			v.faults.cause(n.Name, "wait", ErrOption, err)
		}
	}
	switch {
	case n.Activity != "":
		v.faults.add(n.Name, "activity", ErrOption, "a waitpoint runs no activity, this one has %q", n.Activity)
	case n.Input.Kind != "":
		v.faults.add(n.Name, "input", ErrBinding, "a waitpoint has none")
	case n.Codec != storedCodec:
		v.faults.add(n.Name, "codec", ErrCodec, "the result of a waitpoint is json, not %s", n.Codec)
	case !reflect.DeepEqual(n.Options, waitpointOptions()):
		v.faults.add(n.Name, "", ErrOption, "a waitpoint has no retry, timeouts, priority, lane or capabilities of its own")
	}
}

// waitpointOptions belong to the stored form.
func waitpointOptions() activityspec.Options {
	return activityspec.Options{Retry: storedRetry(), Lane: storedLane}
}

func (v *validation) tags(node string, tags map[string]string) {
	if len(tags) > MaxTags {
		v.faults.add(node, "tags", ErrLimit, "%d tags, the limit is %d", len(tags), MaxTags)
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		value := tags[key]
		switch {
		case !validTagKey(key):
			v.faults.add(node, "tags", ErrTag, "key %.80q: it begins with a lower-case letter, goes on with a-z, 0-9 and _, "+
				"then '.', then something other than '.'", key)
		case len(key) > MaxTagKey:
			v.faults.add(node, "tags", ErrLimit, "key %.80q is %d bytes long, the limit is %d", key, len(key), MaxTagKey)
		case len(value) > MaxTagValue:
			v.faults.add(node, "tags", ErrLimit, "value of %q is %d bytes long, the limit is %d", key, len(value), MaxTagValue)
		case activityspec.CheckText(key) != nil:
			v.faults.add(node, "tags", ErrTag, "key %q: %v", key, activityspec.CheckText(key))
		case activityspec.CheckText(value) != nil:
			v.faults.add(node, "tags", ErrTag, "value %.80q of %q: %v", value, key, activityspec.CheckText(value))
		}
	}
}

// CheckTags checks tags that a run of a flow gets beside those of its definition, by the rules of Tag: the error wraps ErrTag
// and ErrLimit.
func CheckTags(flowName string, tags map[string]string) error {
	v := validation{faults: faults{flow: flowName}}
	v.tags("", tags)
	return v.faults.err()
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

func (v *validation) expr(n *NodeSpec, e *Expr, at *place) {
	if at.depth > MaxDepth {
		v.faults.add(n.Name, at.String(), ErrLimit, "nested deeper than %d", MaxDepth)
		return
	}
	composed := at.depth > 0
	switch e.Kind {
	case ExprInput:
		v.codec(n, v.g.Codec, "the flow's input", composed, at)
	case ExprConst:
		v.constant(n, e, at)
	case ExprNode:
		v.source(n, e, composed, at)
	case ExprList:
		v.composable(n, composed, "list", at)
		for i := range e.Items {
			v.expr(n, &e.Items[i], at.item(i))
		}
	case ExprFirst:
		for i := range e.Items {
			v.source(n, &e.Items[i], composed, at.item(i))
		}
	case ExprSome:
		v.composable(n, composed, "list", at)
		for i := range e.Items {
			v.source(n, &e.Items[i], true, at.item(i))
		}
	case ExprStruct:
		v.composable(n, composed, "struct", at)
		v.fields(n, e.Fields, at)
	default:
		v.faults.add(n.Name, at.String(), ErrBinding, "unknown kind %q", e.Kind)
	}
}

// source checks a node's result as part of an input.
func (v *validation) source(n *NodeSpec, e *Expr, composed bool, at *place) {
	if i, ok := v.index[e.Node]; ok {
		v.codec(n, v.g.Nodes[i].Codec, e.source(), composed, at)
	} else {
		v.faults.add(n.Name, at.String(), ErrUnknownNode, "%q", e.Node)
	}
}

func (v *validation) fields(n *NodeSpec, fields []ExprField, at *place) {
	for i := range fields {
		f := &fields[i]
		if !utf8.ValidString(f.Name) {
			v.faults.add(n.Name, at.String(), ErrBinding, "field name %q is not valid UTF-8", f.Name)
		}
		if i > 0 && fields[i-1].Name >= f.Name {
			v.faults.add(n.Name, at.String(), ErrBinding, "fields %q and %q are not in order", fields[i-1].Name, f.Name)
		}
		v.expr(n, &f.Value, at.field(f.Name))
	}
}

func (v *validation) constant(n *NodeSpec, e *Expr, at *place) {
	if len(e.Value) > MaxConst {
		v.faults.add(n.Name, at.String(), ErrLimit, "constant of %d bytes, the limit is %d", len(e.Value), MaxConst)
	}
	if n.Codec == storedCodec && !json.Valid(e.Value) {
		v.faults.add(n.Name, at.String(), ErrConst, "not JSON")
	}
}

// codec checks that the bytes of a source can become, or be part of, the node's input.
func (v *validation) codec(n *NodeSpec, source, what string, composed bool, at *place) {
	switch {
	case composed && source != storedCodec:
		v.faults.add(n.Name, at.String(), ErrCodec, "%s is %s; lists and structs are composed of json", what, source)
	case !composed && source != n.Codec:
		v.faults.add(n.Name, at.String(), ErrCodec, "%s is %s, activity %q takes %s", what, source, n.Activity, n.Codec)
	}
}

// composable reports, once for each input, that the node's codec rules out lists and structs.
func (v *validation) composable(n *NodeSpec, inner bool, what string, at *place) {
	if !inner && n.Codec != storedCodec {
		v.faults.add(n.Name, at.String(), ErrCodec, "a %s is composed as json, activity %q takes %s", what, n.Activity, n.Codec)
	}
}

func (v *validation) returned() {
	if v.g.Return == "" {
		return
	}
	i, ok := v.index[v.g.Return]
	switch {
	case !ok:
		v.faults.add("", "return", ErrUnknownNode, "%q", v.g.Return)
	case v.g.Nodes[i].Codec != v.g.Codec && !v.skip[i].activity:
		v.faults.add("", "return", ErrCodec, "the result of node %q is %s, the flow's is %s", v.g.Return, v.g.Nodes[i].Codec, v.g.Codec)
	}
}

// upstreams checks the edges to one node against its input.
func (v *validation) upstreams(n *NodeSpec) {
	data := n.Input.InputNodes()
	if len(n.Upstreams) > MaxFan {
		v.faults.add(n.Name, "upstreams", ErrLimit, "%d upstreams, the limit is %d", len(n.Upstreams), MaxFan)
	}
	seen := make(map[string]bool, len(n.Upstreams))
	for i, up := range n.Upstreams {
		_, known := v.index[up.Node]
		bound := i < len(data) && data[i] == up.Node
		switch {
		case !slices.Contains(orderKinds[:], up.Kind):
			v.faults.add(n.Name, "upstreams", ErrEdge, "from %q: unknown kind %q", up.Node, up.Kind)
		case up.Data && up.Kind != SuccessOnly:
			v.faults.add(n.Name, "upstreams", ErrEdge, "from %q: its result is used, so it must succeed, not %s", up.Node, up.Kind)
		case seen[up.Node]:
			v.faults.add(n.Name, "upstreams", ErrEdge, "from %q twice", up.Node)
		case up.Data != bound:
			v.faults.add(n.Name, "upstreams", ErrEdge, "from %q: its data flag does not follow from the input", up.Node)
		case !known && !bound:
			v.faults.add(n.Name, orderField(up.Kind), ErrUnknownNode, "%q", up.Node)
		}
		seen[up.Node] = true
	}
	if len(n.Upstreams) < len(data) {
		v.faults.add(n.Name, "upstreams", ErrEdge, "the input uses %d nodes, only %d are listed", len(data), len(n.Upstreams))
	}
}

func (v *validation) edgeLimits() {
	if total := v.g.EdgeCount(); total > MaxEdges {
		v.faults.add("", "edges", ErrLimit, "%d edges, the limit is %d", total, MaxEdges)
	}
	fanOut := make([]int, len(v.g.Nodes))
	for i := range v.g.Nodes {
		for _, up := range v.g.Nodes[i].Upstreams {
			if from, ok := v.index[up.Node]; ok {
				fanOut[from]++
			}
		}
	}
	for i, count := range fanOut {
		if count > MaxFan {
			v.faults.add(v.g.Nodes[i].Name, "", ErrLimit, "%d nodes depend on it, the limit is %d", count, MaxFan)
		}
	}
}
