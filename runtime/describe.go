package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/explain"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// RunDescription is the state of a run at one moment, with its graph, which its methods draw.
type RunDescription struct {
	fabrictype.RunDetail

	// graph is the flow that the run executes; nil when the run has none. specs are its nodes by name.
	graph   *flowgraph.Graph
	specs   map[string]*flowgraph.Node
	places  map[string]int // of the nodes in the graph, from 0 on
	budgets string         // as they are stored
	// queuedBehind is the run that one in a queue waits for.
	queuedBehind string
	// limits are the limits of nodes that wait for them, as they are stored, and kept the child runs of earlier turns,
	// by the name of the node.
	limits map[string]string
	kept   map[string][]enginecore.FlowID
}

// Internal has the graph of the run for packages of this module; programs can do nothing with it, and it may change.
func (d *RunDescription) Internal() flowgraph.Handle { return flowgraph.HandleOf(d.graph) }

// Mermaid returns the graph of the run in the format of flow.Definition.Mermaid; empty when the run stores no graph.
func (d *RunDescription) Mermaid() string { return d.drawn((*flowgraph.Graph).Mermaid) }

// DOT returns the graph of the run in the format of flow.Definition.DOT; empty when the run stores no graph.
func (d *RunDescription) DOT() string { return d.drawn((*flowgraph.Graph).DOT) }

// Outline returns the graph of the run in the format of flow.Definition.Outline; empty when the run stores no graph.
func (d *RunDescription) Outline() string { return d.drawn((*flowgraph.Graph).Outline) }

func (d *RunDescription) drawn(as func(*flowgraph.Graph) string) string {
	if d == nil || d.graph == nil {
		return ""
	}
	return as(d.graph)
}

// describePage is the number of nodes read at once.
const describePage = 200

// Describe returns the state of the run, its nodes and its budgets; options add values, attempts, or select one page of
// the nodes. It reads runs of more than 200 nodes in several calls, and waits, pauses, budgets, child runs, values and
// attempts in further calls, so changes during Describe may be included in part. The error wraps ErrNotFound when
// the run does not exist, and ErrInvalid for an option that is out of bounds.
func (r *RunRef) Describe(ctx context.Context, opts ...DescribeOption) (*RunDescription, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	var q describeRequest
	for _, opt := range opts {
		opt.describe(&q)
	}
	if err := checkRequest(&q, describe.MaxValueBytes); err != nil {
		return nil, r.errorf("describe", err)
	}
	return r.describe(ctx, q)
}

func (r *RunRef) describe(ctx context.Context, q describeRequest) (*RunDescription, error) {
	d, now, err := r.readDescription(ctx, q)
	if err == nil && q.values {
		var fit int
		if fit, err = r.addValues(ctx, d, q); err == nil && fit < len(d.Nodes) {
			q.nodes, q.values = fit, false // a page of the nodes whose values were read
			values := d
			if d, now, err = r.readDescription(ctx, q); err == nil {
				d.takeValues(values)
			}
		}
	}
	if errors.Is(err, enginecore.ErrFlowNotFound) {
		return nil, fmt.Errorf("run %s of flow %s: %w", r.id, r.flow, engine.ErrRunNotFound)
	}
	if err == nil {
		err = r.complete(ctx, d, now)
	}
	if err == nil && q.attempts {
		err = r.addAttempts(ctx, d)
	}
	if err != nil {
		return nil, r.errorf("describe", err)
	}
	return d, nil
}

