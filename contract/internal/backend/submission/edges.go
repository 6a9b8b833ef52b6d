package submission

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// maxStageRounds bounds the rounds of staging while other programs change the flow.
const maxStageRounds = 20

// stageEdges adds the edges to the flow's graph. Each call names the graph revision that it builds on, and the calls
// of one round trip the consecutive ones; if another program has changed the flow in between, the rest is staged
// again.
func (s *submission) stageEdges(ctx context.Context) error {
	c, call := s.submitter, s.call
	missing := call.Edges
	for round := 0; len(missing) > 0; round++ {
		if round == maxStageRounds {
			return fmt.Errorf("stage edges of flow %s: %w: others change it all the time", call.FlowID,
				enginecore.ErrUnavailable)
		}
		var revision int64
		var err error
		if missing, revision, err = s.unstaged(ctx, missing, round > 0); err != nil {
			return err
		}
		staged := make([]enginerpc.StageDependencyEdgeCall, len(missing))
		for i, e := range missing {
			staged[i] = enginerpc.StageDependencyEdgeCall{
				FlowID: call.FlowID, EdgeID: e.EdgeID, UpstreamExecutionID: e.UpstreamExecutionID,
				DownstreamExecutionID: e.DownstreamExecutionID, DependencyKind: e.DependencyKind,
				ExpectedGraphRevision: revision + int64(i), Now: c.Now(),
			}
		}
		answers := link.Send[enginerpc.StageDependencyEdgeReply](ctx, c.Link, staged)
		if err := link.FirstError(answers, enginecore.ErrDependencyAlreadyExists, enginecore.ErrStaleGraphRevision,
			enginecore.ErrUnavailable, enginecore.ErrOutcomeUnknown); err != nil {
			return err
		}
		left := missing[:0:0]
		for i, a := range answers {
			if a.Err != nil && !errors.Is(a.Err, enginecore.ErrDependencyAlreadyExists) {
				left = append(left, missing[i])
			}
		}
		missing = left
		if len(missing) > 0 {
			sleep.For(ctx, link.Pause)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// unstaged reads the flow's graph revision, and returns the edges that are not staged yet. It need not read the edges
// of a flow that has none.
func (s *submission) unstaged(
	ctx context.Context, edges []engine.SubmissionEdge, again bool,
) ([]engine.SubmissionEdge, int64, error) {
	c, call := s.submitter, s.call
	fields := []string{"graph_revision", "edge_count"}
	results, err := c.Read(ctx, c.Hmget(c.Keys.FlowCore(call.Partition, call.FlowID), fields))
	if err != nil {
		return nil, 0, err
	}
	core := hashrecord.Read(results[0], fields)
	if core.Int("edge_count") == 0 && !again {
		return edges, core.Int("graph_revision"), nil
	}
	commands := make(rueidis.Commands, len(edges))
	for i, e := range edges {
		commands[i] = c.Client.B().Exists().Key(c.Keys.FlowEdge(call.Partition, call.FlowID, e.EdgeID)).Build()
	}
	if results, err = c.Read(ctx, commands...); err != nil {
		return nil, 0, err
	}
	missing := edges[:0:0]
	for i, e := range edges {
		if n, err := results[i].AsInt64(); err != nil || n == 0 {
			missing = append(missing, e)
		}
	}
	return missing, core.Int("graph_revision"), nil
}

// applyEdges applies the staged edges to their downstreams.
func (s *submission) applyEdges(ctx context.Context) error {
	c, call := s.submitter, s.call
	if len(call.Edges) == 0 {
		return nil
	}
	downs := make([]enginecore.ExecutionID, len(call.Edges))
	for i, e := range call.Edges {
		downs[i] = e.DownstreamExecutionID
	}
	cores, err := c.ReadCores(ctx, downs, []string{"lane_id"})
	if err != nil {
		return err
	}
	joins, err := s.joinsOf(ctx, downs)
	if err != nil {
		return err
	}
	b := c.Batch()
	applied := make([]*batching.CallResult[enginerpc.ApplyDependencyToChildReply], len(call.Edges))
	for i, e := range call.Edges {
		applied[i] = link.AddAgain[enginerpc.ApplyDependencyToChildReply](b, enginerpc.ApplyDependencyToChildCall{
			DownstreamExecutionID: e.DownstreamExecutionID, LaneID: cores[i].Lane(), FlowID: call.FlowID,
			EdgeID:              e.EdgeID,
			UpstreamExecutionID: e.UpstreamExecutionID, DependencyKind: e.DependencyKind, Now: c.Now(),
			GroupExecutionID: joins[i],
		})
	}
	if err := b.Run(ctx); err != nil {
		return err
	}
	for i, a := range applied {
		if a.Err != nil {
			return fmt.Errorf("edge to %s: %w", call.Edges[i].DownstreamExecutionID, a.Err)
		}
	}
	return nil
}

// joinsOf returns the executions that have an edge group, at their indexes in the list; the other entries are empty.
func (s *submission) joinsOf(
	ctx context.Context, downs []enginecore.ExecutionID,
) ([]enginecore.ExecutionID, error) {
	c := s.submitter
	commands := make(rueidis.Commands, len(downs))
	for i, down := range downs {
		commands[i] = c.Client.B().Exists().Key(c.Keys.FlowEdgegroup(s.call.FlowID, down)).Build()
	}
	results, err := c.Read(ctx, commands...)
	if err != nil {
		return nil, err
	}
	joins := make([]enginecore.ExecutionID, len(downs))
	for i, down := range downs {
		if n, err := results[i].AsInt64(); err == nil && n == 1 {
			joins[i] = down
		}
	}
	return joins, nil
}

// allOf is the policy of the edges to a node that waits for all of them, but does not take each success for one.
const allOf = "all_of let_run 0"

// setJoins sets the policies of nodes that do not wait for the success of all of their upstreams. An edge that was
// applied by an earlier try fixes the policy, which is then the same.
func (s *submission) setJoins(ctx context.Context) error {
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
			FlowID: s.call.FlowID, DownstreamExecutionID: n.ExecutionID, Now: s.submitter.Now(),
			ExpectedEdges: n.UpstreamCount,
		}
		if _, err := fmt.Sscan(n.Join, &call.PolicyVariant, &call.OnSatisfied, &call.K); err != nil {
			return fmt.Errorf("join of node %s: %w", n.Name, err)
		}
		if _, err := link.CallAgain[enginerpc.SetEdgeGroupPolicyReply](ctx, s.submitter.Link, call); err != nil {
			return fmt.Errorf("join of node %s: %w", n.Name, err)
		}
	}
	return nil
}
