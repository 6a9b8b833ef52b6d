package flow_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// graphOf wraps the JSON of nodes into the JSON of a graph.
func graphOf(nodes ...string) string {
	return `{"version":1,"name":"f","nodes":[` + strings.Join(nodes, ",") + `]}`
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	const a = `{"name":"a","activity":"x","input":{"input":true}}`
	for name, tc := range map[string]struct {
		data string
		kind error
		want string
	}{
		"nothing":       {``, flowgraph.ErrSyntax, "EOF"},
		"no object":     {`[]`, flowgraph.ErrSyntax, "cannot unmarshal array"},
		"cut":           {`{"version":1,"name":"f"`, flowgraph.ErrSyntax, "unexpected EOF"},
		"trailing":      {graphOf(a) + `{}`, flowgraph.ErrSyntax, "data after the graph"},
		"trailing text": {graphOf(a) + `x`, flowgraph.ErrSyntax, "data after the graph"},
		"unknown field": {`{"version":1,"name":"f","budget":3}`, flowgraph.ErrSyntax, `unknown field "budget"`},
		"node field":    {graphOf(`{"name":"a","odd":"any"}`), flowgraph.ErrSyntax, `unknown field "odd"`},
		"field type":    {graphOf(`{"name":1}`), flowgraph.ErrSyntax, "cannot unmarshal number"},
		"large number":  {graphOf(`{"name":"a","priority":1e99}`), flowgraph.ErrSyntax, "cannot unmarshal number"},
		"no version":    {`{"name":"f"}`, flowgraph.ErrVersion, "0; this program reads 1"},
		"later version": {`{"version":2,"name":"f","nodes":{},"budget":3}`, flowgraph.ErrVersion, "2; this program reads 1"},
		"no nodes":      {graphOf(), flowgraph.ErrEmptyFlow, ""},
		"null":          {`null`, flowgraph.ErrVersion, ""},

		"no input":     {graphOf(`{"name":"a","activity":"x"}`), flowgraph.ErrSyntax, `node "a": input: graph is not readable: wants exactly one of`},
		"two inputs":   {graphOf(`{"name":"a","activity":"x","input":{"input":true,"node":"b"}}`), flowgraph.ErrSyntax, "wants exactly one of"},
		"not input":    {graphOf(`{"name":"a","activity":"x","input":{"input":false}}`), flowgraph.ErrSyntax, "wants exactly one of"},
		"empty item":   {graphOf(`{"name":"a","activity":"x","input":{"struct":{"k":{"list":[{"const":1},{}]}}}}`), flowgraph.ErrSyntax, `input.k[1]: graph is not readable`},
		"data of json": {graphOf(`{"name":"a","activity":"x","input":{"data":""}}`), flowgraph.ErrSyntax, "const is for the codec json"},
		"const of raw": {graphOf(`{"name":"a","activity":"x","codec":"raw","input":{"const":1}}`), flowgraph.ErrSyntax, "this one is raw"},
		"long":         {graphOf(`{"name":"a","activity":"x","input":{"input":true},"start_to_close_ms":9223372036855}`), flowgraph.ErrOption, "9223372036855 ms is too long to count"},
		"long retry":   {graphOf(`{"name":"a","activity":"x","input":{"input":true},"retry":{"attempts":2,"first_ms":-9223372036855}}`), flowgraph.ErrOption, "retry.first_ms"},
		"retry":        {graphOf(`{"name":"a","activity":"x","input":{"input":true},"retry":{}}`), flowgraph.ErrOption, "0 attempts"},
		"single retry": {graphOf(`{"name":"a","activity":"x","input":{"input":true},"retry":{"attempts":1,"first_ms":1}}`), flowgraph.ErrOption, "one attempt has no delays"},
		"capabilities": {graphOf(`{"name":"a","activity":"x","input":{"input":true},"capabilities":["b","a"]}`), flowgraph.ErrOption, "not in order"},
		"same twice":   {graphOf(`{"name":"a","activity":"x","input":{"input":true},"capabilities":["a","a"]}`), flowgraph.ErrOption, "twice"},

		"unknown node":   {graphOf(`{"name":"a","activity":"x","input":{"node":"b"}}`), flowgraph.ErrUnknownNode, `node "a": input: no such node: "b"`},
		"unknown after":  {graphOf(`{"name":"a","activity":"x","input":{"input":true},"after":["b"]}`), flowgraph.ErrUnknownNode, `node "a": after: no such node: "b"`},
		"unknown return": {`{"version":1,"name":"f","return":"b","nodes":[` + a + `]}`, flowgraph.ErrUnknownNode, `return: no such node: "b"`},
		"after twice":    {graphOf(a, `{"name":"b","activity":"x","input":{"input":true},"after":["a","a"]}`), flowgraph.ErrEdge, `from "a" twice`},
		"after data":     {graphOf(a, `{"name":"b","activity":"x","input":{"node":"a"},"after":["a"]}`), flowgraph.ErrEdge, `from "a" twice`},
		"names":          {graphOf(a, a), flowgraph.ErrDuplicateName, "by nodes 1 and 2"},
		"activity":       {graphOf(`{"name":"a","input":{"input":true}}`), flowgraph.ErrName, `node "a": activity: bad name`},
		"node codec":     {graphOf(`{"name":"a","activity":"x","codec":"a b","input":{"data":""}}`), flowgraph.ErrName, `node "a": codec: bad name`},
		"flow codec":     {`{"version":1,"name":"f","codec":"a b","nodes":[{"name":"a","activity":"x","input":{"const":1}}]}`, flowgraph.ErrName, `codec: bad name`},

		"itself":    {graphOf(`{"name":"a","activity":"x","input":{"node":"a"}}`), flowgraph.ErrCycle, "cycle: a -> a"},
		"cycle":     {graphOf(`{"name":"a","activity":"x","input":{"node":"c"}}`, `{"name":"b","activity":"x","input":{"input":true},"after":["a"]}`, `{"name":"c","activity":"x","input":{"node":"b"}}`), flowgraph.ErrCycle, "cycle: a -> b -> c -> a"},
		"depth":     {graphOf(`{"name":"a","activity":"x","input":` + strings.Repeat(`{"list":[`, 33) + `{"const":1}` + strings.Repeat(`]}`, 33) + `}`), flowgraph.ErrLimit, "nested deeper than 32"},
		"very deep": {graphOf(`{"name":"a","activity":"x","input":` + strings.Repeat(`{"list":[`, 20_000) + strings.Repeat(`]}`, 20_000) + `}`), flowgraph.ErrSyntax, "max depth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := flowgraph.ParseGraph([]byte(tc.data))
			if g != nil || !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %v: %s", err, tc.kind, tc.want)
			}
			if len(flow.Faults(err)) == 0 {
				t.Errorf("%T is not a fault", err)
			}
			if into := new(flowgraph.Graph); into.UnmarshalJSON([]byte(tc.data)) == nil || !reflect.DeepEqual(into, new(flowgraph.Graph)) {
				t.Error("UnmarshalJSON accepts it, or leaves a part of it")
			}
		})
	}
}

