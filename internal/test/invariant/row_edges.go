package invariant

import (
	"strconv"
	"strings"
)

// rowEdge is an edge of a graph that leads to a node, and how it stands: unsatisfied, satisfied or impossible.
type rowEdge struct {
	up          *execution
	kind, state string
	late        bool // it was satisfied when its join had been decided
}

// graphEdgeID is an id for the n-th edge of a graph that leads to a node, where others have that of their record.
func graphEdgeID(ordinal, n int) string {
	return graphEdgePrefix + strconv.Itoa(ordinal) + " " + strconv.Itoa(n)
}

const graphEdgePrefix = "graph "

func ofGraph(edge string) bool { return strings.HasPrefix(edge, graphEdgePrefix) }

// fillEdges gives a run the edges of its graph, as records would have them, and its nodes what they know of them.
func (p *partition) fillEdges(f *flowRecord) {
	for i := range f.run.rows {
		down := p.execution(nodeID(p.tag, f.id, i+1))
		n := f.run.definition.node(i + 1)
		if n == nil {
			continue
		}
		for at, edge := range n.ups {
			up := p.execution(nodeID(p.tag, f.id, edge.ordinal))
			id, input := graphEdgeID(i+1, at+1), ""
			if edge.carries {
				input = up.get("node")
			}
			f.edges[id] = map[string]string{
				"edge_id": id, "flow_id": f.id, "upstream_execution_id": up.id, "downstream_execution_id": down.id,
				"dependency_kind": edge.kind, "data_passing_ref": input,
			}
			f.link(up.id, down.id, id)
			state, late := p.stateOf(f, up, down, edge)
			down.edges = append(down.edges, rowEdge{up: up, kind: edge.kind, state: state, late: late})
		}
	}
}
