package child

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/journal"
)

// planStep is the step under which the plan of an expansion is recorded. No step of a function has such a name.
const planStep = ":plan"

// RunLoop runs the current turn of a loop, or takes its result and decides whether another one follows.
func (n *Node) RunLoop(ctx context.Context, input []byte) ([]byte, error) {
	if err := n.Journal.Read(ctx, n.Attempt); err != nil {
		return nil, err
	}
	turn, state, err := n.Journal.Carried()
	if err != nil {
		return nil, err
	}
	if state == nil {
		state = input
	}
	c := &childRun{Attempt: n.Attempt, node: n, input: state, turn: turn}
	result, err := c.carryOut(ctx)
	if without := completion.AsResultSkipped(err); without != nil {
		return nil, completion.Final(engine.CategoryChild, "turn %d of the loop: %w", turn, without)
	}
	if err != nil {
		return nil, err
	}
	enough, err := n.Call(ctx, result)
	if err != nil {
		return nil, err
	}
	var done bool
	if err := n.Handler.Codec().Decode(enough, &done); err != nil {
		return nil, completion.Undecodable(fmt.Errorf("the condition of the loop: %w", err))
	}
	switch {
	case done:
		return result, nil
	case turn >= int64(n.Spec.MaxTurns):
		return nil, completion.Final(engine.CategoryTooManyTurns, "after %d turns %q is still false", turn,
			n.Handler.Name())
	}
	return nil, (&completion.Continuation{Generation: turn, State: result}).CheckState()
}

// RunExpansion runs the activity that makes a plan, unless it has made one, and then the plan.
func (n *Node) RunExpansion(ctx context.Context, input []byte) ([]byte, error) {
	if err := n.Journal.Read(ctx, n.Attempt); err != nil {
		return nil, err
	}
	c := &childRun{Attempt: n.Attempt, node: n}
	stored, planned := n.Journal.Get(journal.StepEntry + planStep)
	if !planned {
		made, err := n.Call(ctx, input)
		if err != nil {
			return nil, err
		}
		if stored, err = n.recordPlan(ctx, c, made); err != nil {
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

// recordPlan checks a plan and stores it. It returns the stored plan, which a lost worker may have stored earlier.
func (n *Node) recordPlan(ctx context.Context, c *childRun, made []byte) ([]byte, error) {
	p, err := flowgraph.ParsePlan(made)
	if err != nil {
		return nil, planFault(err)
	}
	if len(made) > flowgraph.MaxPlan {
		return nil, completion.Final(engine.CategoryTooLarge,
			"%w: the plan of node %s has %d bytes, at most %d are allowed", engine.ErrTooLarge, n.Attempt.Claimed.Node, len(made), flowgraph.MaxPlan)
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
		return nil, completion.Final(engine.CategoryTooDeep,
			"the run of the plan would be %d plans deep, at most %d are allowed", depth, limit)
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
	recorder := journal.Recorder{Attempt: n.Attempt, Journal: n.Journal}
	return recorder.Record(ctx, planStep, made)
}

// planFault is the failure of a node whose plan cannot be run.
func planFault(err error) error { return completion.Final(engine.CategoryPlan, "the plan: %w", err) }

// linkHash identifies the input of a child run; for a loop, the input and the number of the turn.
func (c *childRun) linkHash() string {
	if c.turn == 0 {
		return submit.HashInput(c.input)
	}
	return submit.HashInput(append(strconv.AppendInt(nil, c.turn, 10), c.input...))
}

// childGraph returns the flow of a child run and its input. The run of a plan is one level deeper than the run of its
// node; other child runs have the same depth as their parents.
func (c *childRun) childGraph(parent *flowgraph.Graph, node *flowgraph.Node) (graph *flowgraph.Graph, input []byte) {
	depth, limit := parent.Depth, parent.DepthLimit
	switch {
	case c.planned != nil:
		graph, input = c.planned, c.input
		depth, limit = node.Expand.PlanDepth(parent)
	case c.isMap():
		graph, input = c.itemsGraph(node), c.Claimed.FlowInput
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

// Definitions caches the graphs of runs whose nodes start child runs: the items of a map share one graph. The zero
// value is empty. It is safe for concurrent use.
type Definitions struct {
	mu    sync.Mutex
	byRun map[enginecore.FlowID]definition
}

type definition struct {
	graph     *flowgraph.Graph
	createdAt time.Time // of the run: an id can be used again
}

func (d *Definitions) get(id enginecore.FlowID) (definition, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.byRun[id]
	return found, ok
}

func (d *Definitions) put(id enginecore.FlowID, createdAt time.Time, graph *flowgraph.Graph) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byRun == nil || len(d.byRun) >= maxDefinitions {
		d.byRun = make(map[enginecore.FlowID]definition)
	}
	d.byRun[id] = definition{graph, createdAt}
}

// parsed returns the graph of the parent run.
func (c *childRun) parsed() (*flowgraph.Graph, error) {
	if c.graph != nil {
		return c.graph, nil
	}
	graph, err := flowgraph.ParseGraph(c.parent.Definition)
	if err != nil {
		return nil, completion.Undecodable(err)
	}
	c.graph = graph
	c.node.Definitions.put(c.Claimed.FlowID, c.parent.CreatedAt, graph)
	return graph, nil
}
