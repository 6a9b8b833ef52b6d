package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/flows"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Runs reads runs from the records of their flows and nodes, and cancels them. It is safe for concurrent use.
type Runs struct{ *flows.Flows }

func New(f *flows.Flows) *Runs { return &Runs{f} }

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

// nodeRecord is a member of a flow with its nodeFields.
type nodeRecord struct {
	id       enginecore.ExecutionID
	name     string
	category string // of the failure
	details  []byte // of the failure
	core     engine.Record
	// unneeded: a join has cancelled it; tolerated: joins have made up for its end without success.
	unneeded, tolerated bool
}

// runRecord is a flow with all its nodes as read from the records, and values derived from them.
type runRecord struct {
	core, tags engine.Record
	nodes      []nodeRecord
	open       int
	closedAt   time.Time
	outcome    string // once all nodes have ended
	failed     *nodeRecord
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
func (c *Runs) readRun(ctx context.Context, p keyspace.Partition, id enginecore.FlowID) (*runRecord, error) {
	results, err := c.Read(ctx, c.Hmget(c.Keys.FlowCore(p, id), runFields), c.Hmget(c.Keys.FlowTags(p, id), runTags))
	if err != nil {
		return nil, err
	}
	run := &runRecord{core: hashrecord.Read(results[0], runFields), tags: hashrecord.Read(results[1], runTags)}
	if !run.core.Exists() {
		return nil, fmt.Errorf("flow %s: %w", id, enginecore.ErrFlowNotFound)
	}
	members, err := c.Members(ctx, p, id)
	if err != nil {
		return nil, err
	}
	slices.Sort(members)
	cores, err := c.ReadCores(ctx, members, nodeFields)
	if err != nil {
		return nil, err
	}
	for i, member := range members {
		if cores[i].Exists() {
			run.nodes = append(run.nodes, nodeRecord{id: member, name: string(member), core: cores[i]})
		}
	}
	if err := c.readNames(ctx, run.nodes); err != nil {
		return nil, err
	}
	if hash := run.tags[contractnode.TagGraphHash]; hash != "" {
		graph, err := c.Graph(ctx, p, id, hash)
		if err != nil {
			return nil, err
		}
		run.tolerate(graph)
	}
	run.judge()
	return run, nil
}

// readNames reads the names of nodes and the categories of their failures.
func (c *Runs) readNames(ctx context.Context, nodes []nodeRecord) error {
	for len(nodes) > 0 {
		page := nodes[:min(len(nodes), link.Page/2)]
		nodes = nodes[len(page):]
		commands := make(rueidis.Commands, 0, 2*len(page))
		tags := []string{contractnode.TagNode, contractnode.TagDetails}
		for _, n := range page {
			attempt := enginecore.AttemptIndex(n.core.Int("current_attempt_index"))
			commands = append(commands, c.Hmget(c.Keys.ExecTags(n.id), tags),
				c.Client.B().Hget().Key(c.Keys.AttemptRecord(n.id, attempt)).Field("failure_category").Build())
		}
		results, err := c.Read(ctx, commands...)
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
func (r *runRecord) judge() {
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
func (r *runRecord) ends() map[string]int64 {
	count := make(map[string]int64)
	for i := range r.nodes {
		if core := r.nodes[i].core; core.IsTerminal() {
			count[core["terminal_outcome"]]++
		}
	}
	return count
}

// state returns the public state of the run.
func (r *runRecord) state() string {
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
func (r *runRecord) over() time.Time {
	if r.outcome == "" || r.open > 0 {
		return time.Time{}
	}
	if r.closedAt.IsZero() {
		return r.core.Time("created_at")
	}
	return r.closedAt
}

// node returns the node of an execution; nil if the run has none.
func (r *runRecord) node(id enginecore.ExecutionID) *nodeRecord {
	for i := range r.nodes {
		if r.nodes[i].id == id {
			return &r.nodes[i]
		}
	}
	return nil
}

// failure returns the node that failed first, with its reason and category; "" if none failed.
func (r *runRecord) failure() (node, reason, category string) {
	if r.failed == nil {
		return "", "", ""
	}
	core := r.failed.core
	reason, category = engine.PlainFailure(core["failure_reason"], r.failed.category)
	return r.failed.name, reason, cmp.Or(category, core["terminal_outcome"])
}

// WatchRun returns the state of a run. It makes no mark: all processes receive the ends of all runs.
func (c *Runs) WatchRun(ctx context.Context, call enginerpc.WatchRunCall) (enginerpc.WatchRunReply, error) {
	if call.Duration == 0 {
		return enginerpc.WatchRunReply{Status: enginerpc.StatusOK}, nil
	}
	reply, err := c.FlowResult(ctx, enginerpc.FlowResultCall{Partition: call.Partition, FlowID: call.FlowID})
	return enginerpc.WatchRunReply(reply), err
}

// FlowResult returns the state of a run and, once it is over, its result. While the run is open, it reads only the
// nodes that no check has found ended; then it reads all of them.
func (c *Runs) FlowResult(ctx context.Context, call enginerpc.FlowResultCall) (enginerpc.FlowResultReply, error) {
	reply := enginerpc.FlowResultReply{Status: enginerpc.StatusOK, State: "open"}
	results, err := c.Read(ctx, c.Client.B().Exists().Key(c.Keys.FlowCore(call.Partition, call.FlowID)).Build())
	if err != nil {
		return reply, err
	}
	if n, err := results[0].AsInt64(); err != nil || n == 0 {
		return reply, fmt.Errorf("flow %s: %w", call.FlowID, enginecore.ErrFlowNotFound)
	}
	over, err := c.IsOver(ctx, call.Partition, call.FlowID)
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
		if results, err = c.Read(ctx,
			c.Client.B().Get().Key(c.Keys.ExecResult(enginecore.ExecutionID(id))).Build()); err != nil {
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
func (c *Runs) DescribeFlow(
	ctx context.Context, call enginerpc.DescribeFlowCall,
) (enginerpc.DescribeFlowReply, error) {
	reply := enginerpc.DescribeFlowReply{Status: enginerpc.StatusOK, Now: c.Now()}
	run, err := c.readRun(ctx, call.Partition, call.FlowID)
	if err != nil {
		return reply, err
	}
	definition, err := c.Read(ctx, c.Client.B().Hget().Key(c.Keys.FlowTags(call.Partition,
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
func (n *nodeRecord) describe() enginerpc.DescribedNode {
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
	if d.Kind == link.WaitKind {
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
func (c *Runs) CancelFlow(ctx context.Context, call enginerpc.CancelFlowCall) (enginerpc.CancelFlowReply, error) {
	reply := enginerpc.CancelFlowReply{Status: enginerpc.StatusOK, State: "cancelled"}
	over, err := c.FlowResult(ctx, enginerpc.FlowResultCall{Partition: call.Partition, FlowID: call.FlowID})
	if err != nil {
		return reply, err
	}
	if !over.ClosedAt.IsZero() && over.Outcome != "cancelled" {
		return reply, fmt.Errorf("flow %s: %w", call.FlowID, enginecore.ErrFlowAlreadyTerminal)
	}
	_, err = link.CallAgain[enginerpc.ContractCancelFlowReply](ctx, c.Link, enginerpc.ContractCancelFlowCall{
		Partition: call.Partition, FlowID: call.FlowID, Reason: call.Reason, CancellationPolicy: "cancel_all",
		Now: c.Now(),
	})
	if errors.Is(err, enginecore.ErrFlowAlreadyTerminal) {
		reply.Status, err = enginerpc.StatusAlreadySatisfied, nil
	}
	if err != nil {
		return reply, err
	}
	_, err = link.CallAgain[enginerpc.SetFlowTagsReply](ctx, c.Link, enginerpc.SetFlowTagsCall{
		Partition: call.Partition, FlowID: call.FlowID, Tags: []string{contractnode.TagCancelledBy, call.Actor},
	})
	if err != nil {
		return reply, err
	}
	members, err := c.Members(ctx, call.Partition, call.FlowID)
	if err != nil {
		return reply, err
	}
	_, err = c.CancelMembers(ctx, call.Partition, call.FlowID, call.Reason, members)
	return reply, err
}

// ListRuns reads all flows in the contract's index of flows of the partition, and returns the newest ones of the
// named flow, up to the limit.
func (c *Runs) ListRuns(ctx context.Context, call enginerpc.ListRunsCall) (enginerpc.ListRunsReply, error) {
	reply := enginerpc.ListRunsReply{Status: enginerpc.StatusOK}
	fields := []string{"flow_kind", "created_at", "namespace"}
	for cursor := uint64(0); ; {
		entry, err := c.Client.Do(ctx,
			c.Client.B().Sscan().Key(c.Keys.IndexFlowIndex(call.Partition)).Cursor(cursor).Count(link.Page).Build(),
		).AsScanEntry()
		if err != nil {
			return reply, engine.ReadError(ctx, "SSCAN", err)
		}
		commands := make(rueidis.Commands, len(entry.Elements))
		for i, id := range entry.Elements {
			commands[i] = c.Hmget(c.Keys.FlowCore(call.Partition, enginecore.FlowID(id)), fields)
		}
		results, err := c.Read(ctx, commands...)
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
func (c *Runs) completeRuns(ctx context.Context, p keyspace.Partition, runs []enginerpc.Run) error {
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

// detailsOf returns the details of a node's failure from a tag; nil if they are of an earlier attempt.
func detailsOf(tag string, n *nodeRecord) []byte {
	attempt, details, found := strings.Cut(tag, ":")
	if !found || attempt != n.core["current_attempt_index"] || n.core["terminal_outcome"] != "failed" {
		return nil
	}
	return []byte(details)
}

// FlowFailures returns the nodes that failed, expired or were cancelled on their own, all in one page.
func (c *Runs) FlowFailures(
	ctx context.Context, call enginerpc.FlowFailuresCall,
) (enginerpc.FlowFailuresReply, error) {
	reply := enginerpc.FlowFailuresReply{Status: enginerpc.StatusOK}
	run, err := c.readRun(ctx, call.Partition, call.FlowID)
	if err != nil {
		return reply, err
	}
	for _, n := range run.nodes {
		f := enginerpc.FlowFailure{
			ExecutionID: n.id, Node: n.name, Outcome: n.core["terminal_outcome"], EndedAt: n.core.Time("completed_at"),
			Attempts: n.core.Int("total_attempt_count"), Reason: n.core["failure_reason"], Category: n.category,
			Tolerated: n.tolerated, Details: n.details,
		}
		switch {
		case n.unneeded:
			continue
		case f.Outcome == "failed", f.Outcome == "expired" && !n.exceededDeadline():
		case f.Outcome == "cancelled" && run.core["public_flow_state"] != "cancelled":
			f.Reason, f.Category = n.core["cancellation_reason"], ""
			f.Details = nil
		default:
			continue
		}
		reply.Failures = append(reply.Failures, f)
	}
	return reply, nil
}

// siblingReason begins the reasons of cancels of upstreams that a join does not need.
const siblingReason = "sibling_quorum"

// tolerate marks the nodes that joins did not need or whose failure joins have made up for, by the graph of the run;
// nil leaves all as they are. As in this project's library, a join that is impossible makes up for nothing.
func (r *runRecord) tolerate(g *flows.Graph) {
	if g == nil || len(g.Joins) == 0 {
		return
	}
	impossible := slices.ContainsFunc(r.nodes, func(n nodeRecord) bool {
		return g.Joins[n.name] && n.core["terminal_outcome"] == "skipped"
	})
	for i := range r.nodes {
		n := &r.nodes[i]
		switch n.core["terminal_outcome"] {
		case "cancelled":
			n.unneeded = strings.HasPrefix(n.core["cancellation_reason"], siblingReason) && g.FeedsJoin(n.name)
			n.tolerated = !n.unneeded && !impossible && g.LeadsToJoins(n.name)
		case "failed", "expired":
			n.tolerated = !impossible && !n.exceededDeadline() && g.LeadsToJoins(n.name)
		}
	}
}

// exceededDeadline reports whether the node ended with the deadline of its run.
func (n *nodeRecord) exceededDeadline() bool {
	return n.core["terminal_outcome"] == "expired" && n.core["failure_reason"] == "execution_deadline"
}
