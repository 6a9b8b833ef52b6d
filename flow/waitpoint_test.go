package flow_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

type approval struct {
	By string `json:"by"`
}

// deploy is a flow with each kind of wait and edge.
func deploy(t testing.TB) *flow.Definition[string, string] {
	t.Helper()
	f := flow.New[string, string]("deploy")
	build := flow.Node(f, "build", ident[string]("build"), f.Input())
	ok := flow.Waitpoint[approval](f, "approve", flow.After(build), activity.Signals("approve", "reject"),
		activity.AtLeastDistinct(2), activity.Timeout(24*time.Hour, activity.Escalate), flow.Tag("team.name", "web"))
	all := flow.WaitpointSignals[int](f, "votes", flow.AfterEach([]flow.Ref[string]{build}), activity.Signals("a", "b"), activity.MatchAll())
	any1 := flow.Waitpoint[*approval](f, "any", activity.Timeout(time.Minute, activity.ResumeOnTimeout))
	rolled := flow.Node(f, "roll-out", ident[string]("roll"), build, flow.After(ok, all, any1))
	flow.Node(f, "roll-back", ident[string]("back"), build, flow.OnFailure(rolled))
	flow.Node(f, "clean", ident[string]("clean"), build, flow.Always(rolled, ok), activity.KeepFrames(500))
	flow.Node(f, "votes-seen", sink[[]activity.Signal[int]]("seen"), all)
	flow.Return(f, rolled)
	d, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWaitpointGolden(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	data, err := flowgraph.Of(d.Internal()).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "deploy.json", indented.String()+"\n")
	goldenViews(t, "deploy", d)
	again, err := flowgraph.ParseGraph(data)
	if err != nil {
		t.Fatal(err)
	}
	want := flowgraph.Of(d.Internal()).Clone()
	for i := range want.Nodes {
		if want.Nodes[i].Wait != nil {
			want.Nodes[i].Wait.Payload = nil // the Go type is not stored
		}
	}
	if !reflect.DeepEqual(again, want) {
		t.Errorf("got  %+v\nwant %+v", again, want)
	}
	if again.Hash() != d.Hash() {
		t.Error("another hash")
	}
	again.Node("approve").Wait.Signals[0] = "x"
	if flowgraph.Of(d.Internal()).Node("approve").Wait.Signals[0] == "x" || again.Clone().Node("approve").Wait == again.Node("approve").Wait {
		t.Error("copies share the condition of their wait")
	}
}

func TestHashSeesWaitsAndKinds(t *testing.T) {
	t.Parallel()
	base := flowgraph.Of(deploy(t).Internal())
	seen := map[string]string{"": base.Hash()}
	wait := func(change func(w *flowgraph.WaitSpec)) func(*flowgraph.Graph) {
		return func(g *flowgraph.Graph) { change(g.Node("approve").Wait) }
	}
	for name, change := range map[string]func(*flowgraph.Graph){
		"signals":  wait(func(w *flowgraph.WaitSpec) { w.Signals = w.Signals[:1] }),
		"all":      wait(func(w *flowgraph.WaitSpec) { w.All = true }),
		"count":    wait(func(w *flowgraph.WaitSpec) { w.Count++ }),
		"distinct": wait(func(w *flowgraph.WaitSpec) { w.Distinct = false }),
		"decisive": wait(func(w *flowgraph.WaitSpec) { w.Decisive = []string{"stop"} }),
		"timeout":  wait(func(w *flowgraph.WaitSpec) { w.Timeout *= 2 }),
		"then":     wait(func(w *flowgraph.WaitSpec) { w.OnTimeout = activityspec.FailOnTimeout }),
		"collect":  wait(func(w *flowgraph.WaitSpec) { w.Collect = true }),
		"kind":     func(g *flowgraph.Graph) { g.Node("clean").Upstreams[1].Kind = flowgraph.OnFailureOnly },
		"frames":   func(g *flowgraph.Graph) { g.Node("clean").KeepFrames++ },
	} {
		g := base.Clone()
		change(g)
		for other, hash := range seen {
			if g.Hash() == hash {
				t.Errorf("%q has the hash of %q", name, other)
			}
		}
		seen[name] = g.Hash()
	}
	g := base.Clone()
	g.Node("approve").Wait.Type = "x"
	names := g.Node("approve").Wait.Signals
	names[0], names[1] = names[1], names[0]
	if g.Hash() != base.Hash() {
		t.Error("the order of signals or the name of the payload's type changes the hash")
	}
}

