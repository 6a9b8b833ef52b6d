package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Kinds of the executions whose work is a run of its own. They are no names of activities, so every worker knows them and
// none can register another.
const (
	mapKind = ":map"
	subKind = ":sub"
)

// CategoryChild is the category of a node whose own run, of its sub-flow or its items, was cancelled, has expired, or is not
// there any more. When a node of that run has failed, the category is that node's.
const CategoryChild = "child_run"

// storedChild says, in the policy of an execution, that its work is a run of its own.
type storedChild struct {
	// Flow is the name of a sub-flow.
	Flow string `json:"flow,omitempty"`
	// MaxItems, AtOnce and Outcomes are those of a flow.MapSpec.
	MaxItems int  `json:"max_items,omitempty"`
	AtOnce   int  `json:"at_once,omitempty"`
	Outcomes bool `json:"outcomes,omitempty"`
}

// isChild tells whether a node stands for a run of its own.
func isChild(n *flowgraph.Node) bool { return n.Map != nil || n.Sub != nil }

// childNode is what the engine runs for a node that stands for a run of its own: starting that run and taking its result.
// The options of a map are those of its items.
func childNode(n *flowgraph.Node) *flowgraph.Node {
	c := *n
	if c.Map != nil {
		c.Options = activityspec.Options{Retry: activity.NoRetry.Plan(), Lane: n.Lane, Priority: n.Priority}
	}
	return &c
}

// needsFlowInput tells whether the items of a map have limits whose keys stand in the flow's input.
func needsFlowInput(n *flowgraph.Node) bool {
	if n.Map == nil {
		return false
	}
	for _, limit := range n.Limits {
		if len(limit.KeyFrom) > 0 {
			return true
		}
	}
	return false
}

// kindOf is the kind of execution that a node becomes.
func kindOf(n *flowgraph.Node) string {
	switch {
	case n.Map != nil:
		return mapKind
	case n.Sub != nil:
		return subKind
	}
	return n.Activity
}

// childWait is the error by which a task says that it waits for a run.
type childWait struct {
	id   enginecore.FlowID
	name string
}

// childWaitPrefix begins what the record of an execution says that waits for a run.
const childWaitPrefix = "waits for run "

// Error says what the node waits for.
func (w *childWait) Error() string { return childWaitPrefix + w.name }

// childWaitIn is the request to wait for a run that is in an error, nil when there is none.
func childWaitIn(err error) *childWait {
	w, _ := errors.AsType[*childWait](err)
	return w
}

// errOver: the engine has ended the execution, because its flow is over.
var errOver = errors.New("the flow is over")

// child is the work of one attempt at a node that stands for a run of its own.
type child struct {
	*task
	core   composites
	parent enginecore.DescribeFlowReply
	spec   storedChild
	input  []byte
	items  []json.RawMessage
	number int64
	id     enginecore.FlowID
	part   enginecore.Partition
	name   string // of the flow
	run    string
}

// runChild starts the run that a node stands for and waits for it, or takes the result of one that is over.
func (t *task) runChild(ctx context.Context, spec storedChild, input []byte) ([]byte, error) {
	core, err := t.shift.session.composites()
	if err != nil {
		return nil, activity.NonRetryable(err)
	}
	c := &child{task: t, core: core, spec: spec, input: input}
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
		t.settle()
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
	return nil, &childWait{c.id, fmt.Sprintf("%s of flow %s", c.run, c.name)}
}

func (c *child) isMap() bool { return c.claimed.Kind == mapKind }

func (c *child) readItems() error {
	if err := json.Unmarshal(c.input, &c.items); err != nil {
		return undecodable(c.locate(fmt.Errorf("the items are no list: %w", err)))
	}
	if len(c.items) > c.spec.MaxItems {
		return activity.NonRetryable(activity.Category(fmt.Errorf("%w: node %s got %d items, at most %d are allowed", ErrTooLarge,
			c.claimed.Node, len(c.items), c.spec.MaxItems), CategoryTooLarge))
	}
	return nil
}

