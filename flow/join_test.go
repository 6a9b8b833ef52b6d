package flow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

type finding struct {
	From string   `json:"from"`
	All  []string `json:"all,omitempty"`
}

// race declares the same flow in two orders, with every form of a join.
func race(t *testing.T, reverse bool) *flow.Definition[string, string] {
	t.Helper()
	str := ident[string]("str")
	list := activity.New("list", func(_ context.Context, in []string) (string, error) { return strings.Join(in, ","), nil })
	f := flow.New[string, string]("race")
	names := []string{"a", "b", "c"}
	if reverse {
		names = []string{"c", "b", "a"}
	}
	refs := make(map[string]flow.Ref[string])
	for _, name := range names {
		refs[name] = flow.Node(f, name, str, f.Input())
	}
	flow.Node(f, "quickest", sink[finding]("report"), flow.Struct[finding](flow.Field("from", flow.AnyOf(refs["a"], refs["b"]))))
	two := flow.Node(f, "two", list, flow.Quorum(2, refs["a"], refs["b"], refs["c"]), flow.LetRun())
	after := []flow.Upstream{refs["b"], refs["c"]}
	if reverse {
		after = []flow.Upstream{refs["c"], refs["b"]}
	}
	flow.Node(f, "late", str, f.Input(), flow.AfterQuorum(1, after...))
	flow.Node(f, "any", str, flow.Const("x"), flow.AfterAny(after...))
	flow.Waitpoint[string](f, "signal", flow.AfterAny(refs["c"]), activity.Signals("go"))
	flow.Return(f, two)
	d, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestJoinIsStoredAndDrawn(t *testing.T) {
	t.Parallel()
	d := race(t, false)
	g := flowgraph.Of(d.Internal())
	data, err := g.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "join.json", string(data)+"\n")
	goldenViews(t, "join", d)
	read, err := flowgraph.ParseGraph(data)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := read.MarshalJSON()
	if string(again) != string(data) || read.Hash() != d.Hash() {
		t.Errorf("read back as %s", again)
	}
	if other := race(t, true); other.Hash() != d.Hash() {
		t.Error("the order of declaration changes the hash")
	}
	for what, change := range map[string]func(*flowgraph.Node){
		"policy": func(n *flowgraph.Node) { n.Join.Policy = flowgraph.JoinAny },
		"needed": func(n *flowgraph.Node) { n.Join.Needed = 3 },
		"rest":   func(n *flowgraph.Node) { n.Join.LetRun = false },
	} {
		changed := flowgraph.Of(d.Internal())
		change(changed.Node("two"))
		if changed.Hash() == d.Hash() {
			t.Errorf("the hash does not see the %s of a join", what)
		}
	}
}

