package submit

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// CompiledFlow is the encoded form of a definition, which the plans of all its runs share. It must not be changed.
type CompiledFlow struct {
	Graph       *flowgraph.Graph
	Hash        string
	Definition  []byte
	Nodes       []enginerpc.SubmitFlowNode // without execution ids
	nodeNumbers map[string]int64           // of the nodes, from 1
	Edges       int
	joins       map[string]enginerpc.SubmitFlowJoin // by node, without execution ids
	tags        []enginerpc.SubmitFlowTag
	waits       bool // it has waitpoints
	// many is nil for flows whose runs are not started together with others.
	many *manyForm
}

// CompileFlow encodes a graph. Its error wraps [engine.ErrTooLarge] if the encoded definition exceeds [MaxDefinition].
// hash is that of the definition.
func CompileFlow(g *flowgraph.Graph, hash string) (*CompiledFlow, error) {
	definition, err := g.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("flow %s: %w", g.Name, err)
	}
	c := &CompiledFlow{
		Graph: g, Hash: hash, Definition: definition, Nodes: make([]enginerpc.SubmitFlowNode, len(g.Nodes)),
		nodeNumbers: make(map[string]int64, len(g.Nodes)),
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
		c.nodeNumbers[g.Nodes[i].Name] = int64(i + 1)
		c.Edges += len(g.Nodes[i].Upstreams)
		c.waits = c.waits || g.Nodes[i].Wait != nil
	}
	c.joins = compileJoins(g)
	for name, value := range g.Tags {
		c.tags = append(c.tags, enginerpc.SubmitFlowTag{Name: name, Value: value})
	}
	c.many = newManyForm(c)
	return c, nil
}

func compileNode(n *flowgraph.Node) (enginerpc.SubmitFlowNode, error) {
	usesFlowInput := n.Input.UsesFlowInput() || needsFlowInput(n)
	n = childNode(n)
	policy, err := encodePolicy(n)
	if err != nil {
		return enginerpc.SubmitFlowNode{}, err
	}
	var tags []byte
	if len(n.Tags) > 0 {
		if tags, err = json.Marshal(n.Tags); err != nil {
			return enginerpc.SubmitFlowNode{}, fmt.Errorf("node %s: tags: %w", n.Name, err)
		}
	}
	return enginerpc.SubmitFlowNode{
		Name: n.Name, Kind: kindOf(n), LaneID: enginecore.LaneID(n.Lane), Priority: int64(n.Priority),
		UsesFlowInput: usesFlowInput, InputCount: int64(len(n.Input.InputNodes())),
		UpstreamCount: int64(len(n.Upstreams)), Capabilities: strings.Join(n.Capabilities, ","), Policy: policy,
		Tags: tags, StartTimeout: n.ScheduleToStart, AttemptTimeout: n.StartToClose,
	}, nil
}

// CompiledCache keeps the compiled form of definitions, up to [MaxCompiled] of them. The zero value is empty. It is
// safe for concurrent use.
type CompiledCache struct {
	mu     sync.Mutex
	byHash map[string]*CompiledFlow
}

// MaxCompiled bounds the definitions in a cache. When it is exceeded, the cache drops all of them.
const MaxCompiled = 128

// definition is a *flow.Definition.
type definition interface{ Hash() string }

// Get returns the compiled form of a definition and compiles it unless it is in the cache.
func (c *CompiledCache) Get(def definition) (*CompiledFlow, error) {
	hash := def.Hash()
	c.mu.Lock()
	compiled := c.byHash[hash]
	c.mu.Unlock()
	if compiled != nil {
		return compiled, nil
	}
	compiled, err := CompileFlow(flowgraph.Of(def), hash)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byHash == nil || len(c.byHash) >= MaxCompiled {
		c.byHash = make(map[string]*CompiledFlow)
	}
	c.byHash[hash] = compiled
	return compiled, nil
}
