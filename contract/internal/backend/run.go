package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// nodeFields are the fields of an execution that a description of its node needs.
var nodeFields = []string{
	"execution_kind", "lane_id", "public_state", "lifecycle_phase", "eligibility_state", "blocking_reason",
	"blocking_detail",
	"total_attempt_count", "retry_count", "lease_reclaim_count", "created_at", "started_at", "completed_at",
	"delay_until",
	"current_worker_instance_id", "lease_expires_at", "progress_pct", "progress_message", "failure_reason",
	"cancellation_reason", "lease_acquired_at", "progress_updated_at", "terminal_outcome", "current_attempt_index",
	"last_transition_at",
	"flow_id",
}

// contractNode is a member of a flow with its nodeFields.
type contractNode struct {
	id       enginecore.ExecutionID
	name     string
	category string // of the failure
	details  []byte // of the failure
	core     engine.Record
	// unneeded: a join has cancelled it; tolerated: joins have made up for its end without success.
	unneeded, tolerated bool
}

// contractRun is a flow with all its nodes as read from the records, and values derived from them.
type contractRun struct {
	core, tags engine.Record
	nodes      []contractNode
	open       int
	closedAt   time.Time
	outcome    string // once all nodes have ended
	failed     *contractNode
}

var (
	runFields = []string{
		"flow_kind", "namespace", "public_flow_state", "created_at", "node_count", "edge_count", "cancel_reason",
		"cancelled_at",
	}
	runTags = []string{
		contractnode.TagRunID, contractnode.TagGraphHash, contractnode.TagResult, contractnode.TagDeadline,
		contractnode.TagSubmitted, contractnode.TagCancelledBy,
	}
)

// readRun reads a flow with all its nodes. The error wraps enginecore.ErrFlowNotFound if the flow does not exist.
func (c *contract) readRun(ctx context.Context, p keyspace.Partition, id enginecore.FlowID) (*contractRun, error) {
	results, err := c.read(ctx, c.hmget(c.keys.FlowCore(p, id), runFields), c.hmget(c.keys.FlowTags(p, id), runTags))
	if err != nil {
		return nil, err
	}
	run := &contractRun{core: hashrecord.Read(results[0], runFields), tags: hashrecord.Read(results[1], runTags)}
	if !run.core.Exists() {
		return nil, fmt.Errorf("flow %s: %w", id, enginecore.ErrFlowNotFound)
	}
	members, err := c.members(ctx, p, id)
	if err != nil {
		return nil, err
	}
	slices.Sort(members)
	cores, err := c.readCores(ctx, members, nodeFields)
	if err != nil {
		return nil, err
	}
	for i, member := range members {
		if cores[i].Exists() {
			run.nodes = append(run.nodes, contractNode{id: member, name: string(member), core: cores[i]})
		}
	}
	if err := c.readNames(ctx, run.nodes); err != nil {
		return nil, err
	}
	if hash := run.tags[contractnode.TagGraphHash]; hash != "" {
		graph, err := c.graphs.get(ctx, c, p, id, hash)
		if err != nil {
			return nil, err
		}
		run.tolerate(graph)
	}
	run.judge()
	return run, nil
}

// readNames reads the names of nodes and the categories of their failures.
func (c *contract) readNames(ctx context.Context, nodes []contractNode) error {
	for len(nodes) > 0 {
		page := nodes[:min(len(nodes), contractPage/2)]
		nodes = nodes[len(page):]
		commands := make(rueidis.Commands, 0, 2*len(page))
		tags := []string{contractnode.TagNode, contractnode.TagDetails}
		for _, n := range page {
			attempt := enginecore.AttemptIndex(n.core.Int("current_attempt_index"))
			commands = append(commands, c.hmget(c.keys.ExecTags(n.id), tags),
				c.client.B().Hget().Key(c.keys.AttemptRecord(n.id, attempt)).Field("failure_category").Build())
		}
		results, err := c.read(ctx, commands...)
		if err != nil {
			return err
		}
		for i := range page {
			found := hashrecord.Read(results[2*i], tags)
			page[i].name = cmp.Or(found[contractnode.TagNode], page[i].name)
			page[i].details = detailsOf(found[contractnode.TagDetails], &page[i])
			page[i].category, _ = results[2*i+1].ToString() // "" when there was none
		}
	}
	return nil
}

