package contractmode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// checkServable refuses a flow that uses a feature without a counterpart in the contract. The tags are those of the
// flow and the run. The error wraps engine.ErrNotInContract and names node and feature.
func (c *contract) checkServable(ctx context.Context, g *flowgraph.Graph, tags []enginerpc.SubmitTag) error {
	refuse := func(node, feature string) error {
		return fmt.Errorf("%w: flow %s, node %s: %s", engine.ErrNotInContract, g.Name, node, feature)
	}
	for _, tag := range tags {
		if strings.HasPrefix(tag.Name, contractTags) {
			return fmt.Errorf("%w: flow %s: tag %q: tags that begin with %s are its own", engine.ErrNotInContract,
				g.Name, tag.Name, contractTags)
		}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if feature := refusedFeature(n); feature != "" {
			return refuse(n.Name, feature)
		}
		for key := range n.Tags {
			if strings.HasPrefix(key, contractTags) {
				return refuse(n.Name, fmt.Sprintf("tag %q: tags that begin with %s are its own", key, contractTags))
			}
		}
	}
	if err := checkKnownMembers(g); err != nil {
		return err
	}
	for i := range g.Nodes {
		if feature := extensionOf(&g.Nodes[i]); feature != "" {
			if err := c.requireExtended(ctx, feature); errors.Is(err, engine.ErrNotInContract) {
				return refuse(g.Nodes[i].Name, feature)
			} else {
				return err // if it has one extension, it has all of them
			}
		}
	}
	return nil
}

// refusedFeature returns the feature of a node without a counterpart in the contract; empty if there is none among
// those that are not members of stored forms of their own.
func refusedFeature(n *flowgraph.Node) string {
	switch {
	case n.Loop != nil:
		return featureLoops
	case n.Expand != nil:
		return featureExpand
	case n.Map != nil:
		return featureMaps
	case n.Sub != nil:
		return featureSubFlows
	case n.IsTimer():
		return featureTimers
	case n.Wait != nil && isTold(n.Wait.WaitText):
		return featureText
	case n.Finally != nil:
		return featureFinally
	case n.Join.Policy == flowgraph.JoinAnyFailure:
		return featureAnyFail
	case n.ScheduleToStart > 0:
		return featureStart
	}
	return ""
}

// Refusal is a feature of a flow or of a node that contract mode refuses.
type Refusal struct {
	// Node is empty for a feature of the flow.
	Node, Feature string
	// Extended says that it is refused only by servers whose library has no edge-group functions.
	Extended bool
}

// Refusals returns the features of a flow that contract mode refuses, in the order of its nodes.
func Refusals(g *flowgraph.Graph) ([]Refusal, error) {
	members, nodeMembers, err := unknownMembers(g)
	if err != nil {
		return nil, err
	}
	var list []Refusal
	for _, member := range members {
		list = append(list, Refusal{Feature: featureOf(member)})
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		first := refusedFeature(n)
		if first != "" {
			list = append(list, Refusal{Node: n.Name, Feature: first})
		}
		for _, member := range nodeMembers[i] {
			// Members of a construct that is refused as a whole have no name of their own.
			if feature, named := memberFeatures[member]; named || first == "" {
				list = append(list, Refusal{Node: n.Name, Feature: cmp.Or(feature, member)})
			}
		}
		if feature := extensionOf(n); feature != "" && first == "" {
			list = append(list, Refusal{Node: n.Name, Feature: feature, Extended: true})
		}
	}
	return slices.Compact(list), nil
}

// extensionOf returns the feature of a node that needs the edge-group functions; empty if there is none.
func extensionOf(n *flowgraph.Node) string {
	switch {
	case n.Join.Policy != flowgraph.JoinAll:
		return featureJoins
	case slices.ContainsFunc(n.Upstreams, func(up flowgraph.Edge) bool { return up.Kind != flowgraph.SuccessOnly }):
		return featureKinds
	case n.Wait != nil && n.Wait.Distinct:
		return featureDistinct
	case n.Wait != nil && len(n.Wait.Decisive) > 0:
		return featureDecisive
	}
	return ""
}

// Members of the stored form of a flow and of a node that contract mode supports. A definition with any other member
// is refused, so that a new feature is never silently ignored.
var (
	servedOfFlow = []string{
		"version", "name", "description", "input_type", "output_type", "codec", "deadline_ms", "tags", "return",
		"nodes",
	}
	servedOfNode = []string{
		"name", "activity", "codec", "lane", "priority", "capabilities", "start_to_close_ms", "heartbeat_timeout_ms",
		"keep_frames", "retry", "retry_rules", "tags", "input", "after", "on_failure", "always", "wait", "join",
	}
)

// checkKnownMembers refuses a definition with members that contract mode does not support.
func checkKnownMembers(g *flowgraph.Graph) error {
	members, nodeMembers, err := unknownMembers(g)
	if err != nil {
		return err
	}
	if len(members) > 0 {
		return fmt.Errorf("%w: flow %s: %s", engine.ErrNotInContract, g.Name, featureOf(members[0]))
	}
	for i, list := range nodeMembers {
		if len(list) > 0 {
			return fmt.Errorf("%w: flow %s, node %s: %s", engine.ErrNotInContract, g.Name, g.Nodes[i].Name,
				featureOf(list[0]))
		}
	}
	return nil
}

// unknownMembers returns the members of the stored form of a flow, and of those of its nodes, that contract mode does
// not support, each sorted.
func unknownMembers(g *flowgraph.Graph) (ofFlow []string, ofNodes [][]string, err error) {
	definition, err := g.MarshalJSON()
	if err != nil {
		return nil, nil, err
	}
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(definition, &stored); err != nil {
		return nil, nil, err
	}
	var nodes []map[string]json.RawMessage
	if err := json.Unmarshal(stored["nodes"], &nodes); err != nil {
		return nil, nil, err
	}
	ofNodes = make([][]string, len(nodes))
	for i, n := range nodes {
		ofNodes[i] = membersBeside(n, servedOfNode)
	}
	return membersBeside(stored, servedOfFlow), ofNodes, nil
}

// membersBeside returns the members that are not in a list, sorted.
func membersBeside(stored map[string]json.RawMessage, served []string) []string {
	var list []string
	for _, member := range slices.Sorted(maps.Keys(stored)) {
		if !slices.Contains(served, member) {
			list = append(list, member)
		}
	}
	return list
}

// featureOf returns the name of the feature that a member of a definition stands for; of one without a name of its own,
// the member.
func featureOf(member string) string { return cmp.Or(memberFeatures[member], member) }
