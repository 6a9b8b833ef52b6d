package submit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// CompiledFlow is the encoded form of a definition, which the plans of all its runs share. It must not be changed
// once a run of it was planned.
type CompiledFlow struct {
	Graph       *flowgraph.Graph
	Hash        string
	Definition  []byte
	Nodes       []enginerpc.PutGraphNode
	nodeNumbers map[string]int // of the nodes, from 1
	Edges       int
	tags        []enginerpc.SubmitTag
	waits       bool   // it has waitpoints
	usual       bool   // ffx_start can start its runs
	priority    string // of all nodes, in decimal; empty if they have their own

	form     string // see formHash
	formOnce sync.Once
	class    atomic.Pointer[encodedClass]     // the last one of its runs
	kept     atomic.Pointer[encodedRetention] // the last one of its runs

	// budgets are those that all runs of a namespace have, if that is all that they have; their own, which a run
	// submits, replace them. budgetTexts is their stored form, of which DeclaredAt is the creation of the run.
	budgets     []StoredBudget
	budgetTexts enginerpc.SubmitBudget

	// namespaced is set if it has budgets, or nodes with limits, that are the same for all runs of a namespace.
	namespaced bool
	mu         sync.Mutex
	// inNamespaces has the form with these, by namespace. mu guards it.
	inNamespaces map[keyspace.Namespace]*CompiledFlow
	// withPriorities has the forms of runs with their own priority. mu guards it.
	withPriorities map[int]*CompiledFlow
}

// CompileFlow encodes a graph. Its error wraps [engine.ErrTooLarge] if the encoded definition exceeds [MaxDefinition].
// hash is the hash of the definition.
func CompileFlow(g *flowgraph.Graph, hash string) (*CompiledFlow, error) {
	definition, err := EncodeDefinition(g)
	if err != nil {
		return nil, fmt.Errorf("flow %s: %w", g.Name, err)
	}
	c := &CompiledFlow{
		Graph: g, Hash: hash, Definition: definition, Nodes: make([]enginerpc.PutGraphNode, len(g.Nodes)),
		nodeNumbers: make(map[string]int, len(g.Nodes)), namespaced: hasFixedBudgets(g),
	}
	if len(definition) > MaxDefinition {
		return nil, fmt.Errorf("flow %s: %w: its definition has %d bytes, at most %d are allowed", g.Name,
			engine.ErrTooLarge,
			len(definition), MaxDefinition)
	}
	for i := range g.Nodes {
		if c.Nodes[i], err = compileNode(&g.Nodes[i]); err != nil {
			return nil, fmt.Errorf("flow %s: %w", g.Name, err)
		}
		c.nodeNumbers[g.Nodes[i].Name] = i + 1
		c.Edges += len(g.Nodes[i].Upstreams)
		c.waits = c.waits || g.Nodes[i].Wait != nil
		c.namespaced = c.namespaced || hasFixedLimits(&g.Nodes[i])
	}
	c.compileEdges()
	c.usual = !c.waits && len(c.Nodes) <= NodesPerPut && !slices.ContainsFunc(c.Nodes, isUnusual)
	for name, value := range g.Tags {
		c.tags = append(c.tags, enginerpc.SubmitTag{Name: name, Value: value})
	}
	return c, nil
}

// isUnusual reports whether a node keeps ffx_start from starting runs of its graph.
func isUnusual(n enginerpc.PutGraphNode) bool { return n.Join != "" || n.Delay > 0 || len(n.Wait) > 0 }

