package flows

import (
	"context"
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Flows reads the graphs of flows, detects their ends and cancels their members. It is safe for concurrent use.
type Flows struct {
	*link.Link
	graphs graphCache
	ends   endWatch
}

func New(l *link.Link) *Flows { return &Flows{Link: l} }

// Graph is the part of a flow's graph that propagation needs.
type Graph struct {
	Lanes map[string]enginecore.LaneID // by node
	Place map[string]int               // in the order of declaration, in which upstreams come first
	Downs map[string][]string
	Joins map[string]bool // nodes that do not need all of their upstreams
}

func newGraph(g *flowgraph.Graph) *Graph {
	graph := &Graph{
		Lanes: make(map[string]enginecore.LaneID, len(g.Nodes)), Place: make(map[string]int, len(g.Nodes)),
		Downs: make(map[string][]string), Joins: make(map[string]bool),
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		graph.Lanes[n.Name], graph.Place[n.Name] = laneOf(n), i
		if n.Join.Policy != flowgraph.JoinAll {
			graph.Joins[n.Name] = true
		}
		for _, up := range n.Upstreams {
			graph.Downs[up.Node] = append(graph.Downs[up.Node], n.Name)
		}
	}
	return graph
}

// laneOf returns the lane of a node's executions.
func laneOf(n *flowgraph.Node) enginecore.LaneID {
	if n.Wait != nil {
		return link.WaitLane
	}
	return enginecore.LaneID(n.Lane)
}

// graphCache caches graphs by their hash: runs of one definition share one. The zero value is empty; it is safe for
// concurrent use.
type graphCache struct {
	mu     sync.Mutex
	byHash map[string]*Graph
}

// Graph returns the graph of a flow, nil if the flow has no readable definition with that hash.
func (c *Flows) Graph(
	ctx context.Context, p keyspace.Partition, id enginecore.FlowID, hash string,
) (*Graph, error) {
	g := &c.graphs
	g.mu.Lock()
	graph := g.byHash[hash]
	g.mu.Unlock()
	if graph != nil {
		return graph, nil
	}
	read := c.Client.B().Hget().Key(c.Keys.FlowTags(p, id)).Field(contractnode.TagDefinition).Build()
	results, err := c.Read(ctx, read)
	if err != nil {
		return nil, err
	}
	definition, err := results[0].AsBytes()
	if err != nil {
		return nil, nil
	}
	parsed, err := flowgraph.ParseGraph(definition)
	if err != nil || parsed.Hash() != hash {
		return nil, nil
	}
	graph = newGraph(parsed)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byHash == nil || len(g.byHash) >= submit.MaxCompiled {
		g.byHash = make(map[string]*Graph)
	}
	g.byHash[hash] = graph
	return graph, nil
}

// FeedsJoin reports whether a join is among the downstreams of a node.
func (g *Graph) FeedsJoin(node string) bool {
	return slices.ContainsFunc(g.Downs[node], func(down string) bool { return g.Joins[down] })
}

// LeadsToJoins reports whether every way on from a node comes to a join.
func (g *Graph) LeadsToJoins(node string) bool {
	queue, seen := []string{node}, map[string]bool{node: true}
	for len(queue) > 0 {
		downs := g.Downs[queue[0]]
		queue = queue[1:]
		if len(downs) == 0 {
			return false
		}
		for _, down := range downs {
			if !seen[down] && !g.Joins[down] {
				queue = append(queue, down)
			}
			seen[down] = true
		}
	}
	return true
}