// judge computes outcome, end and failed node from the nodes: the contract has no record of them.
func (r *contractRun) judge() {
	count := make(map[string]int)
	for i := range r.nodes {
		n := &r.nodes[i]
		if !n.core.IsTerminal() {
			r.open++
			continue
		}
		outcome, at := n.core["terminal_outcome"], n.core.Time("completed_at")
		if at.After(r.closedAt) {
			r.closedAt = at
		}
		if n.unneeded || n.tolerated {
			continue
		}
		count[outcome]++
		if outcome != "failed" && outcome != "expired" {
			continue
		}
		if n.exceededDeadline() {
			count["deadline"]++
		}
		if r.failed == nil || at.Before(r.failed.core.Time("completed_at")) {
			r.failed = n
		}
	}
	switch {
	case r.core["public_flow_state"] == "cancelled":
		r.outcome = "cancelled"
	case r.open > 0 || r.tags[contractnode.TagRunID] != "" && r.tags[contractnode.TagSubmitted] == "":
	case count["deadline"] > 0:
		r.outcome = "expired"
	case count["failed"]+count["expired"] > 0:
		r.outcome = "failed"
	case count["cancelled"] > 0:
		r.outcome = "cancelled"
	default:
		r.outcome = "success"
	}
}

// ends counts the nodes that have ended by their outcome.
func (r *contractRun) ends() map[string]int64 {
	count := make(map[string]int64)
	for i := range r.nodes {
		if core := r.nodes[i].core; core.IsTerminal() {
			count[core["terminal_outcome"]]++
		}
	}
	return count
}

// state returns the public state of the run.
func (r *contractRun) state() string {
	switch r.outcome {
	case "":
		return "open"
	case "success":
		return "completed"
	case "cancelled":
		return "cancelled"
	}
	return "failed"
}

// over returns when the last node ended; zero while nodes are open.
func (r *contractRun) over() time.Time {
	if r.outcome == "" || r.open > 0 {
		return time.Time{}
	}
	if r.closedAt.IsZero() {
		return r.core.Time("created_at")
	}
	return r.closedAt
}

// node returns the node of an execution; nil if the run has none.
func (r *contractRun) node(id enginecore.ExecutionID) *contractNode {
	for i := range r.nodes {
		if r.nodes[i].id == id {
			return &r.nodes[i]
		}
	}
	return nil
}

// failure returns the node that failed first, with its reason and category; "" if none failed.
func (r *contractRun) failure() (node, reason, category string) {
	if r.failed == nil {
		return "", "", ""
	}
	core := r.failed.core
	reason, category = engine.PlainFailure(core["failure_reason"], r.failed.category)
	return r.failed.name, reason, cmp.Or(category, core["terminal_outcome"])
}

// FlowResult returns the state of a run and, once it is over, its result. While the run is open, it reads only the
// nodes that no check has found ended; then it reads all of them.
func (c *contract) FlowResult(ctx context.Context, call enginerpc.FlowResultCall) (enginerpc.FlowResultReply, error) {
	reply := enginerpc.FlowResultReply{Status: enginerpc.StatusOK, State: "open"}
	results, err := c.read(ctx, c.client.B().Exists().Key(c.keys.FlowCore(call.Partition, call.FlowID)).Build())
	if err != nil {
		return reply, err
	}
	if n, err := results[0].AsInt64(); err != nil || n == 0 {
		return reply, fmt.Errorf("flow %s: %w", call.FlowID, enginecore.ErrFlowNotFound)
	}
	over, err := c.ends.look(ctx, c, call.Partition, call.FlowID)
	if err != nil || !over {
		return reply, err
	}
	run, err := c.readRun(ctx, call.Partition, call.FlowID)
	if err != nil {
		return reply, err
	}
	reply.State, reply.Outcome, reply.ClosedAt = run.state(), run.outcome, run.over()
	reply.FailedNode, reply.FailureReason, reply.FailureCategory = run.failure()
	reply.CancelReason = run.core["cancel_reason"]
	if id := run.tags[contractnode.TagResult]; id != "" && reply.Outcome == "success" {
		if results, err = c.read(ctx,
			c.client.B().Get().Key(c.keys.ExecResult(enginecore.ExecutionID(id))).Build()); err != nil {
			return reply, err
		}
		// The contract stores no result without bytes.
		reply.Result, _ = results[0].AsBytes()
		node := run.node(enginecore.ExecutionID(id))
		reply.HasResult = node != nil && node.core["terminal_outcome"] == "success"
		if node != nil && !reply.HasResult {
			reply.ResultSkipped, reply.FailedNode = true, node.name
			reply.FailureReason, _ = engine.PlainFailure(node.core["failure_reason"], "")
		}
	}
	return reply, nil
}

