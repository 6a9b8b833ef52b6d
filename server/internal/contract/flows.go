package contract

import (
	"errors"
	"net/http"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

func createFlow(c *call) error {
	var b struct {
		FlowID    uuidText `json:"flow_id"`
		FlowKind  string   `json:"flow_kind"`
		Namespace string   `json:"namespace"`
	}
	if err := c.decode(&b, "flow_id", "flow_kind", "namespace"); err != nil {
		return err
	}
	id, existed, err := c.operator.CreateFlow(c.ctx, admin.FlowSpec{
		ID: enginecore.FlowID(b.FlowID), Kind: b.FlowKind, Namespace: b.Namespace,
	})
	if err != nil {
		return err
	}
	return c.created(existed, "flow_id", string(id))
}

// created answers the creation of something that may have existed.
func (c *call) created(existed bool, name, id string) error {
	if existed {
		return c.reply(http.StatusOK, result("AlreadySatisfied", fields{name: id}))
	}
	return c.reply(http.StatusCreated, result("Created", fields{name: id}))
}

func addMember(c *call) error {
	flow, err := c.flow()
	if err != nil {
		return err
	}
	var b struct {
		FlowID      uuidText    `json:"flow_id"`
		ExecutionID executionID `json:"execution_id"`
	}
	if err := c.decode(&b, "flow_id", "execution_id"); err != nil {
		return err
	}
	if err := same("flow_id", string(flow), string(b.FlowID)); err != nil {
		return err
	}
	id := b.ExecutionID.id()
	if err := c.exists(id); err != nil {
		return err
	}
	count, already, err := c.operator.AddExecution(c.ctx, flow, id)
	switch {
	case err != nil:
		return err
	case already:
		return c.reply(http.StatusOK, result("AlreadyMember", fields{"execution_id": id, "node_count": count}))
	}
	return c.reply(http.StatusCreated, result("Added", fields{"execution_id": id, "new_node_count": count}))
}

// edgeBody describes an edge.
type edgeBody struct {
	FlowID     uuidText    `json:"flow_id"`
	EdgeID     uuidText    `json:"edge_id"`
	Upstream   executionID `json:"upstream_execution_id"`
	Downstream executionID `json:"downstream_execution_id"`
	Kind       string      `json:"dependency_kind"`
	Input      *string     `json:"data_passing_ref"`
	Expected   *uint64     `json:"expected_graph_revision"`
	Revision   *uint64     `json:"graph_revision"`
	Now        *millis     `json:"now"`
}

func (b *edgeBody) input() string {
	if b.Input == nil {
		return ""
	}
	return *b.Input
}

// edge reads an edge; required is the name of the revision.
func (c *call) edge(b *edgeBody, required string) (enginecore.FlowID, error) {
	flow, err := c.flow()
	if err != nil {
		return "", err
	}
	if err := c.decode(b, "flow_id", "edge_id", "upstream_execution_id", "downstream_execution_id",
		required); err != nil {
		return "", err
	}
	if err := same("flow_id", string(flow), string(b.FlowID)); err != nil {
		return "", err
	}
	return flow, c.exists(b.Upstream.id(), b.Downstream.id())
}

func stageEdge(c *call) error {
	var b edgeBody
	flow, err := c.edge(&b, "expected_graph_revision")
	if err != nil {
		return err
	}
	var revision int64
	if err := readNumbers(bounded{"expected_graph_revision", b.Expected, maxExact, &revision}); err != nil {
		return err
	}
	reply, err := c.core.StageDependencyEdge(c.ctx, enginerpc.StageDependencyEdgeCall{
		FlowID: flow, EdgeID: enginecore.EdgeID(b.EdgeID), UpstreamExecutionID: b.Upstream.id(),
		DownstreamExecutionID: b.Downstream.id(), DependencyKind: b.Kind, DataPassingRef: b.input(),
		ExpectedGraphRevision: revision, Now: timeOf(b.Now),
	})
	if err != nil {
		return err
	}
	return c.reply(http.StatusCreated, result("Staged", fields{
		"edge_id": b.EdgeID, "new_graph_revision": reply.GraphRevision,
	}))
}

func applyEdge(c *call) error {
	var b edgeBody
	flow, err := c.edge(&b, "graph_revision")
	if err != nil {
		return err
	}
	var revision int64
	if err := readNumbers(bounded{"graph_revision", b.Revision, maxExact, &revision}); err != nil {
		return err
	}
	e, err := c.operator.Execution(c.ctx, b.Downstream.id())
	if err != nil {
		return refused(enginerpc.FunctionName(enginerpc.ApplyDependencyToChildCall{}), err)
	}
	reply, err := c.core.ApplyDependencyToChild(c.ctx, enginerpc.ApplyDependencyToChildCall{
		DownstreamExecutionID: b.Downstream.id(), LaneID: e.Lane, GroupExecutionID: b.Downstream.id(), FlowID: flow,
		EdgeID: enginecore.EdgeID(b.EdgeID), UpstreamExecutionID: b.Upstream.id(), GraphRevision: revision,
		DependencyKind: b.Kind, DataPassingRef: b.input(), Now: timeOf(b.Now),
	})
	if err != nil {
		return err
	}
	unsatisfied, err := parseCount(reply.Unresolved)
	if err != nil { // "already_applied"
		return c.reply(http.StatusOK, "AlreadyApplied")
	}
	return c.reply(http.StatusOK, result("Applied", fields{"unsatisfied_count": unsatisfied}))
}

func cancelFlow(c *call) error {
	flow, err := c.flow()
	if err != nil {
		return err
	}
	var b struct {
		FlowID uuidText `json:"flow_id"`
		Reason string   `json:"reason"`
		Policy string   `json:"cancellation_policy"`
	}
	if err := c.decode(&b, "flow_id", "reason", "cancellation_policy"); err != nil {
		return err
	}
	if err := same("flow_id", string(flow), string(b.FlowID)); err != nil {
		return err
	}
	how := admin.FlowCancel{Reason: b.Reason, Policy: b.Policy}
	wait := c.r.URL.Query().Get("wait")
	waits := wait == "true" || wait == "1"
	cancel := c.operator.CancelFlow
	if waits {
		cancel = c.operator.CancelFlowAndWait
	}
	done, err := cancel(c.ctx, flow, how)
	if err != nil && !errors.Is(err, admin.ErrPartlyCancelled) {
		return err
	}
	out := fields{
		"cancellation_policy":  done.Policy,
		"member_execution_ids": append([]enginecore.ExecutionID{}, done.Members...),
	}
	switch {
	case len(done.Failed) > 0:
		failed := []enginecore.ExecutionID{}
		for _, id := range done.Members {
			if done.Failed[id] != nil {
				failed = append(failed, id)
			}
		}
		out["failed_member_execution_ids"] = failed
		return c.reply(http.StatusOK, result("PartiallyCancelled", out))
	case waits, done.Already, done.Policy != "cancel_all", len(done.Members) == 0:
		return c.reply(http.StatusOK, result("Cancelled", out))
	}
	out["member_count"] = len(done.Members)
	return c.reply(http.StatusOK, result("CancellationScheduled", out))
}