func TestParseNormalizes(t *testing.T) {
	t.Parallel()
	g, err := flowgraph.ParseGraph([]byte(graphOf(
		`{"name":"a","activity":"x","codec":"json","lane":"default","tags":{},"capabilities":[],"after":[],"input":{"const": {"b" : 1.0, "a":"<\u003c\u00e9"} }}`,
		`{"name":"b","activity":"x","input":{"struct":{"z":{"const":null},"a":{"list":[]}}}}`)))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(g.Nodes[0].Input.Value); got != `{"b":1.0,"a":"<\u003c\u00e9"}` {
		t.Errorf("constant %s", got)
	}
	want := flowgraph.Node{
		Name: "a", Activity: "x", Codec: "json",
		Options: activityspec.Options{Lane: "default", Retry: activityspec.RetryPlan{Attempts: 5, First: time.Second, Max: time.Minute, Factor: 2, JitterPermille: 100}},
		Input:   g.Nodes[0].Input,
	}
	if !reflect.DeepEqual(g.Nodes[0], want) {
		t.Errorf("got  %+v\nwant %+v", g.Nodes[0], want)
	}
	if got, err := g.Nodes[1].Input.Resolve(nil, nil); string(got) != `{"a":[],"z":null}` || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}

func FuzzParseGraph(f *testing.F) {
	_, texts := goldens(f)
	f.Add([]byte(texts["census.json"]))
	f.Add([]byte(graphOf(`{"name":"a","activity":"x","input":{"node":"b"}}`, `{"name":"b","activity":"x","input":{"list":[{"input":true},{"const":null}]},"after":["a"]}`)))
	f.Add([]byte(graphOf(`{"name":"a","activity":"x","codec":"raw","input":{"data":"AA=="},"retry":{"attempts":1}}`)))
	f.Add([]byte(graphOf(`{"name":"a","activity":"x","input":{"input":true}}`, `{"name":"b","activity":"x","input":{"some":["a"]},"join":{"policy":"quorum","needed":1}}`)))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := flowgraph.ParseGraph(data)
		if err != nil {
			if g != nil || len(flow.Faults(err)) == 0 {
				t.Fatalf("no fault in %v", err)
			}
			return
		}
		first, err := g.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := flowgraph.ParseGraph(first)
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		second, err := again.MarshalJSON()
		if err != nil || !bytes.Equal(first, second) || g.Hash() != again.Hash() || !reflect.DeepEqual(g, again) {
			t.Fatalf("first  %s\nsecond %s, %v", first, second, err)
		}
		_, _, _ = g.Mermaid(), g.DOT(), g.Outline()
		checkInputs(t, g)
	})
}

// checkInputs resolves the inputs of a valid graph, with a JSON value for each result.
func checkInputs(t *testing.T, g *flowgraph.Graph) {
	t.Helper()
	results := make(map[string][]byte)
	for i := range g.Nodes {
		results[g.Nodes[i].Name] = []byte(`{"r":1}`)
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		data, err := n.Input.Resolve([]byte(`"in"`), results)
		var v any
		if err != nil || n.Codec == "json" && g.Codec == "json" && (activity.JSON{}).Decode(data, &v) != nil {
			t.Fatalf("node %s: %q, %v", n.Name, data, err)
		}
		back, err := flowgraph.DecodeInput(n.EncodeInput(), n.Codec)
		if err != nil || !reflect.DeepEqual(back, n.Input) {
			t.Fatalf("node %s: stored input %s: %v", n.Name, n.EncodeInput(), err)
		}
	}
}

func TestDecodeInputFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		data, codec string
		kind        error
	}{
		{``, "json", flowgraph.ErrSyntax}, {`{}`, "json", flowgraph.ErrSyntax}, {`{"const":1}`, "raw", flowgraph.ErrSyntax},
		{`{"data":""}`, "json", flowgraph.ErrSyntax}, {`{"list":[{}]}`, "json", flowgraph.ErrSyntax}, {`{"node":"a"}x`, "json", flowgraph.ErrSyntax},
	} {
		if _, err := flowgraph.DecodeInput([]byte(tc.data), tc.codec); !errors.Is(err, tc.kind) {
			t.Errorf("%s: %v", tc.data, err)
		}
	}
}
