package flow_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// wired is a graph of nodes that each wait for the listed ones.
func wired(edges map[string][]string, order ...string) *flowgraph.Graph {
	g := &flowgraph.Graph{Name: "f", Codec: "json"}
	for _, name := range order {
		n := flowgraph.Node{Name: name, Activity: "x", Codec: "json", Options: activityspec.DefaultOptions(), Input: flowgraph.Expr{Kind: flowgraph.ExprInput}}
		for _, up := range edges[name] {
			n.Upstreams = append(n.Upstreams, flowgraph.Edge{Node: up, Kind: flowgraph.SuccessOnly})
		}
		g.Nodes = append(g.Nodes, n)
	}
	return g
}

func TestCycles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edges map[string][]string
		order string
		want  []string
	}{
		"none":            {map[string][]string{"b": {"a"}, "c": {"a", "b"}}, "a b c", nil},
		"against order":   {map[string][]string{"a": {"b"}, "b": {"c"}}, "a b c", nil},
		"itself":          {map[string][]string{"a": {"a"}}, "a b", []string{"a -> a"}},
		"two":             {map[string][]string{"a": {"b"}, "b": {"a"}}, "b a", []string{"b -> a -> b"}},
		"behind":          {map[string][]string{"a": {"b"}, "b": {"a"}, "c": {"b"}, "d": {"c"}}, "d c b a", []string{"b -> a -> b"}},
		"before":          {map[string][]string{"b": {"a", "c"}, "c": {"b"}}, "a b c", []string{"b -> c -> b"}},
		"two apart":       {map[string][]string{"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}, "a b c d", []string{"a -> b -> a", "c -> d -> c"}},
		"through unknown": {map[string][]string{"a": {"x"}, "b": {"a"}}, "a b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, fault := range flow.Faults(wired(tc.edges, strings.Fields(tc.order)...).Validate()) {
				if errors.Is(fault, flowgraph.ErrCycle) {
					got = append(got, fault.Detail)
				}
			}
			if strings.Join(got, ";") != strings.Join(tc.want, ";") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLongCycleIsCut(t *testing.T) {
	t.Parallel()
	edges := map[string][]string{"0": {"999"}}
	order := []string{"0"}
	for i := 1; i < 1000; i++ {
		edges[fmt.Sprint(i)] = []string{fmt.Sprint(i - 1)}
		order = append(order, fmt.Sprint(i))
	}
	err := wired(edges, order...).Validate()
	if !errors.Is(err, flowgraph.ErrCycle) || !strings.HasPrefix(err.Error(), `flow "f": cycle: 0 -> 1 -> 2 -> `) || !strings.HasSuffix(withoutPlaces(err), " -> … -> 0") || len(err.Error()) > 1000 {
		t.Errorf("got %v", err)
	}
}

// Random graphs without a cycle are valid; an edge against a path makes a cycle, and the path reported for it exists.
func TestRandomGraphs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 2 + r.IntN(30)
		edges, order := make(map[string][]string), make([]string, n)
		for i, name := range r.Perm(n) {
			order[i] = fmt.Sprint(name)
			for _, up := range order[:i] {
				if r.IntN(3) == 0 {
					edges[order[i]] = append(edges[order[i]], up)
				}
			}
		}
		declared := append([]string(nil), order...)
		r.Shuffle(n, func(i, j int) { declared[i], declared[j] = declared[j], declared[i] })
		if err := wired(edges, declared...).Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		last, first := order[n-1], order[0]
		edges[last] = appendMissing(edges[last], first)
		edges[first] = append(edges[first], last)
		err := wired(edges, declared...).Validate()
		if !errors.Is(err, flowgraph.ErrCycle) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, fault := range flow.Faults(err) {
			path := strings.Split(fault.Detail, " -> ")
			if path[0] != path[len(path)-1] {
				t.Fatalf("seed %d: %q does not close", seed, path)
			}
			for i := 1; i < len(path); i++ {
				if len(appendMissing(edges[path[i]], path[i-1])) != len(edges[path[i]]) {
					t.Fatalf("seed %d: %q has an edge that is not there", seed, path)
				}
			}
		}
	}
}

func appendMissing(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}

// Graphs made by hand can contradict themselves in ways that Build and ParseGraph cannot.
func TestHandmadeGraphs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*flowgraph.Graph)
		kind   error
	}{
		"zero":      {func(g *flowgraph.Graph) { *g = flowgraph.Graph{} }, flowgraph.ErrEmptyFlow},
		"edge kind": {func(g *flowgraph.Graph) { g.Nodes[1].Upstreams[0].Kind = "sometimes" }, flowgraph.ErrEdge},
		"data flag": {func(g *flowgraph.Graph) { g.Nodes[1].Upstreams[0].Data = true }, flowgraph.ErrEdge},
		"edge missing": {func(g *flowgraph.Graph) {
			g.Nodes[1].Upstreams, g.Nodes[1].Input = nil, flowgraph.Expr{Kind: flowgraph.ExprNode, Node: "a"}
		}, flowgraph.ErrEdge},
		"no data flag": {func(g *flowgraph.Graph) { g.Nodes[1].Input = flowgraph.Expr{Kind: flowgraph.ExprNode, Node: "a"} }, flowgraph.ErrEdge},
		"kind":         {func(g *flowgraph.Graph) { g.Nodes[0].Input.Kind = "guess" }, flowgraph.ErrBinding},
		"no input":     {func(g *flowgraph.Graph) { g.Nodes[0].Input = flowgraph.Expr{} }, flowgraph.ErrBinding},
		"field order":  {func(g *flowgraph.Graph) { g.Nodes[0].Input = structOf("b", "a") }, flowgraph.ErrBinding},
		"field twice":  {func(g *flowgraph.Graph) { g.Nodes[0].Input = structOf("a", "a") }, flowgraph.ErrBinding},
		"field name":   {func(g *flowgraph.Graph) { g.Nodes[0].Input = structOf("\xff") }, flowgraph.ErrBinding},
		"const": {func(g *flowgraph.Graph) {
			g.Nodes[0].Input = flowgraph.Expr{Kind: flowgraph.ExprConst, Value: []byte("{")}
		}, flowgraph.ErrConst},
		"microseconds":     {func(g *flowgraph.Graph) { g.Deadline = time.Microsecond }, flowgraph.ErrOption},
		"node nanoseconds": {func(g *flowgraph.Graph) { g.Nodes[0].StartToClose = 1 }, flowgraph.ErrOption},
		"retry delay":      {func(g *flowgraph.Graph) { g.Nodes[0].Retry.First++ }, flowgraph.ErrOption},
		"options":          {func(g *flowgraph.Graph) { g.Nodes[0].Options = activityspec.Options{} }, flowgraph.ErrOption},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := wired(map[string][]string{"b": {"a"}}, "a", "b")
			if err := g.Validate(); err != nil {
				t.Fatal(err)
			}
			tc.change(g)
			if err := g.Validate(); !errors.Is(err, tc.kind) {
				t.Errorf("got %v, want %v", err, tc.kind)
			}
			_, _, _, _ = g.Hash(), g.Mermaid(), g.DOT(), g.Outline()
		})
	}
}

