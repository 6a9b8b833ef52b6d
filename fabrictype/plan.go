package fabrictype

import (
	"fmt"
	"slices"
	"strings"
)

// StartPlan lists the calls by which an engine gets a run. runtime.Plan and FlowDescription.Plan make one; its String
// method prints it.
type StartPlan struct {
	// Flow and Run name the run, FlowID is the id of its flow in the engine.
	Flow   string `json:"flow"`
	Run    string `json:"run"`
	FlowID string `json:"flow_id"`
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
