package contractmode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// allOf is the policy of the edges to a node that waits for all of them, but does not take each success for one.
const allOf = "all_of let_run 0"

// setJoins sets the policies of nodes that do not wait for the success of all of their upstreams. An edge that was
// applied by an earlier try fixes the policy, which is then the same.
func (s *contractSubmission) setJoins(ctx context.Context) error {
	kinds := make(map[enginecore.ExecutionID]bool)
	for _, e := range s.call.Edges {
		if e.DependencyKind != string(flowgraph.SuccessOnly) {
			kinds[e.DownstreamExecutionID] = true
		}
	}
	for _, n := range s.call.Nodes {
		if n.Join == "" && kinds[n.ExecutionID] {
			n.Join = allOf
		}
		if n.Join == "" {
			continue
		}
		call := enginerpc.SetEdgeGroupPolicyCall{
			FlowID: s.call.FlowID, DownstreamExecutionID: n.ExecutionID, Now: s.contract.now(),
			ExpectedEdges: n.UpstreamCount,
		}
		if _, err := fmt.Sscan(n.Join, &call.PolicyVariant, &call.OnSatisfied, &call.K); err != nil {
			return fmt.Errorf("join of node %s: %w", n.Name, err)
		}
		if _, err := callAgain[enginerpc.SetEdgeGroupPolicyReply](ctx, s.contract, call); err != nil {
			return fmt.Errorf("join of node %s: %w", n.Name, err)
		}
	}
	return nil
}

// siblingReason begins the reasons of cancels of upstreams that a join does not need.
const siblingReason = "sibling_quorum"

// What becomes of an upstream that a join does not need: it is cancelled, or it had ended, or it is gone.
const (
	siblingCancelled = "cancelled"
	siblingEnded     = "already_terminal"
	siblingMissing   = "not_found"
)

var siblingFields = []string{"cancel_siblings_reason", "cancel_siblings_pending_members"}

// cancelSiblings ends the upstreams that joins do not need any more, and counts them by what becomes of them.
func (t *contractTick) cancelSiblings(ctx context.Context) error {
	c, p := t.contract, t.call.Partition
	results, err := c.read(ctx,
		c.client.B().Srandmember().Key(c.keys.IndexPendingCancelGroups(p)).Count(t.call.Limit).Build())
	if err != nil {
		return err
	}
	t.siblings = make(map[string]int64)
	for _, text := range idsOf[string](results[0]) {
		flow, down, _ := strings.Cut(text, "|")
		id, group := enginecore.FlowID(flow), enginecore.ExecutionID(down)
		if _, err := group.Partition(); err != nil {
			continue
		}
		if concerned, err := t.concernsJoin(ctx, group); err != nil {
			return err
		} else if !concerned {
			continue
		}
		results, err := c.read(ctx, c.hmget(c.keys.FlowEdgegroup(id, group), siblingFields),
			c.client.B().Hget().Key(c.keys.FlowTags(p, id)).Field(tagResult).Build())
		if err != nil {
			return err
		}
		record := hashrecord.Read(results[0], siblingFields)
		result, _ := results[1].ToString() // "" for a flow of another program
		if err := t.cancelGroup(ctx, id, record, enginecore.ExecutionID(result)); err != nil {
			return err
		}
		if _, err := callAgain[enginerpc.DrainSiblingCancelGroupReply](ctx, c, enginerpc.DrainSiblingCancelGroupCall{
			FlowID: id, DownstreamExecutionID: group,
		}); err != nil {
			return err
		}
	}
	for _, disposition := range slices.Sorted(maps.Keys(t.siblings)) {
		t.reply.Siblings = append(t.reply.Siblings,
			enginerpc.SiblingCount{Disposition: disposition, Count: t.siblings[disposition]})
	}
	return nil
}

// concernsJoin reports whether the filter of the call lets a join pass. It concerns flows of other programs only:
// nobody else cancels for our runs.
func (t *contractTick) concernsJoin(ctx context.Context, join enginecore.ExecutionID) (bool, error) {
	c, call := t.contract, t.call
	if call.SiblingNamespace == "" && call.SiblingTag == "" {
		return true, nil
	}
	results, err := c.read(ctx, c.client.B().Hget().Key(c.keys.ExecCore(join)).Field("namespace").Build(),
		c.client.B().Hmget().Key(c.keys.ExecTags(join)).Field(tagNode, call.SiblingTag).Build())
	if err != nil {
		return false, err
	}
	namespace, _ := results[0].ToString() // "" where there is none
	tags := hashrecord.Read(results[1], []string{tagNode, call.SiblingTag})
	if tags[tagNode] != "" {
		return true, nil
	}
	return (call.SiblingNamespace == "" || namespace == call.SiblingNamespace) &&
		(call.SiblingTag == "" || tags[call.SiblingTag] == call.SiblingTagValue), nil
}