func structOf(names ...string) flowgraph.Expr {
	e := flowgraph.Expr{Kind: flowgraph.ExprStruct}
	for _, name := range names {
		e.Fields = append(e.Fields, flowgraph.ExprField{Name: name, Value: flowgraph.Expr{Kind: flowgraph.ExprInput}})
	}
	return e
}

func TestTagKeys(t *testing.T) {
	t.Parallel()
	for key, ok := range map[string]bool{
		"a.x": true, "app2.x.y": true, "a.b c": true, "a_b9.é": true, "a.b.": true, "a.b..c": true,
		"a": false, "a.": false, "a..b": false, "A.b": false, "1a.b": false, "a-b.c": false, "_a.b": false, "": false, ".a": false, "a.\xff": false,
	} {
		g := wired(nil, "a")
		g.Nodes[0].Tags = map[string]string{key: ""}
		if err := g.Validate(); errors.Is(err, flowgraph.ErrTag) == ok {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	str, list := ident[string]("str"), sink[[]string]("list")
	fan := func(f *flow.Builder[string, none], n int) []flow.Ref[string] {
		refs := make([]flow.Ref[string], n)
		for i := range refs {
			refs[i] = flow.Node(f, fmt.Sprint("n", i), str, f.Input())
		}
		return refs
	}
	for name, tc := range map[string]struct {
		declare func(f *flow.Builder[string, none])
		want    string
	}{
		"most nodes": {func(f *flow.Builder[string, none]) { fan(f, 10_000) }, ""},
		"nodes":      {func(f *flow.Builder[string, none]) { fan(f, 10_001) }, "nodes: limit exceeded: 10001 nodes, the limit is 10000"},
		"fan-in": {func(f *flow.Builder[string, none]) {
			flow.Node(f, "end", list, flow.List(fan(f, flowgraph.MaxFan+1)...))
		}, `node "end": upstreams: limit exceeded: 10001 upstreams, the limit is 10000`},
		"most fan-in": {func(f *flow.Builder[string, none]) {
			flow.Node(f, "end", list, flow.List(fan(f, flowgraph.MaxFan-1)...))
		}, ""},
		"fan-out": {func(f *flow.Builder[string, none]) {
			root := flow.Node(f, "root", str, f.Input())
			for i := range flowgraph.MaxFan + 1 {
				flow.Node(f, fmt.Sprint("n", i), str, root)
			}
		}, `node "root": limit exceeded: 10001 nodes depend on it, the limit is 10000`},
		"most edges": {func(f *flow.Builder[string, none]) { layers(f, str, 5000) }, ""},
		"edges":      {func(f *flow.Builder[string, none]) { flow.Node(f, "more", str, layers(f, str, 5000)) }, "edges: limit exceeded: 50001 edges, the limit is 50000"},
		"tags": {func(f *flow.Builder[string, none]) {
			opts := make([]flow.NodeOption, 65)
			for i := range opts {
				opts[i] = flow.Tag(fmt.Sprint("a.", i), "")
			}
			flow.Node(f, "n", str, f.Input(), opts...)
		}, `node "n": tags: limit exceeded: 65 tags, the limit is 64`},
		"largest const": {func(f *flow.Builder[string, none]) {
			flow.Node(f, "n", str, flow.Const(strings.Repeat("x", flowgraph.MaxConst-2)))
		}, ""},
		"deepest": {func(f *flow.Builder[string, none]) { flow.Node(f, "n", sink[box]("box"), deep(flowgraph.MaxDepth)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := flow.New[string, none]("f")
			tc.declare(f)
			d, err := f.Build()
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				data, err := flowgraph.Of(d.Internal()).MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				if g, err := flowgraph.ParseGraph(data); err != nil || g.Hash() != d.Hash() {
					t.Errorf("read back: %v", err)
				}
				return
			}
			if !errors.Is(err, flowgraph.ErrLimit) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %.300v", err)
			}
		})
	}
}

// layers adds rows of ten nodes, each of which waits for all ten of the row before, until there are n such nodes, and
// returns one of the last row.
func layers(f *flow.Builder[string, none], a *activity.Activity[string, string], n int) flow.Ref[string] {
	row := make([]flow.Ref[string], 10)
	for i := range row {
		row[i] = flow.Node(f, fmt.Sprint("root", i), a, f.Input())
	}
	for i := 0; i < n; i += len(row) {
		next := make([]flow.Ref[string], len(row))
		for k := range next {
			next[k] = flow.Node(f, fmt.Sprint("n", i+k), a, row[k], flow.AfterEach(row))
		}
		row = next
	}
	return row[0]
}
