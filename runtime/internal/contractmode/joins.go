package contractmode

import (
	"context"
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
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

var siblingFields = []string{"cancel_siblings_reason", "cancel_siblings_pending_members"}

// cancelSiblings ends the upstreams that joins do not need any more.
func (t *contractTick) cancelSiblings(ctx context.Context) error {
	c, p := t.contract, t.call.Partition
	results, err := c.read(ctx,
		c.client.B().Srandmember().Key(c.keys.IndexPendingCancelGroups(p)).Count(t.call.Limit).Build())
	if err != nil {
		return err
	}
	for _, text := range idsOf[string](results[0]) {
		flow, down, _ := strings.Cut(text, "|")
		id, group := enginecore.FlowID(flow), enginecore.ExecutionID(down)
		if _, err := group.Partition(); err != nil {
			continue
		}
		results, err := c.read(ctx, c.hmget(c.keys.FlowEdgegroup(id, group), siblingFields))
		if err != nil {
			return err
		}
		record := hashrecord.Read(results[0], siblingFields)
		if err := t.cancelGroup(ctx, id, record); err != nil {
			return err
		}
		if _, err := callAgain[enginerpc.DrainSiblingCancelGroupReply](ctx, c, enginerpc.DrainSiblingCancelGroupCall{
			FlowID: id, DownstreamExecutionID: group,
		}); err != nil {
			return err
		}
	}
	return nil
}

// cancelGroup ends the upstreams of one join.
func (t *contractTick) cancelGroup(ctx context.Context, flow enginecore.FlowID, group hashrecord.Record) error {
	c, p := t.contract, t.call.Partition
	var ids []enginecore.ExecutionID
	for text := range strings.SplitSeq(group["cancel_siblings_pending_members"], "|") {
		if id := enginecore.ExecutionID(text); text != "" {
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
		if !cores[i].Exists() || cores[i].IsTerminal() {
			continue
		}
		call := cancelCall(id, cores[i], group["cancel_siblings_reason"])
		call.Source = "operator_override"
		if _, err := callAgain[enginerpc.CancelExecutionReply](ctx, c, call); err != nil {
			if isOneOf(err, []error{enginecore.ErrExecutionNotActive, enginecore.ErrExecutionNotFound}) {
				continue
			}
			return err
		}
		t.count++
		ended = append(ended, contractEnd{id: id, flow: flow, outcome: "cancelled"})
		if worker := cores[i]["current_worker_instance_id"]; worker != "" {
			c.tellCancel(ctx, enginecore.WorkerInstanceID(worker), id, cores[i]["current_lease_id"], call.Reason)
		}
	}
	_, err = c.propagate(ctx, p, "", ended...)
	return err
}
