package runtime

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/startplan"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Plan returns the calls that starting a run of the definition would send, before anything runs and without an engine.
// Of the options, only WithID changes the plan. The error matches ErrInvalid or ErrTooLarge, as the error of Start.
func Plan[In, Out any](def *flow.Definition[In, Out], in In, opts ...StartOption) (*fabrictype.StartPlan, error) {
	if def == nil {
		return nil, fmt.Errorf("plan run: %w: the definition is nil", ErrInvalid)
	}
	var config startConfig
	for _, o := range opts {
		if o == nil || !o.start(&config) {
			return nil, fmt.Errorf("plan run: %w: an option is nil", ErrInvalid)
		}
	}
	input, err := def.EncodeInput(in)
	if err != nil {
		return nil, fmt.Errorf("flow %s: input: %w", def.Name(), err)
	}
	compiled, err := submit.CompileFlow(flowgraph.Of(def.Internal()), def.Hash())
	if err != nil {
		return nil, err
	}
	return startplan.Of(compiled, config.ID, input)
}

// Plan returns the calls that starting a run of the published flow would send. Parts that depend on the input,
// such as keys of budgets, are as for an empty input. The error is about a graph that this program cannot read.
func (d *FlowDescription) Plan() (*fabrictype.StartPlan, error) {
	graph, err := flowgraph.ParseGraph(d.Definition)
	if err != nil {
		return nil, fmt.Errorf("plan run: %w", err)
	}
	compiled, err := submit.CompileFlow(graph, graph.Hash())
	if err != nil {
		return nil, err
	}
	return startplan.Of(compiled, "", nil)
}
