package submit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// Limits of a run that are checked before anything is sent.
const (
	// MaxInput is the largest encoded input of a run, in bytes.
	MaxInput = 1 << 20
	// MaxResult is the largest encoded result of a node, in bytes.
	MaxResult = 1 << 20
	// MaxDefinition is the largest encoded definition of a flow, in bytes.
	MaxDefinition = 8 << 20
	// MaxRunID is the longest run id, in bytes.
	MaxRunID = 256
)

// RunPlan is a run ready to be submitted: its ids, its partition, and everything from which the calls of the submission
// are made. It is for one goroutine; its String method prints it.
type RunPlan struct {
	// Flow and Run name the run.
	Flow, Run string
	// FlowID and Partition are where the engine keeps it.
	FlowID    enginecore.FlowID
	Partition enginecore.Partition

	namespace enginecore.Namespace
	Compiled  *CompiledFlow
	Input     []byte
	InputHash string
	Retention string
	limits    map[string]enginerpc.SubmitFlowLimit
	FairKey   string
	Budgets   []StoredBudget
	trace     string
	Creator   string
	Tags      []enginerpc.SubmitFlowTag
	OwnTags   bool                         // beside those of the flow
	Fires     []enginerpc.SubmitFlowFire   // the fire of a schedule that the run is of
	Parent    []enginerpc.SubmitFlowParent // at most one
}

// NewPlan plans a run in the session's namespace. The same namespace, flow, run id, graph and input give the same ids
// in every process. Its error wraps [engine.ErrInvalid] or [engine.ErrTooLarge].
func NewPlan(e *engine.Session, compiled *CompiledFlow, runID string, input []byte) (*RunPlan, error) {
	return NewPlanIn(e, e.Namespace, compiled, runID, input)
}

// NewPlanIn plans a run in any namespace, as NewPlan does.
func NewPlanIn(
	e *engine.Session, namespace enginecore.Namespace, compiled *CompiledFlow, runID string, input []byte,
) (*RunPlan, error) {
	if err := CheckRunID(runID); err != nil {
		return nil, fmt.Errorf("flow %s: %w", compiled.Graph.Name, err)
	}
	if len(input) > MaxInput {
		return nil, fmt.Errorf("flow %s: %w: input has %d bytes, at most %d are allowed", compiled.Graph.Name,
			engine.ErrTooLarge,
			len(input), MaxInput)
	}
	id := enginecore.FlowIDFor(namespace, compiled.Graph.Name, runID)
	partition, err := e.Core.FlowPartition(id)
	if err != nil {
		return nil, err
	}
	limits, err := limitsOf(namespace, compiled.Graph, input)
	if err != nil {
		return nil, err
	}
	fair, err := fairKey(compiled.Graph, input)
	if err != nil {
		return nil, err
	}
	budgets, err := budgetsOf(namespace, compiled.Graph, runID, id, input)
	if err != nil {
		return nil, err
	}
	return &RunPlan{
		Flow: compiled.Graph.Name, Run: runID, FlowID: id, Partition: partition, namespace: namespace,
		Compiled: compiled, Tags: compiled.tags, Input: input, limits: limits, FairKey: fair,
		InputHash: HashInput(input),
		Retention: RetentionOf(e.Keep, compiled.Graph.Keep), Budgets: budgets,
	}, nil
}

// TagsOf returns the tags of a run: those of its flow, replaced and extended by its own, sorted by name if it has own
// ones.
func TagsOf(compiled *CompiledFlow, own map[string]string) ([]enginerpc.SubmitFlowTag, error) {
	if len(own) == 0 {
		return compiled.tags, nil
	}
	all := maps.Clone(own)
	for _, tag := range compiled.tags {
		if _, replaced := own[tag.Name]; !replaced {
			all[tag.Name] = tag.Value
		}
	}
	if err := flowgraph.CheckTags(compiled.Graph.Name, all); err != nil {
		return nil, err
	}
	tags := make([]enginerpc.SubmitFlowTag, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tags = append(tags, enginerpc.SubmitFlowTag{Name: name, Value: all[name]})
	}
	return tags, nil
}

// HashInput returns a hash of an encoded input, by which the engine detects that a run id is used with another input.
func HashInput(input []byte) string {
	sum := sha256.Sum256(input)
	return hex.EncodeToString(sum[:16])
}

// CheckRunID returns an error that wraps [engine.ErrInvalid] unless id is valid UTF-8 of 1 to [MaxRunID] bytes without
// control characters.
func CheckRunID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: run id: it is empty", engine.ErrInvalid)
	case len(id) > MaxRunID:
		return fmt.Errorf("%w: run id: %d bytes, at most %d are allowed", engine.ErrInvalid, len(id), MaxRunID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: run id %q: it is not valid UTF-8", engine.ErrInvalid, id)
	case strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("%w: run id %q: it has a control character", engine.ErrInvalid, id)
	}
	return nil
}

// ExecutionID returns the id of the execution of a node.
func (p *RunPlan) ExecutionID(node string) enginecore.ExecutionID {
	return enginecore.ExecutionIDFor(p.Partition, p.FlowID, node)
}

