package flow

import (
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// lowering turns the drafts of one node's input into an Expr and makes the checks that need Go types.
type lowering struct {
	b     *builder
	node  string
	codec activity.Codec
	joins *[]joinDraft         // those that are met on the way
	timer *flowgraph.TimerSpec // of a timer that takes its time from the input
}

func (l lowering) lower(d draft, at *flowgraph.Position) flowgraph.Expr {
	if at.Depth > flowgraph.MaxDepth {
		l.b.faults.Add(l.node, at.String(), flowgraph.ErrLimit, "nested deeper than %d", flowgraph.MaxDepth)
		return flowgraph.Expr{}
	}
	switch d.kind {
	case draftRef:
		return l.ref(d, at)
	case draftConst:
		return l.constant(d, at)
	case draftList:
		items := make([]flowgraph.Expr, len(d.items))
		for i := range d.items {
			items[i] = l.lower(d.items[i], at.Item(i))
		}
		return flowgraph.Expr{Kind: flowgraph.ExprList, Items: items}
	case draftFirst, draftSome:
		return l.joined(d, at)
	case draftFailure:
		return l.failure(d, at)
	case draftTimeIn:
		return l.timeIn(d, at)
	case draftOrElse:
		return l.orElse(d, at)
	default:
		return flowgraph.Expr{Kind: flowgraph.ExprStruct, Fields: l.structure(d, at)}
	}
}

func (l lowering) ref(d draft, at *flowgraph.Position) flowgraph.Expr {
	switch {
	case d.owner != l.b:
		l.b.faults.Add(l.node, at.String(), flowgraph.ErrForeignRef, "%s", d.owner.whose())
		return flowgraph.Expr{}
	case d.index == inputIndex:
		return flowgraph.Expr{Kind: flowgraph.ExprInput}
	default:
		return flowgraph.Expr{Kind: flowgraph.ExprNode, Node: l.b.graph.Nodes[d.index].Name}
	}
}

func (l lowering) constant(d draft, at *flowgraph.Position) flowgraph.Expr {
	value, err := l.codec.Encode(d.value)
	if err == nil && l.codec.Name() == (activity.JSON{}).Name() {
		value, err = flowgraph.CompactJSON(value)
	}
	if err != nil {
		l.b.faults.Cause(l.node, at.String(), flowgraph.ErrConst, err)
		return flowgraph.Expr{}
	}
	return flowgraph.Expr{Kind: flowgraph.ExprConst, Value: value}
}

// orElse lowers a result with a constant in its place.
func (l lowering) orElse(d draft, at *flowgraph.Position) flowgraph.Expr {
	ref, value := l.ref(d.items[0], at), l.constant(d, at)
	if ref.Kind == flowgraph.ExprInput {
		l.b.faults.Add(l.node, at.String(), flowgraph.ErrEdge,
			"the flow's input is there from the start; nothing takes its place")
	}
	return flowgraph.Expr{Kind: flowgraph.ExprOrElse, Node: ref.Node, Value: value.Value}
}

// structure checks the fields of a Struct and returns them ordered by name.
func (l lowering) structure(d draft, at *flowgraph.Position) []flowgraph.ExprField {
	known, problem := l.b.fields.of(d.typ)
	if problem != "" {
		l.b.faults.Add(l.node, at.String(), flowgraph.ErrTypeMismatch, "flow.Struct cannot fill %s: %s", d.typ, problem)
		return nil
	}
	bound := make([]flowgraph.ExprField, 0, len(d.fields))
	seen := make(map[string]bool, len(d.fields))
	for _, f := range d.fields {
		inner := at.Field(f.name)
		field, ok := known.byName[f.name]
		switch {
		case !ok:
			l.b.faults.Add(l.node, inner.String(), flowgraph.ErrUnknownField, "%s has no JSON field %q; it has %s",
				d.typ, f.name, known.names())
		case seen[f.name]:
			l.b.faults.Add(l.node, inner.String(), flowgraph.ErrDuplicateField, "")
		case f.value == nil:
			l.b.faults.Add(l.node, inner.String(), flowgraph.ErrNilBinding, "")
		default:
			value := f.value.constOrRef()
			if problem := refuses(field, value.typ); problem != "" {
				l.b.faults.Add(l.node, inner.String(), flowgraph.ErrTypeMismatch, "field %q of %s %s", f.name, d.typ,
					problem)
			}
			bound = append(bound, flowgraph.ExprField{Name: f.name, Value: l.lower(value, inner)})
		}
		seen[f.name] = true
	}
	for _, field := range known.list {
		if !isOptional(field) && !seen[field.Name] {
			l.b.faults.Add(l.node, at.Field(field.Name).String(), flowgraph.ErrMissingField,
				"%s needs it: it is neither a pointer nor tagged omitempty or omitzero", d.typ)
		}
	}
	slices.SortFunc(bound, func(a, b flowgraph.ExprField) int { return strings.Compare(a.Name, b.Name) })
	return bound
}