// link records which run the node stands for.
func (c *child) link(ctx context.Context) (reply enginecore.LinkChildReply, err error) {
	call := enginecore.LinkChildCall{
		Partition: c.spot.partition, ExecutionID: c.claimed.ExecutionID, LeaseID: c.claimed.LeaseID,
		LeaseEpoch: c.claimed.LeaseEpoch, AttemptID: c.claimed.AttemptID, InputHash: hashInput(c.input),
	}
	for c.number = 1; ; c.number = reply.Number {
		if err := c.locateChild(); err != nil {
			return reply, err
		}
		call.Number, call.ChildFlowID = c.number, c.id
		err := c.insist(ctx, func() (err error) {
			reply, err = c.core.LinkChild(ctx, call)
			return err
		})
		if err != nil || reply.State != "other" {
			return reply, err
		}
	}
}

// namespace is that of the parent, which may be another one than that of the worker.
func (c *child) namespace() enginecore.Namespace { return enginecore.Namespace(c.parent.Namespace) }

// locateChild names the run. Its id follows from that of the parent, so that whoever does the same work meets the same run.
func (c *child) locateChild() (err error) {
	c.name, c.run = childRun(c.claimed, c.number)
	if !c.isMap() {
		c.name = c.spec.Flow
	}
	c.id = enginecore.FlowIDFor(c.namespace(), c.name, c.run)
	c.part, err = c.shift.session.core.FlowPartition(c.id)
	return err
}

// insist calls the engine again as long as it is away and the attempt goes on.
func (c *child) insist(ctx context.Context, do func() error) error {
	for {
		err := do()
		switch {
		case err == nil:
			return nil
		case isFence(err):
			// Somebody else speaks for the execution now, or it has ended.
			c.unsure.Store(true)
			c.settle()
			return err
		case !engineAway(err) || ctx.Err() != nil:
			return err
		}
		c.shift.leases.doubt()
		pause(ctx, reportPause)
	}
}

// childRun names the flow and the run of the items of a map, and the run of a sub-flow.
func childRun(parent enginecore.ClaimedExecution, number int64) (name, run string) {
	name = parent.FlowName + "." + parent.Node
	if len(name) > activityspec.MaxName {
		name = parent.Node
	}
	run = parent.FlowName + "/" + parent.RunID + "/" + parent.Node
	suffix := ""
	if number > 1 {
		suffix = "#" + strconv.FormatInt(number, 10)
	}
	if len(run)+len(suffix) > MaxRunID {
		run = string(parent.FlowID) + "/" + parent.Node
	}
	return name, run + suffix
}

// awaitChild puts the execution aside until the run is over and asks for the next execution of the same spot. When the run is
// over already, the task is to run again at once.
func (t *task) awaitChild(w *childWait, wantNext bool) (next *task, again bool) {
	count := 0
	if wantNext && !t.shift.board.isClosed() {
		count = 1
	}
	call := enginecore.AwaitChildCall{
		Partition: t.spot.partition, ExecutionID: t.claimed.ExecutionID, LeaseID: t.claimed.LeaseID,
		LeaseEpoch: t.claimed.LeaseEpoch, AttemptID: t.claimed.AttemptID, ChildFlowID: w.id, Detail: w.Error(),
		ClaimRequest: t.shift.claimRequest(t.spot.lane, count),
	}
	for {
		ctx, cancel := t.reporting()
		sentAt := time.Now()
		reply, err := t.shift.core.AwaitChild(ctx, call)
		cancel()
		switch {
		case err == nil && reply.Status == enginecore.StatusAlreadySatisfied:
			return nil, t.runAgain()
		case err == nil:
			return t.handedOn(enginecore.CompleteReply{Remaining: reply.Remaining, Executions: reply.Executions, Candidates: reply.Candidates}, sentAt), false
		case t.mayRepeat(err):
			call.Repeated = true
		default:
			// Its lease runs out, and whoever takes it over finds the run.
			t.unsure.Store(true)
			t.log(slog.LevelWarn, eventSuspensionLost, "execution was not put aside", slog.Any("error", err))
			return nil, false
		}
	}
}
