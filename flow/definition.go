package flow

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Definition is a finished flow that takes an In and returns an Out. It is immutable and may be used by several
// goroutines at once. Only Build creates one; the zero value is an empty flow that cannot be started.
type Definition[In, Out any] struct {
	graph    *flowgraph.Graph
	hash     string
	codec    activity.Codec
	handlers []activity.Handler
	results  map[string]reflect.Type // of nodes
}

// Name returns the flow's name.
func (d *Definition[In, Out]) Name() string { return d.view().Name }

// NodeInput returns the encoded input that a node gets in a run with that encoded input, in which the node's upstreams
// had the encoded results, by their names. It is for tests of the bindings. It returns an error if the flow has no such
// node, or if the result of an upstream is missing, which the error names.
func (d *Definition[In, Out]) NodeInput(node string, input []byte, results map[string][]byte) ([]byte, error) {
	n := d.view().Node(node)
	if n == nil {
		return nil, fmt.Errorf("flow %q: there is no node %q", d.Name(), node)
	}
	data, err := n.Input.Resolve(input, results)
	if err != nil {
		return nil, fmt.Errorf("flow %q: input of node %q: %w", d.Name(), node, err)
	}
	return slices.Clone(data), nil
}

// Hash returns the hex SHA-256 of everything that affects the behaviour of a run: flows with equal hashes behave alike.
// The order of nodes, of After and of tags, the description and the names of Go types do not affect it. It is the same
// in every process, and empty for a definition that Build did not return.
func (d *Definition[In, Out]) Hash() string {
	if d == nil {
		return ""
	}
	return d.hash
}

// InputType returns the type In.
func (*Definition[In, Out]) InputType() reflect.Type { return reflect.TypeFor[In]() }

// OutputType returns the type Out.
func (*Definition[In, Out]) OutputType() reflect.Type { return reflect.TypeFor[Out]() }

// ResultType returns the type of a node's result. It is nil for a condition of When and for a node that the flow does
// not have.
func (d *Definition[In, Out]) ResultType(node string) reflect.Type {
	if d == nil {
		return nil
	}
	return d.results[node]
}

// Handlers returns the activities that the flow uses, each once, and its conditions, for registration with a worker.
func (d *Definition[In, Out]) Handlers() []activity.Handler {
	if d == nil {
		return nil
	}
	return slices.Clone(d.handlers)
}

// EncodeInput returns the bytes to start a run with.
func (d *Definition[In, Out]) EncodeInput(in In) ([]byte, error) {
	c := d.Codec()
	if _, isJSON := c.(activity.JSON); isJSON {
		if data, ok := activityspec.EncodeScalar(in); ok {
			return data, nil
		}
	}
	data, err := c.Encode(in)
	if err != nil {
		return nil, fmt.Errorf("flow %q: input %T does not encode into %s: %w", d.Name(), in, c.Name(), err)
	}
	return data, nil
}

// DecodeResult decodes the result of a run. For a flow without a Return it returns the zero value, whatever the bytes.
func (d *Definition[In, Out]) DecodeResult(data []byte) (Out, error) {
	if d.view().Return == "" {
		var none Out
		return none, nil
	}
	c := d.Codec()
	if _, isJSON := c.(activity.JSON); isJSON {
		if out, ok := activityspec.DecodeScalar[Out](data); ok {
			return out, nil
		}
	}
	return decodeResult[Out](d.Name(), c, data)
}

func decodeResult[Out any](flow string, c activity.Codec, data []byte) (Out, error) {
	var out Out
	if err := c.Decode(data, &out); err != nil {
		return out, fmt.Errorf("flow %q: result does not decode from %s into %T: %w", flow, c.Name(), out, err)
	}
	return out, nil
}

// Mermaid returns the flow as a Mermaid flowchart: one box for each node with its name, activity and join, a hexagon
// for each waitpoint with the signals that count, a box with two borders for each map and sub-flow, a rhombus for each
// condition, solid arrows for data, dotted ones for order only, with the kind of the edge where it is not success, or
// its case. Equal flows give equal text.
func (d *Definition[In, Out]) Mermaid() string { return d.view().Mermaid() }

// DOT returns the flow in the language of Graphviz, in the same way as Mermaid.
func (d *Definition[In, Out]) DOT() string { return d.view().DOT() }

// SVG returns the flow as an SVG document. It uses the page's light or dark colours, and has a text for each node, for
// readers who do not see it. Equal flows give equal text.
func (d *Definition[In, Out]) SVG(drawing Drawing) string {
	return d.view().SVG(nil, flowgraph.Drawing(drawing))
}

// Drawing configures how SVG draws a flow or a run. The zero value draws from left to right.
type Drawing struct {
	// TopDown draws from the top down.
	TopDown bool
	// Open are the ids of nodes whose flow is drawn too: "load" for the flow that node load runs, "load/rows" for that
	// of a node of it. Ids of no such node are ignored.
	Open []string
	// FoldBeyond is the number of nodes that are alike up to which each is drawn; more are folded into one. 0 is 12, -1
	// folds none. Two nodes are alike if they run the same activity, or do the same other work, between upstreams and
	// downstreams that are alike.
	FoldBeyond int
}

// Outline returns the flow as plain text, one line for each node: its level, which is the number of nodes before it on
// the longest path, its name, its activity or signals, and its upstreams. Upstreams whose results it does not use are
// in brackets. Nodes are ordered by level.
func (d *Definition[In, Out]) Outline() string { return d.view().Outline() }

// Internal has the graph for packages of this module; programs can do nothing with it, and it may change.
func (d *Definition[In, Out]) Internal() flowgraph.Handle { return flowgraph.HandleOf(d.view()) }

func (d *Definition[In, Out]) view() *flowgraph.Graph {
	if d == nil || d.graph == nil {
		return &flowgraph.Graph{}
	}
	return d.graph
}

// Codec returns the codec of the flow's input and result: JSON unless WithCodec sets another one.
func (d *Definition[In, Out]) Codec() activity.Codec {
	if d == nil || d.codec == nil {
		return activity.JSON{}
	}
	return d.codec
}
