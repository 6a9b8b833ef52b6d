package flowgraph

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNoResult is returned by Resolve when a required result of a node is missing.
var ErrNoResult = errors.New("result is not there")

// ExprKind is the kind of an Expr.
type ExprKind string

// The kinds of Expr.
const (
	ExprInput  ExprKind = "input"  // the flow's input
	ExprConst  ExprKind = "const"  // Value
	ExprNode   ExprKind = "node"   // the result of Node
	ExprList   ExprKind = "list"   // Items, as a JSON array
	ExprStruct ExprKind = "struct" // Fields, as a JSON object
	ExprFirst  ExprKind = "first"  // the first of Items, which are of ExprNode, that has a result
	ExprSome   ExprKind = "some"   // the Items, which are of ExprNode, that have a result, as a JSON array

	ExprOrElse ExprKind = "or_else" // the result of Node, or Value if Node was skipped for a condition
)

// Expr is the stored form of a Binding.
type Expr struct {
	Kind ExprKind
	// Node is the node whose result is used, of ExprNode and ExprOrElse.
	Node string
	// Nodes are the nodes whose failure is used, of ExprFailure.
	Nodes []string
	// Value is the encoded constant of ExprConst: compact JSON, or the bytes of the node's own codec; of ExprOrElse it
	// is compact JSON. It is shared and must not be changed.
	Value []byte
	// Items are the elements of ExprList, and the candidates of ExprFirst and ExprSome.
	Items []Expr
	// Fields are the fields of ExprStruct, ordered by name.
	Fields []ExprField
}

// ExprField is one field of an ExprStruct.
type ExprField struct {
	Name  string
	Value Expr
}

// Resolve returns the encoded value of e in a run. results holds the encoded results of at least InputNodes, by node
// name; for a join, the available ones. Bytes are composed without decoding; a single reference or constant returns its
// slice itself, so the result must not be changed. The error matches ErrNoResult if a result is missing, or empty
// within a list or struct, and ErrBinding for an Expr that Validate refuses.
func (e Expr) Resolve(flowInput []byte, results map[string][]byte) ([]byte, error) {
	switch e.Kind {
	case ExprInput:
		return flowInput, nil
	case ExprConst:
		return e.Value, nil
	case ExprNode:
		if result, ok := results[e.Node]; ok {
			return result, nil
		}
		return nil, fmt.Errorf("%w: node %q", ErrNoResult, e.Node)
	case ExprFirst:
		return e.first(results)
	case ExprFailure:
		return e.failure(results), nil
	case ExprOrElse:
		return e.orElse(results), nil
	}
	size, err := e.size(flowInput, results, 0)
	if err != nil {
		return nil, err
	}
	return e.compose(make([]byte, 0, size), flowInput, results), nil
}

// size checks that e can be composed and returns how many bytes that takes, or a few more.
func (e Expr) size(flowInput []byte, results map[string][]byte, depth int) (int, error) {
	if depth > MaxDepth {
		return 0, fmt.Errorf("%w: nested deeper than %d", ErrBinding, MaxDepth)
	}
	total := 2
	switch e.Kind {
	case ExprSome:
		return Expr{Kind: ExprList, Items: present(e.Items, results)}.size(flowInput, results, depth)
	case ExprList:
		for i := range e.Items {
			n, err := e.Items[i].size(flowInput, results, depth+1)
			if err != nil {
				return 0, err
			}
			total += n + 1
		}
	case ExprStruct:
		for i := range e.Fields {
			n, err := e.Fields[i].Value.size(flowInput, results, depth+1)
			if err != nil {
				return 0, err
			}
			total += n + len(e.Fields[i].Name) + 4
		}
	case ExprInput, ExprConst, ExprNode, ExprFirst, ExprFailure, ExprOrElse:
		part, err := e.Resolve(flowInput, results)
		if err == nil && len(part) == 0 {
			err = fmt.Errorf("%w: %s is empty", ErrNoResult, e.source())
		}
		return len(part), err
	default:
		return 0, fmt.Errorf("%w: unknown kind %q", ErrBinding, e.Kind)
	}
	return total, nil
}

