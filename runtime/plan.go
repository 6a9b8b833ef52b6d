package runtime

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/startplan"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// StartPlan lists the calls by which an engine gets a run. Plan and FlowDescription.Plan make one; its String method
// prints it.
type StartPlan struct {
	// Flow and Run name the run, FlowID is the id of its flow in the engine.
	Flow   string            `json:"flow"`
	Run    string            `json:"run"`
	FlowID enginecore.FlowID `json:"flow_id"`
	// Calls are the calls of the FlowFabric contract that the run is made of, in the order in which contract mode sends
	// them. With Refused set, contract mode refuses the flow, and the call belongs to the composite ones alone.
	Calls []PlannedCall `json:"calls"`
	// Later are the calls for the waitpoints and budgets of the flow, which workers and keepers send when the run comes
	// to them.
	Later []PlannedCall `json:"later,omitempty"`
	// Composite are the calls that Start sends to an engine with this project's library instead of all of Calls.
	Composite []PlannedCall `json:"composite"`
}

// PlannedCall is a call of the engine.
type PlannedCall struct {
	// Function is the name of the library's function, such as ff_create_execution.
	Function string `json:"function"`
	// Node is the node that the call is for; empty if it is for the flow.
	Node string `json:"node,omitempty"`
	// Subject is the purpose of the call, in English.
	Subject string `json:"subject"`
	// Refused is the feature for which contract mode refuses the call, in the words of its error; empty if it does not.
	Refused string `json:"refused,omitempty"`
	// NeedsGroups reports that contract mode sends the call only to servers whose library has the edge-group functions.
	NeedsGroups bool `json:"needs_groups,omitempty"`
}

// Refused returns the features for which contract mode refuses the flow, without duplicates, in the order of the calls;
// none if it does not.
func (p *StartPlan) Refused() []string {
	var list []string
	for _, call := range p.Calls {
		if call.Refused != "" && !slices.Contains(list, call.Refused) {
			list = append(list, call.Refused)
		}
	}
	return list
}

// String prints the plan, a call in a line.
func (p *StartPlan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Flow %s, run %s, flow id %s\n\n", p.Flow, p.Run, p.FlowID)
	if refused := p.Refused(); len(refused) > 0 {
		fmt.Fprintf(&b, "The flow becomes these calls of the contract, which contract mode refuses for: %s\n",
			strings.Join(refused, "; "))
	} else {
		b.WriteString("The flow becomes these calls of the contract, which contract mode sends one by one:\n")
	}
	writeCalls(&b, p.Calls)
	if len(p.Later) > 0 {
		b.WriteString("\nWhen the run comes to them:\n")
		writeCalls(&b, p.Later)
	}
	b.WriteString("\nWith this project's library, these calls do all of it at once:\n")
	writeCalls(&b, p.Composite)
	return b.String()
}

func writeCalls(b *strings.Builder, calls []PlannedCall) {
	width := 0
	for _, call := range calls {
		width = max(width, len(call.Function))
	}
	for _, call := range calls {
		fmt.Fprintf(b, "  %-*s  %s", width, call.Function, call.Subject)
		switch {
		case call.Refused != "":
			fmt.Fprintf(b, "  (contract mode refuses: %s)", call.Refused)
		case call.NeedsGroups:
			b.WriteString("  (contract mode needs the edge-group functions)")
		}
		b.WriteString("\n")
	}
}

// Plan returns the calls that starting a run of the definition would send, before anything runs and without an engine.
// Of the options, only WithID changes the plan. The error matches ErrInvalid or ErrTooLarge, as the error of Start.
func Plan[In, Out any](def *flow.Definition[In, Out], in In, opts ...StartOption) (*StartPlan, error) {
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
	return planStart(compiled, config.ID, input)
}

// Plan returns the calls that starting a run of the published flow would send. Parts that depend on the input,
// such as keys of budgets, are as for an empty input. The error is about a graph that this program cannot read.
func (d *FlowDescription) Plan() (*StartPlan, error) {
	graph, err := flowgraph.ParseGraph(d.Definition)
	if err != nil {
		return nil, fmt.Errorf("plan run: %w", err)
	}
	compiled, err := submit.CompileFlow(graph, graph.Hash())
	if err != nil {
		return nil, err
	}
	return planStart(compiled, "", nil)
}

func planStart(compiled *submit.CompiledFlow, id string, input []byte) (*StartPlan, error) {
	plan, err := startplan.Of(compiled, id, input)
	if err != nil {
		return nil, err
	}
	return &StartPlan{
		Flow: plan.Flow, Run: plan.Run, FlowID: plan.FlowID, Calls: plannedCalls(plan.Calls),
		Later: plannedCalls(plan.Later), Composite: plannedCalls(plan.Composite),
	}, nil
}

func plannedCalls(list []startplan.Call) []PlannedCall {
	var calls []PlannedCall
	for _, call := range list {
		calls = append(calls, PlannedCall(call))
	}
	return calls
}
