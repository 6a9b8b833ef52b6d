package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/enginecore"
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

// Plan is a flow made ready to run: ids, partition, and every node and edge as the engine will store them. It is a
// value of its own, so it can be printed instead of submitted.
type Plan struct {
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
	limits    map[string]enginecore.SubmitFlowLimit
	fairKey   string
	budgets   []storedBudget
	trace     string
	creator   string
	tags      []enginecore.SubmitFlowTag
	ownTags   bool                          // beside those of the flow
	fires     []enginecore.SubmitFlowFire   // the fire of a schedule that the run is of
	parent    []enginecore.SubmitFlowParent // at most one
}

// compiledFlow is what the plans of one definition share.
type compiledFlow struct {
	graph      *flowgraph.Graph
	hash       string
	definition []byte
	nodes      []enginecore.SubmitFlowNode // without execution ids
	places     map[string]int64            // of the nodes, from 1
	edges      int
	joins      map[string]enginecore.SubmitFlowJoin // by node, without execution ids
	tags       []enginecore.SubmitFlowTag
	waits      bool // it has waitpoints
	// many is nil for flows whose runs are not started together with others.
	many *manyForm
}

// compileFlow encodes a graph for the engine.
func compileFlow(g *flowgraph.Graph, hash string) (*compiledFlow, error) {
	definition, err := g.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("flow %s: %w", g.Name, err)
	}
	c := &compiledFlow{
		graph: g, hash: hash, definition: definition, nodes: make([]enginecore.SubmitFlowNode, len(g.Nodes)),
		places: make(map[string]int64, len(g.Nodes)),
	}
	if len(definition) > MaxDefinition {
		return nil, fmt.Errorf("flow %s: %w: its definition has %d bytes, at most %d are allowed", g.Name, ErrTooLarge,
			len(definition), MaxDefinition)
	}
	for i := range g.Nodes {
		if c.nodes[i], err = compileNode(&g.Nodes[i]); err != nil {
			return nil, fmt.Errorf("flow %s: %w", g.Name, err)
		}
		c.places[g.Nodes[i].Name] = int64(i + 1)
		c.edges += len(g.Nodes[i].Upstreams)
		c.waits = c.waits || g.Nodes[i].Wait != nil
	}
	c.joins = compileJoins(g)
	for name, value := range g.Tags {
		c.tags = append(c.tags, enginecore.SubmitFlowTag{Name: name, Value: value})
	}
	c.many = newManyForm(c)
	return c, nil
}

func compileNode(n *flowgraph.Node) (enginecore.SubmitFlowNode, error) {
	usesFlowInput := n.Input.UsesFlowInput() || needsFlowInput(n)
	n = childNode(n)
	policy, err := encodePolicy(n)
	if err != nil {
		return enginecore.SubmitFlowNode{}, err
	}
	var tags []byte
	if len(n.Tags) > 0 {
		if tags, err = json.Marshal(n.Tags); err != nil {
			return enginecore.SubmitFlowNode{}, fmt.Errorf("node %s: tags: %w", n.Name, err)
		}
	}
	return enginecore.SubmitFlowNode{
		Name: n.Name, Kind: kindOf(n), LaneID: enginecore.LaneID(n.Lane), Priority: int64(n.Priority),
		UsesFlowInput: usesFlowInput, InputCount: int64(len(n.Input.InputNodes())),
		UpstreamCount: int64(len(n.Upstreams)), Capabilities: strings.Join(n.Capabilities, ","), Policy: policy,
		Tags: tags, StartTimeout: n.ScheduleToStart, AttemptTimeout: n.StartToClose,
	}, nil
}

// compiledCache keeps the compiled form of the definitions that were started last.
type compiledCache struct {
	mu     sync.Mutex
	byHash map[string]*compiledFlow
}

const maxCompiled = 128

// definition is what the cache needs of a flow.Definition.
type definition interface {
	Hash() string
	Graph() *flowgraph.Graph
}

