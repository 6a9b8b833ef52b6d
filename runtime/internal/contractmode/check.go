package contractmode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
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
		switch {
		case n.Loop != nil:
			return refuse(n.Name, featureLoops)
		case n.Expand != nil:
			return refuse(n.Name, featureExpand)
		case n.Map != nil:
			return refuse(n.Name, featureMaps)
		case n.Sub != nil:
			return refuse(n.Name, featureSubFlows)
		case n.IsTimer():
			return refuse(n.Name, featureTimers)
		case n.Wait != nil && isTold(n.Wait.WaitText):
			return refuse(n.Name, featureText)
		case n.Finally != nil:
			return refuse(n.Name, featureFinally)
		case n.Join.Policy == flowgraph.JoinAnyFailure:
			return refuse(n.Name, featureAnyFail)
		case n.ScheduleToStart > 0:
			return refuse(n.Name, featureStart)
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
	definition, err := g.MarshalJSON()
	if err != nil {
		return err
	}
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(definition, &stored); err != nil {
		return err
	}
	var nodes []map[string]json.RawMessage
	if err := json.Unmarshal(stored["nodes"], &nodes); err != nil {
		return err
	}
	for member := range stored {
		if !slices.Contains(servedOfFlow, member) {
			return fmt.Errorf("%w: flow %s: %s", engine.ErrNotInContract, g.Name, featureOf(member))
		}
	}
	for i, n := range nodes {
		for member := range n {
			if !slices.Contains(servedOfNode, member) {
				return fmt.Errorf("%w: flow %s, node %s: %s", engine.ErrNotInContract, g.Name, g.Nodes[i].Name,
					featureOf(member))
			}
		}
	}
	return nil
}

// featureOf returns the name of the feature that a member of a definition stands for; of one without a name of its own,
// the member.
func featureOf(member string) string { return cmp.Or(memberFeatures[member], member) }
