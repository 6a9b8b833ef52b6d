package runview

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
	"github.com/flowfabric/flowfabric-go/internal/budgets"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/explain"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Reader reads one run. It is safe for concurrent use.
type Reader struct {
	Session *engine.Session
	Run     engine.Run
}

// Description is the state of a run at one moment.
type Description struct {
	fabrictype.RunDetail

	// Parsed has the flow that the run executes; no graph when the run has none. Other readers use it, too.
	flowgraph.Parsed

	budgets string // as they are stored
	// expiresAt is the deadline in effect: DeadlineAt, or FinallyDeadlineAt.
	expiresAt time.Time
	// waitsFor is the run that one in a queue waits for.
	waitsFor string
	// limits are the limits of nodes that wait for them, as they are stored, and kept the child runs of earlier turns,
	// by the name of the node.
	limits map[string]string
	kept   map[string][]enginecore.FlowID
}

// describePage is the number of nodes read at once.
const describePage = 200

// Describe returns the state of the run, its nodes and its budgets, with the data that the request adds. The error
// wraps [engine.ErrRunNotFound] when the run does not exist.
func (r *Reader) Describe(ctx context.Context, q Request) (*Description, error) {
	d, now, err := r.readDescription(ctx, q)
	if err == nil && q.Values {
		var fit int
		if fit, err = r.addValues(ctx, d, q); err == nil && fit < len(d.Nodes) {
			q.Nodes, q.Values = fit, false // a page of the nodes whose values were read
			values := d
			if d, now, err = r.readDescription(ctx, q); err == nil {
				d.takeValues(values)
			}
		}
	}
	if errors.Is(err, enginecore.ErrFlowNotFound) {
		return nil, fmt.Errorf("run %s of flow %s: %w", r.Run.ID, r.Run.Flow, engine.ErrRunNotFound)
	}
	if err == nil {
		err = r.complete(ctx, d, now)
	}
	if err == nil && q.Attempts {
		err = r.addAttempts(ctx, d)
	}
	if err != nil {
		return nil, r.Run.Errorf("describe", err)
	}
	return d, nil
}

// Open reads the run with its graph and one node, without the reasons of waits.
func (r *Reader) Open(ctx context.Context) (*Description, error) {
	d, _, err := r.readDescription(ctx, Request{Paged: true, Nodes: 1})
	return d, err
}

// readDescription reads the run and its nodes, or a page of them, with the time by the engine's clock.
func (r *Reader) readDescription(
	ctx context.Context, q Request,
) (d *Description, now time.Time, err error) {
	call := enginerpc.DescribeFlowCall{Partition: r.Run.Partition, FlowID: r.Run.FlowID, Limit: describePage}
	if q.Paged && q.Cursor == "" {
		call.Limit = int64(q.Nodes)
	} else if q.Paged {
		call.Limit = 1 // the first call returns the definition alone
	}
	places := make(map[enginecore.ExecutionID]int) // in d.Nodes
	for {
		reply, err := r.Session.Backend.DescribeFlow(ctx, call)
		if err != nil {
			return nil, now, err
		}
		if d == nil {
			now = reply.Now
			if d, err = describeFlow(r.Run.FlowID, reply, &r.Session.Graphs); err != nil {
				return nil, now, err
			}
		}
		ofPage := !q.Paged || call.Cursor == q.Cursor || !r.Session.IsWhole()
		if ofPage {
			for _, n := range reply.Nodes {
				node := describeNode(n, d.Node(n.Node), reply.Now)
				if at, again := places[n.ExecutionID]; again {
					d.Nodes[at] = node
				} else {
					places[n.ExecutionID] = len(d.Nodes)
					d.Nodes = append(d.Nodes, node)
				}
				if n.Limits != "" {
					d.limits[n.Node] = n.Limits
				}
				if n.ChildKept != "" {
					d.kept[n.Node] = keptChildren(n)
				}
			}
		}
		if q.Paged && ofPage {
			d.Next = reply.NextCursor
			break
		}
		if call.Cursor = reply.NextCursor; q.Paged {
			call.Cursor, call.Limit = q.Cursor, int64(q.Nodes)
		}
		if call.Cursor == "" {
			break
		}
	}
	d.order()
	if err := r.explainUpstreams(ctx, d); err != nil {
		return nil, now, err
	}
	d.cut(q)
	return d, now, nil
}

