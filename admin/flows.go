package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// ErrPartition is returned by AddExecution for an execution in another partition than the flow, because the two cannot
// be changed in one atomic step.
var ErrPartition = errors.New("execution and flow live in different partitions")

// ErrPartlyCancelled is returned by CancelFlowAndWait when some members could not be cancelled. Keepers continue to
// cancel them.
var ErrPartlyCancelled = errors.New("some members are not cancelled yet")

// FlowSpec describes a flow for CreateFlow.
type FlowSpec struct {
	// ID is the id of the flow. Defaults to a random one.
	ID enginecore.FlowID
	// Kind is the kind of the flow. It must be set.
	Kind string
	// Namespace defaults to "default".
	Namespace string
}

// CreateFlow creates a flow without members, in one atomic step. It returns the id and whether the flow existed; an
// existing flow is not changed. To start a flow with nodes, use runtime.Start, which submits the whole graph in one
// step.
func (c *Client) CreateFlow(ctx context.Context, n FlowSpec) (id enginecore.FlowID, existed bool, err error) {
	if n.Kind == "" {
		return "", false, fault("kind", "must not be empty")
	}
	if n.ID == "" {
		n.ID = enginecore.FlowID(uuid.NewString())
	}
	if n.Namespace == "" {
		n.Namespace = "default"
	}
	p, err := c.flowPartition(n.ID)
	if err != nil {
		return "", false, err
	}
	now, err := c.now(ctx)
	if err != nil {
		return "", false, of(err, "create", "flow", string(n.ID))
	}
	reply, err := c.core.CreateFlow(ctx, enginerpc.CreateFlowCall{
		Partition: p, FlowID: n.ID, FlowKind: n.Kind, Namespace: n.Namespace, Now: now,
	})
	return reply.FlowID, reply.Status == enginerpc.StatusAlreadySatisfied, of(err, "create", "flow", string(n.ID))
}

// AddExecution makes an execution a member of a flow, in one atomic step. It returns the number of members that the
// flow has then, and whether the execution was already a member.
//
// The error wraps ErrPartition, enginecore.ErrFlowNotFound, enginecore.ErrFlowAlreadyTerminal,
// enginecore.ErrExecutionNotFound or enginecore.ErrAlreadyMemberOfDifferentFlow.
func (c *Client) AddExecution(
	ctx context.Context, flow enginecore.FlowID, id enginecore.ExecutionID,
) (members int, already bool, err error) {
	p, err := c.flowPartition(flow)
	if err != nil {
		return 0, false, err
	}
	if err := c.checkID(id); err != nil {
		return 0, false, err
	}
	if at, _ := keyspace.PartitionOf(id); at != p {
		return 0, false, fmt.Errorf("add execution %s to flow %s: %w: %s and %s", id, flow, ErrPartition, at, p)
	}
	now, err := c.now(ctx)
	if err != nil {
		return 0, false, of(err, "add to", "flow", string(flow))
	}
	reply, err := c.core.AddExecutionToFlow(ctx,
		enginerpc.AddExecutionToFlowCall{FlowID: flow, ExecutionID: id, Now: now})
	if err != nil {
		return 0, false, of(err, "add "+string(id)+" to", "flow", string(flow))
	}
	return int(reply.NodeCount), reply.Status == enginerpc.StatusAlreadySatisfied, nil
}

// Edge is a dependency between two members of a flow.
type Edge struct {
	Flow enginecore.FlowID
	// ID is the id of the edge. Defaults to a random one.
	ID enginecore.EdgeID
	// Upstream must succeed before Downstream may start.
	Upstream, Downstream enginecore.ExecutionID
	// Input is the name under which the downstream receives the upstream's result; empty passes no result.
	Input string
}

func (c *Client) checkEdge(e *Edge) error {
	return errors.Join(c.checkID(e.Upstream), c.checkID(e.Downstream))
}

// edgeKind is the only kind of edge that the contract has.
const edgeKind = "success_only"

