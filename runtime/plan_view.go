package runtime

import (
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// Plan is what Start would submit, for debugging: a flow made ready to run, to be printed instead of submitted.
type Plan struct {
	// Flow and Run name the run.
	Flow, Run string
	// FlowID and Partition are where the engine keeps it.
	FlowID    enginecore.FlowID
	Partition enginecore.Partition

	plan *submit.RunPlan
}

// NewPlan is what Start would submit. Nothing is sent.
func NewPlan[In, Out any](c *Client, def *flow.Definition[In, Out], in In, opts ...StartOption) (*Plan, error) {
	plan, err := planRun(c, def, in, opts)
	if err != nil {
		return nil, err
	}
	return &Plan{Flow: plan.Flow, Run: plan.Run, FlowID: plan.FlowID, Partition: plan.Partition, plan: plan}, nil
}

// planRun makes the run of one call of Start ready to be submitted.
func planRun[In, Out any](c *Client, def *flow.Definition[In, Out], in In, opts []StartOption) (*submit.RunPlan, error) {
	if err := usable(c, def); err != nil {
		return nil, fmt.Errorf("start run: %w", err)
	}
	config := startConfig{}
	if err := errors.Join(apply(&config, opts), engine.CheckText("creator", config.creator, engine.MaxActor)); err != nil {
		return nil, fmt.Errorf("flow %s: start: %w", def.Name(), err)
	}
	if !config.named {
		config.id = c.submitter.RunIDs.Next(def.Name())
	}
	input, err := def.EncodeInput(in)
	if err != nil {
		return nil, fmt.Errorf("flow %s: input: %w", def.Name(), err)
	}
	compiled, err := c.compiled.Get(def)
	if err != nil {
		return nil, err
	}
	plan, err := submit.NewPlan(c.session, compiled, config.id, input)
	if err != nil {
		return nil, err
	}
	plan.Creator = config.creator
	plan.OwnTags = len(config.tags) > 0
	plan.Tags, err = submit.TagsOf(compiled, config.tags)
	return plan, err
}

// Graph is the flow of the plan. It must not be changed.
func (p *Plan) Graph() *flowgraph.Graph {
	if p == nil || p.plan == nil {
		return nil
	}
	return p.plan.Compiled.Graph
}

// ExecutionID is the id under which the engine runs a node.
func (p *Plan) ExecutionID(node string) enginecore.ExecutionID {
	return enginecore.ExecutionIDFor(p.Partition, p.FlowID, node)
}

// String prints the plan as the list of engine calls that it stands for: first what is sent, then the single steps that
// it is made of, in the engine's own terms.
func (p *Plan) String() string {
	if p == nil || p.plan == nil {
		return "no plan"
	}
	return p.plan.String()
}

// Step is one engine call of a plan.
type Step struct {
	// Function is the name of the library's function.
	Function string
	// Subject says what it is called for.
	Subject string
}

// Steps lists the single engine calls that a submission is equal to, in order.
func (p *Plan) Steps() []Step {
	if p == nil || p.plan == nil {
		return nil
	}
	steps := p.plan.Steps()
	list := make([]Step, len(steps))
	for i, step := range steps {
		list[i] = Step(step)
	}
	return list
}