func compileNode(n *flowgraph.Node) (enginerpc.PutGraphNode, error) {
	usesFlowInput := n.Input.UsesFlowInput() || needsFlowInput(n)
	n = childNode(n)
	policy, err := encodePolicy(n)
	if err != nil {
		return enginerpc.PutGraphNode{}, err
	}
	var tags []byte
	if len(n.Tags) > 0 {
		if tags, err = json.Marshal(n.Tags); err != nil {
			return enginerpc.PutGraphNode{}, fmt.Errorf("node %s: tags: %w", n.Name, err)
		}
	}
	node := enginerpc.PutGraphNode{
		Name: n.Name, Kind: kindOf(n), LaneID: enginecore.LaneID(n.Lane), Priority: int64(n.Priority),
		UsesFlowInput: usesFlowInput, InputCount: int64(len(n.Input.InputNodes())),
		Capabilities: strings.Join(n.Capabilities, ","), Policy: policy,
		Tags: tags, StartTimeout: n.ScheduleToStart, AttemptTimeout: n.StartToClose, Join: compileJoin(n),
	}
	if n.Wait != nil {
		if node.Wait, err = encodeWait(n); err != nil {
			return enginerpc.PutGraphNode{}, fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return node, nil
}

// maxNamespaces bounds the namespaces for which a flow has a separate form. When it is exceeded, all of them are
// dropped.
const maxNamespaces = 16

// inNamespace returns the form for runs of a namespace: c itself, or, if it has limits or budgets whose keys are in no
// input, one that has these.
func (c *CompiledFlow) inNamespace(namespace keyspace.Namespace) (*CompiledFlow, error) {
	if !c.namespaced {
		return c, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.inNamespaces[namespace]; found != nil {
		return found, nil
	}
	form := c.another()
	for i := range c.Graph.Nodes {
		if n := &c.Graph.Nodes[i]; hasFixedLimits(n) {
			limit, err := limitsOfNode(namespace, n, nil, c.Graph.Codec)
			if err != nil {
				return nil, fmt.Errorf("flow %s: node %s: %w", c.Graph.Name, n.Name, err)
			}
			form.Nodes[i].Limits = limit.Text
		}
	}
	if hasFixedBudgets(c.Graph) {
		list, err := budgetsOf(namespace, c.Graph, "", "", nil)
		if err != nil {
			return nil, err
		}
		for i := range list {
			list[i].DeclaredAt = 0
		}
		form.budgets, form.budgetTexts = list, encodeBudgets(list)[0]
	}
	if c.inNamespaces == nil || len(c.inNamespaces) >= maxNamespaces {
		c.inNamespaces = make(map[keyspace.Namespace]*CompiledFlow)
	}
	c.inNamespaces[namespace] = form
	return form, nil
}

// another returns a form whose nodes may be changed.
func (c *CompiledFlow) another() *CompiledFlow {
	return &CompiledFlow{
		Graph: c.Graph, Hash: c.Hash, Definition: c.Definition, Nodes: slices.Clone(c.Nodes),
		nodeNumbers: c.nodeNumbers, Edges: c.Edges, tags: c.tags, waits: c.waits, usual: c.usual,
		budgets: c.budgets, budgetTexts: c.budgetTexts,
	}
}

// maxPriorities bounds the priorities for which a flow has a separate form. When it is exceeded, all of them are
// dropped.
const maxPriorities = 16

// withPriority returns the form whose nodes all have a priority.
func (c *CompiledFlow) withPriority(priority int) *CompiledFlow {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.withPriorities[priority]; found != nil {
		return found
	}
	form := c.another()
	form.priority = strconv.Itoa(priority)
	for i := range form.Nodes {
		form.Nodes[i].Priority = int64(priority)
	}
	if c.withPriorities == nil || len(c.withPriorities) >= maxPriorities {
		c.withPriorities = make(map[int]*CompiledFlow)
	}
	c.withPriorities[priority] = form
	return form
}

// Flags of an edge in the lists of a node: its kind, and whether it carries the upstream's result.
var edgeKinds = map[flowgraph.EdgeKind]byte{
	flowgraph.SuccessOnly: 0, flowgraph.OnFailureOnly: 1, flowgraph.AnyOutcome: 2,
	flowgraph.UnlessFailed: 3,
}

const edgeCarries = 4

// compileEdges writes the lists of edges of all nodes: the other node's ordinal and flags, 3 bytes for each.
func (c *CompiledFlow) compileEdges() {
	for i := range c.Graph.Nodes {
		for _, up := range c.Graph.Nodes[i].Upstreams {
			flags := edgeKinds[up.Kind]
			if up.Data {
				flags |= edgeCarries
			}
			from := c.nodeNumbers[up.Node]
			if up.Kind == flowgraph.WhenCase {
				flags = caseFlags(&c.Graph.Nodes[from-1], up)
			}
			c.Nodes[i].Ups = append(binary.LittleEndian.AppendUint16(c.Nodes[i].Ups, uint16(from)), flags)
			upstream := &c.Nodes[from-1]
			upstream.Downs = append(binary.LittleEndian.AppendUint16(upstream.Downs, uint16(i+1)), flags)
		}
	}
}

// formHash identifies the compiled form, which the engine stores of the graph.
func (c *CompiledFlow) formHash() string {
	c.formOnce.Do(func() {
		sum := sha256.New()
		encoder := json.NewEncoder(sum)
		// Neither can fail: the values have a JSON form, and a hash takes everything.
		_ = encoder.Encode(c.Nodes)
		_ = encoder.Encode(c.Definition)
		_ = encoder.Encode([]string{c.Graph.Return})
		if c.budgets != nil {
			_ = encoder.Encode(c.budgetTexts)
		}
		c.form = hex.EncodeToString(sum.Sum(nil)[:16])
	})
	return c.form
}

// NodesPerPut is how many nodes of a graph one call contains; the library requires it.
const NodesPerPut = 32

// putCalls returns the calls that store the graph in a partition.
func (c *CompiledFlow) putCalls(p keyspace.Partition) []enginerpc.PutGraphCall {
	var calls []enginerpc.PutGraphCall
	// Each call contains a part of the definition, so that none has much to store.
	puts := (len(c.Nodes) + NodesPerPut - 1) / NodesPerPut
	part := (len(c.Definition) + puts - 1) / max(1, puts)
	for first := 0; first < len(c.Nodes); first += NodesPerPut {
		last := min(len(c.Nodes), first+NodesPerPut)
		call := enginerpc.PutGraphCall{
			Partition: p, Graph: c.formHash(), First: int64(first + 1), Last: last == len(c.Nodes),
			Edges:  int64(c.Edges),
			Result: int64(c.nodeNumbers[c.Graph.Return]), Nodes: c.Nodes[first:last],
		}
		from := min(len(c.Definition), part*len(calls))
		call.Definition = c.Definition[from:min(len(c.Definition), from+part)]
		if first == 0 {
			call.Budgets, call.Blocking = c.budgetTexts.Text, c.budgetTexts.Blocking
		}
		calls = append(calls, call)
	}
	return calls
}

// CompiledCache keeps the compiled form of definitions, up to [MaxCompiled] of them. The zero value is empty. It is
// safe for concurrent use.
type CompiledCache struct {
	mu     sync.Mutex
	byHash map[string]cachedFlow
}

type cachedFlow struct {
	def      Definition
	compiled *CompiledFlow
}

// Definition returns the definition with a hash, nil if the cache does not have it.
func (c *CompiledCache) Definition(hash string) Definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byHash[hash].def
}

// MaxCompiled bounds the definitions in a cache. When it is exceeded, the cache drops all of them.
const MaxCompiled = 128

// Definition is a *flow.Definition.
type Definition interface {
	Hash() string
	InputType() reflect.Type
	ResultType(node string) reflect.Type
	Internal() flowgraph.Handle
}

// Get returns the compiled form of a definition and compiles it unless it is in the cache.
func (c *CompiledCache) Get(def Definition) (*CompiledFlow, error) {
	hash := def.Hash()
	c.mu.Lock()
	compiled := c.byHash[hash].compiled
	c.mu.Unlock()
	if compiled != nil {
		return compiled, nil
	}
	compiled, err := CompileFlow(flowgraph.Of(def.Internal()), hash)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byHash == nil || len(c.byHash) >= MaxCompiled {
		c.byHash = make(map[string]cachedFlow)
	}
	c.byHash[hash] = cachedFlow{def, compiled}
	return compiled, nil
}

// SingleFlows keeps the definitions of flows that have one activity, by the activity. The zero value is empty. It is
// safe for concurrent use.
type SingleFlows struct {
	mu         sync.Mutex
	byActivity map[activity.Handler]any
}

// SingleFlow returns the flow with an activity as its only node. There is room for as many as in a cache of compiled
// flows.
func SingleFlow[In, Out any](s *SingleFlows, a *activity.Activity[In, Out]) (*flow.Definition[In, Out], error) {
	s.mu.Lock()
	known, _ := s.byActivity[a].(*flow.Definition[In, Out])
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	if err := a.Err(); err != nil {
		return nil, err
	}
	f := flow.New[In, Out](a.Name(), flow.WithCodec(a.Codec()))
	flow.Return(f, flow.Node(f, a.Name(), a, f.Input()))
	def, err := f.Build()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byActivity == nil || len(s.byActivity) >= MaxCompiled {
		s.byActivity = make(map[activity.Handler]any)
	}
	s.byActivity[a] = def
	return def, nil
}