// StageEdge adds an edge to the graph of a flow, in one atomic step, if the graph has the expected revision. Every
// change of the graph increases FlowInfo.Revision by one. It returns the id of the edge and the new revision. The edge
// has no effect on the downstream until ApplyEdge.
//
// The error wraps enginecore.ErrStaleGraphRevision when the graph has changed, enginecore.ErrFlowNotFound,
// enginecore.ErrFlowAlreadyTerminal, enginecore.ErrExecutionNotInFlow, enginecore.ErrCycleDetected,
// enginecore.ErrSelfReferencingEdge or enginecore.ErrDependencyAlreadyExists.
func (c *Client) StageEdge(ctx context.Context, e Edge, revision int64) (enginecore.EdgeID, int64, error) {
	if e.ID == "" {
		e.ID = enginecore.EdgeID(uuid.NewString())
	}
	if err := c.checkEdge(&e); err != nil {
		return "", 0, err
	}
	now, err := c.now(ctx)
	if err != nil {
		return "", 0, of(err, "stage edge of", "flow", string(e.Flow))
	}
	reply, err := c.core.StageDependencyEdge(ctx, enginerpc.StageDependencyEdgeCall{
		FlowID: e.Flow, EdgeID: e.ID, UpstreamExecutionID: e.Upstream, DownstreamExecutionID: e.Downstream,
		DependencyKind: edgeKind, DataPassingRef: e.Input, ExpectedGraphRevision: revision, Now: now,
	})
	return e.ID, reply.GraphRevision, of(err, "stage edge of", "flow", string(e.Flow))
}

// ApplyEdge makes the downstream of a staged edge wait for its upstream, in one atomic step. The revision is the one
// that StageEdge returned. It returns the number of edges for which the downstream waits, or 0 and true when the edge
// was already applied. The error wraps enginecore.ErrExecutionNotFound, or enginecore.ErrExecutionAlreadyInFlow when
// the downstream is a member of another flow.
func (c *Client) ApplyEdge(ctx context.Context, e Edge, revision int64) (unsatisfied int, already bool, err error) {
	if e.ID == "" {
		return 0, false, fault("edge id", "must not be empty")
	}
	if err := c.checkEdge(&e); err != nil {
		return 0, false, err
	}
	r, err := c.coreOf(ctx, e.Downstream, "lane_id")
	if err != nil {
		return 0, false, of(err, "apply", "edge", string(e.ID))
	}
	now, err := c.now(ctx)
	if err != nil {
		return 0, false, of(err, "apply", "edge", string(e.ID))
	}
	reply, err := c.core.ApplyDependencyToChild(ctx, enginerpc.ApplyDependencyToChildCall{
		DownstreamExecutionID: e.Downstream, LaneID: r.Lane(), GroupExecutionID: e.Downstream, FlowID: e.Flow,
		EdgeID:              e.ID,
		UpstreamExecutionID: e.Upstream, GraphRevision: revision, DependencyKind: edgeKind, DataPassingRef: e.Input,
		Now: now,
	})
	if err != nil {
		return 0, false, of(err, "apply", "edge", string(e.ID))
	}
	if reply.Unresolved == "already_applied" {
		return 0, true, nil
	}
	return int(hashrecord.Int(reply.Unresolved)), false, nil
}

// FlowInfo is the record of a flow.
type FlowInfo struct {
	ID        enginecore.FlowID
	Kind      string
	Namespace string
	// State is open, completed, failed or cancelled.
	State string
	// Members and Edges count the members and edges of the graph; Revision counts its changes.
	Members, Edges int
	Revision       int64
	// CancelReason and CancelPolicy are set when the flow was cancelled.
	CancelReason string
	CancelPolicy string
	// CreatedAt, CancelledAt and ClosedAt are zero when they do not apply. Only managed flows have ClosedAt.
	CreatedAt, CancelledAt, ClosedAt time.Time
	// Managed reports whether runtime.Start submitted the flow with its whole graph; Run is its run id then.
	Managed bool
	Run     string
	// GraphHash are the first 32 digits of the hash of that graph, flow.Definition.Hash; empty for other flows.
	GraphHash string
	// Tags are the tags of the flow. Listings set them only with WithTags.
	Tags map[string]string
}