func TestJoinResolves(t *testing.T) {
	t.Parallel()
	g := flowgraph.Of(race(t, false).Internal())
	for _, tc := range []struct{ node, results, want string }{
		{"two", "a c", `["a","c"]`},
		{"two", "c b a", `["a","b","c"]`},
		{"quickest", "b", `{"from":"b"}`},
		{"quickest", "b a", `{"from":"a"}`},
	} {
		results := make(map[string][]byte)
		for name := range strings.FieldsSeq(tc.results) {
			results[name] = []byte(`"` + name + `"`)
		}
		got, err := g.Node(tc.node).Input.Resolve(nil, results)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s with %s: got %s, %v, want %s", tc.node, tc.results, got, err, tc.want)
		}
	}
	if _, err := g.Node("quickest").Input.Resolve(nil, nil); !errors.Is(err, flowgraph.ErrNoResult) || !strings.Contains(err.Error(), "a, b") {
		t.Errorf("got %v", err)
	}
	alone := flowgraph.Expr{Kind: flowgraph.ExprFirst, Items: []flowgraph.Expr{{Kind: flowgraph.ExprNode, Node: "a"}}}
	if got, err := alone.Resolve(nil, map[string][]byte{"a": []byte("raw")}); err != nil || string(got) != "raw" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestJoinFaults(t *testing.T) {
	t.Parallel()
	type builder = *flow.Builder[string, none]
	str, list := ident[string]("str"), ident[[]string]("list")
	for name, tc := range map[string]struct {
		declare func(f builder, a, b flow.Ref[string])
		kind    error
		want    []string // whole faults after `flow "f": node "n": `
	}{
		"none": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", str, flow.AnyOf[string]()) },
			flowgraph.ErrJoin, []string{`join: bad join: any of no nodes`}},
		"no quorum": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", list, flow.Quorum[string](2)) },
			flowgraph.ErrJoin, []string{`join: bad join: 2 of no nodes`}},
		"after none": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", str, f.Input(), flow.AfterAny()) },
			flowgraph.ErrJoin, []string{`join: bad join: any of no nodes`}},
		"too many": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", list, flow.Quorum(3, a, b)) },
			flowgraph.ErrJoin, []string{`join: bad join: 3 of "a", "b": it needs 1 to 2`}},
		"too few": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", str, f.Input(), flow.AfterQuorum(0, a, b)) },
			flowgraph.ErrJoin, []string{`join: bad join: 0 of "a", "b": it needs 1 to 2`}},
		"twice, and too many": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", list, flow.Quorum(3, a, b, a)) },
			flowgraph.ErrJoin, []string{`join: bad join: "a" is given twice`, `join: bad join: 3 of "a", "b": it needs 1 to 2`}},
		"twice after": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", str, f.Input(), flow.AfterAny(a, a)) },
			flowgraph.ErrJoin, []string{`join: bad join: "a" is given twice`}},
		"two joins": {func(f builder, a, b flow.Ref[string]) {
			flow.Node(f, "n", list, flow.List(a), flow.AfterAny(a), flow.AfterAny(b))
		}, flowgraph.ErrJoin, []string{`join: bad join: 2 joins; a node has at most one`}},
		"after besides": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", str, flow.AnyOf(a), flow.After(b)) },
			flowgraph.ErrJoin, []string{`join: bad join: "b" besides the join; all upstreams of a node with a join belong to it, by their success`}},
		"after next to after": {func(f builder, a, b flow.Ref[string]) {
			flow.Node(f, "n", str, f.Input(), flow.AfterAny(a), flow.After(b))
		}, flowgraph.ErrJoin, []string{`join: bad join: other upstreams are given besides; all upstreams of a node with a join belong to it`}},
		"data besides": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", str, b, flow.AfterAny(a)) },
			flowgraph.ErrJoin, []string{`join: bad join: "b" besides the join; all upstreams of a node with a join belong to it, by their success`}},
		"field besides": {func(f builder, a, b flow.Ref[string]) {
			flow.Node(f, "n", sink[finding]("r"), flow.Struct[finding](flow.Field("from", a), flow.Field("all", flow.Quorum(1, b))))
		}, flowgraph.ErrJoin, []string{`join: bad join: "a" besides the join; all upstreams of a node with a join belong to it, by their success`}},
		"input": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", str, flow.AnyOf(a, f.Input())) },
			flowgraph.ErrEdge, []string{`input[1]: bad edge: the flow's input is there from the start; it cannot be waited for`}},
		"foreign": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", str, flow.AnyOf(a, flow.Ref[string]{})) },
			flowgraph.ErrForeignRef, []string{`input[1]: reference does not belong to this flow: it is the zero Ref, which belongs to none`}},
		"rest of nothing": {func(f builder, a, b flow.Ref[string]) { flow.Node(f, "n", str, a, flow.LetRun()) },
			flowgraph.ErrOption, []string{`bad option: LetRun is for nodes with a join`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := flow.New[string, none]("f")
			tc.declare(f, flow.Node(f, "a", str, f.Input()), flow.Node(f, "b", str, f.Input()))
			_, err := f.Build()
			if !errors.Is(err, tc.kind) {
				t.Fatalf("got %v, want %v", err, tc.kind)
			}
			var want []string
			for _, fault := range tc.want {
				want = append(want, `flow "f": node "n": `+fault)
			}
			if got := withoutPlaces(err); got != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
		})
	}
}

func TestHandmadeJoinFaults(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*flowgraph.Node){
		"no join":       func(n *flowgraph.Node) { n.Join = flowgraph.Join{} },
		"setting only":  func(n *flowgraph.Node) { n.Join = flowgraph.Join{LetRun: true} },
		"unknown":       func(n *flowgraph.Node) { n.Join.Policy = "most" },
		"needed of any": func(n *flowgraph.Node) { n.Join = flowgraph.Join{Policy: flowgraph.JoinAny, Needed: 1} },
		"other binding": func(n *flowgraph.Node) { n.Join = flowgraph.Join{Policy: flowgraph.JoinAny} },
		"negative":      func(n *flowgraph.Node) { n.Join.Needed = -1 },
		"two bindings": func(n *flowgraph.Node) {
			n.Input = flowgraph.Expr{Kind: flowgraph.ExprList, Items: []flowgraph.Expr{n.Input, n.Input}}
		},
		"unknown source": func(n *flowgraph.Node) { n.Input.Items[0].Node = "x"; n.Upstreams[0].Node = "x" },
	} {
		g := flowgraph.Of(race(t, false).Internal())
		change(g.Node("two"))
		if err := g.Validate(); !errors.Is(err, flowgraph.ErrJoin) && !errors.Is(err, flowgraph.ErrUnknownNode) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func ExampleQuorum() {
	ask := activity.New("ask", func(_ context.Context, server string) (string, error) { return server + ": yes", nil })
	decide := activity.New("decide", func(_ context.Context, votes []string) (bool, error) { return len(votes) >= 2, nil })

	f := flow.New[none, bool]("vote")
	var votes []flow.Ref[string]
	for _, server := range []string{"red", "green", "blue"} {
		votes = append(votes, flow.Node(f, server, ask, flow.Const(server)))
	}
	flow.Return(f, flow.Node(f, "decide", decide, flow.Quorum(2, votes...)))

	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(def.Outline())
	// Output:
	// vote: struct {} -> bool
	//   0  red     ask
	//   0  green   ask
	//   0  blue    ask
	//   1  decide  decide  <- 2 of 3: red, green, blue
	//   result: decide
}
