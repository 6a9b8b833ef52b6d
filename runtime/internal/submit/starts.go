package submit

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// maxStartBytes bounds what the runs in one call bring of their own.
const maxStartBytes = 256 << 10

// startBatcher joins starts of small runs: those of one flow and partition share calls.
type startBatcher struct {
	Send  func(context.Context, enginerpc.SubmitManyCall) (enginerpc.SubmitManyReply, error)
	batch engine.Batcher[StartKey, StartRequest, startResult]
}

// StartKey is what runs of one call have in common.
type StartKey struct {
	partition enginecore.Partition
	compiled  *CompiledFlow
	namespace enginecore.Namespace
	creator   string
	retention string
}

// StartKeyOf returns the key of a plan: plans with equal keys may share a call.
func StartKeyOf(plan *RunPlan) StartKey {
	return StartKey{plan.Partition, plan.Compiled, plan.namespace, plan.Creator, plan.Retention}
}

// StartRequest is one run that waits to be started.
type StartRequest struct {
	plan    *RunPlan
	budgets []enginerpc.SubmitFlowBudget
	// alone starts the run by itself.
	alone func() (existed bool, err error)
}

// NewStartRequest returns the request to start the run of a plan. alone starts it by a call of its own.
func NewStartRequest(plan *RunPlan, alone func() (existed bool, err error)) StartRequest {
	return StartRequest{plan: plan, budgets: encodeBudgets(plan.Budgets), alone: alone}
}

// startResult is the outcome of one start.
type startResult struct {
	existed bool
	err     error
	// refused is set if the call of several runs did not start this one. It is then started by itself, which yields the
	// reason.
	refused bool
}

// size is about how many bytes the run brings that others do not share.
func (r *StartRequest) size() int {
	size := len(r.plan.Input)
	for _, b := range r.budgets {
		size += len(b.Text) + len(b.Blocking)
	}
	if r.plan.OwnTags {
		for _, tag := range r.plan.Tags {
			size += len(tag.Name) + len(tag.Value)
		}
	}
	return size
}

// newStartBatcher returns nil when the engine has no call for several runs.
func newStartBatcher(e *engine.Session) *startBatcher {
	many, err := engine.Capability[engine.BatchedStarts](e.Backend)
	if err != nil {
		return nil
	}
	s := &startBatcher{Send: many.SubmitMany}
	s.batch.Single, s.batch.Multi = startAlone, s.startMany
	s.batch.MaxRequests = func(key StartKey) int { return key.compiled.runsPerCall() }
	s.batch.Size, s.batch.MaxBytes = (*StartRequest).size, maxStartBytes
	return s
}

// submit starts a run and reports whether it existed. alone starts it by itself: when nothing else is being started,
// and for whatever needs an answer of its own.
func (s *startBatcher) submit(
	ctx context.Context, plan *RunPlan, alone func() (existed bool, err error),
) (existed bool, err error) {
	if s == nil || !plan.batchable() {
		return alone()
	}
	result, err := s.batch.Do(ctx, StartKeyOf(plan), NewStartRequest(plan, alone))
	switch {
	case err != nil:
		return false, submitError(plan, err)
	case result.refused:
		return alone()
	}
	return result.existed, result.err
}

func startAlone(_ context.Context, _ StartKey, r StartRequest) startResult {
	existed, err := r.alone()
	return startResult{existed: existed, err: err}
}

// startMany starts several runs with one call.
func (s *startBatcher) startMany(ctx context.Context, key StartKey, requests []StartRequest) []startResult {
	reply, err := s.Send(ctx, StartCall(key, requests))
	if err == nil && len(reply.Outcomes) != len(requests) {
		err = errors.New("the reply tells of another number of runs")
	}
	results := make([]startResult, len(requests))
	for i := range requests {
		switch {
		case err != nil && engine.IsUnavailable(err):
			results[i].err = submitError(requests[i].plan, err)
		case err != nil:
			results[i].refused = true
		case reply.Outcomes[i].Code == string(enginerpc.StatusOK):
		case reply.Outcomes[i].Code == string(enginerpc.StatusAlreadySatisfied):
			results[i].existed = true
		default:
			results[i].refused = true
		}
	}
	return results
}

