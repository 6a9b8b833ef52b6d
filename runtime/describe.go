package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/explain"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// RunDescription is the state of a run at one moment.
type RunDescription struct {
	Flow, Run string
	FlowID    enginecore.FlowID
	// State is the state of the run. A run that has failed, expired or was cancelled may still have open nodes until
	// ClosedAt.
	State RunState
	// FailedNode is the node that failed first, with FailureReason and FailureCategory; all are empty when no node
	// failed.
	FailedNode, FailureReason, FailureCategory string
	// CancelReason and CancelledBy are set when the run was cancelled.
	CancelReason, CancelledBy string
	CreatedAt                 time.Time
	// ClosedAt is when the last node ended; zero while nodes are open.
	ClosedAt time.Time
	// DeadlineAt is when the run expires; zero without a deadline.
	DeadlineAt time.Time
	// Overdue is how far the run is past DeadlineAt without having expired, by the engine's clock; zero for delays of
	// up to a second and when the run is over.
	Overdue time.Duration
	// NoKeeper reports whether the run or a node is overdue and no keeper is connected. It is false when the server
	// does not allow the question.
	NoKeeper bool
	// PausedAt and PauseReason describe the pause of the run; PausedAt is zero when the run is not paused.
	PausedAt    time.Time
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
	// Nodes are the nodes of the run, in the order of their declaration.
	Nodes []NodeDescription

	// graph is the flow that the run executes; nil when the run has none.
	graph   *flowgraph.Graph
	budgets string // as they are stored
}

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
	ExecutionID          enginecore.ExecutionID
	State                NodeState
	// Why describes in English what the node waits for; empty when it runs or has ended.
	Why string
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
	// Reason and Category describe the last failure, or why the node was cancelled.
	Reason, Category string
	// CreatedAt, StartedAt (first attempt), ClaimedAt (by the current or last worker), CompletedAt and DueAt (next
	// attempt, or end of a delay) are zero when they do not apply.
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
}

// describePage is the number of nodes read at once.
const describePage = 200

// Describe returns the state of the run, its nodes and its budgets. It reads runs of more than 200 nodes in several
// calls, and waits, pauses, budgets and child runs in further calls, so changes during Describe may be included in
// part. The error wraps ErrRunNotFound when the run does not exist.
func (r *RunRef) Describe(ctx context.Context) (*RunDescription, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	d, now, err := r.readDescription(ctx)
	if errors.Is(err, enginecore.ErrFlowNotFound) {
		return nil, fmt.Errorf("run %s of flow %s: %w", r.id, r.flow, engine.ErrRunNotFound)
	}
	if err == nil {
		err = r.complete(ctx, d)
	}
	if err != nil {
		return nil, r.errorf("describe", err)
	}
	r.client.nameOverdue(ctx, d, now)
	return d, nil
}

// readDescription reads the run and its nodes, with the time by the engine's clock.
func (r *RunRef) readDescription(ctx context.Context) (d *RunDescription, now time.Time, err error) {
	call := enginerpc.DescribeFlowCall{Partition: r.partition, FlowID: r.flowID, Limit: describePage}
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
		for _, n := range reply.Nodes {
			nodes[n.ExecutionID] = describeNode(n, reply.Now)
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			break
		}
	}
	d.order(nodes)
	d.nameUpstreams()
	return d, now, nil
}

// complete adds what is not in the records of the run and its nodes.
func (r *RunRef) complete(ctx context.Context, d *RunDescription) error {
	if err := r.client.describeBudgets(ctx, d); err != nil {
		return err
	}
	if err := r.client.nameFailure(ctx, r.partition, d); err != nil {
		return err
	}
	if err := r.client.nameChildren(ctx, d); err != nil {
		return err
	}
	if err := r.nameWaits(ctx, d); err != nil {
		return err
	}
	return r.client.namePauses(ctx, r.partition, d)
}

