package flow_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldenFile has all golden texts, each after a line with its name.
const goldenFile = "testdata/golden.txtar"

var goldenMu sync.Mutex // for goldenFile

var goldenHead = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

// goldens reads the golden texts by their names, and the comment before the first one.
func goldens(t testing.TB) (comment string, texts map[string]string) {
	t.Helper()
	data, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	texts = make(map[string]string)
	heads := goldenHead.FindAllSubmatchIndex(data, -1)
	for i, at := range heads {
		end := len(data)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		texts[string(data[at[2]:at[3]])] = string(data[at[1]:end])
	}
	return string(data[:heads[0][0]]), texts
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	goldenMu.Lock()
	defer goldenMu.Unlock()
	comment, texts := goldens(t)
	if *update {
		texts[name] = got
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			comment += "-- " + name + " --\n" + texts[name]
		}
		if err := os.WriteFile(goldenFile, []byte(comment), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got != texts[name] {
		t.Errorf("%s of %s differs, got:\n%s", name, goldenFile, got)
	}
}

// goldenViews compares the hash, the texts and the drawing of a flow.
func goldenViews(t *testing.T, name string, d interface {
	Hash() string
	Mermaid() string
	DOT() string
	Outline() string
	SVG(flow.Drawing) string
}) {
	t.Helper()
	golden(t, name+".txt", fmt.Sprintf("hash %s\n\n%s\n%s\n%s", d.Hash(), d.Outline(), d.Mermaid(), d.DOT()))
	golden(t, name+".svg", d.SVG(flow.Drawing{}))
}

// everything is a flow that uses each feature of the stored form. reverse reverses the order of unordered declarations.
func everything(t testing.TB, reverse bool) *flow.Definition[Source, Summary] {
	t.Helper()
	tags := []flow.TagOption{flow.Tag("team.name", "a<b>&\"c\""), flow.Tag("app.tier", "é")}
	text := ident[string]("text", activity.WithCodec(rawCodec{}))
	if reverse {
		tags[0], tags[1] = tags[1], tags[0]
	}
	f := flow.New[Source, Summary]("census", flow.Describe("Counts lines.\nThen says so."), flow.Deadline(time.Hour), tags[0], tags[1])
	var files flow.Ref[Listing]
	var raw flow.Ref[string]
	declare := []func(){
		func() { files = flow.Node(f, "scan", scan, f.Input(), tags[0], tags[1]) },
		func() { raw = flow.Node(f, "raw", text, flow.Const("\x00\xff")) },
	}
	if reverse {
		declare[0], declare[1] = declare[1], declare[0]
	}
	declare[0]()
	declare[1]()
	fields := []flow.FieldBinding{flow.Field("files", files), flow.Field("shard", flow.Const(7))}
	after := []flow.Upstream{files, raw}
	if reverse {
		fields[0], fields[1] = fields[1], fields[0]
		after[0], after[1] = after[1], after[0]
	}
	one := flow.Node(f, "count", count, flow.Struct[CountInput](fields...),
		activity.Retry(activity.RetryPolicy{First: 1500 * time.Millisecond, Max: time.Hour, Factor: 1.5, Attempts: 9, JitterPermille: -1}),
		activity.StartToClose(2*time.Minute), activity.HeartbeatTimeout(20*time.Second), activity.ScheduleToStart(time.Hour),
		activity.Lane("slow"), activity.Priority(12), activity.Capabilities("ssd", "gpu", "ssd"), flow.After(after...))
	flow.Node(f, "last", sink[map[string]string]("map"), flow.Const(map[string]string{"b": "<", "a": ">"}), activity.Retry(activity.RetryPolicy{Attempts: 1}), flow.After(one, raw))
	flow.Return(f, flow.Node(f, "publish", report, flow.List(one)))
	d, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestGolden(t *testing.T) {
	d := everything(t, false)
	data, err := flowgraph.Of(d.Internal()).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "census.json", indented.String()+"\n")
	goldenViews(t, "census", d)
}

func TestGoldenGraphIsReadAlike(t *testing.T) {
	t.Parallel()
	_, texts := goldens(t)
	g, err := flowgraph.ParseGraph([]byte(texts["census.json"]))
	if err != nil {
		t.Fatal(err)
	}
	d := everything(t, false)
	if !reflect.DeepEqual(g, flowgraph.Of(d.Internal())) {
		t.Errorf("got  %+v\nwant %+v", g, flowgraph.Of(d.Internal()))
	}
	if g.Hash() != d.Hash() {
		t.Error("another hash")
	}
	// encoding/json escapes <, > and & in the result of MarshalJSON; that must not matter.
	escaped, err := json.Marshal(flowgraph.Of(d.Internal()))
	if err != nil {
		t.Fatal(err)
	}
	var again flowgraph.Graph
	if err := json.Unmarshal(escaped, &again); err != nil {
		t.Fatal(err)
	}
	if repeated, err := json.Marshal(&again); err != nil || string(repeated) != string(escaped) {
		t.Errorf("after json.Marshal: %s, %v", repeated, err)
	}
}

func TestHashIgnoresOrder(t *testing.T) {
	t.Parallel()
	a, b := everything(t, false), everything(t, true)
	if a.Hash() != b.Hash() {
		t.Error("the order of declaration changes the hash")
	}
	if flowgraph.Of(a.Internal()).Nodes[0].Name == flowgraph.Of(b.Internal()).Nodes[0].Name {
		t.Error("the order of declaration is lost")
	}
}

func TestHash_ChangesWithEachField(t *testing.T) {
	t.Parallel()
	base := flowgraph.Of(everything(t, false).Internal())
	seen := map[string]string{"": base.Hash()}
	for name, change := range map[string]func(*flowgraph.Graph){
		"name":         func(g *flowgraph.Graph) { g.Name = "x" },
		"codec":        func(g *flowgraph.Graph) { g.Codec = "x" },
		"deadline":     func(g *flowgraph.Graph) { g.Deadline++; g.Deadline += time.Millisecond },
		"tags":         func(g *flowgraph.Graph) { g.Tags["a.b"] = "" },
		"return":       func(g *flowgraph.Graph) { g.Return = "" },
		"nodes":        func(g *flowgraph.Graph) { g.Nodes = g.Nodes[:4] },
		"node":         func(g *flowgraph.Graph) { g.Nodes[2].Name = "x" },
		"activity":     func(g *flowgraph.Graph) { g.Nodes[2].Activity = "x" },
		"node codec":   func(g *flowgraph.Graph) { g.Nodes[2].Codec = "x" },
		"lane":         func(g *flowgraph.Graph) { g.Nodes[2].Lane = "x" },
		"priority":     func(g *flowgraph.Graph) { g.Nodes[2].Priority++ },
		"capabilities": func(g *flowgraph.Graph) { g.Nodes[2].Capabilities = nil },
		"retry":        func(g *flowgraph.Graph) { g.Nodes[2].Retry.Attempts++ },
		"factor":       func(g *flowgraph.Graph) { g.Nodes[2].Retry.Factor++ },
		"start":        func(g *flowgraph.Graph) { g.Nodes[2].StartToClose *= 2 },
		"heartbeat":    func(g *flowgraph.Graph) { g.Nodes[2].HeartbeatTimeout *= 2 },
		"schedule":     func(g *flowgraph.Graph) { g.Nodes[2].ScheduleToStart *= 2 },
		"node tags":    func(g *flowgraph.Graph) { g.Nodes[0].Tags["a.b"] = "" },
		"input": func(g *flowgraph.Graph) {
			g.Nodes[0].Input = flowgraph.Expr{Kind: flowgraph.ExprConst, Value: []byte("1")}
		},
		"const": func(g *flowgraph.Graph) { g.Nodes[2].Input.Fields[1].Value.Value = []byte("8") },
		"field": func(g *flowgraph.Graph) { g.Nodes[2].Input.Fields[1].Name = "x" },
		"list": func(g *flowgraph.Graph) {
			g.Nodes[4].Input.Items = append(g.Nodes[4].Input.Items, flowgraph.Expr{Kind: flowgraph.ExprInput})
		},
		"source": func(g *flowgraph.Graph) { g.Nodes[4].Input.Items[0].Node = "scan" },
		"after":  func(g *flowgraph.Graph) { g.Nodes[3].Upstreams = g.Nodes[3].Upstreams[:1] },
	} {
		g := base.Clone()
		change(g)
		hash := g.Hash()
		for other, taken := range seen {
			if hash == taken {
				t.Errorf("%q has the hash of %q", name, other)
			}
		}
		seen[name] = hash
	}
	g := base.Clone()
	g.Description, g.InputType, g.OutputType = "x", "x", "x"
	if g.Hash() != base.Hash() {
		t.Error("words change the hash")
	}
	if everything(t, false).Hash() != base.Hash() {
		t.Error("Clone shares with its original")
	}
}

func TestDefinitionIsImmutable(t *testing.T) {
	t.Parallel()
	constant := map[string]string{"k": "before"}
	f := flow.New[string, none]("f", flow.Tag("a.b", "c"))
	flow.Node(f, "n", sink[map[string]string]("map", activity.Capabilities("gpu")), flow.Const(constant), flow.Tag("a.b", "c"))
	constant["k"] = "after"
	d, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	hash := flowgraph.Of(d.Internal()).Hash()
	g := flowgraph.Of(d.Internal())
	if string(g.Nodes[0].Input.Value) != `{"k":"before"}` {
		t.Errorf("the constant became %s", g.Nodes[0].Input.Value)
	}
	g.Name, g.Tags["a.b"], g.Nodes[0].Tags["a.b"], g.Nodes[0].Capabilities[0] = "x", "x", "x", "x"
	g.Nodes[0].Input.Kind = flowgraph.ExprInput
	d.Handlers()[0] = nil
	flow.Node(f, "m", ident[string]("str"), f.Input())
	if flowgraph.Of(d.Internal()).Hash() != hash || d.Hash() != hash || d.Handlers()[0] == nil || len(flowgraph.Of(d.Internal()).Nodes) != 1 {
		t.Error("the definition changed")
	}
	more, err := f.Build()
	if err != nil || len(flowgraph.Of(more.Internal()).Nodes) != 2 {
		t.Errorf("the builder cannot continue: %v", err)
	}
}

func TestDefinitionInSeveralGoroutines(t *testing.T) {
	t.Parallel()
	d := everything(t, false)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			g := flowgraph.Of(d.Internal())
			g.Nodes[0].Name = "x"
			_, _, _, _, _ = d.Mermaid(), d.DOT(), d.Outline(), d.Hash(), d.Handlers()
			if flowgraph.Of(d.Internal()).Hash() != d.Hash() {
				t.Error("another hash")
			}
		})
	}
	wg.Wait()
}

