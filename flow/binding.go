package flow

import "reflect"

// Binding defines the source of a value of type T in a run: the flow's input, a constant, the result of another node,
// or a list or struct of these. A Ref is a Binding; Const, OrElse, List, Struct, AnyOf, Quorum and FailureOf create the
// others.
type Binding[T any] interface {
	AnyBinding
	// typed prevents using a binding of one type as one of another.
	typed(T)
}

// AnyBinding is a Binding of any type.
type AnyBinding interface {
	constOrRef() draft
}

// Upstream is a Ref of any type, as After takes it.
type Upstream interface {
	AnyBinding
	// Name is the node's name, "" for the flow's input.
	Name() string
	origin() (*builder, int)
}

// Ref is a reference to the result of a node, or to the flow's input. It belongs to the Builder that created it and is
// invalid in others; the zero Ref belongs to none.
type Ref[T any] struct {
	owner *builder
	index int // inputIndex, or into the nodes of the owner's graph
}

const inputIndex = -1

// Name returns the node's name, and "" for the flow's input and the zero Ref.
func (r Ref[T]) Name() string {
	if r.owner == nil || r.index == inputIndex {
		return ""
	}
	return r.owner.graph.Nodes[r.index].Name
}

func (r Ref[T]) constOrRef() draft {
	return draft{kind: draftRef, typ: reflect.TypeFor[T](), owner: r.owner, index: r.index}
}

func (r Ref[T]) origin() (*builder, int) { return r.owner, r.index }

func (Ref[T]) typed(T) {}

// Const is the same value in every run. It is encoded when the node that uses it is declared, at most 1 MiB,
// and stored with the flow.
func Const[T any](value T) Binding[T] {
	return bound[T]{draft{kind: draftConst, typ: reflect.TypeFor[T](), value: value}}
}

// OrElse is the result of a node, or value if that node was skipped for a condition: because of a case that was not
// taken, also further up, or because its sub-flow succeeded without a result. The node with this binding runs in both
// cases:
//
//	discount := flow.Node(f, "discount", discountOf, order, flow.When(order, "regular", isRegular))
//	total := flow.Node(f, "total", totalOf, flow.Struct[Sum](
//		flow.Field("order", order), flow.Field("discount", flow.OrElse(discount, 0))))
//
// After any other end of the node (failed, expired, cancelled, or skipped since another node did not end as it must)
// value does not count, and the node with this binding is skipped. Both nodes must have the codec JSON, and value is
// bounded as in Const. In a flow whose nodes are all joined by AnyOf, use that instead: a join takes no OrElse.
func OrElse[T any](ref Ref[T], value T) Binding[T] {
	return bound[T]{draft{
		kind: draftOrElse, typ: reflect.TypeFor[T](), value: value, items: []draft{ref.constOrRef()},
	}}
}

// List is the results of several nodes of one type, in the order given. A list of none is an empty one.
func List[T any](refs ...Ref[T]) Binding[[]T] {
	return bound[[]T]{draft{kind: draftList, typ: reflect.TypeFor[[]T](), items: drafts(refs)}}
}

// Struct fills a T, a struct type, field by field. Build checks it:
//
//   - each Field names a JSON field of T, and none twice;
//   - its binding's type is the field's type, or the type that the field points to; a field of type any or
//     json.RawMessage takes every binding;
//   - every JSON field of T is bound, unless it is tagged omitempty or omitzero or is a pointer.
//
// T must not have an UnmarshalJSON or UnmarshalText method: with one, its fields are not its JSON form.
func Struct[T any](fields ...FieldBinding) Binding[T] {
	return bound[T]{draft{kind: draftStruct, typ: reflect.TypeFor[T](), fields: fields}}
}

// FieldBinding is one field of a Struct.
type FieldBinding struct {
	name  string
	value AnyBinding
}

// Field fills the field whose name in JSON is jsonName, with upper and lower case as in the struct tag.
func Field(jsonName string, value AnyBinding) FieldBinding {
	return FieldBinding{name: jsonName, value: value}
}

type bound[T any] struct{ d draft }

func (b bound[T]) constOrRef() draft { return b.d }
func (bound[T]) typed(T)             {}

type draftKind int

const (
	draftRef draftKind = iota
	draftConst
	draftList
	draftStruct
	draftFirst
	draftSome
	draftFailure
	draftTimeIn
	draftOrElse
)

// draft is a binding before it is lowered: it still has the Go types.
type draft struct {
	kind   draftKind
	typ    reflect.Type
	owner  *builder
	index  int
	value  any
	items  []draft
	needed int // of draftFirst and draftSome
	fields []FieldBinding
	path   []string // of draftTimeIn: the fields of its only item
}
