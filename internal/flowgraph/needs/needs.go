package needs

import (
	"cmp"
	"slices"
)

// Case is a case of a condition, which is a node of the graph.
type Case struct {
	// Condition is the number of the condition among the nodes.
	Condition int
	Name      string
}

// Node is a node as far as its edges decide whether it runs.
type Node struct {
	// Edges are the edges that lead to it.
	Edges []Edge
	// Partial is set when the node can run without one of its edges.
	Partial bool
}

// Edge leads to a node.
type Edge struct {
	// From is the number of the node where it begins; -1 for an edge that any outcome satisfies.
	From int
	// Case is the case that satisfies an edge from a condition; "" for an edge from another node.
	Case string
}

// Conflict is a node that never runs: its edges First and Second need different cases of one condition.
type Conflict struct {
	Node                  int
	First, Second         int
	FirstCase, SecondCase Case
}

// cases are the cases without which a node never runs: sorted, without duplicates, and shared between nodes.
type cases []Case

// Conflicts returns the nodes that never run, except nodes that only wait for another one of these. The order lists
// each node once, after the nodes where its edges begin.
func Conflicts(nodes []Node, order []int) []Conflict {
	var found []Conflict
	needs := make([]cases, len(nodes))
	for _, i := range order {
		parts := ofEdges(nodes[i].Edges, needs)
		if nodes[i].Partial {
			needs[i] = inAll(parts)
			continue
		}
		all, conflict := union(parts)
		needs[i] = all
		if conflict != nil {
			conflict.Node = i
			found = append(found, *conflict)
		}
	}
	return found
}

// ofEdges returns the cases that each edge needs.
func ofEdges(edges []Edge, needs []cases) []cases {
	parts := make([]cases, len(edges))
	for k, edge := range edges {
		if edge.From < 0 {
			continue
		}
		parts[k] = needs[edge.From]
		if edge.Case != "" {
			own := Case{edge.From, edge.Case}
			if place, has := slices.BinarySearchFunc(parts[k], own, compare); !has {
				parts[k] = slices.Insert(slices.Clone(parts[k]), place, own)
			}
		}
	}
	return parts
}

// union returns the cases of all edges of a node. If two of them exclude each other, it returns one of them, and the
// conflict without its node.
func union(parts []cases) (cases, *Conflict) {
	var all cases
	for k, part := range parts {
		switch {
		case len(all) == 0:
			all = part
			continue
		case len(part) == 0 || slices.Equal(part, all):
			continue
		}
		merged := slices.Clone(all)
		for _, needed := range part {
			at, has := slices.BinarySearchFunc(merged, needed, compare)
			switch {
			case has:
			case excludes(merged, at, needed):
				return all, conflictOf(parts[:k], k, needed)
			default:
				merged = slices.Insert(merged, at, needed)
			}
		}
		all = merged
	}
	return all, nil
}

// excludes reports whether a sorted list has another case of the condition next to the place of one.
func excludes(list cases, at int, needed Case) bool {
	return at > 0 && list[at-1].Condition == needed.Condition ||
		at < len(list) && list[at].Condition == needed.Condition
}

// conflictOf returns the conflict of edge k, which needs a case, with an edge before it that needs another one of the
// same condition.
func conflictOf(before []cases, k int, needed Case) *Conflict {
	for j, part := range before {
		for _, other := range part {
			if other.Condition == needed.Condition {
				return &Conflict{First: j, FirstCase: other, Second: k, SecondCase: needed}
			}
		}
	}
	return nil
}

// inAll returns the cases that all edges need.
func inAll(parts []cases) cases {
	if len(parts) == 0 {
		return nil
	}
	common := parts[0]
	for _, part := range parts[1:] {
		common = slices.DeleteFunc(slices.Clone(common), func(c Case) bool {
			_, has := slices.BinarySearchFunc(part, c, compare)
			return !has
		})
	}
	return common
}

func compare(a, b Case) int {
	return cmp.Or(cmp.Compare(a.Condition, b.Condition), cmp.Compare(a.Name, b.Name))
}