func TestDefinitionPayloads(t *testing.T) {
	t.Parallel()
	d := everything(t, false)
	in, err := d.EncodeInput(Source{Dir: "<x>"})
	if string(in) != `{"dir":"<x>"}` || err != nil {
		t.Errorf("input %s, %v", in, err)
	}
	out, err := d.DecodeResult([]byte(`{"lines":3}`))
	if out.Lines != 3 || err != nil {
		t.Errorf("result %v, %v", out, err)
	}
	if _, err := d.DecodeResult([]byte(`{"lines":"3"}`)); err == nil || !strings.Contains(err.Error(), `flow "census": result does not decode from json into flow_test.Summary`) {
		t.Errorf("result: %v", err)
	}
	if names := handlerNames(d.Handlers()); names != "census.scan text census.count map census.report" {
		t.Errorf("handlers %s", names)
	}

	f := flow.New[chan int, none]("f", flow.WithCodec(rawCodec{}))
	flow.Node(f, "n", ident[string]("str"), flow.Const("x"))
	odd, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := odd.DecodeResult(nil); err != nil {
		t.Errorf("a flow without a result: %v", err)
	}
	if _, err := buildChan(); err == nil || !strings.Contains(err.Error(), `flow "f": input: bad type: type chan int has no JSON form`) {
		t.Errorf("input: %v", err)
	}

	var zero *flow.Definition[string, string]
	if zero.Name() != "" || zero.Hash() != "" || zero.Handlers() != nil || len(flowgraph.Of(zero.Internal()).Nodes) != 0 || flowgraph.Of(zero.Internal()).Validate() == nil {
		t.Error("the nil definition is something")
	}
	if data, err := new(flow.Definition[string, string]).EncodeInput("x"); string(data) != `"x"` || err != nil {
		t.Errorf("the zero definition encodes %s, %v", data, err)
	}
}

