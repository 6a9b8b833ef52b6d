// Package flow declares durable workflows as graphs in ordinary Go.
//
// A flow takes a value, runs activities on it and on each other's results, and returns a value:
//
//	f := flow.New[Source, Summary]("census")
//	files := flow.Node(f, "scan", scan, f.Input())
//	total := flow.Node(f, "count", count, files)
//	flow.Return(f, total)
//	census, err := f.Build()
//
// Node returns a Ref, which refers to the future result of the node. Binding it as the input of another node creates an
// edge: that node starts when the first has succeeded. After creates an edge without data. The compiler checks that
// each binding has the type of the activity's input; Build checks the rest, and reports all faults at once.
//
// # Inputs
//
// A node's input is a Binding: the flow's input, the result of a node, a Const, a List of results of one type, or a
// Struct that is filled field by field. Bindings are stored with the run, so any worker that knows the activity can
// run the node, also one that was built later.
//
// # Definitions
//
// A Definition is an immutable value without any connection: it can be drawn (SVG, Mermaid, DOT, Outline), compared
// (Hash) and tested without an engine. Package runtime starts runs of it.
package flow
