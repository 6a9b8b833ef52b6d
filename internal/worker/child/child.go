package child

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
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/budget"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/journal"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// errOver is the result of an attempt whose execution the engine has ended with its run.
var errOver = errors.New("the flow is over")

// childRun is one attempt of a map or sub-flow node, which starts a child run and takes its result.
type childRun struct {
	*attempt.Attempt
	node    *Node
	core    engine.Library
	parent  enginerpc.DescribeFlowReply
	graph   *flowgraph.Graph // of the parent; nil until it is known
	input   []byte
	items   []json.RawMessage
	number  int64
	id      enginecore.FlowID
	part    keyspace.Partition
	name    string // of the flow
	runID   string
	turn    int64            // of a loop, from 1; 0 for other nodes
	planned *flowgraph.Graph // the flow of a plan; nil for other nodes
}

// Node is the node of an attempt, which has a child run.
type Node struct {
	Attempt     *attempt.Attempt
	Usage       *budget.Use
	Journal     *journal.Journal
	Definitions *Definitions
	Spec        *submit.StoredChild
	// Handler is the condition of a loop or the function that plans an expansion, and Call calls it; Handler is nil
	// for other nodes.
	Handler activity.Handler
	Call    func(ctx context.Context, input []byte) ([]byte, error)
}

// Run starts the child run of the node and returns a completion.ChildWait error, or returns the result of a child run
// that has finished.
func (n *Node) Run(ctx context.Context, input []byte) ([]byte, error) {
	c := &childRun{Attempt: n.Attempt, node: n, input: input}
	return c.carryOut(ctx)
}

// carryOut starts the child run of a node, or takes its result, as Node.run does.
func (c *childRun) carryOut(ctx context.Context) ([]byte, error) {
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
		c.Settle()
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
	return nil, &completion.ChildWait{ID: c.id, Name: fmt.Sprintf("%s of flow %s", c.runID, c.name)}
}

func (c *childRun) isMap() bool { return c.Claimed.Kind == submit.MapKind }

// readItems decodes the items of a map and checks their number.
func (c *childRun) readItems() error {
	if err := json.Unmarshal(c.input, &c.items); err != nil {
		return completion.Undecodable(fmt.Errorf("the items are not a list: %w", err))
	}
	if len(c.items) > c.node.Spec.MaxItems {
		return activity.NonRetryable(activity.Category(fmt.Errorf("%w: node %s got %d items, at most %d are allowed",
			engine.ErrTooLarge,
			c.Claimed.Node, len(c.items), c.node.Spec.MaxItems), engine.CategoryTooLarge))
	}
	return nil
}

// link records in the execution which child run its node has.
func (c *childRun) link(ctx context.Context) (reply enginerpc.LinkChildReply, err error) {
	call := enginerpc.LinkChildCall{
		Partition: c.Shard.Partition, ExecutionID: c.Claimed.ExecutionID, LeaseID: c.Claimed.LeaseID,
		LeaseEpoch: c.Claimed.LeaseEpoch, AttemptID: c.Claimed.AttemptID, InputHash: c.linkHash(), Keep: c.turn > 1,
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

// namespace is the namespace of the parent run, which can differ from the worker's.
func (c *childRun) namespace() keyspace.Namespace { return keyspace.Namespace(c.parent.Namespace) }

// locateChild derives the names and the id of the child run from the parent, so that every attempt of the
// node uses the same child run.
func (c *childRun) locateChild() (err error) {
	c.name, c.runID = namesOf(c.Claimed, c.number)
	switch {
	case c.planned != nil:
		c.name = c.planned.Name
	case !c.isMap():
		c.name = c.node.Spec.Flow
	}
	c.id = keyspace.FlowIDFor(c.namespace(), c.name, c.runID)
	c.part, err = c.Run.Session.Core.FlowPartition(c.id)
	return err
}

// retryUntilKnown repeats a call while the engine is unavailable and ctx is not done. If the execution has
// ended or belongs to another worker, the attempt is settled, so that no end is reported for it.
func (c *childRun) retryUntilKnown(ctx context.Context, call func() error) error {
	again := retry.Policy{Pause: lease.ReportPause, Failed: func(error) { c.Run.Doubt.Mark() }}
	err := retry.UntilKnown(ctx, again, func(bool) error { return call() })
	if lease.IsFence(err) {
		c.OutcomeUnknown.Store(true)
		c.Settle()
	}
	return err
}

// namesOf returns the flow name and the run id of the child run of a map, and the run id of a sub-flow.
// number counts the child runs of the node, from 1.
func namesOf(parent *enginerpc.ClaimedExecution, number int64) (name, run string) {
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