func buildChan() (*flow.Definition[chan int, none], error) {
	f := flow.New[chan int, none]("f")
	flow.Node(f, "n", ident[string]("str"), flow.Const("x"))
	return f.Build()
}

func handlerNames(list []activity.Handler) string {
	names := make([]string, len(list))
	for i, h := range list {
		names[i] = h.Name()
	}
	return strings.Join(names, " ")
}

// Nodes have the options of their activity unless they set their own.
func TestNodeOptionsReplaceTheActivitys(t *testing.T) {
	t.Parallel()
	a := ident[string]("str", activity.Lane("a"), activity.Priority(3), activity.StartToClose(time.Second), activity.Capabilities("gpu"))
	f := flow.New[string, string]("f")
	plain := flow.Node(f, "plain", a, f.Input())
	flow.Return(f, flow.Node(f, "own", a, plain, activity.Lane("b"), activity.Priority(0), activity.StartToClose(0), activity.Capabilities("ssd", "gpu"),
		activity.HeartbeatTimeout(time.Nanosecond)))
	d, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got := flowgraph.Of(d.Internal()).Node("plain").Options; !reflect.DeepEqual(got, activityspec.OptionsOf(a.Internal())) {
		t.Errorf("plain: %+v", got)
	}
	want := activityspec.Options{Retry: activityspec.DefaultRetry(), Lane: "b", HeartbeatTimeout: time.Millisecond, Capabilities: []string{"gpu", "ssd"}}
	if got := flowgraph.Of(d.Internal()).Node("own").Options; !reflect.DeepEqual(got, want) {
		t.Errorf("own: %+v", got)
	}
	if flowgraph.Of(d.Internal()).Node("none") != nil || plain.Name() != "plain" || f.Input().Name() != "" || (flow.Ref[int]{}).Name() != "" {
		t.Error("names")
	}
}

func TestPicturesEscape(t *testing.T) {
	t.Parallel()
	g := &flowgraph.Graph{
		Name: `a"\`, InputType: `map[string]<"x">&#`, OutputType: "`", Return: "n",
		Nodes: []flowgraph.Node{{Name: "n", Activity: "x\ny", Input: flowgraph.Expr{Kind: flowgraph.ExprInput}, Upstreams: []flowgraph.Edge{{Node: "nobody"}}}},
	}
	golden(t, "escaped.txt", g.Mermaid()+"\n"+g.DOT())
	golden(t, "escaped.svg", g.SVG(nil, flowgraph.Drawing{}))
}

func TestOutlineOfManyUpstreams(t *testing.T) {
	t.Parallel()
	f := flow.New[string, none]("f")
	var all []flow.Ref[string]
	for i := range 6 {
		all = append(all, flow.Node(f, fmt.Sprint(i), ident2, f.Input()))
	}
	flow.Node(f, "end", sink[[]string]("l"), flow.List(all...))
	d, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(d.Outline(), "<- 0, 1, 2, 3 and 2 more\n") {
		t.Error(d.Outline())
	}
}

var ident2 = ident[string]("str")
