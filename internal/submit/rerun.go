package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Modes of a rerun, as the engine keeps them.
const (
	RerunFailed = "failed"
	RerunAll    = "all"
	RerunFrom   = "from " // and the node
)

// RerunScope selects the nodes that a rerun runs again. Node is set if the mode begins with RerunFrom, which Node
// follows. The zero value selects nothing.
type RerunScope struct{ Mode, Node string }

// ScopeOf returns the scope that a caller names.
func ScopeOf(s fabrictype.RerunScope) RerunScope {
	if node, found := strings.CutPrefix(string(s), RerunFrom); found {
		return RerunScope{Mode: string(s), Node: node}
	}
	return RerunScope{Mode: string(s)}
}

// maxRerunNodes bounds the nodes that are named in one call.
const maxRerunNodes = 256

// SendRerun sends the calls that name the nodes of a rerun and begin it. Its error wraps [engine.ErrRunNotFound],
// [engine.ErrRunOpen], [engine.ErrNothingToRerun] or [engine.ErrRerunLimit].
func (s *Submitter) SendRerun(ctx context.Context, call enginerpc.RerunCall, nodes []enginecore.ExecutionID) error {
	for len(nodes) > 0 {
		n := min(maxRerunNodes, len(nodes))
		call.Nodes, nodes = nodes[:n], nodes[n:]
		call.Begin = len(nodes) == 0
		if _, err := s.sendRerunCall(ctx, call); err != nil {
			return err
		}
	}
	return nil
}

// rerunBegun is the state in the reply of a call whose rerun has begun.
const rerunBegun = "begun"

// ContinueRerun leads on a rerun that a call with the same id has begun, and reports whether there is one. It changes
// nothing of the nodes otherwise. Its error is one of SendRerun.
func (s *Submitter) ContinueRerun(ctx context.Context, call enginerpc.RerunCall) (begun bool, err error) {
	call.Nodes, call.Begin = nil, false
	state, err := s.sendRerunCall(ctx, call)
	return state == rerunBegun, err
}

// sendRerunCall sends one call, and the one that begins the rerun until it is under way. It returns the state.
func (s *Submitter) sendRerunCall(ctx context.Context, call enginerpc.RerunCall) (string, error) {
	for {
		reply, err := s.session.Core.Rerun(ctx, call)
		var refusal *enginecore.Error
		switch {
		case err == nil && !reply.More:
			return reply.State, nil
		case err == nil:
			call.Nodes = nil
		case errors.Is(err, enginecore.ErrFlowNotFound), errors.Is(err, errorcode.FlowPurging):
			return "", engine.ErrRunNotFound
		case errors.Is(err, errorcode.FlowNotTerminal), errors.Is(err, enginecore.ErrExecutionNotTerminal):
			return "", engine.ErrRunOpen
		case errors.As(err, &refusal) && refusal.Code == errorcode.RunKeyTaken:
			return "", &fabrictype.KeyTakenError{Run: refusal.Detail("run_id")}
		case errors.As(err, &refusal) && refusal.Code == enginecore.ErrMaxReplaysExhausted:
			return "", fmt.Errorf("%w: node %s has been run again %s times", engine.ErrRerunLimit,
				refusal.Detail("node"), refusal.Detail("replays"))
		default:
			return "", err
		}
	}
}

// RunNodes has the data of a run that a rerun needs.
type RunNodes struct {
	graph *flowgraph.Graph // nil when the engine has no definition
	// ClosedAt is zero while a node is open.
	ClosedAt time.Time
	// nodes are in the order of their declaration.
	nodes []runNode
}

// runNode is one node of a run.
type runNode struct {
	name      string
	id        enginecore.ExecutionID
	state     fabrictype.NodeState
	createdAt time.Time
	// withoutResult: it was skipped since its child run has succeeded without a result, for reason.
	withoutResult bool
	reason        string
}

// runNodesPage is the number of nodes read by one call.
const runNodesPage = 200

