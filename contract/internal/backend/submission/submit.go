package submission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/execution"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractcheck"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Submitter submits flows. It is safe for concurrent use.
type Submitter struct{ *execution.Steps }

func New(s *execution.Steps) *Submitter { return &Submitter{s} }

// dedupTTL is how long concurrent submissions of one run id are deduplicated by the contract's own means.
const dedupTTL = 24 * time.Hour

// SubmitFlow creates a flow, or a part of it, call by call. A repeat converges, because every id follows from the
// run. The error wraps errorcode.FlowIDConflict if the run exists with another graph or input, and
// engine.ErrNotInContract if the flow uses an unsupported feature.
func (c *Submitter) SubmitFlow(ctx context.Context, call engine.FlowSubmission) (existed bool, err error) {
	s := &submission{submitter: c, call: call}
	if len(call.Definition) > 0 {
		if existed, err = s.begin(ctx); existed || err != nil {
			return existed, err
		}
	}
	for _, step := range []func(context.Context) error{s.createNodes, s.setJoins, s.stageEdges, s.applyEdges} {
		if err := step(ctx); err != nil {
			return false, err
		}
	}
	if call.Last {
		return false, s.release(ctx)
	}
	return false, nil
}

// submission is one call of SubmitFlow under way.
type submission struct {
	submitter *Submitter
	call      engine.FlowSubmission
}

var submissionTags = []string{
	contractnode.TagGraphHash, contractnode.TagInputHash, contractnode.TagSubmitted, contractnode.TagDeadline,
}

// begin creates the flow's record, or reports that the run exists.
func (s *submission) begin(ctx context.Context) (existed bool, err error) {
	c, call := s.submitter, s.call
	graph, err := flowgraph.ParseGraph(call.Definition)
	if err != nil {
		return false, err
	}
	if err := c.checkFlow(ctx, graph, call.Tags); err != nil {
		return false, err
	}
	tags, err := c.flowTags(ctx, call.Partition, call.FlowID, submissionTags)
	if err != nil {
		return false, err
	}
	if tags[contractnode.TagGraphHash] != "" {
		if err := s.checkSame(tags); err != nil || tags[contractnode.TagSubmitted] != "" {
			return true, err
		}
	}
	_, err = link.CallAgain[enginerpc.CreateFlowReply](ctx, c.Link, enginerpc.CreateFlowCall{
		Partition: call.Partition, FlowID: call.FlowID, FlowKind: call.FlowName, Namespace: call.Namespace,
		Now: c.Now(),
	})
	if err != nil {
		return false, err
	}
	if tags[contractnode.TagGraphHash] != "" {
		return false, nil
	}
	if err := s.claimRun(ctx); err != nil {
		return false, err
	}
	_, err = link.CallAgain[enginerpc.SetFlowTagsReply](ctx, c.Link, enginerpc.SetFlowTagsCall{
		Partition: call.Partition, FlowID: call.FlowID, Tags: s.flowTags(),
	})
	return false, err
}

// checkSame refuses stored hashes that differ from the hashes of the call. For a run whose submission is not complete,
// the refusal does not name the graph alone: a caller that accepts another graph must not take the run for a complete
// one.
func (s *submission) checkSame(tags engine.Record) error {
	graph := tags[contractnode.TagGraphHash] == s.call.GraphHash
	input := tags[contractnode.TagInputHash] == s.call.InputHash
	switch {
	case graph && input:
		return nil
	case tags[contractnode.TagSubmitted] == "" && !graph:
		return s.conflict("graph, of which not all nodes exist yet")
	case graph:
		return s.conflict("input")
	case input:
		return s.conflict("graph")
	}
	return s.conflict("graph and input")
}

// conflict returns the refusal that names the difference, as ffx_submit does.
func (s *submission) conflict(what string) error {
	return &enginecore.Error{
		Function: "SubmitFlow", Code: errorcode.FlowIDConflict, Details: []string{what, "", s.call.GraphHash},
	}
}