func describeFlow(id enginecore.FlowID, r enginerpc.DescribeFlowReply) (*RunDescription, error) {
	d := &RunDescription{
		Flow: r.FlowName, Run: r.RunID, FlowID: id, State: runState(r.State, r.Outcome), FailedNode: r.FailedNode,
		FailureReason: r.FailureReason, FailureCategory: r.FailureCategory, CancelReason: r.CancelReason,
		CancelledBy: r.CancelledBy, CreatedAt: r.CreatedAt, ClosedAt: r.ClosedAt, DeadlineAt: r.DeadlineAt,
		OpenNodes: int(r.OpenNodes),
	}
	d.FailureReason, d.FailureCategory = engine.PlainFailure(d.FailureReason, d.FailureCategory)
	d.Parent = enginecore.ExecutionID(r.ParentExecutionID)
	d.Reruns = int(r.RerunCount)
	d.LastRerun = Rerun{At: r.RerunAt, By: r.RerunBy, Scope: RerunScope(r.RerunMode), Nodes: int(r.RerunNodes)}
	d.budgets = r.Budgets
	pause, _ := enginerpc.ParsePauseText(r.Paused)
	d.PausedAt, d.PauseReason = pause.Since, pause.Reason
	d.Schedule, d.FireAt = r.Schedule, r.FireAt
	if len(r.Definition) == 0 {
		return d, nil
	}
	var err error
	d.graph, err = flowgraph.ParseGraph(r.Definition)
	return d, err
}

// order puts the nodes into the order of their declaration; what the graph does not name comes last, by age.
func (d *RunDescription) order(nodes map[enginecore.ExecutionID]NodeDescription) {
	rank := make(map[string]int)
	if d.graph != nil {
		for i := range d.graph.Nodes {
			rank[d.graph.Nodes[i].Name] = i - len(d.graph.Nodes)
		}
	}
	for _, n := range nodes {
		d.Nodes = append(d.Nodes, n)
	}
	slices.SortFunc(d.Nodes, func(a, b NodeDescription) int {
		return cmp.Or(cmp.Compare(rank[a.Name], rank[b.Name]), a.CreatedAt.Compare(b.CreatedAt),
			cmp.Compare(a.Name, b.Name))
	})
}

func describeNode(n enginerpc.DescribedNode, now time.Time) NodeDescription {
	percent, _ := strconv.ParseFloat(n.ProgressPercent, 64)
	var child *ChildRun
	if n.ChildFlowID != "" {
		child = &ChildRun{FlowID: n.ChildFlowID}
	}
	failed, category := engine.PlainFailure(n.FailureReason, n.FailureCategory)
	return NodeDescription{
		Child: child,
		Name:  n.Node, Activity: n.Kind, Lane: string(n.LaneID), ExecutionID: n.ExecutionID,
		State: NodeState(n.State), Why: explain.Waiting(n, now), Attempts: int(n.Attempts), Retries: int(n.RetryCount),
		Reclaims: int(n.ReclaimCount), Replays: int(n.ReplayCount), Worker: n.WorkerInstanceID, Percent: percent,
		Message: n.ProgressMessage,
		Reason:  cmp.Or(failed, n.CancellationReason), Category: category, CreatedAt: n.CreatedAt,
		StartedAt: n.StartedAt, ClaimedAt: n.LeaseAcquiredAt, CompletedAt: n.CompletedAt, DueAt: n.DelayUntil,
		LeaseExpiresAt: n.LeaseExpiresAt, Overdue: explain.LateBy(explain.KeeperDue(n), now),
	}
}

// nameUpstreams says which upstreams a node waits for.
func (d *RunDescription) nameUpstreams() {
	states := make(map[string]NodeState, len(d.Nodes))
	for _, n := range d.Nodes {
		states[n.Name] = n.State
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.State != NodeWaitingChildren || d.graph == nil || strings.HasPrefix(n.Why, submit.ChildWaitPrefix) {
			continue
		}
		spec := d.graph.Node(n.Name)
		if spec == nil {
			continue
		}
		if spec.Join.Policy != flowgraph.JoinAll {
			n.Why = whyJoin(spec, states)
			continue
		}
		var open []string
		for _, up := range spec.Upstreams {
			if !states[up.Node].Ended() {
				open = append(open, up.Node)
			}
		}
		n.Why = "waits for " + cmp.Or(listed(open), "what its upstreams have told")
	}
}

