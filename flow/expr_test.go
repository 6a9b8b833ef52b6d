package flow_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	in, a := flowgraph.Expr{Kind: flowgraph.ExprInput}, flowgraph.Expr{Kind: flowgraph.ExprNode, Node: "a"}
	b, one := flowgraph.Expr{Kind: flowgraph.ExprNode, Node: "b"}, flowgraph.Expr{Kind: flowgraph.ExprConst, Value: []byte("1")}
	list := func(items ...flowgraph.Expr) flowgraph.Expr {
		return flowgraph.Expr{Kind: flowgraph.ExprList, Items: items}
	}
	object := func(name string, e flowgraph.Expr) flowgraph.Expr {
		return flowgraph.Expr{Kind: flowgraph.ExprStruct, Fields: []flowgraph.ExprField{{Name: name, Value: e}}}
	}
	orElse := func(node string) flowgraph.Expr {
		return flowgraph.Expr{Kind: flowgraph.ExprOrElse, Node: node, Value: []byte("7")}
	}
	nested := list()
	for range flowgraph.MaxDepth + 1 {
		nested = list(nested)
	}
	results := map[string][]byte{"a": []byte(`{"x": 1.50}`), "empty": {}}
	for name, tc := range map[string]struct {
		expr  flowgraph.Expr
		want  string
		kind  error
		input bool
		nodes string
	}{
		"input":          {in, `"in"`, nil, true, ""},
		"const":          {one, `1`, nil, false, ""},
		"node":           {a, `{"x": 1.50}`, nil, false, "a"},
		"empty alone":    {flowgraph.Expr{Kind: flowgraph.ExprNode, Node: "empty"}, ``, nil, false, "empty"},
		"missing":        {b, ``, flowgraph.ErrNoResult, false, "b"},
		"empty list":     {list(), `[]`, nil, false, ""},
		"list":           {list(a, in, one, a), `[{"x": 1.50},"in",1,{"x": 1.50}]`, nil, true, "a"},
		"missing within": {list(a, b), ``, flowgraph.ErrNoResult, false, "a b"},
		"empty within":   {object("k", flowgraph.Expr{Kind: flowgraph.ExprNode, Node: "empty"}), ``, flowgraph.ErrNoResult, false, "empty"},
		"struct":         {object("k", a), `{"k":{"x": 1.50}}`, nil, false, "a"},
		"empty struct":   {flowgraph.Expr{Kind: flowgraph.ExprStruct}, `{}`, nil, false, ""},
		"odd name":       {object("<\"é\n", one), `{"<\"é\n":1}`, nil, false, ""},
		"both":           {object("k", list(object("l", in), one)), `{"k":[{"l":"in"},1]}`, nil, true, ""},
		"order":          {list(b, a, b), ``, flowgraph.ErrNoResult, false, "b a"},
		"or else":        {orElse("a"), `{"x": 1.50}`, nil, false, "a"},
		"or else empty":  {object("k", orElse("empty")), `{"k":7}`, nil, false, "empty"},
		"or else none":   {list(orElse("b"), in), `[7,"in"]`, nil, true, "b"},
		"zero":           {flowgraph.Expr{}, ``, flowgraph.ErrBinding, false, ""},
		"zero within":    {list(flowgraph.Expr{}), ``, flowgraph.ErrBinding, false, ""},
		"depth":          {nested, ``, flowgraph.ErrBinding, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.expr.Resolve([]byte(`"in"`), results)
			if string(got) != tc.want || !errors.Is(err, tc.kind) {
				t.Errorf("got %s, %v", got, err)
			}
			if tc.expr.UsesFlowInput() != tc.input || strings.Join(tc.expr.InputNodes(), " ") != tc.nodes {
				t.Errorf("uses input %v, nodes %q", tc.expr.UsesFlowInput(), tc.expr.InputNodes())
			}
		})
	}
}

// A lone reference costs nothing, whatever its size.
func TestResolveDoesNotCopy(t *testing.T) {
	result := []byte(`"x"`)
	got, err := flowgraph.Expr{Kind: flowgraph.ExprNode, Node: "a"}.Resolve(nil, map[string][]byte{"a": result})
	if err != nil || &got[0] != &result[0] {
		t.Errorf("got another slice, %v", err)
	}
	e := flowgraph.Expr{Kind: flowgraph.ExprList, Items: slices.Repeat([]flowgraph.Expr{{Kind: flowgraph.ExprNode, Node: "a"}}, 100)}
	results := map[string][]byte{"a": result}
	if n := testing.AllocsPerRun(10, func() { _, _ = e.Resolve(nil, results) }); n > 1 {
		t.Errorf("%v allocations for a list", n)
	}
}