func (e Expr) compose(dst, flowInput []byte, results map[string][]byte) []byte {
	switch e.Kind {
	case ExprList:
		dst = append(dst, '[')
		for i := range e.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.Items[i].compose(dst, flowInput, results)
		}
		return append(dst, ']')
	case ExprStruct:
		dst = append(dst, '{')
		for i := range e.Fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendQuoted(dst, e.Fields[i].Name)
			dst = append(dst, ':')
			dst = e.Fields[i].Value.compose(dst, flowInput, results)
		}
		return append(dst, '}')
	case ExprInput:
		return append(dst, flowInput...)
	case ExprConst:
		return append(dst, e.Value...)
	case ExprSome:
		return Expr{Kind: ExprList, Items: present(e.Items, results)}.compose(dst, flowInput, results)
	case ExprFailure:
		return append(dst, e.failure(results)...)
	case ExprOrElse:
		return append(dst, e.orElse(results)...)
	case ExprFirst:
		result, _ := e.first(results) // it exists, since size has succeeded
		return append(dst, result...)
	default:
		return append(dst, results[e.Node]...)
	}
}

// source names the source of a leaf's bytes.
func (e Expr) source() string {
	switch e.Kind {
	case ExprInput:
		return "the flow's input"
	case ExprNode, ExprOrElse:
		return fmt.Sprintf("the result of node %q", e.Node)
	case ExprFirst:
		return "the result of " + strings.Join(e.InputNodes(), " or ")
	default:
		return "a constant"
	}
}

// UsesFlowInput reports whether the flow's input is part of e.
func (e Expr) UsesFlowInput() bool {
	if e.Kind == ExprInput {
		return true
	}
	return slices.ContainsFunc(e.Items, Expr.UsesFlowInput) ||
		slices.ContainsFunc(e.Fields, func(f ExprField) bool { return f.Value.UsesFlowInput() })
}

// Chooses reports whether e takes results of the nodes that a join has chosen.
func (e Expr) Chooses() bool {
	if e.Kind == ExprFirst || e.Kind == ExprSome {
		return true
	}
	return slices.ContainsFunc(e.Items, Expr.Chooses) ||
		slices.ContainsFunc(e.Fields, func(f ExprField) bool { return f.Value.Chooses() })
}

// InputNodes returns the names of the nodes whose results are part of e, each once, in the order of their first use.
func (e Expr) InputNodes() []string {
	if e.Kind == ExprNode {
		return []string{e.Node}
	}
	var names []string
	seen := make(map[string]bool)
	e.walk(func(leaf Expr) {
		if (leaf.Kind == ExprNode || leaf.Kind == ExprOrElse) && !seen[leaf.Node] {
			seen[leaf.Node] = true
			names = append(names, leaf.Node)
		}
	})
	return names
}

// orElse returns the value of an ExprOrElse. The result of a skipped node is missing or empty; no JSON value is empty.
func (e Expr) orElse(results map[string][]byte) []byte {
	if result := results[e.Node]; len(result) > 0 {
		return result
	}
	return e.Value
}

// HasOrElse reports whether e has a part of kind ExprOrElse.
func (e Expr) HasOrElse() bool {
	found := false
	e.walk(func(leaf Expr) { found = found || leaf.Kind == ExprOrElse })
	return found
}

// edgeKind returns the kind of the edge from a node whose result is part of e: UnlessFailed if each part that takes the
// result is an ExprOrElse.
func (e Expr) edgeKind(node string) EdgeKind {
	if e.Kind == ExprNode {
		return SuccessOnly
	}
	kind := UnlessFailed
	e.walk(func(leaf Expr) {
		if leaf.Kind == ExprNode && leaf.Node == node {
			kind = SuccessOnly
		}
	})
	return kind
}

// walk calls visit for everything in e that has no parts.
func (e Expr) walk(visit func(Expr)) {
	for _, item := range e.Items {
		item.walk(visit)
	}
	for _, field := range e.Fields {
		field.Value.walk(visit)
	}
	switch e.Kind {
	case ExprList, ExprStruct, ExprFirst, ExprSome:
	default:
		visit(e)
	}
}

func (e Expr) clone() Expr {
	e.Items, e.Nodes = slices.Clone(e.Items), slices.Clone(e.Nodes)
	for i := range e.Items {
		e.Items[i] = e.Items[i].clone()
	}
	e.Fields = slices.Clone(e.Fields)
	for i := range e.Fields {
		e.Fields[i].Value = e.Fields[i].Value.clone()
	}
	return e
}
