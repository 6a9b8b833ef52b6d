package flowgraph

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Outline returns the graph as plain text, one line for each node: its level, which is the number of nodes before it
// on the longest path, its name, its activity or signals, and its upstreams. Upstreams whose results it does not use
// are in brackets. Nodes are ordered by level, nodes in or after a cycle come first, with level "?".
func (g *Graph) Outline() string {
	index := make(map[string]int, len(g.Nodes))
	order := make([]int, len(g.Nodes))
	for i := range g.Nodes {
		order[i] = i
		if _, taken := index[g.Nodes[i].Name]; !taken {
			index[g.Nodes[i].Name] = i
		}
	}
	levels := newTopology(g, index).levels(make([]bool, len(g.Nodes)))
	slices.SortStableFunc(order, func(a, b int) int { return levels[a] - levels[b] })

	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s -> %s\n", g.Name, g.InputType, g.OutputType)
	nameWidth, activityWidth := 0, 0
	for i := range g.Nodes {
		nameWidth = max(nameWidth, len(g.Nodes[i].Name))
		activityWidth = max(activityWidth, len(g.Nodes[i].work()))
	}
	for _, i := range order {
		n := &g.Nodes[i]
		level := "?"
		if levels[i] >= 0 {
			level = strconv.Itoa(levels[i])
		}
		line := fmt.Sprintf("%3s  %-*s  %-*s", level, nameWidth, n.Name, activityWidth, n.work())
		if waits := n.outlineInputs(g.shown(n)); waits != "" {
			line += "  <- " + waits
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if g.Return != "" {
		fmt.Fprintf(&b, "  result: %s\n", g.Return)
	}
	return b.String()
}

func (n *Node) outlineInputs(upstreams []Edge) string {
	var names []string
	if n.Input.UsesFlowInput() {
		names = append(names, "input")
	}
	before := len(names)
	for _, up := range upstreams {
		switch {
		case up.Kind == UnlessFailed:
			names = append(names, up.Node+" "+up.label())
		case up.Data || n.Join.isOnFailure() || n.Finally != nil:
			names = append(names, up.Node)
		default:
			names = append(names, "("+strings.TrimSpace(up.label()+" "+up.Node)+")")
		}
	}
	if n.Join.Policy != JoinAll && len(names) > before {
		names[before] = n.Join.words(len(upstreams)) + " " + names[before]
	}
	if more := len(names) - maxOutlined; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxOutlined], ", "), more)
	}
	return strings.Join(names, ", ")
}