// claimRun lets only one of several different concurrent submissions of one run id continue: the one that creates the
// first node. All of them can write the tags of the flow, but only one can create the node.
func (s *submission) claimRun(ctx context.Context) error {
	if len(s.call.Nodes) == 0 {
		return nil
	}
	c, first := s.submitter, s.call.Nodes[0]
	creation := s.creation(first)
	creation.IdempotencyKey, creation.DedupTTL = "run:"+string(s.call.FlowID), dedupTTL
	reply, err := link.CallAgain[enginerpc.CreateExecutionReply](ctx, c.Link,
		enginerpc.CreateDelayedCall{CreateExecutionCall: creation})
	if err != nil || reply.Status != enginerpc.StatusDuplicate {
		return err
	}
	if reply.ExecutionID != first.ExecutionID {
		return s.conflict("first node")
	}
	fields := []string{contractnode.TagGraphHash, contractnode.TagInputHash}
	results, err := c.Read(ctx, c.Hmget(c.Keys.ExecTags(first.ExecutionID), fields))
	if err != nil {
		return err
	}
	return s.checkSame(hashrecord.Read(results[0], fields))
}

// flowTags returns the tags to store with the flow, names and values in turns.
func (s *submission) flowTags() []string {
	call := s.call
	tags := []string{
		contractnode.TagRunID, call.RunID, contractnode.TagGraphHash, call.GraphHash,
		contractnode.TagInputHash, call.InputHash, contractnode.TagDefinition, string(call.Definition),
	}
	add := func(name, value string) {
		if value != "" {
			tags = append(tags, name, value)
		}
	}
	add(contractnode.TagInput, string(call.Input))
	add(contractnode.TagResult, string(call.ResultExecutionID))
	add(contractnode.TagTrace, call.TraceContext)
	if call.Deadline > 0 {
		add(contractnode.TagDeadline, strconv.FormatInt(s.submitter.Now().Add(call.Deadline).UnixMilli(), 10))
	}
	for _, tag := range call.Tags {
		tags = append(tags, tag.Name, tag.Value)
	}
	return tags
}

// creation returns the call that creates a held node.
func (s *submission) creation(n engine.SubmissionNode) enginerpc.CreateExecutionCall {
	call := s.call
	tags := map[string]string{
		contractnode.TagNode: n.Name, contractnode.TagGraphHash: call.GraphHash,
		contractnode.TagInputHash: call.InputHash,
	}
	var own map[string]string
	if err := json.Unmarshal(n.Tags, &own); err == nil {
		for key, value := range own {
			tags[key] = value
		}
	}
	lane, kind := n.LaneID, n.Kind
	if len(n.Wait) > 0 {
		lane, kind, tags[contractnode.TagWait] = link.WaitLane, link.WaitKind, string(n.Wait)
	}
	encoded, _ := json.Marshal(tags) // a map of strings always has a JSON form
	creator := call.CreatorIdentity
	if creator == "" {
		creator = "flow"
	}
	creation := enginerpc.CreateExecutionCall{
		ExecutionID: n.ExecutionID, Namespace: call.Namespace, LaneID: lane, ExecutionKind: kind,
		Priority:        n.Priority,
		CreatorIdentity: creator, PolicyJSON: n.Policy, DelayUntil: contractnode.HeldUntil(), TagsJSON: encoded,
		PartitionID: call.Partition.Tag(),
	}
	if call.Deadline > 0 {
		creation.ExecutionDeadlineAt = s.submitter.Now().Add(call.Deadline)
	}
	return creation
}

