package flow_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

type delivery struct {
	Slot struct {
		At   time.Time  `json:"at"`
		Late *time.Time `json:"late,omitempty"`
		Any  any        `json:"any"`
	} `json:"slot"`
	Name string `json:"name"`
}

// timers is a flow with each kind of timer.
func timers(t testing.TB) *flow.Definition[delivery, delivery] {
	t.Helper()
	f := flow.New[delivery, delivery]("timers")
	plan := flow.Node(f, "plan", ident[delivery]("plan"), f.Input())
	other := flow.Node(f, "other", ident[delivery]("plan-b"), f.Input())
	when := flow.Node(f, "when", ident[time.Time]("when"), flow.Const(time.Unix(0, 0).UTC()))
	first := flow.Sleep(f, "first", 90*time.Minute, flow.Tag("team.name", "web"))
	flow.Sleep(f, "then", time.Nanosecond, flow.After(first), flow.OnFailure(plan))
	flow.Until(f, "slot", flow.TimeIn(plan, "slot", "at"), flow.After(first))
	flow.Until(f, "late", flow.TimeIn(f.Input(), "slot", "late"))
	flow.Until(f, "any", flow.TimeIn(flow.AnyOf(plan, other), "slot", "any"), flow.LetRun())
	flow.Until(f, "result", when)
	flow.Until(f, "fixed", flow.Const(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)))
	flow.Return(f, plan)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func TestTimersGolden(t *testing.T) {
	t.Parallel()
	def := timers(t)
	data, err := flowgraph.Of(def.Internal()).MarshalJSON()
	require.NoError(t, err)
	golden(t, "timers.json", string(indentedJSON(t, data)))
	goldenViews(t, "timers", def)
	again, err := flowgraph.ParseGraph(data)
	require.NoError(t, err)
	require.Equal(t, def.Hash(), again.Hash())
	back, err := again.MarshalJSON()
	require.NoError(t, err)
	require.JSONEq(t, string(data), string(back))
	require.Equal(t, time.Millisecond, again.Node("then").Wait.Timeout)
	clone := again.Clone()
	clone.Node("slot").Wait.Timer.Path[0] = "x"
	require.Equal(t, "slot", again.Node("slot").Wait.Timer.Path[0])
}

func TestTimerFaults(t *testing.T) {
	t.Parallel()
	type builder = flow.Builder[delivery, struct{}]
	other := flow.New[delivery, struct{}]("other")
	for _, x := range []struct {
		name, want string
		kind       error
		declare    func(*builder)
	}{
		{"negative", "duration -1s is not positive", flowgraph.ErrTimer, func(f *builder) { flow.Sleep(f, "x", -time.Second) }},
		{"none", "duration 0s is not positive", flowgraph.ErrTimer, func(f *builder) { flow.Sleep(f, "x", 0) }},
		{"long", "the limit is 87600h0m0s", flowgraph.ErrTimer, func(f *builder) { flow.Sleep(f, "x", 11*365*24*time.Hour) }},
		{"nil option", "option 1 is nil", flowgraph.ErrOption, func(f *builder) { flow.Sleep(f, "x", time.Second, nil) }},
		{"name", "", flowgraph.ErrName, func(f *builder) { flow.Sleep(f, "x y", time.Second) }},
		{"nil time", "", flowgraph.ErrNilBinding, func(f *builder) { flow.Until(f, "x", nil) }},
		{"nil in", "", flowgraph.ErrNilBinding, func(f *builder) { flow.Until(f, "x", flow.TimeIn[delivery](nil, "slot")) }},
		{"no field", `"slot.to": `, flowgraph.ErrUnknownField, func(f *builder) { flow.Until(f, "x", flow.TimeIn(f.Input(), "slot", "to")) }},
		{"text", `"name": string is not a time.Time`, flowgraph.ErrUnknownField, func(f *builder) { flow.Until(f, "x", flow.TimeIn(f.Input(), "name")) }},
		{"no path", "names no field", flowgraph.ErrTimer, func(f *builder) { flow.Until(f, "x", flow.TimeIn(f.Input())) }},
		{"constant", "takes a field of the flow's input", flowgraph.ErrTimer, func(f *builder) { flow.Until(f, "x", flow.TimeIn(flow.Const(delivery{}), "slot", "at")) }},
		{"foreign", "belongs to another builder", flowgraph.ErrForeignRef, func(f *builder) { flow.Until(f, "x", flow.TimeIn(other.Input(), "slot", "at")) }},
		{"elsewhere", "flow.TimeIn is for flow.Until only", flowgraph.ErrTimer, func(f *builder) {
			flow.Node(f, "x", ident[time.Time]("when"), flow.TimeIn(f.Input(), "slot", "at"))
		}},
		{"composed", "takes its time from the flow's input", flowgraph.ErrTimer, func(f *builder) {
			flow.Until(f, "x", flow.TimeIn(flow.Struct[delivery](flow.Field("name", flow.Const("n")), flow.Field("slot", flow.Const(delivery{}.Slot))), "slot", "at"))
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			f := flow.New[delivery, struct{}]("faulty")
			x.declare(f)
			_, err := f.Build()
			require.ErrorIs(t, err, x.kind)
			require.ErrorContains(t, err, x.want)
		})
	}
	for _, stored := range []string{
		`{"count":1,"timer":{"until":false}}`, `{"count":2,"timeout_ms":5,"on_timeout":"resume","timer":{"until":false}}`,
		`{"count":1,"timeout_ms":5,"on_timeout":"fail","timer":{"until":false}}`, `{"count":1,"timeout_ms":5,"on_timeout":"resume","timer":{"until":true}}`,
		`{"count":1,"timeout_ms":5,"on_timeout":"resume","signals":["a"],"timer":{"until":false}}`, `{"count":1,"timer":{"until":true,"path":[""]}}`,
		`{"count":1,"timeout_ms":5,"on_timeout":"resume","timer":{"until":false,"path":["a"]}}`,
	} {
		input := ""
		if strings.Contains(stored, `"until":true`) {
			input = `,"input":{"input":true}`
		}
		_, err := flowgraph.ParseGraph([]byte(`{"version":1,"name":"f","nodes":[{"name":"x","wait":` + stored + input + `}]}`))
		require.ErrorIs(t, err, flowgraph.ErrTimer, stored)
	}
	_, err := flowgraph.ParseGraph([]byte(`{"version":1,"name":"f","nodes":[{"name":"x","wait":{"count":1,"timer":{"until":true}}}]}`))
	require.Error(t, err, "without an input")
}

// indentedJSON lays out JSON for a golden file.
func indentedJSON(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Indent(&b, data, "", "  "))
	return append(b.Bytes(), '\n')
}