// Edges returns the edges of the run, in the order of their downstream nodes. nodes must be what [RunPlan.Nodes]
// returns.
func (p *RunPlan) Edges(nodes []enginerpc.SubmitFlowNode) []enginerpc.SubmitFlowEdge {
	edges := make([]enginerpc.SubmitFlowEdge, 0, p.Compiled.Edges)
	for i := range p.Compiled.Graph.Nodes {
		n := &p.Compiled.Graph.Nodes[i]
		for _, up := range n.Upstreams {
			edge := enginerpc.SubmitFlowEdge{
				EdgeID:                enginecore.EdgeIDFor(p.FlowID, up.Node, n.Name),
				UpstreamExecutionID:   nodes[p.Compiled.nodeNumbers[up.Node]-1].ExecutionID,
				DownstreamExecutionID: nodes[i].ExecutionID,
				DependencyKind:        string(up.Kind),
			}
			if up.Data {
				edge.InputName = up.Node
			}
			edges = append(edges, edge)
		}
	}
	return edges
}

// Nodes returns the nodes with the ids of this run, in the order of their declaration.
func (p *RunPlan) Nodes() []enginerpc.SubmitFlowNode {
	nodes := make([]enginerpc.SubmitFlowNode, len(p.Compiled.Nodes))
	copy(nodes, p.Compiled.Nodes)
	for i := range nodes {
		nodes[i].ExecutionID = p.ExecutionID(nodes[i].Name)
		if wait := p.Compiled.Graph.Nodes[i].Wait; wait != nil {
			nodes[i].Wait = encodeWait(wait, p.FlowID, nodes[i].Name)
		}
	}
	return nodes
}

// ItemIDs returns the ids of the executions of items from to to-1 of a map, given its child run.
func ItemIDs(p enginecore.Partition, run enginecore.FlowID, from, to int) []enginecore.ExecutionID {
	ids := make([]enginecore.ExecutionID, to-from)
	for i := range ids {
		ids[i] = enginecore.ExecutionIDFor(p, run, flowgraph.ItemName(from+i))
	}
	return ids
}

// Bounds of one submitting call; the engine holds a server for well under 5 ms with them.
const (
	NodesPerCall = 48
	EdgesPerCall = 128
	// A definition above this size (bytes) takes a call of its own.
	maxDefinitionWithNodes = 64 << 10
)

// calls yields the submitting calls in order: one for a small flow; for a large one, all nodes in chunks, then all
// edges, from the last chunk of nodes on, then the call that lets it go.
func (p *RunPlan) calls() iter.Seq[enginerpc.SubmitFlowCall] {
	return func(yield func(enginerpc.SubmitFlowCall) bool) {
		nodes := p.Nodes()
		edges := p.Edges(nodes)
		call := p.Header(nodes, len(edges))
		if len(nodes) <= NodesPerCall && len(edges) <= EdgesPerCall {
			call.Nodes, call.Edges, call.Joins, call.Last = nodes, edges, p.joins(nodes), true
			call.Limits = p.limitsOf(nodes)
			yield(call)
			return
		}
		// Only the first call creates the flow, so only it carries what belongs to the flow itself.
		rest := call
		rest.Definition, rest.Input, rest.Tags = nil, nil, nil
		for first := true; len(nodes) > 0; first = false {
			chunk := rest
			if first {
				chunk = call
			}
			n := min(NodesPerCall, len(nodes))
			if first && len(chunk.Definition) > maxDefinitionWithNodes {
				n = 0
			}
			chunk.Nodes, nodes = nodes[:n], nodes[n:]
			chunk.Joins = p.joins(chunk.Nodes)
			chunk.Limits = p.limitsOf(chunk.Nodes)
			if len(nodes) == 0 {
				n = min(EdgesPerCall, len(edges))
				chunk.Edges, edges = edges[:n], edges[n:]
			}
			if !yield(chunk) {
				return
			}
		}
		for len(edges) > 0 {
			chunk := rest
			n := min(EdgesPerCall, len(edges))
			chunk.Edges, edges = edges[:n], edges[n:]
			if !yield(chunk) {
				return
			}
		}
		rest.Last = true
		yield(rest)
	}
}

// limitsOf lists the limits of some of the nodes.
func (p *RunPlan) limitsOf(nodes []enginerpc.SubmitFlowNode) []enginerpc.SubmitFlowLimit {
	if len(p.limits) == 0 {
		return nil
	}
	var list []enginerpc.SubmitFlowLimit
	for i := range nodes {
		if limit, limited := p.limits[nodes[i].Name]; limited {
			limit.ExecutionID = nodes[i].ExecutionID
			list = append(list, limit)
		}
	}
	return list
}

// Header returns what all calls of a submission have in common. edges is the number of edges of the run.
func (p *RunPlan) Header(nodes []enginerpc.SubmitFlowNode, edges int) enginerpc.SubmitFlowCall {
	call := enginerpc.SubmitFlowCall{
		Partition: p.Partition, FlowID: p.FlowID, FlowName: p.Flow, RunID: p.Run, Namespace: string(p.namespace),
		GraphHash: p.Compiled.Hash, InputHash: p.InputHash, Definition: p.Compiled.Definition, Input: p.Input,
		CreatorIdentity: p.Creator, TraceContext: p.trace, NodeTotal: int64(len(nodes)), EdgeTotal: int64(edges),
		Tags: p.Tags, Fires: p.Fires, Deadline: p.Compiled.Graph.Deadline, Retention: p.Retention, FairKey: p.FairKey,
		Parent:  p.Parent,
		Budgets: encodeBudgets(p.Budgets),
	}
	if number := p.Compiled.nodeNumbers[p.Compiled.Graph.Return]; number > 0 {
		call.ResultExecutionID = nodes[number-1].ExecutionID
	}
	return call
}
