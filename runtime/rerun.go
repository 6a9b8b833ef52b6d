package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// RerunScope says which nodes of a run are run again: RerunFailed, RerunFrom or RerunAll.
type RerunScope struct {
	mode string
	node string
}

// RerunFailed runs again what did not succeed: nodes that failed, expired or were cancelled, and what was skipped because
// of them. What succeeded keeps its result, except where it ran because a node had failed (flow.OnFailure, flow.Always).
// Failures that a join has borne stay as they are.
func RerunFailed() RerunScope { return RerunScope{mode: "failed"} }

// RerunFrom runs a node again and everything that depends on it, whatever became of it. If another upstream of these has
// not succeeded, they are skipped as before.
func RerunFrom(node string) RerunScope { return RerunScope{mode: "from " + node, node: node} }

// RerunAll runs every node again.
func RerunAll() RerunScope { return RerunScope{mode: "all"} }

// Rerun is how a run was run again the last time.
type Rerun struct {
	At time.Time
	// By is who asked for it, and Scope which nodes: "failed", "from " with the node's name, or "all".
	By, Scope string
	// Nodes is how many there were.
	Nodes int
}

// maxRerunNodes bounds the nodes that are named in one call.
const maxRerunNodes = 256

// Rerun runs nodes of a run that is over again, under the same run id and with the same input. The run is open then, with
// all of the time that its deadline allows. Until a node has succeeded once more, its former result stays what others
// see. Each node can be run again ten times.
//
// The error wraps ErrRunOpen while the run is not over, ErrRunNotFound, ErrUnknownNode for a node that the run does not
// have, ErrNothingToRerun when the scope is empty, and ErrRerunLimit; nothing has been changed then. A call that was
// interrupted later is carried out by keepers.
func (c *Client) Rerun(ctx context.Context, flowName, runID string, scope RerunScope, opts ...ActionOption) error {
	by, err := actionOf(opts)
	if err == nil {
		err = c.rerun(ctx, flowName, runID, scope, by)
	}
	if err != nil {
		return fmt.Errorf("rerun run %s of flow %s: %w", runID, flowName, err)
	}
	return nil
}

// Rerun is Client.Rerun for this run. Result then waits for the new end.
func (r *Run[Out]) Rerun(ctx context.Context, scope RerunScope, opts ...ActionOption) error {
	r = r.there()
	return r.client.Rerun(ctx, r.flow, r.id, scope, opts...)
}

func (c *Client) rerun(ctx context.Context, flowName, runID string, scope RerunScope, by action) error {
	if _, err := c.composites(); err != nil {
		return err
	}
	d, err := c.Describe(ctx, flowName, runID)
	if err != nil {
		return err
	}
	if d.ClosedAt.IsZero() {
		return ErrRunOpen
	}
	nodes, err := scope.nodes(d)
	if err != nil {
		return err
	}
	_, partition, err := c.locate(flowName, runID)
	if err != nil {
		return err
	}
	// The end that was heard is no longer the one to wait for.
	defer c.done.forget(d.FlowID)
	if err := c.done.reopen(ctx, d.FlowID, partition); err != nil {
		return err
	}
	call := enginecore.RerunCall{
		Partition: partition, FlowID: d.FlowID, RerunID: uuid.NewString(), Mode: scope.mode, Actor: by.actor,
	}
	if err := c.sendReruns(ctx, call, nodes); err != nil {
		c.done.kept(d.FlowID)
		return err
	}
	return nil
}

// sendReruns sends the calls that name the nodes.
func (c *Client) sendReruns(ctx context.Context, call enginecore.RerunCall, nodes []enginecore.ExecutionID) error {
	for len(nodes) > 0 {
		n := min(maxRerunNodes, len(nodes))
		call.Nodes, nodes = nodes[:n], nodes[n:]
		call.Begin = len(nodes) == 0
		if err := c.sendRerun(ctx, call); err != nil {
			return err
		}
	}
	return nil
}

