package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/runview"
)

// RunDescription is the state of a run at one moment, with its graph, which its methods draw.
type RunDescription struct {
	fabrictype.RunDetail

	graph *flowgraph.Graph // nil when the run has none
}

// Internal has the graph of the run for packages of this module; programs can do nothing with it, and it may change.
func (d *RunDescription) Internal() flowgraph.Handle { return flowgraph.HandleOf(d.graph) }

// Mermaid returns the graph of the run in the format of flow.Definition.Mermaid; empty when the run stores no graph.
func (d *RunDescription) Mermaid() string { return d.drawn((*flowgraph.Graph).Mermaid) }

// DOT returns the graph of the run in the format of flow.Definition.DOT; empty when the run stores no graph.
func (d *RunDescription) DOT() string { return d.drawn((*flowgraph.Graph).DOT) }

// Outline returns the graph of the run in the format of flow.Definition.Outline; empty when the run stores no graph.
func (d *RunDescription) Outline() string { return d.drawn((*flowgraph.Graph).Outline) }

// SVG returns the drawing of flow.Definition.SVG with the states of the nodes; empty when the run stores no graph.
// Nodes on other pages than the described one are drawn as not started.
func (d *RunDescription) SVG(drawing flow.Drawing) string {
	return d.drawn(func(g *flowgraph.Graph) string {
		return g.SVG(runview.DrawnStates(d.Nodes), flowgraph.Drawing(drawing))
	})
}

func (d *RunDescription) drawn(as func(*flowgraph.Graph) string) string {
	if d == nil || d.graph == nil {
		return ""
	}
	return as(d.graph)
}

// Describe returns the state of the run, its nodes and its budgets. The options, at most one, add values or attempts,
// or select one page of the nodes. It reads runs of more than 200 nodes in several calls, and waits, pauses, budgets,
// child runs, values and attempts in further calls, so changes during Describe may be included in part. The error wraps
// ErrNotFound when the run does not exist, and ErrInvalid for an option that is out of bounds.
func (r *RunRef) Describe(ctx context.Context, opts ...DescribeOptions) (*RunDescription, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	q := request(opts)
	if err := q.Check(describe.MaxValueBytes); err != nil {
		return nil, r.errorf("describe", err)
	}
	d, err := r.reader().Describe(ctx, q)
	if err != nil {
		return nil, err
	}
	return &RunDescription{d.RunDetail, d.Graph}, nil
}

// reader reads the run.
func (r *RunRef) reader() *runview.Reader {
	return &runview.Reader{Session: r.client.session, Run: r.at}
}

// DescribeNode returns the state of one node as Describe does, with its attempts, and with its input and result if
// DescribeOptions.Values is set: up to describe.MaxSumBytes of each, since an input may be composed of many results.
// Other fields of the options do not matter. The error wraps ErrNotFound, also when the run has no such node, or
// ErrInvalid for an option that is out of bounds.
func (r *RunRef) DescribeNode(ctx context.Context, node string, opts ...DescribeOptions) (*fabrictype.Node, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	q := request(opts)
	q = runview.Request{Values: q.Values, ValueBytes: q.ValueBytes, Attempts: true}
	if err := q.Check(describe.MaxSumBytes); err != nil {
		return nil, r.errorf("describe node "+node+" of", err)
	}
	return r.reader().DescribeNode(ctx, node, q)
}

// DescribeOptions extend or restrict the result of RunRef.Describe and RunRef.DescribeNode.
type DescribeOptions struct {
	// Values adds input and result of the run and of its nodes. Each is returned whole up to ValueBytes bytes, else its
	// beginning, with Truncated set. Without Nodes, the run may have at most 500 nodes. All values together have at
	// most 8 MiB.
	Values bool
	// ValueBytes is at most 1 MiB, and 8 MiB with RunRef.DescribeNode. Defaults to 4 KiB.
	ValueBytes int
	// Attempts adds the attempts of each node, from the event log of the run: the last 100 of each.
	Attempts bool
	// Nodes selects a page of nodes in the order of their declaration, 1 to 500, or fewer whose values have 8 MiB. The
	// items of a map are the nodes of its child run. Defaults to all nodes.
	Nodes int
	// Cursor is the RunDescription.Next of the page before. Defaults to the first page.
	Cursor string
}

// request returns the request of the options of a call; without any, the zero value.
func request(opts []DescribeOptions) (q runview.Request) {
	for _, o := range opts {
		q = runview.Request{
			Values: o.Values, ValueBytes: o.ValueBytes, Attempts: o.Attempts, Paged: o.Nodes != 0 || o.Cursor != "",
			Cursor: o.Cursor, Nodes: o.Nodes,
		}
	}
	return q
}