// complete adds the data that is not in the records of the run and its nodes. now is the time by the engine's clock.
func (r *Reader) complete(ctx context.Context, d *Description, now time.Time) error {
	var err error
	if d.Budgets, err = budgets.OfRun(ctx, r.Session, &d.RunDetail, d.budgets); err != nil {
		return err
	}
	if err := r.nameFailure(ctx, d); err != nil {
		return err
	}
	if err := r.nameChildren(ctx, d); err != nil {
		return err
	}
	return r.explain(ctx, d, now)
}

func describeFlow(
	id enginecore.FlowID, r enginerpc.DescribeFlowReply, graphs *flowgraph.Graphs,
) (*Description, error) {
	d := &Description{limits: make(map[string]string), kept: make(map[string][]enginecore.FlowID)}
	d.RunDetail = fabrictype.RunDetail{
		Nodes: []fabrictype.Node{}, Flow: r.FlowName, Run: r.RunID, FlowID: string(id),
		State: recordstate.RunState(r.State, r.Outcome), FailedNode: r.FailedNode,
		Reason: r.FailureReason, Category: r.FailureCategory, CancelReason: r.CancelReason,
		CancelledBy: r.CancelledBy, StartedBy: r.StartedBy,
		CreatedAt: r.CreatedAt, ClosedAt: r.ClosedAt, DeadlineAt: r.DeadlineAt, StartsAt: r.StartAt,
		OpenNodes: int(r.OpenNodes),
	}
	d.Reason, d.Category = engine.PlainFailure(d.Reason, d.Category)
	d.ForkedFrom, d.KeptNodes = r.ForkedFrom, int(r.KeptNodes)
	d.Key, d.QueuePlace, d.waitsFor = r.RunKey, int(r.Queued), r.QueuedBehind
	if d.QueuePlace > 0 { // its start is a time that does not come
		d.StartsAt, d.DeadlineAt = time.Time{}, time.Time{}
	}
	d.BeganAt, d.expiresAt = recordstate.Began(d.CreatedAt, d.StartsAt, r.RerunAt), d.DeadlineAt
	if r.FinallyUntil != "" {
		if until, _ := strconv.ParseInt(r.FinallyUntil, 10, 64); until > 0 {
			d.FinallyDeadlineAt = recordtext.Time(until)
		}
		d.expiresAt = d.FinallyDeadlineAt
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
	parsed, err := graphs.Parse(r.Definition)
	if err != nil {
		return nil, err
	}
	d.Parsed = *parsed
	return d, nil
}

// order puts the nodes into the order of their declaration; nodes that the graph does not name come last, by age.
func (d *Description) order() {
	rank := func(n *fabrictype.Node) int {
		if place, known := d.Places[n.Name]; known {
			return place
		}
		return len(d.Places)
	}
	inOrder := func(a, b *fabrictype.Node) int {
		if by := cmp.Compare(rank(a), rank(b)); by != 0 {
			return by
		}
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Name, b.Name))
	}
	nodes := make([]*fabrictype.Node, len(d.Nodes))
	for i := range d.Nodes {
		nodes[i] = &d.Nodes[i]
	}
	if slices.IsSortedFunc(nodes, inOrder) {
		return
	}
	slices.SortFunc(nodes, inOrder)
	sorted := make([]fabrictype.Node, len(nodes))
	for i, n := range nodes {
		sorted[i] = *n
	}
	d.Nodes = sorted
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
		description.Capabilities = slices.Clone(spec.Capabilities)
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
func (r *Reader) nameFailure(ctx context.Context, d *Description) error {
	if d.FailedNode == "" || d.Graph == nil {
		return nil
	}
	first, err := submit.ReadFirstFailure(ctx, r.Session, r.Run.Partition, r.Run.FlowID, d.Graph, d.FailedNode)
	if first != nil {
		d.FailedNode, d.Reason, d.Category = first.Node, first.Reason, first.Category
	}
	return err
}
