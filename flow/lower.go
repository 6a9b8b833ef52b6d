package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
)

// lowering turns the drafts of one node's input into an Expr and checks what needs Go types.
type lowering struct {
	b     *builder
	node  string
	codec activity.Codec
	joins *[]joinDraft // those that are met on the way
}

func (l lowering) lower(d draft, at *place) Expr {
	if at.depth > MaxDepth {
		l.b.faults.add(l.node, at.String(), ErrLimit, "nested deeper than %d", MaxDepth)
		return Expr{}
	}
	switch d.kind {
	case draftRef:
		return l.ref(d, at)
	case draftConst:
		return l.constant(d, at)
	case draftList:
		items := make([]Expr, len(d.items))
		for i := range d.items {
			items[i] = l.lower(d.items[i], at.item(i))
		}
		return Expr{Kind: ExprList, Items: items}
	case draftFirst, draftSome:
		return l.joined(d, at)
	default:
		return Expr{Kind: ExprStruct, Fields: l.structure(d, at)}
	}
}

func (l lowering) ref(d draft, at *place) Expr {
	switch {
	case d.owner != l.b:
		l.b.faults.add(l.node, at.String(), ErrForeignRef, "%s", d.owner.whose())
		return Expr{}
	case d.index == inputIndex:
		return Expr{Kind: ExprInput}
	default:
		return Expr{Kind: ExprNode, Node: l.b.graph.Nodes[d.index].Name}
	}
}

func (l lowering) constant(d draft, at *place) Expr {
	value, err := l.codec.Encode(d.value)
	if err == nil && l.codec.Name() == (activity.JSON{}).Name() {
		value, err = canonicalJSON(value)
	}
	if err != nil {
		l.b.faults.cause(l.node, at.String(), ErrConst, err)
		return Expr{}
	}
	return Expr{Kind: ExprConst, Value: value}
}

// structure checks the fields of a Struct and returns them ordered by name.
func (l lowering) structure(d draft, at *place) []ExprField {
	known, problem := l.b.fields.of(d.typ)
	if problem != "" {
		l.b.faults.add(l.node, at.String(), ErrTypeMismatch, "flow.Struct cannot fill %s: %s", d.typ, problem)
		return nil
	}
	bound := make([]ExprField, 0, len(d.fields))
	seen := make(map[string]bool, len(d.fields))
	for _, f := range d.fields {
		inner := at.field(f.name)
		field, ok := known.byName[f.name]
		switch {
		case !ok:
			l.b.faults.add(l.node, inner.String(), ErrUnknownField, "%s has no JSON field %q; it has %s", d.typ, f.name, known.names())
		case seen[f.name]:
			l.b.faults.add(l.node, inner.String(), ErrDuplicateField, "")
		case f.value == nil:
			l.b.faults.add(l.node, inner.String(), ErrNilBinding, "")
		default:
			value := f.value.draft()
			if problem := field.refuses(value.typ); problem != "" {
				l.b.faults.add(l.node, inner.String(), ErrTypeMismatch, "field %q of %s %s", f.name, d.typ, problem)
			}
			bound = append(bound, ExprField{Name: f.name, Value: l.lower(value, inner)})
		}
		seen[f.name] = true
	}
	for _, field := range known.list {
		if !field.optional && !seen[field.name] {
			l.b.faults.add(l.node, at.field(field.name).String(), ErrMissingField,
				"%s needs it: it is neither a pointer nor tagged omitempty or omitzero", d.typ)
		}
	}
	slices.SortFunc(bound, func(a, b ExprField) int { return strings.Compare(a.Name, b.Name) })
	return bound
}

// canonicalJSON writes data, which must be one JSON value, without white space, with the keys of objects in order and
// numbers as they were, so that equal constants have equal bytes.
func canonicalJSON(data []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return activity.JSON{}.Encode(value)
}
