package runtime

import (
	"cmp"
	"context"
	"encoding/json"
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

// RunDescription is the state of a run at one moment.
type RunDescription struct {
	Flow, Run string
	FlowID    enginecore.FlowID
	// State is the state of the run. A run that has failed, expired or was cancelled may still have open nodes until
	// ClosedAt.
	State fabrictype.RunState
	// FailedNode is the node that failed first, with FailureReason and FailureCategory; all are empty when no node
	// failed.
	FailedNode, FailureReason, FailureCategory string
	// StartedBy is who started the run, as Client.As or WithActor said: the actor of its schedule, "flow" and the name
	// of its parent's flow for a child run; empty if nobody was named, and in contract mode.
	StartedBy string
	// CancelReason and CancelledBy are set when the run was cancelled.
	CancelReason, CancelledBy string
	CreatedAt                 time.Time
	// ClosedAt is when the last node ended; zero while nodes are open.
	ClosedAt time.Time
	// StartsAt is the time of StartAt or MoveStart, also when it is over; zero for a run that was started at once.
	StartsAt time.Time
	// Key is the key of WithKey, WithThrottle or Debounce; empty without one.
	Key string
	// QueuePlace is the place of the run in the queue of its key, from 1 on; 0 for a run that is in none.
	QueuePlace int
	// ForkedFrom is the id of the run of the same flow that this one is a fork of, with KeptNodes results; empty for
	// other runs. It may have been purged since. See RunRef.Fork.
	ForkedFrom string
	KeptNodes  int
	// Memo is the JSON of WithMemo; nil without it.
	Memo json.RawMessage `json:",omitempty"`
	// DeadlineAt is when the run expires; zero without a deadline.
	DeadlineAt time.Time
	// Overdue is how far the run is past DeadlineAt without having expired, by the engine's clock; zero for delays of
	// up to a second and when the run is over.
	Overdue time.Duration
	// NoKeeper reports whether the run or a node is overdue and no keeper is connected. It is false when the server
	// does not allow the question.
	NoKeeper bool
	// PausedAt, PausedBy and PauseReason describe the pause of the run; PausedAt is zero when the run is not paused.
	PausedAt    time.Time
	PausedBy    string
	PauseReason string
	// Reruns counts the reruns of the run; LastRerun describes the last one.
	Reruns    int
	LastRerun Rerun
	// Schedule is the schedule that started the run, and FireAt the time of the fire; empty and zero for other runs.
	Schedule string
	FireAt   time.Time
	// Parent is the map or sub-flow node of another run whose child run this is; empty for other runs.
	Parent enginecore.ExecutionID
	// OpenNodes is the number of nodes that have not ended.
	OpenNodes int
	// Budgets are the states of the flow's budgets, by name.
	Budgets []BudgetState
	// Nodes are the nodes of the run, in the order of their declaration; with WithPage, those of the page.
	Nodes []NodeDescription
	// Next is the cursor of the next page of nodes with WithPage; empty behind the last one.
	Next string
	// Input and Result are the values of the run with WithValues; nil without a value.
	Input, Result *fabrictype.Value

	// graph is the flow that the run executes; nil when the run has none. specs are its nodes by name.
	graph   *flowgraph.Graph
	specs   map[string]*flowgraph.Node
	places  map[string]int // of the nodes in the graph, from 0 on
	budgets string         // as they are stored
	// queuedBehind is the run that one in a queue waits for.
	queuedBehind string
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

// NodeDescription is the state of one node of a run.
type NodeDescription struct {
	Name, Activity, Lane string
	// Kind is what the node is. Activity is that of the items for a map, and empty for a waitpoint and a sub-flow.
	Kind fabrictype.NodeKind
	// Capabilities are those that its worker must have.
	Capabilities []string
	ExecutionID  enginecore.ExecutionID
	State        fabrictype.NodeState
	// Why describes in English what the node waits for; empty when it runs or has ended. It is the sentence of Waiting.
	Why string
	// Waiting explains for programs what the node waits for, since when, and what ends the wait; zero when it runs or
	// has ended.
	Waiting fabrictype.Explanation
	// Attempts counts the attempts that were started, Retries those that followed a failure, and Reclaims those that
	// followed the loss of a worker.
	Attempts, Retries, Reclaims int
	// Replays counts how often the node was reset after its end and run again.
	Replays int
	// Worker is the worker instance that runs the node; empty when none does.
	Worker enginecore.WorkerInstanceID
	// Percent and Message are the last reported progress.
	Percent float64
	Message string
	// LiveValues lists what the function has published (activity.Publish), without the values: see RunRef.Value.
	LiveValues []LiveValue
	// Reason and Category describe the last failure, or why the node was cancelled.
	Reason, Category string
	// CreatedAt, StartedAt (first attempt), ClaimedAt (by the current or last worker), CompletedAt and DueAt (next
	// attempt, also after lost workers, or end of a delay) are zero when they do not apply.
	CreatedAt, StartedAt, ClaimedAt, CompletedAt, DueAt time.Time
	// LeaseExpiresAt is when the lease ends unless the worker renews it, so that another worker can take the node over;
	// zero without a lease.
	LeaseExpiresAt time.Time
	// Overdue is how late keepers are with what the node waits for, by the engine's clock: its retry, the end of its
	// delay or wait, or the recovery of a lost lease. Delays of up to a second are reported as zero.
	Overdue time.Duration
	// Child describes the child run of a map or sub-flow node; nil for other nodes, and before the child run is
	// created.
	Child *ChildRun
	// Waits are the open waitpoints of the node, without their tokens.
	Waits []Waitpoint
	// SleepsUntil is the time until which the node sleeps: one of flow.Sleep or flow.Until, or one whose function is in
	// activity.Sleep. It is zero for others.
	SleepsUntil time.Time
	// Generation is 1, and one more each time that the function of the node has gone on as new
	// (activity.ContinueAsNew); of a loop, the number of its turn.
	Generation int
	// Input is what the node gets as its input with WithValues, composed from the present results of its
	// upstreams; nil for a node without input, and while a part of it is missing. Result is nil unless the node
	// succeeded.
	Input, Result *fabrictype.Value
	// History are the attempts of the node with WithAttempts, the oldest first, as far as the event log has them.
	History []fabrictype.Attempt

	limits string              // as they are stored, while the node waits for them
	kept   []enginecore.FlowID // child runs of earlier turns
}

// describePage is the number of nodes read at once.
const describePage = 200

// Describe returns the state of the run, its nodes and its budgets; options ask for values, attempts, or one page of
// the nodes. It reads runs of more than 200 nodes in several calls, and waits, pauses, budgets, child runs, values and
// attempts in further calls, so changes during Describe may be included in part. The error wraps ErrRunNotFound when
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
		call.Limit = 1 // the first call brings the definition alone
	}
	nodes := make(map[enginecore.ExecutionID]NodeDescription)
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
		ofPage := !q.paged || call.Cursor == q.cursor || !engine.Has[engine.GraphStore](r.client.session.Backend)
		if ofPage {
			for _, n := range reply.Nodes {
				nodes[n.ExecutionID] = describeNode(n, d.specs[n.Node], reply.Now)
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

// complete adds what is not in the records of the run and its nodes. now is the time by the engine's clock.
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
	d := &RunDescription{
		Flow: r.FlowName, Run: r.RunID, FlowID: id, State: runState(r.State, r.Outcome), FailedNode: r.FailedNode,
		FailureReason: r.FailureReason, FailureCategory: r.FailureCategory, CancelReason: r.CancelReason,
		CancelledBy: r.CancelledBy, StartedBy: r.StartedBy,
		CreatedAt: r.CreatedAt, ClosedAt: r.ClosedAt, DeadlineAt: r.DeadlineAt, StartsAt: r.StartAt,
		OpenNodes: int(r.OpenNodes),
	}
	d.FailureReason, d.FailureCategory = engine.PlainFailure(d.FailureReason, d.FailureCategory)
	d.ForkedFrom, d.KeptNodes = r.ForkedFrom, int(r.KeptNodes)
	d.Key, d.QueuePlace, d.queuedBehind = r.RunKey, int(r.Queued), r.QueuedBehind
	if d.QueuePlace > 0 { // its start is a time that does not come
		d.StartsAt, d.DeadlineAt = time.Time{}, time.Time{}
	}
	if len(r.Memo) > 0 {
		d.Memo = r.Memo
	}
	d.Parent = enginecore.ExecutionID(r.ParentExecutionID)
	d.Reruns = int(r.RerunCount)
	d.LastRerun = Rerun{At: r.RerunAt, By: r.RerunBy, Scope: RerunScope(r.RerunMode), Nodes: int(r.RerunNodes)}
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

// order puts the nodes into the order of their declaration; what the graph does not name comes last, by age.
func (d *RunDescription) order(nodes map[enginecore.ExecutionID]NodeDescription) {
	rank := make(map[string]int, len(d.places))
	for name, place := range d.places {
		rank[name] = place - len(d.places)
	}
	for _, n := range nodes {
		d.Nodes = append(d.Nodes, n)
	}
	slices.SortFunc(d.Nodes, func(a, b NodeDescription) int {
		return cmp.Or(cmp.Compare(rank[a.Name], rank[b.Name]), a.CreatedAt.Compare(b.CreatedAt),
			cmp.Compare(a.Name, b.Name))
	})
}

func describeNode(n enginerpc.DescribedNode, spec *flowgraph.Node, now time.Time) NodeDescription {
	percent, _ := strconv.ParseFloat(n.ProgressPercent, 64)
	var child *ChildRun
	if n.ChildFlowID != "" {
		child = &ChildRun{FlowID: n.ChildFlowID}
	}
	failed, category := engine.PlainFailure(n.FailureReason, n.FailureCategory)
	description := NodeDescription{
		Child: child, Kind: kindOf(n, spec), Generation: max(1, int(n.Generation)), kept: keptChildren(n),
		Name: n.Node, Activity: n.Kind, Lane: string(n.LaneID), ExecutionID: n.ExecutionID,
		State: fabrictype.NodeState(n.State), Waiting: explain.Waiting(n, spec, now), limits: n.Limits,
		Attempts: int(n.Attempts), Retries: int(n.RetryCount),
		Reclaims: int(n.ReclaimCount), Replays: int(n.ReplayCount), Worker: n.WorkerInstanceID, Percent: percent,
		Message: n.ProgressMessage,
		Reason:  cmp.Or(failed, n.CancellationReason), Category: category, CreatedAt: n.CreatedAt,
		StartedAt: n.StartedAt, ClaimedAt: n.LeaseAcquiredAt, CompletedAt: n.CompletedAt, DueAt: n.DelayUntil,
		LeaseExpiresAt: n.LeaseExpiresAt, Overdue: explain.LateBy(explain.KeeperDue(n), now),
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

// nameFailure corrects the failure of a run that has joins: the engine notes what it knew when the run was sure to
// fail.
func (c *Client) nameFailure(ctx context.Context, p keyspace.Partition, d *RunDescription) error {
	if d.FailedNode == "" || d.graph == nil {
		return nil
	}
	first, err := submit.ReadFirstFailure(ctx, c.session, p, d.FlowID, d.graph, d.FailedNode)
	if first != nil {
		d.FailedNode, d.FailureReason, d.FailureCategory = first.Node, first.Reason, first.Category
	}
	return err
}