var flowFields = []string{
	"flow_kind", "namespace", "public_flow_state", "node_count", "edge_count", "graph_revision", "cancel_reason",
	"cancellation_policy", "created_at", "cancelled_at", "closed_at", "managed", "run_id", "graph_hash",
}

func flowOf(id enginecore.FlowID, r hashrecord.Record) FlowInfo {
	return FlowInfo{
		ID: id, Kind: r["flow_kind"], Namespace: r["namespace"], State: r["public_flow_state"],
		Members: int(r.Int("node_count")),
		Edges:   int(r.Int("edge_count")), Revision: r.Int("graph_revision"), CancelReason: r["cancel_reason"],
		CancelPolicy: r["cancellation_policy"], CreatedAt: r.Time("created_at"),
		CancelledAt: r.Time("cancelled_at"),
		ClosedAt:    r.Time("closed_at"), Managed: r["managed"] != "", Run: r["run_id"], GraphHash: r["graph_hash"],
	}
}

// Flow returns a flow with its tags. The record is of one moment; the tags are read separately. The error wraps
// enginecore.ErrFlowNotFound. For a run, runtime.RunRef.Describe returns more.
func (c *Client) Flow(ctx context.Context, id enginecore.FlowID) (FlowInfo, error) {
	p, err := c.flowPartition(id)
	if err != nil {
		return FlowInfo{}, err
	}
	r, err := c.flow(ctx, id, flowFields)
	if err != nil {
		return FlowInfo{}, of(err, "describe", "flow", string(id))
	}
	results, err := c.read(ctx, c.client.B().Hgetall().Key(c.keys.FlowTags(p, id)).Build())
	if err != nil {
		return FlowInfo{}, of(err, "describe", "flow", string(id))
	}
	info := flowOf(id, r)
	info.Tags = tagsOf(results[0])
	return info, nil
}

// flow reads fields of a flow.
func (c *Client) flow(ctx context.Context, id enginecore.FlowID, fields []string) (hashrecord.Record, error) {
	found, err := c.core.FlowFields(ctx, []enginecore.FlowID{id}, fields)
	if err != nil {
		return nil, err
	}
	if found[id] == nil {
		return nil, enginecore.ErrFlowNotFound
	}
	return found[id], nil
}

// runsCursor begins the cursor of a page of runs, which follow all other flows: "runs.<partition>.<time>.<id>".
const runsCursor = "runs."

// flowIDs returns about limit flows from a cursor on, each with its partition: first the members of the index of
// flows, and then the runs, which are in lists of their own.
func (c *Client) flowIDs(
	ctx context.Context, cursor string, limit int,
) (ids []string, next string, places []keyspace.Partition, err error) {
	s := source{partitions: c.core.Partitioning().FlowPartitions(), key: c.keys.IndexFlowIndex}
	if strings.HasPrefix(cursor, runsCursor) {
		return c.runIDs(ctx, s.partitions, cursor, limit)
	}
	ids, next, places, err = c.scanPlaces(ctx, s, cursor, limit)
	if next == "" && err == nil {
		next = fmt.Sprintf("%s%d.0.", runsCursor, s.partitions[0].Index)
	}
	return ids, next, places, err
}

func (c *Client) runIDs(
	ctx context.Context, partitions []keyspace.Partition, cursor string, limit int,
) (ids []string, next string, places []keyspace.Partition, err error) {
	at, rest, err := placeOf(cursor, runsCursor, partitions)
	if err != nil {
		return nil, "", nil, err
	}
	listedAt, id, _ := strings.Cut(rest, ".")
	after, err := strconv.ParseInt(listedAt, 10, 64)
	if err != nil {
		return nil, "", nil, fmt.Errorf("%w: %.80q", runtime.ErrCursor, cursor)
	}
	if limit <= 0 {
		limit = defaultLimit
	}
	for limit = min(limit, maxLimit); len(ids) < limit && at < len(partitions); {
		reply, err := c.core.ListRuns(ctx, enginerpc.ListRunsCall{
			Partition: partitions[at], Limit: int64(limit - len(ids)), Children: true, OldestFirst: true,
			BehindAt: after, BehindID: enginecore.FlowID(id),
		})
		if errors.Is(err, enginecore.ErrContractOnly) {
			return nil, "", nil, nil // contract mode has no runs
		} else if err != nil {
			return nil, "", nil, err
		}
		for _, run := range reply.Runs {
			ids, places = append(ids, string(run.FlowID)), append(places, partitions[at])
		}
		after, id = reply.NextAt, string(reply.NextID)
		if !reply.More {
			after, id = 0, ""
			at++
		}
	}
	if at == len(partitions) {
		return ids, "", places, nil
	}
	return ids, fmt.Sprintf("%s%d.%d.%s", runsCursor, partitions[at].Index, after, id), places, nil
}