// cancelGroup ends the upstreams of one join, but not the node whose result is that of the run.
func (t *contractTick) cancelGroup(
	ctx context.Context, flow enginecore.FlowID, group hashrecord.Record, result enginecore.ExecutionID,
) error {
	c, p := t.contract, t.call.Partition
	var ids []enginecore.ExecutionID
	for text := range strings.SplitSeq(group["cancel_siblings_pending_members"], "|") {
		if id := enginecore.ExecutionID(text); text != "" && id != result {
			if _, err := id.Partition(); err == nil {
				ids = append(ids, id)
			}
		}
	}
	cores, err := c.readCores(ctx, ids, cancelFields)
	if err != nil {
		return err
	}
	var ended []contractEnd
	for i, id := range ids {
		disposition, err := c.cancelSibling(ctx, id, cores[i], group["cancel_siblings_reason"])
		if err != nil {
			return err
		}
		t.siblings[disposition]++
		if disposition == siblingCancelled {
			t.count++
			ended = append(ended, contractEnd{id: id, flow: flow, outcome: "cancelled"})
		}
	}
	_, err = c.propagate(ctx, p, "", ended...)
	return err
}

// cancelSibling ends one upstream, and returns what has become of it.
func (c *contract) cancelSibling(
	ctx context.Context, id enginecore.ExecutionID, core engine.Record, reason string,
) (disposition string, err error) {
	switch {
	case !core.Exists():
		return siblingMissing, nil
	case core.IsTerminal():
		return siblingEnded, nil
	}
	call := cancelCall(id, core, reason)
	call.Source = "operator_override"
	switch _, err := callAgain[enginerpc.CancelExecutionReply](ctx, c, call); {
	case errors.Is(err, enginecore.ErrExecutionNotActive):
		return siblingEnded, nil
	case errors.Is(err, enginecore.ErrExecutionNotFound):
		return siblingMissing, nil
	case err != nil:
		return "", err
	}
	c.tellStop(ctx, id, core, engine.StopCancelled, reason)
	return siblingCancelled, nil
}

// tolerate marks the nodes that joins did not need or whose failure joins have made up for, by the graph of the run;
// nil leaves all as they are. As in this project's library, a join that is impossible makes up for nothing.
func (r *contractRun) tolerate(g *contractGraph) {
	if g == nil || len(g.joins) == 0 {
		return
	}
	impossible := slices.ContainsFunc(r.nodes, func(n contractNode) bool {
		return g.joins[n.name] && n.core["terminal_outcome"] == "skipped"
	})
	for i := range r.nodes {
		n := &r.nodes[i]
		switch n.core["terminal_outcome"] {
		case "cancelled":
			n.unneeded = strings.HasPrefix(n.core["cancellation_reason"], siblingReason) && g.feedsJoin(n.name)
			n.tolerated = !n.unneeded && !impossible && g.leadsToJoins(n.name)
		case "failed", "expired":
			n.tolerated = !impossible && !n.exceededDeadline() && g.leadsToJoins(n.name)
		}
	}
}

// feedsJoin reports whether a join is among the downstreams of a node.
func (g *contractGraph) feedsJoin(node string) bool {
	return slices.ContainsFunc(g.downs[node], func(down string) bool { return g.joins[down] })
}

// leadsToJoins reports whether every way on from a node comes to a join.
func (g *contractGraph) leadsToJoins(node string) bool {
	queue, seen := []string{node}, map[string]bool{node: true}
	for len(queue) > 0 {
		downs := g.downs[queue[0]]
		queue = queue[1:]
		if len(downs) == 0 {
			return false
		}
		for _, down := range downs {
			if !seen[down] && !g.joins[down] {
				queue = append(queue, down)
			}
			seen[down] = true
		}
	}
	return true
}

// exceededDeadline reports whether the node ended with the deadline of its run.
func (n *contractNode) exceededDeadline() bool {
	return n.core["terminal_outcome"] == "expired" && n.core["failure_reason"] == "execution_deadline"
}
