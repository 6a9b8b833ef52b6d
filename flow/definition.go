package flow

import (
	"fmt"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Definition is a finished flow that takes an In and returns an Out. It is immutable and may be used by several
// goroutines at once. Only Build creates one; the zero value is an empty flow that cannot be started.
type Definition[In, Out any] struct {
	graph    *flowgraph.Graph
	hash     string
	codec    activity.Codec
	handlers []activity.Handler
}

// Name returns the flow's name.
func (d *Definition[In, Out]) Name() string { return d.view().Name }

// Graph returns a copy of the flow without its Go types. Each call copies, so keep the result for repeated use.
func (d *Definition[In, Out]) Graph() *flowgraph.Graph { return d.view().Clone() }

// Hash returns Graph().Hash() without computing it again.
func (d *Definition[In, Out]) Hash() string {
	if d == nil {
		return ""
	}
	return d.hash
}

// Handlers returns the activities that the flow uses, each once, for registration with a worker.
func (d *Definition[In, Out]) Handlers() []activity.Handler {
	if d == nil {
		return nil
	}
	return slices.Clone(d.handlers)
}

// EncodeInput returns the bytes to start a run with.
func (d *Definition[In, Out]) EncodeInput(in In) ([]byte, error) {
	c := d.codecOrJSON()
	data, err := c.Encode(in)
	if err != nil {
		return nil, fmt.Errorf("flow %q: input %T does not encode into %s: %w", d.Name(), in, c.Name(), err)
	}
	return data, nil
}

// DecodeResult decodes the result of a run. For a flow without a Return it returns the zero value, whatever the bytes.
func (d *Definition[In, Out]) DecodeResult(data []byte) (Out, error) {
	var out Out
	if d.view().Return == "" {
		return out, nil
	}
	c := d.codecOrJSON()
	if err := c.Decode(data, &out); err != nil {
		return out, fmt.Errorf("flow %q: result does not decode from %s into %T: %w", d.Name(), c.Name(), out, err)
	}
	return out, nil
}

// Mermaid returns Graph().Mermaid().
func (d *Definition[In, Out]) Mermaid() string { return d.view().Mermaid() }

// DOT returns Graph().DOT().
func (d *Definition[In, Out]) DOT() string { return d.view().DOT() }

// Outline returns Graph().Outline().
func (d *Definition[In, Out]) Outline() string { return d.view().Outline() }

func (d *Definition[In, Out]) view() *flowgraph.Graph {
	if d == nil || d.graph == nil {
		return &flowgraph.Graph{}
	}
	return d.graph
}

func (d *Definition[In, Out]) codecOrJSON() activity.Codec {
	if d == nil || d.codec == nil {
		return activity.JSON{}
	}
	return d.codec
}