// Policies for cancelling a flow, which FlowCancel describes.
const (
	cancelAll      = "cancel_all"
	cancelPending  = "cancel_pending"
	cancelFlowOnly = "flow_only"
)

// FlowCancel describes the cancellation of a flow.
type FlowCancel struct {
	// Reason is recorded with the flow and its members.
	Reason string
	// Policy is cancel_all, which cancels the flow and all its members; cancel_pending, which cancels the members that
	// do not run, where other FlowFabric servers cancel no member; or flow_only, which marks the flow as cancelled and
	// leaves its members alone, except the members of a managed flow. Defaults to cancel_all.
	Policy string
}

// FlowCancelled is the result of a cancellation.
type FlowCancelled struct {
	// Policy is the policy in effect, which an earlier call may have set.
	Policy string
	// Already reports whether the flow was over before the call.
	Already bool
	// Members are the members of the flow; at most 1,000 if the flow was over before.
	Members []enginecore.ExecutionID
	// Failed has the members that could not be cancelled, with the error of each. Only CancelFlowAndWait sets it.
	Failed map[enginecore.ExecutionID]error
}

const (
	// cancelGrace is how long a keeper leaves the members to the caller of CancelFlowAndWait.
	cancelGrace = 30 * time.Second
	// cancelConcurrency bounds how many members are cancelled at a time.
	cancelConcurrency = 16
	// maxMembersShown bounds the members of a flow that was over before.
	maxMembersShown = 1000
)

// CancelFlow marks a flow as cancelled, in one atomic step. Keepers, or the server of another FlowFabric, cancel its
// members afterwards; keepers of this library start at once. Cancelling a flow that is over is not an error;
// FlowCancelled.Already reports it. The error wraps enginecore.ErrFlowNotFound.
func (c *Client) CancelFlow(ctx context.Context, id enginecore.FlowID, how FlowCancel) (FlowCancelled, error) {
	cancelled, err := c.cancelFlow(ctx, id, how, time.Millisecond) // 0 would be the default
	if err != nil {
		return cancelled, of(err, "cancel", "flow", string(id))
	}
	c.notifyKeepers(ctx, id)
	return cancelled, nil
}

// notifyKeepers notifies the keepers of due work in the partition of a flow. It is a hint: without it, they read the
// partition some seconds later.
func (c *Client) notifyKeepers(ctx context.Context, id enginecore.FlowID) {
	p, err := c.flowPartition(id)
	if err != nil {
		return
	}
	message := enginerpc.DueMessage{Partition: p, At: time.UnixMilli(0)}.Text() // a time that has passed by any clock
	c.client.Do(ctx, c.client.B().Publish().Channel(c.keys.ChannelDue()).Message(message).Build())
}

// CancelFlowAndWait marks a flow as cancelled, in one atomic step, and cancels its members, each in a separate step and
// several at a time. When it returns nil, all of them have ended. FlowCancelled.Failed lists the members that could not
// be cancelled, and the error wraps ErrPartlyCancelled; keepers continue with them, and the call can be repeated. With
// a policy that leaves the members alone, it does the same as CancelFlow.
func (c *Client) CancelFlowAndWait(ctx context.Context, id enginecore.FlowID, how FlowCancel) (FlowCancelled, error) {
	cancelled, err := c.cancelFlow(ctx, id, how, cancelGrace)
	if err == nil && !cancelled.Already && cancelled.Policy == cancelAll {
		cancelled.Failed, err = c.cancelMembers(ctx, id, cancelled.Members, how.Reason)
	}
	return cancelled, of(err, "cancel", "flow", string(id))
}

