package flow_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/contractcheck"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

type pair struct {
	A string `json:"a"`
	B string `json:"b"`
}

func TestOrElse(t *testing.T) {
	t.Parallel()
	str := ident[string]("str")
	f := flow.New[string, string]("backed")
	long := flow.When(f.Input(), "long", isLong)
	yes, no := flow.Node(f, "yes", str, f.Input(), long), flow.Node(f, "no", str, f.Input(), long.Not())
	// The node "strict" needs "yes" in any case, "both" neither.
	flow.Node(f, "both", sink[pair]("pair"), flow.Struct[pair](
		flow.Field("a", flow.OrElse(yes, "<none>")), flow.Field("b", flow.OrElse(no, ""))))
	flow.Node(f, "strict", sink[pair]("pair2"), flow.Struct[pair](flow.Field("a", yes), flow.Field("b", flow.OrElse(yes, ""))))
	flow.Return(f, flow.Node(f, "end", str, flow.OrElse(yes, "x")))
	d, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	g := flowgraph.Of(d.Internal())
	for node, want := range map[string]flowgraph.EdgeKind{
		"both": flowgraph.UnlessFailed, "strict": flowgraph.SuccessOnly, "end": flowgraph.UnlessFailed,
	} {
		if up := g.Node(node).Upstreams[0]; up.Kind != want || !up.Data {
			t.Errorf("the edge to %s is %+v", node, up)
		}
	}
	data, err := g.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := flowgraph.ParseGraph(data)
	if err != nil || parsed.Hash() != d.Hash() {
		t.Errorf("%v: other hash after reading %s", err, data)
	}
	other := parsed.Clone()
	other.Node("end").Input.Value = []byte(`"y"`)
	if other.Hash() == d.Hash() || other.StructureHash() == g.StructureHash() {
		t.Error("the hash does not see the constant")
	}
	input, err := d.NodeInput("both", []byte(`"in"`), map[string][]byte{"yes": []byte(`"is"`)})
	if err != nil || string(input) != `{"a":"is","b":""}` {
		t.Errorf("the input is %s, %v", input, err)
	}
	for name, drawn := range map[string]string{"Mermaid": d.Mermaid(), "DOT": d.DOT(), "outline": d.Outline(), "SVG": d.SVG(flow.Drawing{})} {
		if !strings.Contains(drawn, "or else") {
			t.Errorf("%s does not show the kind of the edge:\n%s", name, drawn)
		}
	}
	if err := contractcheck.Check(g); !errors.Is(err, enginecore.ErrContractOnly) {
		t.Errorf("contract mode takes it: %v", err)
	}
	g = parsed.Clone()
	g.Node("end").Condition, g.Node("both").Condition = nil, nil
	for i := range g.Nodes { // without the conditions, which are refused by themselves
		g.Nodes[i].Condition = nil
		for k := range g.Nodes[i].Upstreams {
			if up := &g.Nodes[i].Upstreams[k]; up.Kind == flowgraph.WhenCase {
				up.Kind, up.Case = flowgraph.SuccessOnly, ""
			}
		}
	}
	if err := contractcheck.Check(g); !errors.Is(err, enginecore.ErrContractOnly) || !strings.Contains(err.Error(), "flow.OrElse") {
		t.Errorf("contract mode: %v", err)
	}
}

func TestOrElseFaults(t *testing.T) {
	t.Parallel()
	str, raw := ident[string]("str"), ident[string]("raw", activity.WithCodec(rawCodec{}))
	type builder = *flow.Builder[string, none]
	other := flow.New[string, string]("other")
	for name, tc := range map[string]struct {
		declare func(f builder, a flow.Ref[string])
		kind    error
		want    string
	}{
		"input": {func(f builder, _ flow.Ref[string]) { flow.Node(f, "n", str, flow.OrElse(f.Input(), "x")) },
			flowgraph.ErrEdge, "nothing takes its place"},
		"foreign": {func(f builder, _ flow.Ref[string]) { flow.Node(f, "n", str, flow.OrElse(other.Input(), "x")) },
			flowgraph.ErrForeignRef, "flow \"other\""},
		"zero": {func(f builder, _ flow.Ref[string]) { flow.Node(f, "n", str, flow.OrElse(flow.Ref[string]{}, "x")) },
			flowgraph.ErrForeignRef, "zero Ref"},
		"waited for": {func(f builder, a flow.Ref[string]) { flow.Node(f, "n", str, flow.OrElse(a, "x"), flow.Always(a)) },
			flowgraph.ErrEdge, "waited for as unless_failed already"},
		"join": {func(f builder, a flow.Ref[string]) {
			b := flow.Node(f, "b", str, f.Input())
			flow.Node(f, "n", str, flow.OrElse(a, "x"), flow.AfterAny(b))
		}, flowgraph.ErrJoin, "besides the join"},
		"long": {func(f builder, a flow.Ref[string]) {
			flow.Node(f, "n", str, flow.OrElse(a, strings.Repeat("x", flowgraph.MaxConst)))
		}, flowgraph.ErrLimit, "constant of"},
		"codec": {func(f builder, _ flow.Ref[string]) {
			b := flow.Node(f, "b", raw, flow.Const("x"))
			flow.Node(f, "n", raw, flow.OrElse(b, "y"))
		}, flowgraph.ErrCodec, "takes raw"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := flow.New[string, none]("f")
			tc.declare(f, flow.Node(f, "a", str, f.Input()))
			_, err := f.Build()
			if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