// ReadNodes reads the nodes of a run. Its error wraps [engine.ErrRunNotFound] and does not name the run.
func (s *Submitter) ReadNodes(
	ctx context.Context, id enginecore.FlowID, p keyspace.Partition,
) (*RunNodes, error) {
	call := enginerpc.DescribeFlowCall{Partition: p, FlowID: id, Limit: runNodesPage}
	run := &RunNodes{}
	seen := make(map[enginecore.ExecutionID]int) // a node that a later page shows again is as it shows it
	for first := true; first || call.Cursor != ""; first = false {
		reply, err := s.session.Backend.DescribeFlow(ctx, call)
		if errors.Is(err, enginecore.ErrFlowNotFound) {
			return nil, engine.ErrRunNotFound
		}
		if err == nil && first {
			run.ClosedAt = reply.ClosedAt
			if len(reply.Definition) > 0 {
				run.graph, err = flowgraph.ParseGraph(reply.Definition)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("describe: %w", err)
		}
		for _, n := range reply.Nodes {
			state := fabrictype.NodeState(n.State)
			node := runNode{name: n.Node, id: n.ExecutionID, state: state, createdAt: n.CreatedAt}
			if node.state == fabrictype.NodeSkipped && n.ChildOutcome == "success" {
				node.withoutResult, node.reason = true, n.FailureReason
			}
			if i, again := seen[n.ExecutionID]; again {
				run.nodes[i] = node
				continue
			}
			seen[n.ExecutionID] = len(run.nodes)
			run.nodes = append(run.nodes, node)
		}
		call.Cursor = reply.NextCursor
	}
	run.sort()
	return run, nil
}

// sort puts the nodes into the order of their declaration; nodes that the graph does not name come last, by age.
func (r *RunNodes) sort() {
	rank := make(map[string]int)
	if r.graph != nil {
		for i := range r.graph.Nodes {
			rank[r.graph.Nodes[i].Name] = i - len(r.graph.Nodes)
		}
	}
	slices.SortFunc(r.nodes, func(a, b runNode) int {
		return cmp.Or(cmp.Compare(rank[a.name], rank[b.name]), a.createdAt.Compare(b.createdAt),
			cmp.Compare(a.name, b.name))
	})
}

// Reasons returns why nodes were skipped, by their names.
func (r *RunNodes) Reasons(names []string) map[string]string {
	reasons := make(map[string]string, len(names))
	for _, n := range r.nodes {
		if slices.Contains(names, n.name) {
			reasons[n.name] = n.reason
		}
	}
	return reasons
}

// CleanupFailed reports whether a node that runs however the run ends has failed or expired.
func (r *RunNodes) CleanupFailed() bool {
	d := newDependents(r)
	return slices.ContainsFunc(d.finally, func(name string) bool {
		n := d.nodes[name]
		return n != nil && (n.state == fabrictype.NodeFailed || n.state == fabrictype.NodeExpired)
	})
}

// InScope returns the executions that a rerun with this scope runs again, in the order of declaration. Its error wraps
// [engine.ErrUnknownNode] or [engine.ErrNothingToRerun].
func (r *RunNodes) InScope(scope RerunScope) ([]enginecore.ExecutionID, error) {
	chosen := make(map[string]bool, len(r.nodes))
	switch {
	case scope.Mode == RerunAll:
		for _, n := range r.nodes {
			chosen[n.name] = true
		}
	case scope.Node != "":
		if !slices.ContainsFunc(r.nodes, func(n runNode) bool { return n.name == scope.Node }) {
			return nil, fmt.Errorf("%w: %q", engine.ErrUnknownNode, scope.Node)
		}
		d := newDependents(r)
		d.add(chosen, []string{scope.Node}, func(*runNode, *flowgraph.Node) bool { return true })
		d.addFinally(chosen)
	case scope.Mode == RerunFailed:
		d := newDependents(r)
		if d.add(chosen, d.failed(), dependsOnFailure); len(chosen) > 0 {
			d.addFinally(chosen)
		}
	default:
		return nil, fmt.Errorf("%w: %q is not a scope", engine.ErrNothingToRerun, scope.Mode)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: no node is %s", engine.ErrNothingToRerun, scope.Mode)
	}
	ids := make([]enginecore.ExecutionID, 0, len(chosen))
	for _, n := range r.nodes {
		if chosen[n.name] {
			ids = append(ids, n.id)
		}
	}
	return ids, nil
}

// dependsOnFailure reports whether a node has to be run again with an upstream that had not succeeded or is run again.
// One that completed because its join tolerated the failure has not.
func dependsOnFailure(n *runNode, spec *flowgraph.Node) bool {
	tolerated := spec.Join.Policy.Tolerates() && n.state == fabrictype.NodeSucceeded
	return !tolerated
}

// dependents knows which nodes of a run depend on which.
type dependents struct {
	nodes       map[string]*runNode
	specs       map[string]*flowgraph.Node
	downstreams map[string][]string
	result      string // the node whose result is the run's
	// finally are the nodes that run however the run ends: each time it does.
	finally []string
}

func newDependents(r *RunNodes) *dependents {
	d := &dependents{
		nodes: make(map[string]*runNode, len(r.nodes)), specs: make(map[string]*flowgraph.Node, len(r.nodes)),
		downstreams: make(map[string][]string, len(r.nodes)),
	}
	for i := range r.nodes {
		d.nodes[r.nodes[i].name] = &r.nodes[i]
	}
	if r.graph == nil {
		return d
	}
	d.result = r.graph.Return
	for i := range r.graph.Nodes {
		n := &r.graph.Nodes[i]
		d.specs[n.Name] = n
		if n.Finally != nil {
			d.finally = append(d.finally, n.Name)
			continue
		}
		for _, up := range n.Upstreams {
			d.downstreams[up.Node] = append(d.downstreams[up.Node], n.Name)
		}
	}
	return d
}

// addFinally adds the nodes that run however the run ends to others that are chosen.
func (d *dependents) addFinally(chosen map[string]bool) {
	for _, name := range d.finally {
		chosen[name] = d.nodes[name] != nil
	}
}

// failed lists the nodes that did not succeed and whose success matters.
func (d *dependents) failed() []string {
	var names []string
	for name, n := range d.nodes {
		switch n.state {
		case fabrictype.NodeFailed, fabrictype.NodeExpired, fabrictype.NodeCancelled:
			if d.matters(name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// matters reports whether the success of a node matters: for the run's result, because no node depends on it, or for a
// node that did not succeed either or ran because of the failure.
func (d *dependents) matters(name string) bool {
	if name == d.result || len(d.downstreams[name]) == 0 {
		return true
	}
	return slices.ContainsFunc(d.downstreams[name], func(down string) bool {
		n := d.nodes[down]
		return n != nil && dependsOnFailure(n, d.specs[down])
	})
}

// add adds nodes to the chosen ones, and those that depend on them as far as follow allows.
func (d *dependents) add(chosen map[string]bool, names []string, follow func(*runNode, *flowgraph.Node) bool) {
	for len(names) > 0 {
		name := names[len(names)-1]
		names = names[:len(names)-1]
		if chosen[name] {
			continue
		}
		chosen[name] = true
		for _, down := range d.downstreams[name] {
			if n := d.nodes[down]; n != nil && !chosen[down] && follow(n, d.specs[down]) {
				names = append(names, down)
			}
		}
	}
}

// CheckScope returns an error that wraps [engine.ErrInvalid] unless the scope is one.
func CheckScope(s fabrictype.RerunScope) error {
	if ScopeOf(s).Node != "" || s == fabrictype.RerunFailed || s == fabrictype.RerunAll {
		return nil
	}
	return engine.Invalid("scope %q: must be RerunFailed, RerunAll, or RerunFrom with the name of a node", string(s))
}

// Rerun runs the nodes of a scope of a run that is over again. Unless request is empty, a call that repeats it for the
// same run has no further effect. Its error wraps [engine.ErrRunOpen], [engine.ErrRunNotFound],
// [engine.ErrUnknownNode], [engine.ErrNothingToRerun] or [engine.ErrRerunLimit].
func (s *Submitter) Rerun(ctx context.Context, r engine.Run, scope RerunScope, actor, request string) error {
	call := enginerpc.RerunCall{
		Partition: r.Partition, FlowID: r.FlowID, RerunID: uuid.NewString(), Mode: scope.Mode, Actor: actor,
	}
	if request != "" {
		call.RerunID = uuid.NewSHA1(uuid.NameSpaceOID, []byte("request "+request+" "+string(r.FlowID))).String()
		if begun, err := s.ContinueRerun(ctx, call); begun || err != nil {
			s.Completions.Untrack(r.FlowID)
			return err
		}
	}
	run, err := s.ReadNodes(ctx, r.FlowID, r.Partition)
	if err != nil {
		return err
	}
	if run.ClosedAt.IsZero() {
		return engine.ErrRunOpen
	}
	nodes, err := run.InScope(scope)
	if err != nil {
		return err
	}
	// The end that the client received is no longer the one to wait for.
	defer s.Completions.Untrack(r.FlowID)
	if call.Origin, err = s.Completions.BeginRerun(ctx, r.FlowID); err != nil {
		return err
	}
	if err := s.SendRerun(ctx, call, nodes); err != nil {
		s.Completions.AbortRerun(r.FlowID)
		return err
	}
	return nil
}
