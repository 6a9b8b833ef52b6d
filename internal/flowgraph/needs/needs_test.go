package needs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConflicts(t *testing.T) {
	t.Parallel()
	const condition, yes, no = 0, 1, 2
	branches := func(nodes ...Node) []Node {
		return append([]Node{
			condition: {},
			yes:       {Edges: []Edge{{From: condition, Case: "true"}}},
			no:        {Edges: []Edge{{From: condition, Case: "false"}}},
		}, nodes...)
	}
	for name, c := range map[string]struct {
		nodes []Node
		want  []Conflict
	}{
		"one branch":  {branches(Node{Edges: []Edge{{From: yes}, {From: yes}}}), nil},
		"either":      {branches(Node{Edges: []Edge{{From: yes}, {From: no}}, Partial: true}), nil},
		"any outcome": {branches(Node{Edges: []Edge{{From: yes}, {From: -1}}}), nil},
		"both": {branches(Node{Edges: []Edge{{From: yes}, {From: no}}}), []Conflict{
			{Node: 3, Second: 1, FirstCase: Case{condition, "true"}, SecondCase: Case{condition, "false"}},
		}},
		"both, and a node after it": {
			branches(Node{Edges: []Edge{{From: yes}, {From: no}}}, Node{Edges: []Edge{{From: 3}}}), []Conflict{
				{Node: 3, Second: 1, FirstCase: Case{condition, "true"}, SecondCase: Case{condition, "false"}},
			},
		},
		"a case that all alternatives need": {
			branches(
				Node{Edges: []Edge{{From: yes}}}, Node{Edges: []Edge{{From: yes}, {From: 3}}, Partial: true},
				Node{Edges: []Edge{{From: condition, Case: "false"}, {From: 4}}},
			), []Conflict{
				{Node: 5, Second: 1, FirstCase: Case{condition, "false"}, SecondCase: Case{condition, "true"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			order := make([]int, len(c.nodes))
			for i := range order {
				order[i] = i
			}
			require.Equal(t, c.want, Conflicts(c.nodes, order))
		})
	}
}
