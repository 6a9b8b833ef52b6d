package layout_test

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/layout"
)

// A graph of three nodes: their places, and the way of an edge.
func ExampleNew() {
	l, err := layout.New(layout.Graph{
		Name: "orders",
		Nodes: []layout.Node{
			{Name: "check", Kind: layout.Condition, Text: "condition"},
			{Name: "ship", Kind: layout.Activity, Text: "orders.ship", Upstreams: []layout.Edge{
				{Node: "check", Kind: layout.OnCase, Case: "true"},
			}},
			{Name: "refuse", Kind: layout.Activity, Text: "orders.refuse", Upstreams: []layout.Edge{
				{Node: "check", Kind: layout.OnCase, Case: "false"},
			}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.Width, l.Height)
	for _, n := range l.Nodes {
		fmt.Println(n.Name, n.X, n.Y, n.W, n.H)
	}
	fmt.Println(l.Edges[0].Label, l.Edges[0].Points)
	// Output:
	// 367 148
	// check 12 51 134 46
	// ship 221 12 134 46
	// refuse 221 90 134 46
	// true [{146 74} {170 74} {170 35} {221 35}]
}