func (c *compiledCache) get(def definition) (*compiledFlow, error) {
	hash := def.Hash()
	c.mu.Lock()
	compiled := c.byHash[hash]
	c.mu.Unlock()
	if compiled != nil {
		return compiled, nil
	}
	compiled, err := compileFlow(def.Graph(), hash)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byHash == nil || len(c.byHash) >= maxCompiled {
		c.byHash = make(map[string]*compiledFlow)
	}
	c.byHash[hash] = compiled
	return compiled, nil
}

// newPlan gives a run its ids. The same namespace, flow, run id, graph and input give the same plan in every process.
func newPlan(e *session, compiled *compiledFlow, runID string, input []byte) (*Plan, error) {
	return newPlanIn(e, e.namespace, compiled, runID, input)
}

// newPlanIn is newPlan for a run of any namespace.
func newPlanIn(e *session, namespace enginecore.Namespace, compiled *compiledFlow, runID string, input []byte) (*Plan, error) {
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
	return &Plan{
		Flow: compiled.graph.Name, Run: runID, FlowID: id, Partition: partition, namespace: namespace,
		compiled: compiled, tags: compiled.tags, input: input, limits: limits, fairKey: fair, inputHash: hashInput(input),
		retention: retentionOf(e.keep, compiled.graph.Keep), budgets: budgets,
	}, nil
}

