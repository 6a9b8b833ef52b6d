package startplan

import (
	"cmp"
	"strings"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/contractcheck"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// plannedRun is the id of a run that is planned without one.
const plannedRun = "planned"

// Of plans a run as contract mode would submit it.
func Of(compiled *submit.CompiledFlow, id string, input []byte) (*fabrictype.StartPlan, error) {
	partitioning := keyspace.Partitioning{Flow: 1, Budget: 1, Quota: 1} // no call of the plan shows the partition
	run, err := submit.NewContractPlan(partitioning, engine.DefaultNamespace, compiled, cmp.Or(id, plannedRun), input)
	if err != nil {
		return nil, err
	}
	refusals, err := contractcheck.Refusals(compiled.Graph)
	if err != nil {
		return nil, err
	}
	p := &fabrictype.StartPlan{Flow: run.Flow, Run: run.Run, FlowID: string(run.FlowID)}
	p.Calls = append(budgetCalls(compiled.Graph), plannedCalls(run.Steps(), refusals)...)
	p.Composite = plannedCalls(run.Composite(), nil)
	p.Later = laterCalls(compiled.Graph)
	return p, nil
}

// plannedCalls adds to calls of the contract why contract mode refuses them: the call that creates a node has the
// features of the node, and the first call the features of the flow.
func plannedCalls(steps []submit.PlanStep, refusals []contractcheck.Refusal) []fabrictype.PlannedCall {
	create := enginerpc.FunctionName(enginerpc.CreateExecutionCall{})
	policy := enginerpc.FunctionName(enginerpc.SetEdgeGroupPolicyCall{})
	calls := make([]fabrictype.PlannedCall, len(steps))
	for i, step := range steps {
		calls[i] = fabrictype.PlannedCall{Function: step.Function, Node: step.Node, Subject: step.Subject}
		for _, refusal := range refusals {
			switch {
			case refusal.Extended:
				calls[i].NeedsGroups = calls[i].NeedsGroups || refusal.Node == step.Node && step.Function == policy
			case calls[i].Refused != "":
			case refusal.Node == "" && refusal.Construct != contractcheck.Budgets && i == 0,
				refusal.Node != "" && refusal.Node == step.Node && step.Function == create:
				calls[i].Refused = refusal.Construct
			}
		}
	}
	return calls
}

// budgetCalls returns the calls that create the budgets of a flow: contract mode refuses them.
func budgetCalls(g *flowgraph.Graph) []fabrictype.PlannedCall {
	calls := make([]fabrictype.PlannedCall, len(g.Budgets))
	for i, b := range g.Budgets {
		limits := make([]string, len(b.Limits))
		for j, limit := range b.Limits {
			limits[j] = limit.Dimension
		}
		calls[i] = fabrictype.PlannedCall{
			Function: enginerpc.FunctionName(enginerpc.CreateBudgetCall{}), Refused: contractcheck.Budgets,
			Subject: strings.TrimSuffix("budget "+b.Name+": "+strings.Join(limits, ", "), ": "),
		}
	}
	return calls
}

// laterCalls returns the calls for the waitpoints and the budgets of a flow that follow its start.
func laterCalls(g *flowgraph.Graph) []fabrictype.PlannedCall {
	var calls []fabrictype.PlannedCall
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.Wait != nil && !n.IsTimer() {
			calls = append(calls, fabrictype.PlannedCall{
				Function: enginerpc.FunctionName(enginerpc.SuspendExecutionCall{}), Node: n.Name,
				Subject: n.Name + " waits for signals at a waitpoint",
			}, fabrictype.PlannedCall{
				Function: enginerpc.FunctionName(enginerpc.DeliverSignalCall{}), Node: n.Name,
				Subject: "for each signal to " + n.Name,
			})
		}
	}
	for _, b := range g.Budgets {
		calls = append(calls, fabrictype.PlannedCall{
			Function: enginerpc.FunctionName(enginerpc.ReportUsageAndCheckCall{}), Refused: contractcheck.Budgets,
			Subject: "for what nodes use of budget " + b.Name,
		})
	}
	return calls
}
