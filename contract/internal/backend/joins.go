package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
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

// Dispositions of an upstream that a join does not need: it was cancelled, it had ended, or it does not exist.
const (
	siblingCancelled = "cancelled"
	siblingEnded     = "already_terminal"
	siblingMissing   = "not_found"
)

var siblingFields = []string{"cancel_siblings_reason", "cancel_siblings_pending_members"}

// cancelSiblings ends the upstreams that joins no longer need, and counts them by disposition. A group that cannot be
// processed is put off.
func (t *contractTick) cancelSiblings(ctx context.Context) error {
	c, p := t.contract, t.call.Partition
	if t.isIdle() && t.absent[c.keys.IndexPendingCancelGroups(p)] {
		return nil
	}
	results, err := c.read(ctx,
		c.client.B().Srandmember().Key(c.keys.IndexPendingCancelGroups(p)).Count(t.call.Limit).Build())
	if err != nil {
		return err
	}
	t.siblings, t.dispatched = make(map[string]int64), make(map[string]int64)
	for _, text := range t.without(idsOf[string](results[0])) {
		if err := t.failed(text, t.workOffGroup(ctx, text)); err != nil {
			return err
		}
	}
	for _, disposition := range slices.Sorted(maps.Keys(t.siblings)) {
		t.reply.Siblings = append(t.reply.Siblings,
			enginerpc.SiblingCount{Disposition: disposition, Count: t.siblings[disposition]})
	}
	for _, reason := range slices.Sorted(maps.Keys(t.dispatched)) {
		t.reply.Dispatched = append(t.reply.Dispatched,
			enginerpc.SiblingDispatch{Reason: reason, Count: t.dispatched[reason]})
	}
	return nil
}

// workOffGroup ends the upstreams of one join, and takes it from the list.
func (t *contractTick) workOffGroup(ctx context.Context, text string) error {
	c, p := t.contract, t.call.Partition
	flow, down, _ := strings.Cut(text, "|")
	id, group := enginecore.FlowID(flow), enginecore.ExecutionID(down)
	if !t.isHere(down) {
		return errMisplaced
	}
	if concerned, err := t.concernsJoin(ctx, group); err != nil || !concerned {
		return err
	}
	results, err := c.read(ctx, c.hmget(c.keys.FlowEdgegroup(id, group), siblingFields),
		c.client.B().Hget().Key(c.keys.FlowTags(p, id)).Field(contractnode.TagResult).Build())
	if err != nil {
		return err
	}
	record := hashrecord.Read(results[0], siblingFields)
	result, _ := results[1].ToString() // "" for a flow of another program
	if err := t.cancelGroup(ctx, id, record, enginecore.ExecutionID(result)); err != nil {
		return err
	}
	_, err = callAgain[enginerpc.DrainSiblingCancelGroupReply](ctx, c, enginerpc.DrainSiblingCancelGroupCall{
		FlowID: id, DownstreamExecutionID: group,
	})
	return err
}

// concernsJoin reports whether the filter of the call lets a join pass. It concerns only flows of other programs: for
// runs of this project, no other program cancels siblings.
func (t *contractTick) concernsJoin(ctx context.Context, join enginecore.ExecutionID) (bool, error) {
	c, call := t.contract, t.call
	if call.SiblingNamespace == "" && call.SiblingTag == "" {
		return true, nil
	}
	results, err := c.read(ctx, c.client.B().Hget().Key(c.keys.ExecCore(join)).Field("namespace").Build(),
		c.client.B().Hmget().Key(c.keys.ExecTags(join)).Field(contractnode.TagNode, call.SiblingTag).Build())
	if err != nil {
		return false, err
	}
	namespace, _ := results[0].ToString() // "" where there is none
	tags := hashrecord.Read(results[1], []string{contractnode.TagNode, call.SiblingTag})
	if tags[contractnode.TagNode] != "" {
		return true, nil
	}
	return (call.SiblingNamespace == "" || namespace == call.SiblingNamespace) &&
		(call.SiblingTag == "" || tags[call.SiblingTag] == call.SiblingTagValue), nil
}

// cancelGroup ends the upstreams of one join, except the node whose result is the run's. The error joins one error for
// each upstream that could not be ended.
func (t *contractTick) cancelGroup(
	ctx context.Context, flow enginecore.FlowID, group hashrecord.Record, result enginecore.ExecutionID,
) error {
	c, p := t.contract, t.call.Partition
	var ids []enginecore.ExecutionID
	for text := range strings.SplitSeq(group["cancel_siblings_pending_members"], "|") {
		if id := enginecore.ExecutionID(text); id != result && t.isHere(text) {
			ids = append(ids, id)
		}
	}
	ids, cores, faults := c.readable(ctx, ids, cancelFields)
	var ended []contractEnd
	for i, id := range ids {
		reason := group["cancel_siblings_reason"]
		if cores[i].Exists() && !cores[i].IsTerminal() {
			t.dispatched[reason]++ // before the call, as other dispatchers count
		}
		disposition, err := c.cancelSibling(ctx, id, cores[i], reason)
		if err != nil {
			faults = errors.Join(faults, &engine.ItemError{Item: string(id), Err: err})
			continue
		}
		t.siblings[disposition]++
		if disposition == siblingCancelled {
			t.count++
			ended = append(ended, contractEnd{id: id, flow: flow, outcome: "cancelled"})
		}
	}
	_, err := c.propagate(ctx, p, "", ended...)
	return errors.Join(faults, err)
}

// cancelSibling ends one upstream, and returns its disposition.
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
	call.Source = "operator_override" // like the dispatchers of other programs; the composite library sends edge_group
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