// DescribeFlow reads the flow and all its nodes. They are not read at one moment, so they may be inconsistent with
// each other.
func (c *contract) DescribeFlow(
	ctx context.Context, call enginerpc.DescribeFlowCall,
) (enginerpc.DescribeFlowReply, error) {
	reply := enginerpc.DescribeFlowReply{Status: enginerpc.StatusOK, Now: c.now()}
	run, err := c.readRun(ctx, call.Partition, call.FlowID)
	if err != nil {
		return reply, err
	}
	definition, err := c.read(ctx, c.client.B().Hget().Key(c.keys.FlowTags(call.Partition,
		call.FlowID)).Field(contractnode.TagDefinition).Build())
	if err != nil {
		return reply, err
	}
	reply.Definition, _ = definition[0].AsBytes() // nil for a flow of another program
	reply.FlowName, reply.RunID, reply.Namespace = run.core["flow_kind"], run.tags[contractnode.TagRunID], run.core["namespace"]
	reply.State, reply.Outcome = run.state(), run.outcome
	reply.CreatedAt, reply.ClosedAt, reply.DeadlineAt = run.core.Time("created_at"), run.over(), run.tags.Time(contractnode.TagDeadline)
	reply.NodeCount, reply.EdgeCount = run.core.Int("node_count"), run.core.Int("edge_count")
	reply.OpenNodes = int64(run.open)
	reply.FailedNode, reply.FailureReason, reply.FailureCategory = run.failure()
	reply.CancelReason, reply.CancelledBy = run.core["cancel_reason"], run.tags[contractnode.TagCancelledBy]
	for _, n := range run.nodes {
		reply.Nodes = append(reply.Nodes, n.describe())
	}
	return reply, nil
}

// describe returns the description of a node. It shows no delay for a node that is held until its flow is submitted.
func (n *contractNode) describe() enginerpc.DescribedNode {
	core := n.core
	d := enginerpc.DescribedNode{
		ExecutionID: n.id, Node: n.name, Kind: core["execution_kind"], LaneID: core.Lane(), State: core["public_state"],
		LifecyclePhase: core["lifecycle_phase"], Eligibility: core["eligibility_state"],
		BlockingReason: core["blocking_reason"],
		BlockingDetail: core["blocking_detail"], Attempts: core.Int("total_attempt_count"),
		RetryCount:   core.Int("retry_count"),
		ReclaimCount: core.Int("lease_reclaim_count"), CreatedAt: core.Time("created_at"),
		StartedAt:   core.Time("started_at"),
		CompletedAt: core.Time("completed_at"), DelayUntil: core.Time("delay_until"),
		WorkerInstanceID: enginecore.WorkerInstanceID(core["current_worker_instance_id"]),
		LeaseExpiresAt:   core.Time("lease_expires_at"),
		ProgressPercent:  core["progress_pct"], ProgressMessage: core["progress_message"],
		FailureReason:   core["failure_reason"],
		FailureCategory: n.category, CancellationReason: core["cancellation_reason"],
		LeaseAcquiredAt: core.Time("lease_acquired_at"), ChangedAt: core.Time("last_transition_at"),
	}
	if d.Kind == waitKind {
		d.Kind, d.LaneID = "", "default"
	}
	if d.DelayUntil.Equal(contractnode.HeldUntil()) {
		d.DelayUntil = time.Time{}
		if d.BlockingReason == "waiting_for_delay" {
			d.BlockingReason, d.BlockingDetail = "held", "held until the flow is submitted"
		}
	}
	return d
}

// CancelFlow marks the flow as cancelled and ends its members call by call. The error wraps
// enginecore.ErrFlowAlreadyTerminal if the run is over.
func (c *contract) CancelFlow(ctx context.Context, call enginerpc.CancelFlowCall) (enginerpc.CancelFlowReply, error) {
	reply := enginerpc.CancelFlowReply{Status: enginerpc.StatusOK, State: "cancelled"}
	over, err := c.FlowResult(ctx, enginerpc.FlowResultCall{Partition: call.Partition, FlowID: call.FlowID})
	if err != nil {
		return reply, err
	}
	if !over.ClosedAt.IsZero() && over.Outcome != "cancelled" {
		return reply, fmt.Errorf("flow %s: %w", call.FlowID, enginecore.ErrFlowAlreadyTerminal)
	}
	_, err = callAgain[enginerpc.ContractCancelFlowReply](ctx, c, enginerpc.ContractCancelFlowCall{
		Partition: call.Partition, FlowID: call.FlowID, Reason: call.Reason, CancellationPolicy: "cancel_all",
		Now: c.now(),
	})
	if errors.Is(err, enginecore.ErrFlowAlreadyTerminal) {
		reply.Status, err = enginerpc.StatusAlreadySatisfied, nil
	}
	if err != nil {
		return reply, err
	}
	_, err = callAgain[enginerpc.SetFlowTagsReply](ctx, c, enginerpc.SetFlowTagsCall{
		Partition: call.Partition, FlowID: call.FlowID, Tags: []string{contractnode.TagCancelledBy, call.Actor},
	})
	if err != nil {
		return reply, err
	}
	members, err := c.members(ctx, call.Partition, call.FlowID)
	if err != nil {
		return reply, err
	}
	_, err = c.cancelMembers(ctx, call.Partition, call.FlowID, call.Reason, members)
	return reply, err
}