func TestWaitpointFaults(t *testing.T) {
	t.Parallel()
	f := flow.New[string, string]("f")
	other := flow.New[string, string]("other")
	alien := flow.Node(other, "alien", ident[string]("str"), other.Input())
	node := flow.Node(f, "node", ident[string]("str"), f.Input())
	flow.Waitpoint[int](f, "bad names", activity.Signals("a b", "x", "x"))
	flow.Waitpoint[int](f, "all-of-none", activity.MatchAll())
	flow.Waitpoint[int](f, "all-and-five", activity.Signals("x"), activity.MatchAll(), activity.AtLeast(5))
	flow.Waitpoint[int](f, "five-and-all", activity.Signals("x"), activity.AtLeast(5), activity.MatchAll())
	flow.Waitpoint[int](f, "huge", activity.AtLeast(1<<30))
	flow.Waitpoint[int](f, "few", activity.AtLeast(0))
	flow.Waitpoint[int](f, "many", activity.AtLeast(600), activity.Signals("a", "b"))
	flow.Waitpoint[int](f, "both", activity.Signals("yes"), activity.Decisive("yes"))
	flow.Waitpoint[int](f, "never", activity.Timeout(0, activity.FailOnTimeout))
	flow.Waitpoint[int](f, "long", activity.Timeout(activityspec.MaxWait+time.Second, "whatever"))
	flow.Waitpoint[int](f, "nil", nil, flow.After(nil), flow.OnFailure(alien, node), flow.Always(node), flow.Always(f.Input()))
	flow.Node(f, "used", ident[string]("str2"), node, flow.OnFailure(node), flow.After(node))
	flow.Return(f, node)
	_, err := f.Build()
	for _, want := range []string{
		`node "bad names": name: bad name`,
		`node "bad names": wait: bad option: signal: name "a b" has the character ' '`,
		`signal "x" is named twice`,
		`node "all-and-five": wait: bad option: all signals are waited for (MatchAll), and also at least 5`,
		`node "five-and-all": wait: bad option: all signals are waited for (MatchAll), and also at least 5`,
		`node "huge": wait: bad option: 1073741824 signals are waited for, the limit is 1024`,
		`node "all-of-none": wait: bad option: all signals are waited for, but none is named`,
		`node "few": wait: bad option: 0 signals are waited for, it must be at least 1`,
		`node "many": wait: bad option: 600 signals of 2 names are waited for, the limit of their product is 1024`,
		`node "both": wait: bad option: signal "yes" is named twice: by Signals and by Decisive`,
		`node "never": wait: bad option: timeout -1ns is not positive`,
		`node "long": wait: bad option: timeout 87600h0m1s, the limit is 87600h0m0s`,
		`unknown behaviour "whatever" after the timeout`,
		`node "nil": bad option: option 1 is nil`,
		`node "nil": after[0]: reference does not belong to this flow: reference is nil`,
		`node "nil": on_failure[0]: reference does not belong to this flow: it belongs to another builder, of flow "other"`,
		`node "nil": always[0]: bad edge: node "node" is waited for as on_failure already`,
		`node "nil": always[1]: bad edge: the flow's input is there from the start`,
		`node "used": on_failure[0]: bad edge: node "node" is waited for as success_only already`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if found := len(flow.Faults(err)); found != 17 {
		t.Errorf("%d faults, not 17:\n%v", found, err)
	}
}

func TestParsedWaitpointFaults(t *testing.T) {
	t.Parallel()
	const form = `{"version":1,"name":"f","nodes":[%]}`
	for node, want := range map[string]string{
		`{"name":"w","wait":{"count":1},"input":{"input":true}}`:                                           `node "w": input: graph is not readable: a waitpoint has none`,
		`{"name":"w","wait":{}}`:                                                                           `0 signals are waited for`,
		`{"name":"w","wait":{"count":1},"activity":"a"}`:                                                   `a waitpoint runs no activity, this one has "a"`,
		`{"name":"w","wait":{"count":1},"codec":"raw"}`:                                                    `the result of a waitpoint is json, not raw`,
		`{"name":"w","wait":{"count":1},"lane":"x"}`:                                                       `a waitpoint has no retry`,
		`{"name":"w","wait":{"count":1},"always":["x"]}`:                                                   `node "w": always: no such node: "x"`,
		`{"name":"w","wait":{"count":1,"timeout_ms":5}}`:                                                   `what happens after the timeout of 5ms is not said`,
		`{"name":"w","wait":{"count":1,"surprise":5}}`:                                                     `unknown field "surprise"`,
		`{"name":"w","wait":{"count":1}},{"name":"v","wait":{"count":1},"after":["w"],"on_failure":["w"]}`: `from "w" twice`,
	} {
		_, err := flowgraph.ParseGraph([]byte(strings.Replace(form, "%", node, 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", node, err)
		}
	}
}

// Options of a node do not fit a waitpoint, which is an error of the compiler.
func TestWaitOptionTypes(t *testing.T) {
	t.Parallel()
	check := typeChecker(t)
	const program = `package main

import (
	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

func declare() {
	f := flow.New[string, string]("f")
	w := flow.Waitpoint[int](f, "w", activity.Signals("a"))
	_ = w
	%
}
`
	for statement, want := range map[string]string{
		`flow.WaitpointSignals[int](f, "x", flow.After(w), flow.Tag("a.b", "c"), flow.Always(w), flow.OnFailure(w))`: "",
		`flow.Waitpoint[int](f, "x", activity.Lane("x"))`:                                                            "flow.WaitOption",
		`var r flow.Ref[string] = w`: "flow.Ref[int]",
		`flow.Return(f, w)`:          "flow.Ref[int]",
	} {
		got := check(strings.Replace(program, "%", statement, 1))
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", statement, got)
		}
	}
}

func TestWaitpointOfNoBuilder(t *testing.T) {
	t.Parallel()
	var none *flow.Builder[string, string]
	if flow.Waitpoint[int](none, "w").Name() != "" || flow.WaitpointSignals[int](none, "w").Name() != "" {
		t.Error("a reference to nothing has a name")
	}
	f := flow.New[string, string]("f")
	flow.Return(f, flow.Node(f, "n", ident[string]("str"), flow.Const("x"), flow.After(flow.Waitpoint[int](none, "w"))))
	if _, err := f.Build(); !errors.Is(err, flowgraph.ErrForeignRef) {
		t.Errorf("got %v", err)
	}
}

func approve(opts ...flow.WaitOption) (*flow.Definition[string, []activity.Signal[activity.Decision]], error) {
	f := flow.New[string, []activity.Signal[activity.Decision]]("release")
	flow.Return(f, flow.Approval(f, "go-live", opts...))
	return f.Build()
}

// The stored form of an approval, which the hash and another program see.
func TestApproval_Stored(t *testing.T) {
	t.Parallel()
	def, err := approve(activity.Approvers(2), activity.Title("Deploy?"), activity.Timeout(time.Hour, activity.Escalate))
	require.NoError(t, err)
	g := flowgraph.Of(def.Internal())
	data, err := g.MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(data), `"signals":["approve"],"distinct":true,"decisive":["reject"],"collect":true,"approval":true,`+
		`"timeout_ms":3600000,"on_timeout":"escalate"`)
	again, err := flowgraph.ParseGraph(data)
	require.NoError(t, err)
	require.True(t, again.Node("go-live").Wait.Approval)
	require.Equal(t, def.Hash(), again.Hash())
	again.Node("go-live").Wait.Approval = false
	require.NotEqual(t, def.Hash(), again.Hash(), "a wait that succeeds with a rejection is another one")
	require.Contains(t, def.Outline(), "waits for 2 approvals of different people, or 1 rejection, escalate after 1h0m0s")

	one, err := approve()
	require.NoError(t, err)
	require.Contains(t, one.Outline(), "waits for 1 approval, or 1 rejection")
}

// Build refuses an approval that could succeed without approvals, or that takes other signals.
func TestApproval_Faults(t *testing.T) {
	t.Parallel()
	for says, opts := range map[string][]flow.WaitOption{
		`takes the signals "approve" and "reject"`: {activity.Signals("ok")},
		"and no other signals":                     {activity.Decisive("veto")},
		"set how many people approve":              {activity.AtLeast(2)},
		"does not succeed with its timeout":        {activity.Timeout(time.Hour, activity.ResumeOnTimeout)},
		"0 signals are waited for":                 {activity.Approvers(0)},
	} {
		_, err := approve(opts...)
		require.ErrorContains(t, err, says)
		require.True(t, strings.Contains(err.Error(), "go-live"), err)
	}
}