// tagsOf are the tags of a run: those of its flow, and its own.
func tagsOf(compiled *compiledFlow, own map[string]string) ([]enginecore.SubmitFlowTag, error) {
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
	tags := make([]enginecore.SubmitFlowTag, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tags = append(tags, enginecore.SubmitFlowTag{Name: name, Value: all[name]})
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

// Graph is the flow of the plan. It must not be changed.
func (p *Plan) Graph() *flowgraph.Graph {
	if p == nil || p.compiled == nil {
		return nil
	}
	return p.compiled.graph
}

// ExecutionID is the id under which the engine runs a node.
func (p *Plan) ExecutionID(node string) enginecore.ExecutionID {
	return enginecore.ExecutionIDFor(p.Partition, p.FlowID, node)
}

// edges lists the edges between the nodes, which must be all of them, in the order of those that they lead to.
func (p *Plan) edges(nodes []enginecore.SubmitFlowNode) []enginecore.SubmitFlowEdge {
	edges := make([]enginecore.SubmitFlowEdge, 0, p.compiled.edges)
	for i := range p.compiled.graph.Nodes {
		n := &p.compiled.graph.Nodes[i]
		for _, up := range n.Upstreams {
			edge := enginecore.SubmitFlowEdge{
				EdgeID:              enginecore.EdgeIDFor(p.FlowID, up.Node, n.Name),
				UpstreamExecutionID: nodes[p.compiled.places[up.Node]-1].ExecutionID, DownstreamExecutionID: nodes[i].ExecutionID,
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
func (p *Plan) nodes() []enginecore.SubmitFlowNode {
	nodes := make([]enginecore.SubmitFlowNode, len(p.compiled.nodes))
	copy(nodes, p.compiled.nodes)
	for i := range nodes {
		nodes[i].ExecutionID = p.ExecutionID(nodes[i].Name)
		if wait := p.compiled.graph.Nodes[i].Wait; wait != nil {
			nodes[i].Wait = encodeWait(wait, p.FlowID, nodes[i].Name)
		}
	}
	return nodes
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
func (p *Plan) calls() iter.Seq[enginecore.SubmitFlowCall] {
	return func(yield func(enginecore.SubmitFlowCall) bool) {
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
func (p *Plan) limitsOf(nodes []enginecore.SubmitFlowNode) []enginecore.SubmitFlowLimit {
	if len(p.limits) == 0 {
		return nil
	}
	var list []enginecore.SubmitFlowLimit
	for i := range nodes {
		if limit, limited := p.limits[nodes[i].Name]; limited {
			limit.ExecutionID = nodes[i].ExecutionID
			list = append(list, limit)
		}
	}
	return list
}

// header is what all calls of a submission of the nodes have in common.
func (p *Plan) header(nodes []enginecore.SubmitFlowNode, edges int) enginecore.SubmitFlowCall {
	call := enginecore.SubmitFlowCall{
		Partition: p.Partition, FlowID: p.FlowID, FlowName: p.Flow, RunID: p.Run, Namespace: string(p.namespace),
		GraphHash: p.compiled.hash, InputHash: p.inputHash, Definition: p.compiled.definition, Input: p.input,
		CreatorIdentity: p.creator, TraceContext: p.trace, NodeTotal: int64(len(nodes)), EdgeTotal: int64(edges),
		Tags: p.tags, Fires: p.fires, Deadline: p.compiled.graph.Deadline, Retention: p.retention, FairKey: p.fairKey,
		Parent:  p.parent,
		Budgets: encodeBudgets(p.budgets),
	}
	if place := p.compiled.places[p.compiled.graph.Return]; place > 0 {
		call.ResultExecutionID = nodes[place-1].ExecutionID
	}
	return call
}

// String prints the plan as the list of engine calls that it stands for: first what is sent, then the single steps that
// it is made of, in the engine's own terms.
func (p *Plan) String() string {
	if p.Graph() == nil {
		return "no plan"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "flow %s, run %s\n", p.Flow, p.Run)
	fmt.Fprintf(&b, "id %s in partition %s, graph %.12s, input %d bytes\n", p.FlowID, p.Partition, p.compiled.hash, len(p.input))
	sent := 0
	for call := range p.calls() {
		sent++
		fmt.Fprintf(&b, "call %d: ffx_submit_flow with %d nodes and %d edges%s\n", sent, len(call.Nodes), len(call.Edges),
			map[bool]string{true: ", releases the roots"}[call.Last])
	}
	b.WriteString("which does:\n")
	for _, step := range p.Steps() {
		fmt.Fprintf(&b, "  %-30s %s\n", step.Function, step.Subject)
	}
	return b.String()
}

// Step is one engine call of a plan.
type Step struct {
	// Function is the name of the library's function.
	Function string
	// Subject says what it is called for.
	Subject string
}

// Steps lists the single engine calls that a submission is equal to, in order.
func (p *Plan) Steps() []Step {
	g := p.Graph()
	if g == nil {
		return nil
	}
	steps := []Step{{enginecore.FunctionName(enginecore.CreateFlowCall{}), string(p.FlowID)}}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		steps = append(steps,
			Step{enginecore.FunctionName(enginecore.CreateExecutionCall{}), fmt.Sprintf("%s = %s on lane %s, %s", n.Name, stepKind(n), n.Lane, p.ExecutionID(n.Name))},
			Step{enginecore.FunctionName(enginecore.AddExecutionToFlowCall{}), n.Name})
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Join.Policy != flowgraph.JoinAll {
			steps = append(steps, p.joinStep(n))
		}
		for _, up := range n.Upstreams {
			arrow := up.Node + " → " + n.Name
			kind := string(up.Kind)
			if up.Data {
				kind += ", with its result"
			}
			steps = append(steps, Step{enginecore.FunctionName(enginecore.StageDependencyEdgeCall{}), arrow + " (" + kind + ")"},
				Step{enginecore.FunctionName(enginecore.ApplyDependencyToChildCall{}), arrow})
		}
	}
	return steps
}

// stepKind is what a node does, in the words of a plan.
func stepKind(n *flowgraph.Node) string {
	switch {
	case n.Wait != nil:
		return "waitpoint"
	case n.Sub != nil:
		return "flow " + n.Sub.Name
	case n.Map != nil:
		return n.Activity + " for each item"
	}
	return n.Activity
}
