package worker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// planStep is the step under which the plan of an expansion is recorded. No step of a function has such a name.
const planStep = ":plan"

// runLoop runs the current turn of a loop, or takes its result and decides whether another one follows.
func (t *Task) runLoop(
	ctx context.Context, handler activity.Handler, plan submit.NodePlan, input []byte,
) ([]byte, error) {
	if err := t.journal.read(ctx, &t.attempt); err != nil {
		return nil, err
	}
	turn, state, err := t.journal.carried()
	if err != nil {
		return nil, err
	}
	if state == nil {
		state = input
	}
	c := &child{attempt: &t.attempt, usage: &t.usage, spec: *plan.Child, input: state, turn: turn}
	result, err := c.carryOut(ctx)
	if without := asResultSkipped(err); without != nil {
		return nil, final(engine.CategoryChild, "turn %d of the loop: %w", turn, without)
	}
	if err != nil {
		return nil, err
	}
	enough, err := t.call(ctx, handler, plan, result)
	if err != nil {
		return nil, err
	}
	var done bool
	if err := handler.Codec().Decode(enough, &done); err != nil {
		return nil, undecodable(t.locate(fmt.Errorf("the condition of the loop: %w", err)))
	}
	switch {
	case done:
		return result, nil
	case turn >= int64(plan.Child.MaxTurns):
		return nil, final(engine.CategoryTooManyTurns, "after %d turns %q is still false", turn, handler.Name())
	}
	return nil, checkState(&continuation{turn, result})
}

// runExpansion runs the activity that makes a plan, unless it has made one, and then the plan.
func (t *Task) runExpansion(
	ctx context.Context, handler activity.Handler, plan submit.NodePlan, input []byte,
) ([]byte, error) {
	if err := t.journal.read(ctx, &t.attempt); err != nil {
		return nil, err
	}
	c := &child{attempt: &t.attempt, usage: &t.usage, spec: *plan.Child}
	stored, planned := t.journal.get(stepEntry + planStep)
	if !planned {
		made, err := t.call(ctx, handler, plan, input)
		if err != nil {
			return nil, err
		}
		if stored, err = t.recordPlan(ctx, c, made); err != nil {
			return nil, err
		}
	}
	p, err := flowgraph.ParsePlan(stored)
	if err != nil {
		return nil, planFault(err)
	}
	if p.Graph == nil {
		return p.Value, nil
	}
	c.planned, c.input = p.Graph, p.Input
	return c.carryOut(ctx)
}

// recordPlan checks a plan and stores it. It returns the one that is stored, which may be that of a lost worker.
func (t *Task) recordPlan(ctx context.Context, c *child, made []byte) ([]byte, error) {
	p, err := flowgraph.ParsePlan(made)
	if err != nil {
		return nil, planFault(err)
	}
	if len(made) > flowgraph.MaxPlan {
		return nil, final(engine.CategoryTooLarge, "%w: the plan of node %s has %d bytes, at most %d are allowed",
			engine.ErrTooLarge, t.claimed.Node, len(made), flowgraph.MaxPlan)
	}
	if p.Graph == nil {
		return made, nil
	}
	if err := c.readParent(ctx); err != nil {
		return nil, err
	}
	graph, node, err := c.declared()
	if err != nil {
		return nil, err
	}
	if depth, limit := node.Expand.PlanDepth(graph); depth > limit {
		return nil, final(engine.CategoryTooDeep, "the run of the plan would be %d plans deep, at most %d are allowed",
			depth, limit)
	}
	conditions := make(map[string]bool)
	for i := range p.Graph.Nodes {
		if p.Graph.Nodes[i].Condition != nil {
			conditions[p.Graph.Nodes[i].Activity] = true
		}
	}
	var unknown []string
	for _, name := range p.Graph.Activities() {
		switch {
		case name == node.Activity || slices.Contains(node.Expand.MayRun, name):
		case conditions[name]:
			unknown = append(unknown, "the condition "+strconv.Quote(name))
		default:
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	if len(unknown) > 0 {
		return nil, planFault(fmt.Errorf("it uses %s, which flow.MayRun does not name", strings.Join(unknown, ", ")))
	}
	recorder := stepRecorder{attempt: &t.attempt, journal: &t.journal}
	return recorder.Record(ctx, planStep, made)
}

// planFault is the failure of a node whose plan cannot be run.
func planFault(err error) error { return final(engine.CategoryPlan, "the plan: %w", err) }

// final returns a failure of a category that is not retried.
func final(category, format string, args ...any) error {
	return activity.NonRetryable(activity.Category(fmt.Errorf(format, args...), category))
}

// linkHash identifies the input of a child run: of a loop, that of a turn.
func (c *child) linkHash() string {
	if c.turn == 0 {
		return submit.HashInput(c.input)
	}
	return submit.HashInput(append(strconv.AppendInt(nil, c.turn, 10), c.input...))
}

// childGraph is the flow of a child run and its input. The run of a plan is one deeper than that of its node, other
// child runs are as deep.
func (c *child) childGraph(parent *flowgraph.Graph, node *flowgraph.Node) (graph *flowgraph.Graph, input []byte) {
	depth, limit := parent.Depth, parent.DepthLimit
	switch {
	case c.planned != nil:
		graph, input = c.planned, c.input
		depth, limit = node.Expand.PlanDepth(parent)
	case c.isMap():
		graph, input = c.itemsGraph(node), c.claimed.FlowInput
	default:
		graph, input = node.Sub, c.input
	}
	if depth > 0 {
		deeper := *graph
		deeper.Depth, deeper.DepthLimit = depth, limit
		graph = &deeper
	}
	return graph, input
}

// maxDefinitions bounds the definitions that a worker keeps.
const maxDefinitions = 16

// definitions keeps the graphs of runs whose nodes start child runs: those of the items of a map have one in common.
// The zero value is empty. It is safe for concurrent use.
type definitions struct {
	mu    sync.Mutex
	byRun map[enginecore.FlowID]definition
}

type definition struct {
	graph     *flowgraph.Graph
	createdAt time.Time // of the run: an id can be used again
}

func (d *definitions) get(id enginecore.FlowID) (definition, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.byRun[id]
	return found, ok
}

func (d *definitions) put(id enginecore.FlowID, createdAt time.Time, graph *flowgraph.Graph) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byRun == nil || len(d.byRun) >= maxDefinitions {
		d.byRun = make(map[enginecore.FlowID]definition)
	}
	d.byRun[id] = definition{graph, createdAt}
}

// parsed returns the graph of the parent run.
func (c *child) parsed() (*flowgraph.Graph, error) {
	if c.graph != nil {
		return c.graph, nil
	}
	graph, err := flowgraph.ParseGraph(c.parent.Definition)
	if err != nil {
		return nil, undecodable(c.locate(err))
	}
	c.graph = graph
	c.run.definitions.put(c.claimed.FlowID, c.parent.CreatedAt, graph)
	return graph, nil
}
