package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// errOver is the result of an attempt whose execution the engine has ended with its run.
var errOver = errors.New("the flow is over")

// child is one attempt of a map or sub-flow node, which starts a child run and takes its result.
type child struct {
	*attempt
	usage   *budgetUse
	core    engine.ChildRuns
	parent  enginerpc.DescribeFlowReply
	graph   *flowgraph.Graph // of the parent; nil until it is known
	spec    submit.StoredChild
	input   []byte
	items   []json.RawMessage
	number  int64
	id      enginecore.FlowID
	part    enginecore.Partition
	name    string // of the flow
	runID   string
	turn    int64            // of a loop, from 1; 0 for other nodes
	planned *flowgraph.Graph // the flow of a plan; nil for other nodes
}

// runChild starts the child run of a node and returns a childWait error, or returns the result of a child run
// that has finished.
func runChild(
	ctx context.Context, a *attempt, usage *budgetUse, spec submit.StoredChild, input []byte,
) ([]byte, error) {
	c := &child{attempt: a, usage: usage, spec: spec, input: input}
	return c.carryOut(ctx)
}

// carryOut starts the child run of a node, or takes its result, as runChild does.
func (c *child) carryOut(ctx context.Context) ([]byte, error) {
	if c.isMap() {
		if err := c.readItems(); err != nil {
			return nil, err
		}
		if len(c.items) == 0 {
			return []byte("[]"), nil
		}
	}
	if err := c.readParent(ctx); err != nil {
		return nil, err
	}
	link, err := c.link(ctx)
	if err != nil {
		return nil, err
	}
	switch link.State {
	case "over":
		c.settle()
		return nil, errOver
	case "ended":
		var result []byte
		if result, err = c.take(ctx, link.Outcome); !errors.Is(err, errChildLost) {
			return result, err
		}
	case "rerun":
		err = c.rerun(ctx, link.Try)
	default:
		err = c.start(ctx)
	}
	if errors.Is(err, errChildLost) {
		err = c.startAgain(ctx)
	}
	if err != nil {
		return nil, err
	}
	return nil, &childWait{c.id, fmt.Sprintf("%s of flow %s", c.runID, c.name)}
}

func (c *child) isMap() bool { return c.claimed.Kind == submit.MapKind }

// readItems decodes the items of a map and checks their number.
func (c *child) readItems() error {
	if err := json.Unmarshal(c.input, &c.items); err != nil {
		return undecodable(c.locate(fmt.Errorf("the items are no list: %w", err)))
	}
	if len(c.items) > c.spec.MaxItems {
		return activity.NonRetryable(activity.Category(fmt.Errorf("%w: node %s got %d items, at most %d are allowed",
			engine.ErrTooLarge,
			c.claimed.Node, len(c.items), c.spec.MaxItems), engine.CategoryTooLarge))
	}
	return nil
}

// link records in the execution which child run its node has.
func (c *child) link(ctx context.Context) (reply enginerpc.LinkChildReply, err error) {
	call := enginerpc.LinkChildCall{
		Partition: c.shard.Partition, ExecutionID: c.claimed.ExecutionID, LeaseID: c.claimed.LeaseID,
		LeaseEpoch: c.claimed.LeaseEpoch, AttemptID: c.claimed.AttemptID, InputHash: c.linkHash(), Keep: c.turn > 1,
	}
	for c.number = 1; ; c.number = reply.Number {
		if err := c.locateChild(); err != nil {
			return reply, err
		}
		call.Number, call.ChildFlowID = c.number, c.id
		err := c.retryUntilKnown(ctx, func() (err error) {
			reply, err = c.core.LinkChild(ctx, call)
			return err
		})
		if err != nil || reply.State != "other" {
			return reply, err
		}
	}
}

// namespace is the namespace of the parent run, which can differ from that of the worker.
func (c *child) namespace() enginecore.Namespace { return enginecore.Namespace(c.parent.Namespace) }

// locateChild derives the names and the id of the child run from the parent, so that every attempt of the
// node uses the same child run.
func (c *child) locateChild() (err error) {
	c.name, c.runID = childRun(c.claimed, c.number)
	switch {
	case c.planned != nil:
		c.name = c.planned.Name
	case !c.isMap():
		c.name = c.spec.Flow
	}
	c.id = enginecore.FlowIDFor(c.namespace(), c.name, c.runID)
	c.part, err = c.run.session.Core.FlowPartition(c.id)
	return err
}

// retryUntilKnown repeats a call while the engine is unavailable and ctx is not done. If the execution has
// ended or belongs to another worker, the attempt is settled, so that no end is reported for it.
func (c *child) retryUntilKnown(ctx context.Context, call func() error) error {
	again := engine.RetryPolicy{Pause: reportPause, Failed: func(error) { c.run.markUncertain() }}
	err := engine.RetryUntilKnown(ctx, again, func(bool) error { return call() })
	if isFence(err) {
		c.outcomeUnknown.Store(true)
		c.settle()
	}
	return err
}

// childRun returns the flow name and the run id of the child run of a map, and the run id of a sub-flow.
// number counts the child runs of the node, from 1.
func childRun(parent *enginerpc.ClaimedExecution, number int64) (name, run string) {
	name = parent.FlowName + "." + parent.Node
	if len(name) > activityspec.MaxName {
		name = parent.Node
	}
	run = parent.FlowName + "/" + parent.RunID + "/" + parent.Node
	suffix := ""
	if number > 1 {
		suffix = "#" + strconv.FormatInt(number, 10)
	}
	if len(run)+len(suffix) > submit.MaxRunID {
		run = string(parent.FlowID) + "/" + parent.Node
	}
	return name, run + suffix
}
