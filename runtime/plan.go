package runtime

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

// runPlan is a run ready to be submitted: its ids, its partition, and every node and edge as the engine will store them.
type runPlan struct {
	// Flow and Run name the run.
	Flow, Run string
	// FlowID and Partition are where the engine keeps it.
	FlowID    enginecore.FlowID
	Partition enginecore.Partition

	namespace enginecore.Namespace
	compiled  *compiledFlow
	input     []byte
	inputHash string
	retention string
	limits    map[string]enginerpc.SubmitFlowLimit
	fairKey   string
	budgets   []storedBudget
	trace     string
	creator   string
	tags      []enginerpc.SubmitFlowTag
	ownTags   bool                         // beside those of the flow
	fires     []enginerpc.SubmitFlowFire   // the fire of a schedule that the run is of
	parent    []enginerpc.SubmitFlowParent // at most one
}

// newPlan gives a run its ids. The same namespace, flow, run id, graph and input give the same plan in every process.
func newPlan(e *session, compiled *compiledFlow, runID string, input []byte) (*runPlan, error) {
	return newPlanIn(e, e.namespace, compiled, runID, input)
}

// newPlanIn is newPlan for a run of any namespace.
func newPlanIn(e *session, namespace enginecore.Namespace, compiled *compiledFlow, runID string, input []byte) (*runPlan, error) {
	if err := checkRunID(runID); err != nil {
		return nil, fmt.Errorf("flow %s: %w", compiled.graph.Name, err)
	}
	if len(input) > MaxInput {
		return nil, fmt.Errorf("flow %s: %w: input has %d bytes, at most %d are allowed", compiled.graph.Name, ErrTooLarge,
			len(input), MaxInput)
	}
	id := enginecore.FlowIDFor(namespace, compiled.graph.Name, runID)
	partition, err := e.core.FlowPartition(id)
	if err != nil {
		return nil, err
	}
	limits, err := limitsOf(namespace, compiled.graph, input)
	if err != nil {
		return nil, err
	}
	fair, err := fairKey(compiled.graph, input)
	if err != nil {
		return nil, err
	}
	budgets, err := budgetsOf(namespace, compiled.graph, runID, id, input)
	if err != nil {
		return nil, err
	}
	return &runPlan{
		Flow: compiled.graph.Name, Run: runID, FlowID: id, Partition: partition, namespace: namespace,
		compiled: compiled, tags: compiled.tags, input: input, limits: limits, fairKey: fair, inputHash: hashInput(input),
		retention: retentionOf(e.keep, compiled.graph.Keep), budgets: budgets,
	}, nil
}

// tagsOf are the tags of a run: those of its flow, and its own.
func tagsOf(compiled *compiledFlow, own map[string]string) ([]enginerpc.SubmitFlowTag, error) {
	if len(own) == 0 {
		return compiled.tags, nil
	}
	all := maps.Clone(own)
	for _, tag := range compiled.tags {
		if _, replaced := own[tag.Name]; !replaced {
			all[tag.Name] = tag.Value
		}
	}
	if err := flowgraph.CheckTags(compiled.graph.Name, all); err != nil {
		return nil, err
	}
	tags := make([]enginerpc.SubmitFlowTag, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tags = append(tags, enginerpc.SubmitFlowTag{Name: name, Value: all[name]})
	}
	return tags, nil
}

// hashInput tells the inputs of two submissions apart.
func hashInput(input []byte) string {
	sum := sha256.Sum256(input)
	return hex.EncodeToString(sum[:16])
}

func checkRunID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: it is empty", ErrRunID)
	case len(id) > MaxRunID:
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrRunID, len(id), MaxRunID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: %q is not valid UTF-8", ErrRunID, id)
	case strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("%w: %q has a control character", ErrRunID, id)
	}
	return nil
}

// ExecutionID is the id under which the engine runs a node.
func (p *runPlan) ExecutionID(node string) enginecore.ExecutionID {
	return enginecore.ExecutionIDFor(p.Partition, p.FlowID, node)
}