// createNodes creates the nodes of the call, held, and makes them members of the flow.
func (s *submission) createNodes(ctx context.Context) error {
	c, call := s.submitter, s.call
	if len(call.Nodes) == 0 {
		return nil
	}
	lanes := make([]enginecore.LaneID, len(call.Nodes))
	for i, n := range call.Nodes {
		lanes[i] = n.LaneID
	}
	if err := c.EnterLanes(ctx, lanes...); err != nil {
		return err
	}
	b := c.Batch()
	var created []*batching.CallResult[enginerpc.CreateExecutionReply]
	var added []*batching.CallResult[enginerpc.AddExecutionToFlowReply]
	for _, n := range call.Nodes {
		created = append(created, link.AddAgain[enginerpc.CreateExecutionReply](b,
			enginerpc.CreateDelayedCall{CreateExecutionCall: s.creation(n)}))
	}
	if err := b.Run(ctx); err != nil {
		return err
	}
	b = c.Batch()
	for i, n := range call.Nodes {
		if created[i].Err != nil {
			return fmt.Errorf("node %s: %w", n.Name, created[i].Err)
		}
		added = append(added, link.AddAgain[enginerpc.AddExecutionToFlowReply](b, enginerpc.AddExecutionToFlowCall{
			FlowID: call.FlowID, ExecutionID: n.ExecutionID, Now: c.Now(),
		}))
	}
	if err := b.Run(ctx); err != nil {
		return err
	}
	for i, n := range call.Nodes {
		if err := added[i].Err; err != nil {
			return errors.Join(fmt.Errorf("node %s: %w", n.Name, err), s.dropOrphans(ctx, err))
		}
	}
	return nil
}

// dropOrphans ends the nodes that were created for a flow that was cancelled during its submission.
func (s *submission) dropOrphans(ctx context.Context, reason error) error {
	if !errors.Is(reason, enginecore.ErrFlowAlreadyTerminal) {
		return nil
	}
	ids := make([]enginecore.ExecutionID, len(s.call.Nodes))
	for i, n := range s.call.Nodes {
		ids[i] = n.ExecutionID
	}
	_, err := s.submitter.CancelMembers(ctx, s.call.Partition, s.call.FlowID, "the run was cancelled", ids)
	return err
}

// flowTags reads tags of a flow.
func (c *Submitter) flowTags(
	ctx context.Context, p keyspace.Partition, id enginecore.FlowID, names []string,
) (engine.Record, error) {
	results, err := c.Read(ctx, c.Hmget(c.Keys.FlowTags(p, id), names))
	if err != nil {
		return nil, err
	}
	return hashrecord.Read(results[0], names), nil
}

// release marks the flow as complete and releases its roots. Once the mark is stored, a keeper can finish the release.
func (s *submission) release(ctx context.Context) error {
	c, call := s.submitter, s.call
	members, err := c.Members(ctx, call.Partition, call.FlowID)
	if err != nil {
		return err
	}
	if int64(len(members)) < call.NodeTotal {
		return fmt.Errorf("flow %s has %d of %d nodes", call.FlowID, len(members), call.NodeTotal)
	}
	_, err = link.CallAgain[enginerpc.SetFlowTagsReply](ctx, c.Link, enginerpc.SetFlowTagsCall{
		Partition: call.Partition, FlowID: call.FlowID, Tags: []string{contractnode.TagSubmitted, "1"},
	})
	if err != nil {
		return err
	}
	return c.ReleaseMembers(ctx, call.Partition, members)
}

// checkFlow refuses a flow with a construct that the server's library lacks. The tags are the tags of the flow and the
// run. The error wraps engine.ErrNotInContract and names the node and the construct.
func (c *Submitter) checkFlow(ctx context.Context, g *flowgraph.Graph, tags []enginerpc.SubmitTag) error {
	for _, tag := range tags {
		if strings.HasPrefix(tag.Name, contractnode.Tags) {
			return fmt.Errorf("flow %s: %w", g.Name, contractcheck.Refused(reservedTag(tag.Name)))
		}
	}
	for i := range g.Nodes {
		for name := range g.Nodes[i].Tags {
			if strings.HasPrefix(name, contractnode.Tags) {
				return contractcheck.RefusedNode(g.Name, g.Nodes[i].Name, reservedTag(name))
			}
		}
	}
	if err := contractcheck.Check(g); err != nil {
		return err
	}
	node, construct := contractcheck.Extension(g)
	if construct == "" {
		return nil
	}
	if extended, err := c.IsExtended(ctx); err != nil || extended {
		return err
	}
	return contractcheck.RefusedNode(g.Name, node, construct)
}

func reservedTag(name string) string {
	return fmt.Sprintf("tag %q (tags that begin with %s are its own)", name, contractnode.Tags)
}