// nameFailure corrects the failure of a run that has joins: the engine notes what it knew when the run was sure to
// fail.
func (c *Client) nameFailure(ctx context.Context, p enginecore.Partition, d *RunDescription) error {
	if d.FailedNode == "" || d.graph == nil {
		return nil
	}
	first, err := submit.ReadFirstFailure(ctx, c.session, p, d.FlowID, d.graph, d.FailedNode)
	if first != nil {
		d.FailedNode, d.FailureReason, d.FailureCategory = first.Node, first.Reason, first.Category
	}
	return err
}

// nameWaits says what suspended nodes wait for.
func (r *RunRef) nameWaits(ctx context.Context, d *RunDescription) error {
	suspended := func(n NodeDescription) bool { return n.State == NodeSuspended }
	if !engine.Has[engine.WaitStore](r.client.session.Backend) || !slices.ContainsFunc(d.Nodes, suspended) {
		return nil
	}
	waits, err := r.Waitpoints(ctx)
	if err != nil {
		return err
	}
	for _, w := range waits {
		w.Token = activity.Token{}
		for i := range d.Nodes {
			if n := &d.Nodes[i]; n.ExecutionID == w.ExecutionID {
				n.Waits = append(n.Waits, w)
				if w.State == WaitOpen {
					n.Why = w.why()
				}
			}
		}
	}
	return nil
}

// namePauses says which nodes wait because their lane is paused. The engine records the other pauses with the nodes.
func (c *Client) namePauses(ctx context.Context, p enginecore.Partition, d *RunDescription) error {
	waiting := func(n NodeDescription) bool { return n.State == NodeWaiting }
	store, missing := engine.Capability[engine.PauseStore](c.session.Backend)
	if missing != nil || !slices.ContainsFunc(d.Nodes, waiting) {
		return nil
	}
	reply, err := store.Pauses(ctx, enginerpc.PausesCall{Partition: p})
	if err != nil {
		return err
	}
	for _, stored := range reply.Pauses {
		pause, _ := enginerpc.ParsePauseText(stored.Text)
		for i := range d.Nodes {
			n := &d.Nodes[i]
			if stored.Subject == engine.PausedLane && n.Lane == stored.Name && waiting(*n) {
				n.Why = strings.TrimSuffix("lane "+stored.Name+" is paused: "+pause.Reason, ": ")
			}
		}
	}
	return nil
}

// nameOverdue says what keepers are late with at a time of the engine's clock, and whether there are any.
func (c *Client) nameOverdue(ctx context.Context, d *RunDescription, now time.Time) {
	if d.State == RunRunning {
		d.Overdue = explain.LateBy(d.DeadlineAt, now)
	}
	late := d.Overdue > 0
	for i := range d.Nodes {
		n := &d.Nodes[i]
		for _, w := range n.Waits {
			if w.State != WaitClosed && !w.Escalated {
				n.Overdue = max(n.Overdue, explain.LateBy(w.TimeoutAt, now))
			}
		}
		late = late || n.Overdue > 0
	}
	if !late {
		return
	}
	seen, known := c.session.KeepersSeen(ctx)
	d.NoKeeper = known && seen == 0
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.Overdue > 0 {
			n.Why = explain.Late(n.Why, n.Overdue, d.NoKeeper)
		}
	}
}

// listed joins names and cuts long lists short.
func listed(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// whyJoin says in words what a node with a join waits for. states are those of all nodes.
func whyJoin(n *flowgraph.Node, states map[string]NodeState) string {
	needed := max(1, n.Join.Needed)
	var open []string
	for _, up := range n.Upstreams {
		switch state := states[up.Node]; {
		case state == NodeSucceeded:
			needed--
		case !state.Ended():
			open = append(open, up.Node)
		}
	}
	return fmt.Sprintf("waits for %d of %s", needed, listed(open))
}
