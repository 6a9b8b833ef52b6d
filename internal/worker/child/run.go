package child

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// start submits the child run of a node, or continues an incomplete submission of it.
func (c *childRun) start(ctx context.Context) error {
	plan, err := c.plan(ctx)
	if err != nil {
		return err
	}
	submitter := submit.NewSubmitter(c.Run.Session)
	defer submitter.Close()
	err = c.retryUntilKnown(ctx, func() error {
		_, err := submitter.Submit(enginerpc.ContinueUnreplicated(ctx), plan)
		return err
	})
	if errors.Is(err, engine.ErrRunConflict) {
		err = activity.NonRetryable(err)
	}
	return err
}

// plan prepares the child run of a node for submission. The child run is retained as long as its parent.
func (c *childRun) plan(ctx context.Context) (*submit.RunPlan, error) {
	parent, node, err := c.declared()
	if err != nil {
		return nil, err
	}
	graph, input := c.childGraph(parent, node)
	compiled, err := submit.CompileFlow(graph, graph.Hash())
	if err != nil {
		return nil, activity.NonRetryable(err)
	}
	// The keys of the limits of items are read from the parent's input, which the items themselves do not
	// need.
	plan, err := submit.NewPlanIn(c.Run.Session, c.namespace(), compiled, c.runID, input)
	if err != nil {
		return nil, activity.NonRetryable(err)
	}
	plan.Carried = engine.CarriedIn(c.Claimed.TraceContext)
	inherited, err := c.node.Usage.OfRun()
	if err != nil {
		return nil, err
	}
	plan.Budgets = submit.InheritBudgets(plan.Budgets, inherited)
	if c.isMap() {
		plan.Input, plan.InputHash = nil, submit.HashInput(c.input)
	}
	// The child run inherits the current priority of its parent, and its fairness key unless its own
	// definition sets one.
	if plan.FairKey == "" {
		plan.FairKey = c.parent.FairKey
	}
	if priority, err := strconv.ParseInt(c.parent.Priority, 10, 64); err == nil {
		for i := range plan.Compiled.Nodes {
			plan.Compiled.Nodes[i].Priority = priority
		}
	}
	plan.Retention, plan.Creator = "", "flow "+c.Claimed.FlowName
	plan.Parents = []enginerpc.SubmitParent{{
		ExecutionID: string(c.Claimed.ExecutionID), FailFast: c.isMap() && !c.node.Spec.Outcomes,
	}}
	return plan, nil
}

// readParent reads the description of the run that the node belongs to.
func (c *childRun) readParent(ctx context.Context) error {
	core, err := c.Attempt.Run.Session.Library("child runs")
	if err != nil {
		return activity.NonRetryable(err)
	}
	c.core = core
	call := enginerpc.DescribeFlowCall{Partition: c.Shard.Partition, FlowID: c.Claimed.FlowID, Limit: 1}
	read := func() error {
		return c.retryUntilKnown(ctx, func() (err error) {
			c.parent, err = core.DescribeFlow(ctx, call)
			return err
		})
	}
	// The nodes of a map of a flow have the definition of all items in common, so it is read once.
	c.graph = nil
	if known, ok := c.node.Definitions.get(c.Claimed.FlowID); ok {
		call.Cursor = firstPage
		if err := read(); err != nil {
			return err
		}
		if known.createdAt.Equal(c.parent.CreatedAt) {
			c.graph = known.graph
			return nil
		}
		call.Cursor = ""
	}
	return read()
}

// firstPage is the cursor by which a run is read without its definition.
const firstPage = "0"

// declared returns the definition that was submitted with the parent, and the node in it.
func (c *childRun) declared() (*flowgraph.Graph, *flowgraph.Node, error) {
	graph, err := c.parsed()
	if err != nil {
		return nil, nil, err
	}
	node := graph.Node(c.Claimed.Node)
	if node == nil || !submit.IsChild(node) {
		err := errors.New("the definition of the run has no such map or sub-flow")
		return nil, nil, completion.Undecodable(err)
	}
	return graph, node, nil
}

// itemsGraph returns the flow of a map's items. The number of items that run at a time is a limit of that
// flow.
func (c *childRun) itemsGraph(node *flowgraph.Node) *flowgraph.Graph {
	var limit *activityspec.Limit
	if c.node.Spec.AtOnce > 0 && node.Sub == nil {
		own := activityspec.NewLimit("items-"+string(c.id), activityspec.LimitConfig{AtOnce: c.node.Spec.AtOnce})
		limit = &own
	}
	return node.ItemsGraph(c.name, c.items, limit)
}