// sendRerun sends one call, and the last one until the rerun is under way.
func (c *Client) sendRerun(ctx context.Context, call enginecore.RerunCall) error {
	for {
		reply, err := c.session.core.Rerun(ctx, call)
		var refusal *enginecore.Error
		switch {
		case err == nil && !reply.More:
			return nil
		case err == nil:
			call.Nodes = nil
		case errors.Is(err, enginecore.ErrFlowNotFound), errors.Is(err, enginecore.ErrFlowPurging):
			return ErrRunNotFound
		case errors.Is(err, enginecore.ErrFlowNotTerminal), errors.Is(err, enginecore.ErrExecutionNotTerminal):
			return ErrRunOpen
		case errors.Is(err, enginecore.ErrFlowIncomplete):
			return fmt.Errorf("%w: the run was stopped while it was being submitted", ErrNothingToRerun)
		case errors.As(err, &refusal) && refusal.Code == enginecore.ErrMaxReplaysExhausted:
			return fmt.Errorf("%w: node %s has been run again %s times", ErrRerunLimit, refusal.Detail("node"), refusal.Detail("replays"))
		default:
			return err
		}
	}
}

// nodes lists what is to be run again.
func (s RerunScope) nodes(d *Description) ([]enginecore.ExecutionID, error) {
	chosen := make(map[string]bool, len(d.Nodes))
	switch {
	case s.mode == "all":
		for _, n := range d.Nodes {
			chosen[n.Name] = true
		}
	case s.node != "":
		if !slices.ContainsFunc(d.Nodes, func(n NodeDescription) bool { return n.Name == s.node }) {
			return nil, fmt.Errorf("%w: %q", ErrUnknownNode, s.node)
		}
		newLineage(d).follow(chosen, []string{s.node}, func(*NodeDescription, *flowgraph.Node) bool { return true })
	case s.mode == "failed":
		l := newLineage(d)
		l.follow(chosen, l.failed(), dependsOnFailure)
	default:
		return nil, fmt.Errorf("%w: the scope is the zero RerunScope", ErrNothingToRerun)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: no node is %s", ErrNothingToRerun, s.mode)
	}
	ids := make([]enginecore.ExecutionID, 0, len(chosen))
	for _, n := range d.Nodes {
		if chosen[n.Name] {
			ids = append(ids, n.ExecutionID)
		}
	}
	return ids, nil
}

// dependsOnFailure tells whether a node has to be run again with its upstream, which had not succeeded or is run again.
func dependsOnFailure(n *NodeDescription, spec *flowgraph.Node) bool {
	borne := spec.Join.Policy != flowgraph.JoinAll && n.State == enginecore.PublicCompleted
	return !borne
}

// lineage is what depends on what in a run.
type lineage struct {
	nodes map[string]*NodeDescription
	specs map[string]*flowgraph.Node
	downs map[string][]string
	last  string // the node whose result is the run's
}

func newLineage(d *Description) *lineage {
	l := &lineage{
		nodes: make(map[string]*NodeDescription, len(d.Nodes)), specs: make(map[string]*flowgraph.Node, len(d.Nodes)),
		downs: make(map[string][]string, len(d.Nodes)),
	}
	for i := range d.Nodes {
		l.nodes[d.Nodes[i].Name] = &d.Nodes[i]
	}
	if d.Graph == nil {
		return l
	}
	l.last = d.Graph.Return
	for i := range d.Graph.Nodes {
		n := &d.Graph.Nodes[i]
		l.specs[n.Name] = n
		for _, up := range n.Upstreams {
			l.downs[up.Node] = append(l.downs[up.Node], n.Name)
		}
	}
	return l
}

// failed lists the nodes that did not succeed and whose success matters: to the run's result, to nobody else, or to a node
// that did not succeed either or ran because of it.
func (l *lineage) failed() []string {
	var names []string
	for name, n := range l.nodes {
		switch n.State {
		case enginecore.PublicFailed, enginecore.PublicExpired, enginecore.PublicCancelled:
			if l.matters(name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func (l *lineage) matters(name string) bool {
	if name == l.last || len(l.downs[name]) == 0 {
		return true
	}
	return slices.ContainsFunc(l.downs[name], func(down string) bool {
		n := l.nodes[down]
		return n != nil && dependsOnFailure(n, l.specs[down])
	})
}

// follow adds nodes to the chosen ones, and what depends on them as far as along says.
func (l *lineage) follow(chosen map[string]bool, names []string, along func(*NodeDescription, *flowgraph.Node) bool) {
	for len(names) > 0 {
		name := names[len(names)-1]
		names = names[:len(names)-1]
		if chosen[name] {
			continue
		}
		chosen[name] = true
		for _, down := range l.downs[name] {
			if n := l.nodes[down]; n != nil && !chosen[down] && along(n, l.specs[down]) {
				names = append(names, down)
			}
		}
	}
}