// edges lists the edges between the nodes, which must be all of them, in the order of those that they lead to.
func (p *runPlan) edges(nodes []enginerpc.SubmitFlowNode) []enginerpc.SubmitFlowEdge {
	edges := make([]enginerpc.SubmitFlowEdge, 0, p.compiled.edges)
	for i := range p.compiled.graph.Nodes {
		n := &p.compiled.graph.Nodes[i]
		for _, up := range n.Upstreams {
			edge := enginerpc.SubmitFlowEdge{
				EdgeID:              enginecore.EdgeIDFor(p.FlowID, up.Node, n.Name),
				UpstreamExecutionID: nodes[p.compiled.nodeNumbers[up.Node]-1].ExecutionID, DownstreamExecutionID: nodes[i].ExecutionID,
				DependencyKind: string(up.Kind),
			}
			if up.Data {
				edge.InputName = up.Node
			}
			edges = append(edges, edge)
		}
	}
	return edges
}

// nodes lists the nodes with their ids.
func (p *runPlan) nodes() []enginerpc.SubmitFlowNode {
	nodes := make([]enginerpc.SubmitFlowNode, len(p.compiled.nodes))
	copy(nodes, p.compiled.nodes)
	for i := range nodes {
		nodes[i].ExecutionID = p.ExecutionID(nodes[i].Name)
		if wait := p.compiled.graph.Nodes[i].Wait; wait != nil {
			nodes[i].Wait = encodeWait(wait, p.FlowID, nodes[i].Name)
		}
	}
	return nodes
}

// itemIDs are the executions of the items from..to-1 of a map, by the run of its items.
func itemIDs(p enginecore.Partition, run enginecore.FlowID, from, to int) []enginecore.ExecutionID {
	ids := make([]enginecore.ExecutionID, to-from)
	for i := range ids {
		ids[i] = enginecore.ExecutionIDFor(p, run, flowgraph.ItemName(from+i))
	}
	return ids
}

// Bounds of one submitting call; the engine holds a server for well under 5 ms with them.
const (
	nodesPerCall = 48
	edgesPerCall = 128
	// A definition above this size (bytes) takes a call of its own.
	maxDefinitionWithNodes = 64 << 10
)

// calls yields the submitting calls in order: one for a small flow; for a large one, all nodes in chunks, then all
// edges, from the last chunk of nodes on, then the call that lets it go.
func (p *runPlan) calls() iter.Seq[enginerpc.SubmitFlowCall] {
	return func(yield func(enginerpc.SubmitFlowCall) bool) {
		nodes := p.nodes()
		edges := p.edges(nodes)
		call := p.header(nodes, len(edges))
		if len(nodes) <= nodesPerCall && len(edges) <= edgesPerCall {
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
			n := min(nodesPerCall, len(nodes))
			if first && len(chunk.Definition) > maxDefinitionWithNodes {
				n = 0
			}
			chunk.Nodes, nodes = nodes[:n], nodes[n:]
			chunk.Joins = p.joins(chunk.Nodes)
			chunk.Limits = p.limitsOf(chunk.Nodes)
			if len(nodes) == 0 {
				n = min(edgesPerCall, len(edges))
				chunk.Edges, edges = edges[:n], edges[n:]
			}
			if !yield(chunk) {
				return
			}
		}
		for len(edges) > 0 {
			chunk := rest
			n := min(edgesPerCall, len(edges))
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
func (p *runPlan) limitsOf(nodes []enginerpc.SubmitFlowNode) []enginerpc.SubmitFlowLimit {
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

// header is what all calls of a submission of the nodes have in common.
func (p *runPlan) header(nodes []enginerpc.SubmitFlowNode, edges int) enginerpc.SubmitFlowCall {
	call := enginerpc.SubmitFlowCall{
		Partition: p.Partition, FlowID: p.FlowID, FlowName: p.Flow, RunID: p.Run, Namespace: string(p.namespace),
		GraphHash: p.compiled.hash, InputHash: p.inputHash, Definition: p.compiled.definition, Input: p.input,
		CreatorIdentity: p.creator, TraceContext: p.trace, NodeTotal: int64(len(nodes)), EdgeTotal: int64(edges),
		Tags: p.tags, Fires: p.fires, Deadline: p.compiled.graph.Deadline, Retention: p.retention, FairKey: p.fairKey,
		Parent:  p.parent,
		Budgets: encodeBudgets(p.budgets),
	}
	if number := p.compiled.nodeNumbers[p.compiled.graph.Return]; number > 0 {
		call.ResultExecutionID = nodes[number-1].ExecutionID
	}
	return call
}