var cancelFields = []string{
	"lifecycle_phase", "lane_id", "current_attempt_index", "current_waitpoint_id", "current_worker_instance_id",
	"current_lease_id",
	"ownership_state",
}

// cancelMembers ends members of a cancelled flow, notifies the workers that run them, and acknowledges them in the
// list of owed cancels. It returns how many it acknowledged; the error joins an engine.ItemError for each of the
// others.
func (c *contract) cancelMembers(
	ctx context.Context, p keyspace.Partition, flow enginecore.FlowID, reason string, ids []enginecore.ExecutionID,
) (ended int, faults error) {
	for len(ids) > 0 {
		page := ids[:min(len(ids), contractPage/2)]
		ids = ids[len(page):]
		n, err := c.cancelSome(ctx, flow, reason, page)
		ended += n
		if faults = errors.Join(faults, err); retry.IsUnavailable(err) {
			return ended, faults
		}
	}
	return ended, errors.Join(faults, c.ends.check(ctx, c, p, flow))
}

// cancelSome is the part of cancelMembers for one page.
func (c *contract) cancelSome(
	ctx context.Context, flow enginecore.FlowID, reason string, ids []enginecore.ExecutionID,
) (ended int, faults error) {
	ids, cores, faults := c.readable(ctx, ids, cancelFields)
	if retry.IsUnavailable(faults) {
		return 0, faults
	}
	b := c.batch()
	cancelled := make([]*batching.CallResult[enginerpc.CancelExecutionReply], len(ids))
	for i, id := range ids {
		if cores[i].Exists() && !cores[i].IsTerminal() {
			cancelled[i] = addAgain[enginerpc.CancelExecutionReply](b, cancelCall(id, cores[i], reason))
		}
	}
	if err := b.run(ctx); err != nil {
		return 0, err
	}
	b = c.batch()
	for i, id := range ids {
		if a := cancelled[i]; a != nil {
			if a.Err != nil && !errors.Is(a.Err, enginecore.ErrExecutionNotActive) &&
				!errors.Is(a.Err, enginecore.ErrExecutionNotFound) {
				faults = errors.Join(faults, &engine.ItemError{Item: string(id), Err: a.Err})
				continue // it stays owed
			}
			c.tellStop(ctx, id, cores[i], engine.StopCancelled, reason)
		}
		ended++
		addAgain[enginerpc.AckCancelMemberReply](b, enginerpc.AckCancelMemberCall{ExecutionID: id, FlowID: flow})
	}
	if err := b.run(ctx); err != nil {
		return 0, errors.Join(faults, err)
	}
	return ended, faults
}

// cancelCall returns the call that ends a member. A flow's cancel publishes no completions of its members, so that no
// program propagates them; only an operator can end a member whose lease was revoked.
func cancelCall(id enginecore.ExecutionID, core engine.Record, reason string) enginerpc.CancelExecutionCall {
	source := "flow_cascade"
	if core["ownership_state"] == "lease_revoked" {
		source = "operator_override"
	}
	return enginerpc.CancelExecutionCall{
		AttemptIndex: enginecore.AttemptIndex(core.Int("current_attempt_index")), LaneID: core.Lane(), ExecutionID: id,
		WorkerInstanceID: enginecore.WorkerInstanceID(core["current_worker_instance_id"]),
		WaitpointID:      enginecore.WaitpointID(core["current_waitpoint_id"]), Reason: reason, Source: source,
	}
}

// tellStop notifies the worker of an execution, if it has one, to stop it. core has the execution as it was; kind is
// one of package engine.
func (c *contract) tellStop(ctx context.Context, id enginecore.ExecutionID, core engine.Record, kind, reason string) {
	worker := enginecore.WorkerInstanceID(core["current_worker_instance_id"])
	if worker == "" {
		return
	}
	stop := enginerpc.CancelMessage{
		ExecutionID: id, LeaseID: enginecore.LeaseID(core["current_lease_id"]), Kind: kind, Reason: reason,
	}
	c.publish(ctx, c.keys.ChannelWorker(worker), stop.Text())
}