// readDescription reads the run and its nodes, or a page of them, with the time by the engine's clock.
func (r *RunRef) readDescription(
	ctx context.Context, q describeRequest,
) (d *RunDescription, now time.Time, err error) {
	call := enginerpc.DescribeFlowCall{Partition: r.partition, FlowID: r.flowID, Limit: describePage}
	if q.paged && q.cursor == "" {
		call.Limit = int64(q.nodes)
	} else if q.paged {
		call.Limit = 1 // the first call returns the definition alone
	}
	nodes := make(map[enginecore.ExecutionID]fabrictype.Node)
	for {
		reply, err := r.client.session.Backend.DescribeFlow(ctx, call)
		if err != nil {
			return nil, now, err
		}
		if d == nil {
			now = reply.Now
			if d, err = describeFlow(r.flowID, reply); err != nil {
				return nil, now, err
			}
		}
		ofPage := !q.paged || call.Cursor == q.cursor || !r.client.session.IsWhole()
		if ofPage {
			for _, n := range reply.Nodes {
				nodes[n.ExecutionID] = describeNode(n, d.specs[n.Node], reply.Now)
				if n.Limits != "" {
					d.limits[n.Node] = n.Limits
				}
				if n.ChildKept != "" {
					d.kept[n.Node] = keptChildren(n)
				}
			}
		}
		if q.paged && ofPage {
			d.Next = reply.NextCursor
			break
		}
		if call.Cursor = reply.NextCursor; q.paged {
			call.Cursor, call.Limit = q.cursor, int64(q.nodes)
		}
		if call.Cursor == "" {
			break
		}
	}
	d.order(nodes)
	if err := r.explainUpstreams(ctx, d); err != nil {
		return nil, now, err
	}
	d.cut(q)
	return d, now, nil
}

// complete adds the data that is not in the records of the run and its nodes. now is the time by the engine's clock.
func (r *RunRef) complete(ctx context.Context, d *RunDescription, now time.Time) error {
	if err := r.client.describeBudgets(ctx, d); err != nil {
		return err
	}
	if err := r.client.nameFailure(ctx, r.partition, d); err != nil {
		return err
	}
	if err := r.client.nameChildren(ctx, d); err != nil {
		return err
	}
	return r.explain(ctx, d, now)
}

func describeFlow(id enginecore.FlowID, r enginerpc.DescribeFlowReply) (*RunDescription, error) {
	d := &RunDescription{limits: make(map[string]string), kept: make(map[string][]enginecore.FlowID)}
	d.RunDetail = fabrictype.RunDetail{
		Nodes: []fabrictype.Node{}, Flow: r.FlowName, Run: r.RunID, FlowID: string(id),
		State: runState(r.State, r.Outcome), FailedNode: r.FailedNode,
		Reason: r.FailureReason, Category: r.FailureCategory, CancelReason: r.CancelReason,
		CancelledBy: r.CancelledBy, StartedBy: r.StartedBy,
		CreatedAt: r.CreatedAt, ClosedAt: r.ClosedAt, DeadlineAt: r.DeadlineAt, StartsAt: r.StartAt,
		OpenNodes: int(r.OpenNodes),
	}
	d.Reason, d.Category = engine.PlainFailure(d.Reason, d.Category)
	d.ForkedFrom, d.KeptNodes = r.ForkedFrom, int(r.KeptNodes)
	d.Key, d.QueuePlace, d.queuedBehind = r.RunKey, int(r.Queued), r.QueuedBehind
	if d.QueuePlace > 0 { // its start is a time that does not come
		d.StartsAt, d.DeadlineAt = time.Time{}, time.Time{}
	}
	if len(r.Memo) > 0 {
		d.Memo = r.Memo
	}
	d.Parent = r.ParentExecutionID
	d.Reruns = int(r.RerunCount)
	d.LastRerun = fabrictype.Rerun{
		At: r.RerunAt, By: r.RerunBy, Scope: fabrictype.RerunScope(r.RerunMode), Nodes: int(r.RerunNodes),
	}
	d.budgets = r.Budgets
	pause, _ := enginerpc.ParsePauseText(r.Paused)
	d.PausedAt, d.PausedBy, d.PauseReason = pause.Since, pause.Actor, pause.Reason
	d.Schedule, d.FireAt = r.Schedule, r.FireAt
	if len(r.Definition) == 0 {
		return d, nil
	}
	graph, err := flowgraph.ParseGraph(r.Definition)
	if err != nil {
		return nil, err
	}
	d.graph, d.specs = graph, make(map[string]*flowgraph.Node, len(graph.Nodes))
	d.places = make(map[string]int, len(graph.Nodes))
	for i := range graph.Nodes {
		d.specs[graph.Nodes[i].Name], d.places[graph.Nodes[i].Name] = &graph.Nodes[i], i
	}
	return d, nil
}