func (c *Client) cancelFlow(
	ctx context.Context, id enginecore.FlowID, how FlowCancel, grace time.Duration,
) (FlowCancelled, error) {
	if err := checkReason(how.Reason); err != nil {
		return FlowCancelled{}, err
	}
	switch how.Policy {
	case "":
		how.Policy = cancelAll
	case cancelAll, cancelPending, cancelFlowOnly:
	default:
		return FlowCancelled{}, fault("policy", "%.40q is none of %s, %s, %s", how.Policy, cancelAll, cancelPending,
			cancelFlowOnly)
	}
	p, err := c.flowPartition(id)
	if err != nil {
		return FlowCancelled{}, err
	}
	now, err := c.now(ctx)
	if err != nil {
		return FlowCancelled{}, err
	}
	var reply enginerpc.ContractCancelFlowReply
	err = c.audited(ctx, auditlink.CancelFlow, string(id), string(how.Policy)+" "+how.Reason, func() (err error) {
		reply, err = c.core.ContractCancelFlow(ctx, enginerpc.ContractCancelFlowCall{
			Partition: p, FlowID: id, Reason: how.Reason, CancellationPolicy: string(how.Policy), Now: now,
			Grace: grace,
		})
		return err
	})
	if errors.Is(err, enginecore.ErrFlowAlreadyTerminal) {
		return c.alreadyCancelled(ctx, p, id, how)
	}
	if err != nil {
		return FlowCancelled{}, err
	}
	return FlowCancelled{Policy: reply.Policy, Members: reply.Members}, nil
}

func (c *Client) alreadyCancelled(
	ctx context.Context, p keyspace.Partition, id enginecore.FlowID, how FlowCancel,
) (FlowCancelled, error) {
	fields := []string{"cancellation_policy", "flow_kind"}
	r, err := c.flow(ctx, id, fields)
	if err != nil {
		return FlowCancelled{}, err
	}
	cancelled := FlowCancelled{Policy: how.Policy, Already: true}
	if r["cancellation_policy"] != "" {
		cancelled.Policy = r["cancellation_policy"]
	}
	for member, err := range c.Members(ctx, id) {
		if err != nil {
			return cancelled, err
		}
		if cancelled.Members = append(cancelled.Members, member); len(cancelled.Members) == maxMembersShown {
			break
		}
	}
	return cancelled, nil
}

// cancelMembers cancels members and notes those that are done.
func (c *Client) cancelMembers(
	ctx context.Context, flow enginecore.FlowID, members []enginecore.ExecutionID, reason string,
) (map[enginecore.ExecutionID]error, error) {
	failed := make(map[enginecore.ExecutionID]error)
	var mu sync.Mutex
	var cancelling errgroup.Group
	cancelling.SetLimit(cancelConcurrency)
	for _, member := range members {
		cancelling.Go(func() error {
			if err := c.cancelMember(ctx, flow, member, reason); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[member] = err
			}
			return nil
		})
	}
	_ = cancelling.Wait() // the faults are gathered one by one
	if len(failed) == 0 {
		return nil, nil
	}
	return failed, fmt.Errorf("%w: %d of %d", ErrPartlyCancelled, len(failed), len(members))
}

func (c *Client) cancelMember(
	ctx context.Context, flow enginecore.FlowID, id enginecore.ExecutionID, reason string,
) error {
	r, err := c.coreOf(ctx, id, cancelFields...)
	if err == nil {
		_, err = c.core.CancelExecution(ctx, cancelCall(id, r, reason))
	}
	if errors.Is(err, enginecore.ErrOutcomeUnknown) {
		if state, look := c.ExecutionState(ctx, id); look == nil && state.Ended() {
			err = nil
		}
	}
	if err != nil && !errors.Is(err, enginecore.ErrExecutionNotActive) &&
		!errors.Is(err, enginecore.ErrExecutionNotFound) {
		return err
	}
	_, err = c.core.AckCancelMember(ctx, enginerpc.AckCancelMemberCall{ExecutionID: id, FlowID: flow})
	return err
}