// ListRuns reads all flows in the contract's index of flows of the partition, and returns the newest ones of the
// named flow, up to the limit.
func (c *contract) ListRuns(ctx context.Context, call enginerpc.ListRunsCall) (enginerpc.ListRunsReply, error) {
	reply := enginerpc.ListRunsReply{Status: enginerpc.StatusOK}
	fields := []string{"flow_kind", "created_at", "namespace"}
	for cursor := uint64(0); ; {
		entry, err := c.client.Do(ctx,
			c.client.B().Sscan().Key(c.keys.IndexFlowIndex(call.Partition)).Cursor(cursor).Count(contractPage).Build(),
		).AsScanEntry()
		if err != nil {
			return reply, engine.ReadError(ctx, "SSCAN", err)
		}
		commands := make(rueidis.Commands, len(entry.Elements))
		for i, id := range entry.Elements {
			commands[i] = c.hmget(c.keys.FlowCore(call.Partition, enginecore.FlowID(id)), fields)
		}
		results, err := c.read(ctx, commands...)
		if err != nil {
			return reply, err
		}
		for i, id := range entry.Elements {
			core := hashrecord.Read(results[i], fields)
			created := core.Time("created_at")
			if core["flow_kind"] == call.FlowName && core["namespace"] == call.Namespace &&
				(call.Before.IsZero() || created.Before(call.Before)) {
				reply.Runs = append(reply.Runs, enginerpc.Run{FlowID: enginecore.FlowID(id), CreatedAt: created})
			}
		}
		reply.Runs = newestRuns(reply.Runs, call.Limit)
		if cursor = entry.Cursor; cursor == 0 {
			break
		}
	}
	return reply, c.completeRuns(ctx, call.Partition, reply.Runs)
}

// newestRuns returns the newest runs without duplicates, up to a limit.
func newestRuns(runs []enginerpc.Run, limit int64) []enginerpc.Run {
	slices.SortFunc(runs, func(a, b enginerpc.Run) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.FlowID, b.FlowID))
	})
	runs = slices.CompactFunc(runs, func(a, b enginerpc.Run) bool { return a.FlowID == b.FlowID })
	return runs[:min(int64(len(runs)), limit)]
}

// completeRuns fills in state and outcome of runs. It leaves runs unchanged that were removed in the meantime.
func (c *contract) completeRuns(ctx context.Context, p keyspace.Partition, runs []enginerpc.Run) error {
	for i := range runs {
		run, err := c.readRun(ctx, p, runs[i].FlowID)
		if errors.Is(err, enginecore.ErrFlowNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		runs[i].RunID, runs[i].ClosedAt = run.tags[contractnode.TagRunID], run.over()
		runs[i].State, runs[i].Outcome = run.state(), run.outcome
		runs[i].FlowName, runs[i].NodeCount, runs[i].OpenNodes = run.core["flow_kind"], int64(len(run.nodes)), int64(run.open)
		runs[i].FailedNode, _, _ = run.failure()
		ends := run.ends()
		runs[i].NodesFailed, runs[i].NodesCancelled = ends["failed"], ends["cancelled"]
		runs[i].NodesExpired, runs[i].NodesSkipped = ends["expired"], ends["skipped"]
	}
	return nil
}

// EndLeases revokes all leases of a partition.
func (c *contract) EndLeases(ctx context.Context, call enginerpc.EndLeasesCall) (enginerpc.EndLeasesReply, error) {
	reply := enginerpc.EndLeasesReply{Status: enginerpc.StatusOK}
	results, err := c.read(ctx,
		c.client.B().Zrange().Key(c.keys.IndexLeaseExpiry(call.Partition)).Min("0").Max("-1").Build())
	if err != nil {
		return reply, err
	}
	ids := idsOf[enginecore.ExecutionID](results[0])
	cores, err := c.readCores(ctx, ids, []string{"current_worker_instance_id"})
	if err != nil {
		return reply, err
	}
	revocations := make([]enginerpc.RevokeLeaseCall, len(ids))
	for i, id := range ids {
		revocations[i] = enginerpc.RevokeLeaseCall{
			WorkerInstanceID: enginecore.WorkerInstanceID(cores[i]["current_worker_instance_id"]), ExecutionID: id,
			RevokeReason: "the process of its worker has ended",
		}
	}
	answers := sendContract[enginerpc.RevokeLeaseReply](ctx, c, revocations)
	reply.Ended = int64(len(ids))
	return reply, firstError(answers, enginecore.ErrExecutionNotActive, enginecore.ErrExecutionNotFound,
		enginecore.ErrNoActiveLease)
}
