package runtime

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// FlowDescription is a published flow with its graph, which its methods draw.
type FlowDescription struct{ fabrictype.FlowDetail }

// Mermaid returns the graph in the format of flow.Definition.Mermaid; empty for one that this program cannot read.
func (d *FlowDescription) Mermaid() string { return d.drawn((*flowgraph.Graph).Mermaid) }

// DOT returns the graph in the format of flow.Definition.DOT; empty for one that this program cannot read.
func (d *FlowDescription) DOT() string { return d.drawn((*flowgraph.Graph).DOT) }

// SVG returns the drawing of flow.Definition.SVG; empty for a graph that this program cannot read.
func (d *FlowDescription) SVG(drawing flow.Drawing) string {
	return d.drawn(func(g *flowgraph.Graph) string { return g.SVG(nil, flowgraph.Drawing(drawing)) })
}

// Outline returns the graph in the format of flow.Definition.Outline; empty for one that this program cannot read.
func (d *FlowDescription) Outline() string { return d.drawn((*flowgraph.Graph).Outline) }

func (d *FlowDescription) drawn(as func(*flowgraph.Graph) string) string {
	if d == nil {
		return ""
	}
	graph, err := flowgraph.ParseGraph(d.Definition)
	if err != nil {
		return ""
	}
	return as(graph)
}