// take returns the result of the node from its finished child run, or the error that the outcome of the child
// run means for the node. It returns errChildLost if the engine no longer has the child run or its end.
func (c *childRun) take(ctx context.Context, outcome string) ([]byte, error) {
	if c.isMap() && (outcome == "success" || c.node.Spec.Outcomes) {
		return c.collect(ctx)
	}
	var reply enginerpc.FlowResultReply
	err := c.retryUntilKnown(ctx, func() (err error) {
		reply, err = c.core.FlowResult(ctx, enginerpc.FlowResultCall{Partition: c.part, FlowID: c.id})
		return err
	})
	switch {
	case errors.Is(err, enginecore.ErrFlowNotFound):
		return nil, errChildLost
	case err != nil:
		return nil, err
	case reply.ClosedAt.IsZero():
		return nil, errChildLost
	case outcome != "success":
		return nil, c.failure(ctx, reply)
	case reply.ResultSkipped:
		return nil, &completion.ResultSkipped{
			Flow: c.name, Run: c.runID, Node: reply.FailedNode, Reason: reply.FailureReason,
		}
	case !reply.HasResult:
		return c.zeroResult()
	}
	return reply.Result, nil
}

// errChildLost is returned if a child run that was started, or that has ended, is missing or has not ended.
// Its server failed before it had replicated the change, or the run was purged or rerun before its result was
// read.
var errChildLost = errors.New("the run of the node, or its end, is not there any more")

// startAgain starts a missing child run again under the same id; if the run exists, the node waits for it
// again.
func (c *childRun) startAgain(ctx context.Context) error {
	err := c.retryUntilKnown(ctx, func() error {
		_, err := c.core.ChildEnded(ctx, enginerpc.ChildEndedCall{
			Partition: c.Shard.Partition, ExecutionID: c.Claimed.ExecutionID, ChildFlowID: c.id,
			Outcome: engine.ChildLost,
		})
		return err
	})
	if err != nil {
		return err
	}
	return c.start(ctx)
}

// failure returns the error of a node whose child run did not succeed. For a map and a plan it is not retryable, since
// the items and nodes have been retried by their own policies.
func (c *childRun) failure(ctx context.Context, reply enginerpc.FlowResultReply) error {
	failed := submit.ReadRunFailure(ctx, c.Run.Session, c.name, c.runID, c.id, c.part, reply)
	category := engine.CategoryChild
	if failed.Outcome == "failed" {
		category = cmp.Or(failed.Category, category)
	}
	err := activity.Category(&childFailure{failed, c.isItem()}, category)
	if c.isMap() || c.planned != nil {
		return activity.NonRetryable(err)
	}
	return err
}

// closingPause is the time between two checks of a run that is being cancelled.
const closingPause = 50 * time.Millisecond

// rerun reruns the failed nodes of the child run. The id of the rerun is derived from the try of the node, so
// that repeated calls begin one rerun only.
func (c *childRun) rerun(ctx context.Context, try string) error {
	submitter := submit.NewSubmitter(c.Run.Session)
	defer submitter.Close()
	call := enginerpc.RerunCall{
		Partition: c.part, FlowID: c.id, RerunID: string(c.Claimed.ExecutionID) + " " + try, Mode: submit.RerunFailed,
		Actor: "flow " + c.Claimed.FlowName,
	}
	for {
		var reply enginerpc.RerunReply
		err := c.retryUntilKnown(ctx, func() (err error) {
			reply, err = c.core.Rerun(ctx, call)
			return err
		})
		switch {
		case errors.Is(err, enginecore.ErrFlowNotFound):
			return errChildLost
		case errors.Is(err, errorcode.FlowPurging):
			return activity.NonRetryable(activity.Category(fmt.Errorf("run %s of flow %s: %w", c.runID, c.name,
				engine.ErrRunNotFound), engine.CategoryChild))
		case errors.Is(err, errorcode.FlowNotTerminal):
			// An earlier try of the node abandoned the child run, which is being cancelled.
			if err := c.end(ctx); err != nil {
				return err
			}
			sleep.For(ctx, closingPause)
			continue
		case err != nil:
			return err
		case reply.State == "begun" && reply.More:
			continue
		case reply.State == "begun":
			return nil
		}
		if err = c.beginRerun(ctx, submitter, call); !retry.IsUnavailable(err) || ctx.Err() != nil {
			return err
		}
		c.Run.Doubt.Mark()
		sleep.For(ctx, lease.ReportPause)
	}
}

// beginRerun selects the nodes to rerun and sends them to the engine. If the engine becomes unavailable, it
// is unknown how many of them were received.
func (c *childRun) beginRerun(ctx context.Context, submitter *submit.Submitter, call enginerpc.RerunCall) error {
	run, err := submitter.ReadNodes(ctx, c.id, c.part)
	if err != nil {
		return fmt.Errorf("rerun run %s of flow %s: %w", c.runID, c.name, err)
	}
	nodes, err := run.InScope(submit.RerunScope{Mode: submit.RerunFailed})
	if err == nil {
		err = submitter.SendRerun(ctx, call, nodes)
	}
	if err == nil || retry.IsUnavailable(err) || ctx.Err() != nil {
		return err
	}
	return activity.NonRetryable(fmt.Errorf("rerun run %s of flow %s: %w", c.runID, c.name, err))
}

// end cancels the child run.
func (c *childRun) end(ctx context.Context) error {
	return c.retryUntilKnown(ctx, func() error {
		return engine.CancelChildRun(ctx, c.core, c.part, c.id, "the node that it belongs to is run again")
	})
}