// StartCall returns the call that starts several runs with a key in common.
func StartCall(key StartKey, requests []StartRequest) enginerpc.SubmitManyCall {
	graph := key.compiled.Graph
	call := enginerpc.SubmitManyCall{
		Partition: key.partition, FlowName: graph.Name, Namespace: string(key.namespace), GraphHash: key.compiled.Hash,
		Definition: key.compiled.Definition, ResultNode: key.compiled.many.result, Deadline: graph.Deadline,
		CreatorIdentity: key.creator, Retention: key.retention, Tags: key.compiled.many.tags,
		Nodes: key.compiled.many.nodes, Edges: key.compiled.many.edges,
		Runs:       make([]enginerpc.SubmitManyRun, len(requests)),
		Executions: make([]enginerpc.SubmitManyExecution, 0, len(requests)*len(graph.Nodes)),
		EdgeIDs:    make([]enginerpc.SubmitManyEdgeID, 0, len(requests)*key.compiled.Edges),
	}
	for i, one := range requests {
		plan := one.plan
		call.Runs[i] = enginerpc.SubmitManyRun{
			FlowID: plan.FlowID, RunID: plan.Run, InputHash: plan.InputHash, Input: plan.Input,
			TraceContext: plan.trace,
			FairKey:      plan.FairKey,
		}
		run := int64(i + 1)
		for _, b := range one.budgets {
			call.Budgets = append(call.Budgets,
				enginerpc.SubmitManyBudget{Run: run, Text: b.Text, Blocking: b.Blocking})
		}
		if plan.OwnTags {
			for _, tag := range plan.Tags {
				call.OwnTags = append(call.OwnTags,
					enginerpc.SubmitManyOwnTag{Run: run, Name: tag.Name, Value: tag.Value})
			}
		}
		for j := range graph.Nodes {
			id := plan.ExecutionID(graph.Nodes[j].Name)
			call.Executions = append(call.Executions, enginerpc.SubmitManyExecution{ExecutionID: id})
			if limit, limited := plan.limits[graph.Nodes[j].Name]; limited {
				limit.ExecutionID = id
				call.Limits = append(call.Limits, enginerpc.SubmitManyLimit(limit))
			}
		}
		for j := range graph.Nodes {
			for _, up := range graph.Nodes[j].Upstreams {
				id := enginecore.EdgeIDFor(plan.FlowID, up.Node, graph.Nodes[j].Name)
				call.EdgeIDs = append(call.EdgeIDs, enginerpc.SubmitManyEdgeID{EdgeID: id})
			}
		}
	}
	return call
}

// manyForm is the part of a flow that all its runs in one call share.
type manyForm struct {
	result int64 // place of the node with the result, from 1; 0 without one
	nodes  []enginerpc.SubmitManyNode
	edges  []enginerpc.SubmitManyEdge
	tags   []enginerpc.SubmitManyTag
}

// newManyForm returns nil for flows whose runs cannot share a call.
func newManyForm(c *CompiledFlow) *manyForm {
	if c.waits || len(c.joins) > 0 || c.runsPerCall() < 2 || len(c.Definition) > maxDefinitionWithNodes {
		return nil
	}
	m := &manyForm{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		m.nodes = append(m.nodes, enginerpc.SubmitManyNode{
			Name: n.Name, Kind: n.Kind, LaneID: n.LaneID, Priority: n.Priority, UsesFlowInput: n.UsesFlowInput,
			InputCount: n.InputCount, UpstreamCount: n.UpstreamCount, Capabilities: n.Capabilities, Policy: n.Policy,
			Tags: n.Tags, StartTimeout: n.StartTimeout, AttemptTimeout: n.AttemptTimeout,
		})
	}
	m.result = c.nodeNumbers[c.Graph.Return]
	for i := range c.Graph.Nodes {
		n := &c.Graph.Nodes[i]
		for _, up := range n.Upstreams {
			edge := enginerpc.SubmitManyEdge{
				Upstream: c.nodeNumbers[up.Node], Downstream: c.nodeNumbers[n.Name], DependencyKind: string(up.Kind),
			}
			if up.Data {
				edge.InputName = up.Node
			}
			m.edges = append(m.edges, edge)
		}
	}
	for _, tag := range c.tags {
		m.tags = append(m.tags, enginerpc.SubmitManyTag(tag))
	}
	return m
}

// runsPerCall is how many runs one call may bring; 0 for flows that take several calls each.
func (c *CompiledFlow) runsPerCall() int {
	most := NodesPerCall / max(1, len(c.Nodes))
	if c.Edges > 0 {
		most = min(most, EdgesPerCall/c.Edges)
	}
	return most
}

// batchable reports whether the run may share a SubmitMany call: child runs, scheduled runs, and runs of flows with
// waits, joins or many nodes may not.
func (p *RunPlan) batchable() bool {
	return p.Compiled.many != nil && len(p.Fires) == 0 && len(p.Parent) == 0
}
