package flowgraph

import (
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// JoinFinally waits for the end of all other nodes, also in a run that is over.
const JoinFinally JoinPolicy = "finally"

// Finally makes a node run when all others of the run have ended, however the run ends. Such a node has edges of kind
// AnyOutcome from all nodes that are not of its kind, in the order of the nodes, and the join JoinFinally.
type Finally struct {
	// Within limits the time from the end of the other nodes to the end of the node; 0 means unlimited. Whole
	// milliseconds.
	Within time.Duration
}

// SettleFinally gives the nodes with Finally their edges and their join.
func (g *Graph) SettleFinally() {
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.Finally != nil {
			n.Upstreams, n.Join = g.finallyEdges(), Join{Policy: JoinFinally, LetRun: true}
		}
	}
}

func (g *Graph) finallyEdges() []Edge {
	var edges []Edge
	for i := range g.Nodes {
		if g.Nodes[i].Finally == nil {
			edges = append(edges, Edge{Node: g.Nodes[i].Name, Kind: AnyOutcome})
		}
	}
	return edges
}

// HasFinally reports whether a node runs however the run ends.
func (g *Graph) HasFinally() bool {
	for i := range g.Nodes {
		if g.Nodes[i].Finally != nil {
			return true
		}
	}
	return false
}

// finally checks a node that runs however the run ends.
func (v *Validation) finally(n *Node) {
	if n.Finally == nil {
		if n.Join.Policy == JoinFinally {
			v.Faults.Add(n.Name, "join", ErrJoin, "the join is for nodes with Finally")
		}
		return
	}
	within := n.Finally.Within
	switch {
	case n.Wait != nil || n.hasChild() || n.Condition != nil:
		v.Faults.Add(n.Name, "finally", ErrOption, "only a node that runs an activity can have Finally")
	case within < 0 || within%time.Millisecond != 0:
		v.Faults.Add(n.Name, "finally", ErrOption, "%s is negative or not in whole milliseconds", within)
	}
	if len(n.Upstreams) == 0 {
		v.Faults.Add(n.Name, "finally", ErrEdge, "the flow has no other nodes")
	}
	for _, name := range n.Input.InputNodes() {
		v.Faults.Add(n.Name, "input", ErrEdge, "it takes the result of %q, which may not be there", name)
	}
	if v.G.Return == n.Name {
		v.Faults.Add("", "return", ErrReturn, "node %q with Finally has no result for the flow", n.Name)
	}
	for i := range v.G.Nodes {
		for _, up := range v.G.Nodes[i].Upstreams {
			if up.Node == n.Name {
				v.Faults.Add(v.G.Nodes[i].Name, "upstreams", ErrEdge, "%q runs when all others have ended", n.Name)
			}
		}
	}
}

// hasChild reports whether a node runs others in a child run.
func (n *Node) hasChild() bool {
	return n.Map != nil || n.Sub != nil || n.Loop != nil || n.Expand != nil
}

// shown are the upstreams of a node in pictures: for a node with Finally, only the upstreams that no other node
// follows.
func (g *Graph) shown(n *Node) []Edge {
	if n.Finally == nil {
		return n.Upstreams
	}
	behind := make(map[string]bool)
	for i := range g.Nodes {
		if g.Nodes[i].Finally == nil {
			for _, up := range g.Nodes[i].Upstreams {
				behind[up.Node] = true
			}
		}
	}
	var edges []Edge
	for _, up := range n.Upstreams {
		if !behind[up.Node] {
			edges = append(edges, up)
		}
	}
	return edges
}

// storedFinally is the stored form of Finally.
type storedFinally struct {
	WithinMS int64 `json:"within_ms"`
}

func (r *reader) finally(s *storedFinally) *Finally {
	if s == nil {
		return nil
	}
	return &Finally{Within: r.duration("finally.within_ms", s.WithinMS)}
}

func (w *writer) finally(f *Finally) {
	if f == nil {
		return
	}
	w.raw(`,"finally":{`)
	w.key("within_ms")
	w.buf = appendInt(w.buf, activityspec.Milliseconds(f.Within).Milliseconds())
	w.raw("}")
}
