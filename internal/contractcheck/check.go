package contractcheck

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Refused returns the error of a construct that contract mode refuses. It wraps enginecore.ErrContractOnly.
func Refused(construct string) error {
	return fmt.Errorf("contract mode refuses %s: %w", construct, enginecore.ErrContractOnly)
}

// RefusedNode returns the error of a node's construct that contract mode refuses. It wraps enginecore.ErrContractOnly.
func RefusedNode(flow, node, construct string) error {
	return fmt.Errorf("flow %s, node %s: %w", flow, node, Refused(construct))
}

// Check returns the error of the first construct of a flow that every library of the contract refuses, nil if there is
// none. The error wraps enginecore.ErrContractOnly and names the node and the construct.
func Check(g *flowgraph.Graph) error {
	for i := range g.Nodes {
		if construct := refusedConstruct(&g.Nodes[i]); construct != "" {
			return RefusedNode(g.Name, g.Nodes[i].Name, construct)
		}
	}
	members, nodeMembers, err := unknownMembers(g)
	if err != nil {
		return err
	}
	if len(members) > 0 {
		return fmt.Errorf("flow %s: %w", g.Name, Refused(constructOf(members[0])))
	}
	for i, list := range nodeMembers {
		if len(list) > 0 {
			return RefusedNode(g.Name, g.Nodes[i].Name, constructOf(list[0]))
		}
	}
	return nil
}

// Extension returns the first construct of a flow that needs the edge-group functions, and its node; "" if there is
// none. A library that serves one such construct serves all of them.
func Extension(g *flowgraph.Graph) (node, construct string) {
	for i := range g.Nodes {
		if construct := extensionOf(&g.Nodes[i]); construct != "" {
			return g.Nodes[i].Name, construct
		}
	}
	return "", ""
}

// HasTexts reports whether a wait has texts or schemas, which waitpoints of the contract cannot store. The type of the
// payload does not count.
func HasTexts(text activityspec.WaitText) bool {
	text.Payload, text.PayloadSchema = nil, nil
	return !text.IsZero()
}

// refusedConstruct returns the construct of a node without a counterpart in the contract, "" if there is none. It does
// not cover the constructs that have their own members in the stored form.
func refusedConstruct(n *flowgraph.Node) string {
	switch {
	case n.Loop != nil:
		return Loops
	case n.Expand != nil:
		return Plans
	case n.Map != nil:
		return Maps
	case n.Sub != nil:
		return SubFlows
	case n.IsTimer():
		return Timers
	case n.Wait != nil && HasTexts(n.Wait.WaitText):
		return Texts
	case n.Finally != nil:
		return Finally
	case n.Join.Policy == flowgraph.JoinAnyFailure:
		return AnyFailure
	case n.Input.HasOrElse():
		return OrElse
	case n.ScheduleToStart > 0:
		return StartTimeouts
	}
	return ""
}

// Refusal is a construct of a flow or of a node that contract mode refuses.
type Refusal struct {
	// Node is empty for a construct of the flow.
	Node, Construct string
	// Extended reports whether only servers whose library lacks the edge-group functions refuse it.
	Extended bool
}

// Refusals returns the constructs of a flow that contract mode refuses, in the order of its nodes.
func Refusals(g *flowgraph.Graph) ([]Refusal, error) {
	members, nodeMembers, err := unknownMembers(g)
	if err != nil {
		return nil, err
	}
	var list []Refusal
	for _, member := range members {
		list = append(list, Refusal{Construct: constructOf(member)})
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		first := refusedConstruct(n)
		if first != "" {
			list = append(list, Refusal{Node: n.Name, Construct: first})
		}
		for _, member := range nodeMembers[i] {
			// Members of a construct that is refused as a whole have no names.
			if construct := named(member); construct != "" || first == "" {
				list = append(list, Refusal{Node: n.Name, Construct: cmp.Or(construct, member)})
			}
		}
		if construct := extensionOf(n); construct != "" && first == "" {
			list = append(list, Refusal{Node: n.Name, Construct: construct, Extended: true})
		}
	}
	return slices.Compact(list), nil
}

// extensionOf returns the construct of a node that needs the edge-group functions, "" if there is none.
func extensionOf(n *flowgraph.Node) string {
	switch {
	case n.Join.Policy != flowgraph.JoinAll:
		return Joins
	case slices.ContainsFunc(n.Upstreams, func(up flowgraph.Edge) bool { return up.Kind != flowgraph.SuccessOnly }):
		return EdgeKinds
	case n.Wait != nil && n.Wait.Distinct:
		return Distinct
	case n.Wait != nil && len(n.Wait.Decisive) > 0:
		return Decisive
	}
	return ""
}
