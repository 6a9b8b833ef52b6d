package main

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// joinedFlow is a flow of two executions and a third that waits for any one of them.
type joinedFlow struct {
	id            enginecore.FlowID
	winner, loser enginecore.ExecutionID
	join          enginecore.ExecutionID
}

// groups measures the functions of edge groups, which the recorded conversations do not have.
func (c *costs) groups() error {
	flows := make([]joinedFlow, functionCalls)
	for i := range flows {
		if err := c.newJoin(&flows[i]); err != nil {
			return err
		}
	}
	name := enginerpc.FunctionName(enginerpc.SetEdgeGroupPolicyCall{})
	err := measured(c, name, func(i int) (enginerpc.SetEdgeGroupPolicyReply, error) {
		return c.core.SetEdgeGroupPolicy(c.ctx, enginerpc.SetEdgeGroupPolicyCall{
			FlowID: flows[i].id, DownstreamExecutionID: flows[i].join, PolicyVariant: "any_of",
			OnSatisfied: "cancel_remaining",
		})
	})
	if err != nil {
		return err
	}
	for _, f := range flows {
		if err := c.fire(f); err != nil {
			return err
		}
	}
	name = enginerpc.FunctionName(enginerpc.ReconcileSiblingCancelGroupCall{})
	err = measured(c, name, func(i int) (enginerpc.ReconcileSiblingCancelGroupReply, error) {
		return c.core.ReconcileSiblingCancelGroup(c.ctx, enginerpc.ReconcileSiblingCancelGroupCall{
			FlowID: flows[i].id, DownstreamExecutionID: flows[i].join,
		})
	})
	if err != nil {
		return err
	}
	for _, f := range flows {
		_, err := c.core.CancelExecution(c.ctx, enginerpc.CancelExecutionCall{
			ExecutionID: f.loser, LaneID: costLane, Reason: "bench", Source: "operator_override",
		})
		if err != nil {
			return err
		}
	}
	name = enginerpc.FunctionName(enginerpc.DrainSiblingCancelGroupCall{})
	return measured(c, name, func(i int) (enginerpc.DrainSiblingCancelGroupReply, error) {
		return c.core.DrainSiblingCancelGroup(c.ctx, enginerpc.DrainSiblingCancelGroupCall{
			FlowID: flows[i].id, DownstreamExecutionID: flows[i].join,
		})
	})
}

// newJoin creates a flow with its executions and edges, none of which is applied yet.
func (c *costs) newJoin(f *joinedFlow) error {
	p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 2}
	f.id = enginecore.FlowID(uuid.NewString())
	if _, err := c.core.CreateFlow(c.ctx,
		enginerpc.CreateFlowCall{Partition: p, FlowID: f.id, FlowKind: "cost", Namespace: "bench"}); err != nil {
		return err
	}
	revision := int64(0)
	for name, id := range map[string]*enginecore.ExecutionID{"winner": &f.winner, "loser": &f.loser, "join": &f.join} {
		*id = keyspace.ExecutionIDFor(p, f.id, name)
		_, err := c.core.CreateExecution(c.ctx, enginerpc.CreateExecutionCall{
			ExecutionID: *id, Namespace: "bench", LaneID: costLane, ExecutionKind: "noop", CreatorIdentity: "bench",
			PartitionID: "2",
		})
		if err != nil {
			return err
		}
		if _, err := c.core.AddExecutionToFlow(c.ctx,
			enginerpc.AddExecutionToFlowCall{FlowID: f.id, ExecutionID: *id}); err != nil {
			return err
		}
		revision++
	}
	for _, upstream := range []enginecore.ExecutionID{f.winner, f.loser} {
		_, err := c.core.StageDependencyEdge(c.ctx, enginerpc.StageDependencyEdgeCall{
			FlowID: f.id, EdgeID: f.edge(upstream), UpstreamExecutionID: upstream, DownstreamExecutionID: f.join,
			ExpectedGraphRevision: revision,
		})
		if err != nil {
			return err
		}
		revision++
	}
	return nil
}

func (f joinedFlow) edge(upstream enginecore.ExecutionID) enginecore.EdgeID {
	return keyspace.EdgeIDFor(f.id, string(upstream), "join")
}

// fire applies both edges and lets one succeed, so that the group owes the cancelling of the other upstream.
func (c *costs) fire(f joinedFlow) error {
	for _, upstream := range []enginecore.ExecutionID{f.winner, f.loser} {
		_, err := c.core.ApplyDependencyToChild(c.ctx, enginerpc.ApplyDependencyToChildCall{
			FlowID: f.id, EdgeID: f.edge(upstream), UpstreamExecutionID: upstream, DownstreamExecutionID: f.join,
			GroupExecutionID: f.join,
			LaneID:           costLane,
		})
		if err != nil {
			return err
		}
	}
	reply, err := c.core.ResolveDependency(c.ctx, enginerpc.ResolveDependencyCall{
		FlowID: f.id, EdgeID: f.edge(f.winner), UpstreamExecutionID: f.winner, DownstreamExecutionID: f.join,
		GroupExecutionID: f.join,
		LaneID:           costLane, UpstreamOutcome: "success",
	})
	if err == nil && reply.State != "satisfied" {
		return fmt.Errorf("the join was not decided: %+v", reply)
	}
	return err
}
