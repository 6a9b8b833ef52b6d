// Package catalogue holds what programs publish of their flows, so that others can list them, show them, and start them
// by name: see Client.Publish, Client.Flows and Client.StartNamed of package runtime.
package catalogue

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow/layout"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Definition is a *flow.Definition, whatever its types.
type Definition interface {
	Name() string
	Hash() string
	InputType() reflect.Type
	OutputType() reflect.Type
	Internal() flowgraph.Handle
}

// Publication is a flow with how it is published.
type Publication struct {
	Flow runtime.Definition
	// OmitSchemas leaves out the schemas of input and result, of types whose fields are nobody's business. Inputs of
	// StartNamed are not checked then.
	OmitSchemas bool
	// By names the program or person that publishes; at most 256 bytes without control characters. Defaults to none.
	By string
}

// Flow is a published flow.
type Flow struct {
	Name string `json:"name"`
	// Hash is that of its graph, as flow.Definition.Hash returns it.
	Hash string `json:"hash"`
	// Doc is the text of flow.Describe.
	Doc string `json:"doc,omitempty"`
	// Codec is the name of the codec of input and result. Flows with another one than "json" cannot be started by name.
	Codec string `json:"codec"`
	// InputType and ResultType are names of Go types, for display.
	InputType  string `json:"input_type"`
	ResultType string `json:"result_type"`
	// Nodes is how many nodes the graph has.
	Nodes int `json:"nodes"`
	// PublishedAt and PublishedBy are of the last publication that changed anything.
	PublishedAt time.Time `json:"published_at"`
	PublishedBy string    `json:"published_by,omitempty"`
}

// Description is a published flow with its graph and schemas.
type Description struct {
	fabrictype.Flow
	// InputSchema and ResultSchema are JSON Schemas of draft 2020-12; nil if they were left out, or for another codec
	// than JSON.
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	ResultSchema json.RawMessage `json:"result_schema,omitempty"`
	// Definition is the stored form of the graph.
	Definition json.RawMessage `json:"definition"`
	// History are the last 50 publications with another hash than the one before, the newest first.
	History []fabrictype.FlowVersion `json:"history"`
}

// Version is a publication that changed the hash of a flow.
type Version struct {
	Hash        string    `json:"hash"`
	PublishedAt time.Time `json:"published_at"`
	PublishedBy string    `json:"published_by,omitempty"`
}

// Mermaid returns the graph in the format of flow.Definition.Mermaid; empty for one that this program cannot read.
func (d *runtime.FlowDescription) Mermaid() string { return d.drawn((*flowgraph.Graph).Mermaid) }

// DOT returns the graph in the format of flow.Definition.DOT; empty for one that this program cannot read.
func (d *runtime.FlowDescription) DOT() string { return d.drawn((*flowgraph.Graph).DOT) }

// SVG returns the drawing of flow.Definition.SVG; empty for a graph that this program cannot read.
func (d *runtime.FlowDescription) SVG(opts ...layout.Option) string {
	return d.drawn(func(g *flowgraph.Graph) string { return g.SVG(nil, opts...) })
}

// Layout returns the layout of flow.Definition.Layout. The error is that of a graph that this program cannot read.
func (d *runtime.FlowDescription) Layout(opts ...layout.Option) (*layout.Layout, error) {
	graph, err := flowgraph.ParseGraph(d.Definition)
	if err != nil {
		return nil, fmt.Errorf("graph of flow %q: %w", d.Name, err)
	}
	return graph.Layout(opts...)
}

// Outline returns the graph in the format of flow.Definition.Outline; empty for one that this program cannot read.
func (d *runtime.FlowDescription) Outline() string { return d.drawn((*flowgraph.Graph).Outline) }

func (d *runtime.FlowDescription) drawn(as func(*flowgraph.Graph) string) string {
	if d == nil {
		return ""
	}
	graph, err := flowgraph.ParseGraph(d.Definition)
	if err != nil {
		return ""
	}
	return as(graph)
}