// order puts the nodes into the order of their declaration; nodes that the graph does not name come last, by age.
func (d *RunDescription) order(nodes map[enginecore.ExecutionID]fabrictype.Node) {
	rank := make(map[string]int, len(d.places))
	for name, place := range d.places {
		rank[name] = place - len(d.places)
	}
	for _, n := range nodes {
		d.Nodes = append(d.Nodes, n)
	}
	slices.SortFunc(d.Nodes, func(a, b fabrictype.Node) int {
		return cmp.Or(cmp.Compare(rank[a.Name], rank[b.Name]), a.CreatedAt.Compare(b.CreatedAt),
			cmp.Compare(a.Name, b.Name))
	})
}

func describeNode(n enginerpc.DescribedNode, spec *flowgraph.Node, now time.Time) fabrictype.Node {
	percent, _ := strconv.ParseFloat(n.ProgressPercent, 64)
	var child *fabrictype.ChildRun
	if n.ChildFlowID != "" {
		child = &fabrictype.ChildRun{FlowID: string(n.ChildFlowID)}
	}
	failed, category := engine.PlainFailure(n.FailureReason, n.FailureCategory)
	description := fabrictype.Node{
		Child: child, Kind: kindOf(n, spec), Generation: max(1, int(n.Generation)),
		Name: n.Node, Activity: n.Kind, Lane: string(n.LaneID), ExecutionID: string(n.ExecutionID),
		State: fabrictype.NodeState(n.State), Waiting: explain.Waiting(n, spec, now),
		Attempts: int(n.Attempts), Retries: int(n.RetryCount),
		Reclaims: int(n.ReclaimCount), Replays: int(n.ReplayCount), Worker: string(n.WorkerInstanceID),
		Percent: percent,
		Message: n.ProgressMessage,
		Reason:  cmp.Or(failed, n.CancellationReason), Category: category, CreatedAt: n.CreatedAt,
		StartedAt: n.StartedAt, ClaimedAt: n.LeaseAcquiredAt, CompletedAt: n.CompletedAt, DueAt: n.DelayUntil,
		LeaseExpiresAt: n.LeaseExpiresAt,
		Overdue:        fabrictype.Duration{Duration: explain.LateBy(explain.KeeperDue(n), now)},
	}
	if spec != nil {
		description.Capabilities = spec.Capabilities
	}
	description.LiveValues = liveValuesOf(n.Live)
	return description
}

func kindOf(n enginerpc.DescribedNode, spec *flowgraph.Node) fabrictype.NodeKind {
	switch {
	case spec != nil && spec.Loop != nil:
		return fabrictype.KindLoop
	case spec != nil && spec.Expand != nil:
		return fabrictype.KindExpansion
	case n.Kind == submit.MapKind:
		return fabrictype.KindMap
	case n.Kind == submit.SubKind:
		return fabrictype.KindSubFlow
	case spec != nil && spec.IsTimer():
		return fabrictype.KindTimer
	case spec != nil && spec.Wait != nil:
		return fabrictype.KindWaitpoint
	case spec != nil && spec.Condition != nil:
		return fabrictype.KindCondition
	}
	return fabrictype.KindActivity
}

// nameFailure corrects the failure of a run that has joins: the engine records the failures that it knew when the run
// was sure to fail.
func (c *Client) nameFailure(ctx context.Context, p keyspace.Partition, d *RunDescription) error {
	if d.FailedNode == "" || d.graph == nil {
		return nil
	}
	first, err := submit.ReadFirstFailure(ctx, c.session, p, enginecore.FlowID(d.FlowID), d.graph, d.FailedNode)
	if first != nil {
		d.FailedNode, d.Reason, d.Category = first.Node, first.Reason, first.Category
	}
	return err
}
