package flowgraph

import (
	"fmt"
	"strings"
)

// Mermaid returns the graph as a Mermaid flowchart: one box for each node with its name, activity and join, a hexagon
// for each waitpoint with the signals that count, a box with two borders for each map and sub-flow, a rhombus for each
// condition, solid arrows for data, dotted ones for order only, with the kind of the edge where it is not success, or
// its case. Equal graphs give equal text.
func (g *Graph) Mermaid() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\ntitle: %s\n---\nflowchart TD\n", AppendQuoted(nil, g.Name))
	g.draw(picture{
		end: func(id, label string) { fmt.Fprintf(&b, "  %s([\"%s\"])\n", id, mermaidText(label)) },
		node: func(id string, lines ...string) {
			fmt.Fprintf(&b, "  %s[\"%s\"]\n", id, joinLines(lines, "<br/>", mermaidText))
		},
		run: func(id string, lines ...string) {
			fmt.Fprintf(&b, "  %s[[\"%s\"]]\n", id, joinLines(lines, "<br/>", mermaidText))
		},
		wait: func(id string, lines ...string) {
			fmt.Fprintf(&b, "  %s{{\"%s\"}}\n", id, joinLines(lines, "<br/>", mermaidText))
		},
		condition: func(id string, lines ...string) {
			fmt.Fprintf(&b, "  %s{\"%s\"}\n", id, joinLines(lines, "<br/>", mermaidText))
		},
		edge: func(from, to string, data bool, label string) {
			if label != "" {
				label = "|" + label + "|"
			}
			fmt.Fprintf(&b, "  %s %s%s %s\n", from, arrow(data), label, to)
		},
	})
	return b.String()
}

func arrow(data bool) string {
	if data {
		return "-->"
	}
	return "-.->"
}

// DOT returns the graph in the language of Graphviz, in the same way as Mermaid.
func (g *Graph) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph \"%s\" {\n  node [shape=box];\n", dotText(g.Name))
	g.draw(picture{
		end: func(id, label string) { fmt.Fprintf(&b, "  %s [shape=oval, label=\"%s\"];\n", id, dotText(label)) },
		node: func(id string, lines ...string) {
			fmt.Fprintf(&b, "  %s [label=\"%s\"];\n", id, joinLines(lines, `\n`, dotText))
		},
		run: func(id string, lines ...string) {
			fmt.Fprintf(&b, "  %s [shape=box, peripheries=2, label=\"%s\"];\n", id, joinLines(lines, `\n`, dotText))
		},
		wait: func(id string, lines ...string) {
			fmt.Fprintf(&b, "  %s [shape=hexagon, label=\"%s\"];\n", id, joinLines(lines, `\n`, dotText))
		},
		condition: func(id string, lines ...string) {
			fmt.Fprintf(&b, "  %s [shape=diamond, label=\"%s\"];\n", id, joinLines(lines, `\n`, dotText))
		},
		edge: func(from, to string, data bool, label string) {
			style := ""
			switch {
			case label != "" && data:
				style = fmt.Sprintf(" [label=\"%s\"]", label)
			case label != "":
				style = fmt.Sprintf(" [style=dashed, label=\"%s\"]", label)
			case !data:
				style = " [style=dashed]"
			}
			fmt.Fprintf(&b, "  %s -> %s%s;\n", from, to, style)
		},
	})
	b.WriteString("}\n")
	return b.String()
}

// picture is the syntax of one drawing language.
type picture struct {
	end  func(id, label string)
	node func(id string, lines ...string)
	// run draws nodes with child runs: maps and sub-flows.
	run  func(id string, lines ...string)
	wait func(id string, lines ...string)
	// condition draws conditions.
	condition func(id string, lines ...string)
	edge      func(from, to string, data bool, label string)
}

func (g *Graph) draw(p picture) {
	ids := make(map[string]string, len(g.Nodes))
	usesInput := false
	for i := range g.Nodes {
		ids[g.Nodes[i].Name] = fmt.Sprintf("n%d", i+1)
		usesInput = usesInput || g.Nodes[i].Input.UsesFlowInput()
	}
	if usesInput {
		p.end("input", "input: "+g.InputType)
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		draw, lines := p.node, []string{n.Name, n.work()}
		switch {
		case n.Wait != nil:
			draw = p.wait
		case n.Condition != nil:
			draw = p.condition
		case n.Map != nil || n.Sub != nil || n.Expand != nil:
			draw = p.run
		}
		if join := n.joinLabel(); join != "" {
			lines = append(lines, join)
		}
		draw(ids[n.Name], lines...)
	}
	if g.Return != "" {
		p.end("result", "result: "+g.OutputType)
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Input.UsesFlowInput() {
			p.edge("input", ids[n.Name], true, "")
		}
		for _, up := range g.shown(n) {
			if from, ok := ids[up.Node]; ok {
				p.edge(from, ids[n.Name], up.Data, up.label())
			}
		}
	}
	if from, ok := ids[g.Return]; ok {
		p.edge(from, "result", true, "")
	}
}

func joinLines(lines []string, separator string, escape func(string) string) string {
	escaped := make([]string, len(lines))
	for i, line := range lines {
		escaped[i] = escape(line)
	}
	return strings.Join(escaped, separator)
}

func mermaidText(s string) string {
	return strings.NewReplacer(
		"#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;", "\n", " ", "\r", " ",
	).Replace(s)
}

func dotText(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\r", " ").Replace(s)
}
