package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand" //nolint:depguard // its Zipf has the name of another type
	randv2 "math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

type none = struct{}

// ident is an activity that takes and returns a T.
func ident[T any](name string, opts ...activity.Option) *activity.Activity[T, T] {
	return activity.New(name, func(_ context.Context, v T) (T, error) { return v, nil }, opts...)
}

// sink is an activity that takes a T.
func sink[T any](name string, opts ...activity.Option) *activity.Activity[T, none] {
	return activity.New(name, func(context.Context, T) (none, error) { return none{}, nil }, opts...)
}

// rawCodec encodes strings as their bytes.
type rawCodec struct{}

func (rawCodec) Name() string                 { return "raw" }
func (rawCodec) Encode(v any) ([]byte, error) { return []byte(v.(string)), nil }
func (rawCodec) Decode(b []byte, v any) error { *v.(*string) = string(b); return nil }

type shape struct {
	Name  string          `json:"name"`
	Size  int             `json:"size,omitempty"`
	Next  *shape          `json:"next"`
	Any   any             `json:"any,omitempty"`
	Raw   json.RawMessage `json:"raw,omitempty"`
	Text  int             `json:"text,string,omitempty"`
	Items []string        `json:"items,omitempty"`
}

// withoutPlaces is the text of an error of Build without the places of its faults.
func withoutPlaces(err error) string {
	return regexp.MustCompile(`(?m) \(\w+\.go:\d+(, \w+\.go:\d+)*\)$`).ReplaceAllString(err.Error(), "")
}

func TestBuildFaults(t *testing.T) {
	t.Parallel()
	type builder = *flow.Builder[string, none]
	str, obj, raw := ident[string]("str"), sink[shape]("obj"), ident[string]("raw", activity.WithCodec(rawCodec{}))
	other := flow.New[string, none]("other")
	foreign := flow.Node(other, "theirs", str, other.Input())
	good := flow.Field("name", flow.Const("x"))
	next := flow.Field("next", flow.Const(&shape{}))
	fields := func(f ...flow.FieldBinding) func(builder) {
		return func(b builder) { flow.Node(b, "n", obj, flow.Struct[shape](f...)) }
	}
	option := func(o flow.NodeOption) func(builder) {
		return func(b builder) { flow.Node(b, "n", str, b.Input(), o) }
	}
	for name, tc := range map[string]struct {
		declare func(builder)
		kind    error
		want    string // the whole fault after `flow "f": `
	}{
		"empty":           {func(builder) {}, flowgraph.ErrEmptyFlow, `flow has no nodes`},
		"name":            {func(b builder) { flow.Node(b, "a b", str, b.Input()) }, flowgraph.ErrName, `node "a b": name: bad name: name "a b" has the character ' '; allowed are A-Z a-z 0-9 . _ -`},
		"nil activity":    {func(b builder) { flow.Node[string, string](b, "n", nil, b.Input()) }, flowgraph.ErrNilActivity, `node "n": activity is nil`},
		"bad activity":    {func(b builder) { flow.Node(b, "n", ident[string](""), b.Input()) }, activity.ErrInvalid, `node "n": activity is not usable: invalid activity "": name: name is empty; it has 1 to 128 characters out of A-Z a-z 0-9 . _ -`},
		"bad kind":        {func(b builder) { flow.Node(b, "n", ident[string](""), b.Input()) }, flowgraph.ErrInvalidActivity, ``},
		"nil input":       {func(b builder) { flow.Node(b, "n", str, nil) }, flowgraph.ErrNilBinding, `node "n": input: input binding is nil`},
		"zero ref":        {func(b builder) { flow.Node(b, "n", str, flow.Ref[string]{}) }, flowgraph.ErrForeignRef, `node "n": input: reference does not belong to this flow: it is the zero Ref, which belongs to none`},
		"foreign ref":     {func(b builder) { flow.Node(b, "n", str, foreign) }, flowgraph.ErrForeignRef, `node "n": input: reference does not belong to this flow: it belongs to another builder, of flow "other"`},
		"foreign input":   {func(b builder) { flow.Node(b, "n", str, other.Input()) }, flowgraph.ErrForeignRef, ``},
		"foreign in list": {func(b builder) { flow.Node(b, "n", ident[[]string]("l"), flow.List(b.Input(), foreign)) }, flowgraph.ErrForeignRef, `node "n": input[1]: reference does not belong to this flow: it belongs to another builder, of flow "other"`},
		"foreign after":   {option(flow.After(foreign)), flowgraph.ErrForeignRef, `node "n": after[0]: reference does not belong to this flow: it belongs to another builder, of flow "other"`},
		"nil after":       {option(flow.After(nil)), flowgraph.ErrForeignRef, `node "n": after[0]: reference does not belong to this flow: reference is nil`},
		"zero after":      {option(flow.AfterEach([]flow.Ref[int]{{}})), flowgraph.ErrForeignRef, ``},
		"after input":     {func(b builder) { flow.Node(b, "n", str, b.Input(), flow.After(b.Input())) }, flowgraph.ErrEdge, `node "n": after[0]: bad edge: the flow's input is there from the start; it cannot be waited for`},
		"two activities": {func(b builder) {
			flow.Node(b, "m", str, b.Input())
			flow.Node(b, "n", ident[int]("str"), flow.Const(1))
		}, flowgraph.ErrInvalidActivity, `node "n": activity is not usable: another activity of this flow is named "str" too`},
		"const":       {func(b builder) { flow.Node(b, "n", ident[float64]("x"), flow.Const(math.NaN())) }, flowgraph.ErrConst, `node "n": input: bad constant: json: unsupported value: NaN`},
		"large const": {func(b builder) { flow.Node(b, "n", str, flow.Const(strings.Repeat("x", flowgraph.MaxConst-1))) }, flowgraph.ErrLimit, `node "n": input: limit exceeded: constant of 1048577 bytes, the limit is 1048576`},

		"no such field": {fields(good, next, flow.Field("nom", flow.Const(1))), flowgraph.ErrUnknownField, `node "n": input.nom: no such field: flow_test.shape has no JSON field "nom"; it has "name", "size", "next", "any", "raw", "text", "items"`},
		"go name":       {fields(good, next, flow.Field("Name", flow.Const(1))), flowgraph.ErrUnknownField, ``},
		"missing field": {fields(), flowgraph.ErrMissingField, `node "n": input.name: field is not bound: flow_test.shape needs it: it is neither a pointer nor tagged omitempty or omitzero`},
		"field twice":   {fields(good, good), flowgraph.ErrDuplicateField, `node "n": input.name: field is bound twice`},
		"nil field":     {fields(flow.Field("name", nil)), flowgraph.ErrNilBinding, `node "n": input.name: input binding is nil`},
		"field type":    {fields(flow.Field("name", flow.Const(1))), flowgraph.ErrTypeMismatch, `node "n": input.name: type mismatch: field "name" of flow_test.shape is string, the binding is int`},
		"field value":   {fields(good, flow.Field("next", flow.Const(shape{Any: math.Inf(1)}))), flowgraph.ErrConst, `node "n": input.next: bad constant: json: unsupported value: +Inf`},
		"quoted":        {fields(good, flow.Field("text", flow.Const(1))), flowgraph.ErrTypeMismatch, `node "n": input.text: type mismatch: field "text" of flow_test.shape is tagged ",string", which bindings do not honour`},
		"list type":     {fields(good, flow.Field("items", flow.List[int]())), flowgraph.ErrTypeMismatch, `node "n": input.items: type mismatch: field "items" of flow_test.shape is []string, the binding is []int`},
		"nested":        {fields(good, flow.Field("next", flow.Struct[*shape](flow.Field("name", flow.Const(true))))), flowgraph.ErrTypeMismatch, `node "n": input.next.name: type mismatch: field "name" of *flow_test.shape is string, the binding is bool`},
		"no struct":     {func(b builder) { flow.Node(b, "n", str, flow.Struct[string]()) }, flowgraph.ErrTypeMismatch, `node "n": input: type mismatch: flow.Struct cannot fill string: it is not a struct`},
		"own JSON":      {func(b builder) { flow.Node(b, "n", ident[time.Time]("t"), flow.Struct[time.Time]()) }, flowgraph.ErrTypeMismatch, `node "n": input: type mismatch: flow.Struct cannot fill time.Time: it has an UnmarshalJSON of its own`},
		"own text":      {func(b builder) { flow.Node(b, "n", ident[textual]("t"), flow.Struct[textual]()) }, flowgraph.ErrTypeMismatch, `node "n": input: type mismatch: flow.Struct cannot fill flow_test.textual: it has an UnmarshalText of its own`},
		"same type name": {func(b builder) {
			flow.Node(b, "n", sink[clash]("c"), flow.Struct[clash](flow.Field("number", flow.Const(randv2.Zipf{}))))
		}, flowgraph.ErrTypeMismatch,
			`node "n": input.number: type mismatch: field "number" of flow_test.clash is math/rand.Zipf, the binding is math/rand/v2.Zipf`},
		"depth": {func(b builder) { flow.Node(b, "n", sink[box]("box"), deep(flowgraph.MaxDepth+1)) }, flowgraph.ErrLimit, ``},

		"codec": {func(b builder) { flow.Node(b, "n", raw, b.Input()) }, flowgraph.ErrCodec, `node "n": input: codecs do not fit: the flow's input is json, activity "raw" takes raw`},
		"codec list": {func(b builder) {
			flow.Node(b, "n", ident[[]string]("rl", activity.WithCodec(rawCodec{})), flow.List[string]())
		}, flowgraph.ErrCodec, `node "n": input: codecs do not fit: a list is composed as json, activity "rl" takes raw`},
		"codec source": {func(b builder) {
			m := flow.Node(b, "m", raw, flow.Const("x"))
			flow.Node(b, "n", sink[[]string]("l"), flow.List(m))
		}, flowgraph.ErrCodec, `node "n": input[0]: codecs do not fit: the result of node "m" is raw; lists and structs are composed of json`},
		"codec node": {func(b builder) { m := flow.Node(b, "m", raw, flow.Const("x")); flow.Node(b, "n", str, m) }, flowgraph.ErrCodec, `node "n": input: codecs do not fit: the result of node "m" is raw, activity "str" takes json`},

		"nil option":   {option(nil), flowgraph.ErrOption, `node "n": bad option: option 1 is nil`},
		"retry":        {option(activity.Retry(activity.RetryPolicy{Attempts: -1})), flowgraph.ErrOption, `node "n": bad option: retry: -1 attempts are outside 1 to 1000000`},
		"timeout":      {option(activity.StartToClose(-1)), flowgraph.ErrOption, `node "n": bad option: start-to-close timeout -1ms is negative`},
		"heartbeat":    {option(activity.HeartbeatTimeout(-1)), flowgraph.ErrOption, `node "n": bad option: heartbeat timeout -1ms is negative`},
		"schedule":     {option(activity.ScheduleToStart(-1)), flowgraph.ErrOption, `node "n": bad option: schedule-to-start timeout -1ms is negative`},
		"lane":         {option(activity.Lane("")), flowgraph.ErrOption, `node "n": bad option: lane "" is 0 bytes long, not 1 to 64`},
		"priority":     {option(activity.Priority(9001)), flowgraph.ErrOption, `node "n": bad option: priority 9001 is outside 0 to 9000`},
		"capabilities": {option(activity.Capabilities("a b")), flowgraph.ErrOption, `node "n": bad option: capability "a b" has a comma, white space or a control character`},
		"tag":          {option(flow.Tag("Team", "x")), flowgraph.ErrTag, `node "n": tags: bad tag: key "Team": it begins with a lower-case letter, goes on with a-z, 0-9 and _, then '.', then something other than '.'`},
		"tag value":    {option(flow.Tag("a.b", strings.Repeat("x", 1025))), flowgraph.ErrLimit, `node "n": tags: limit exceeded: value of "a.b" is 1025 bytes long, the limit is 1024`},
		"tag text":     {option(flow.Tag("a.b", "\xff")), flowgraph.ErrTag, `node "n": tags: bad tag: value "\xff" of "a.b": it is not valid UTF-8`},
		"tag line":     {option(flow.Tag("a.b", "x\ny")), flowgraph.ErrTag, `node "n": tags: bad tag: value "x\ny" of "a.b": it has the control character U+000A`},
		"tag key line": {option(flow.Tag("a.b\u009b", "x")), flowgraph.ErrTag, `node "n": tags: bad tag: key "a.b\u009b": it has the control character U+009B`},
		"tag key":      {option(flow.Tag("a."+strings.Repeat("x", 127), "")), flowgraph.ErrLimit, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := flow.New[string, none]("f")
			tc.declare(f)
			d, err := f.Build()
			if d != nil || !errors.Is(err, tc.kind) {
				t.Fatalf("got %v, want %v", err, tc.kind)
			}
			if tc.want != "" && !strings.Contains("\n"+withoutPlaces(err)+"\n", "\nflow \"f\": "+tc.want+"\n") {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			for _, fault := range flow.Faults(err) {
				if fault.Flow != "f" || fault.Kind == nil {
					t.Errorf("fault %+v", fault)
				}
			}
		})
	}
}

type textual struct{}

func (*textual) UnmarshalText([]byte) error { return nil }

// clash has a field whose type shares its short name with a type of another package.
type clash struct {
	Number rand.Zipf `json:"number"`
}

type box struct {
	In any `json:"in"`
}

// deep is n Structs, each within the next.
func deep(n int) flow.Binding[box] {
	b := flow.Const(box{})
	for range n {
		b = flow.Struct[box](flow.Field("in", b))
	}
	return b
}

func TestFlowFaults(t *testing.T) {
	t.Parallel()
	str := ident[string]("str")
	for name, tc := range map[string]struct {
		build func() error
		kind  error
		want  string
	}{
		"name":        {func() error { return buildOne("f g", str) }, flowgraph.ErrName, `flow "f g": name: bad name: name "f g" has the character ' '; allowed are A-Z a-z 0-9 . _ -`},
		"nil option":  {func() error { return buildOne("f", str, nil) }, flowgraph.ErrOption, `flow "f": bad option: option 1 is nil`},
		"nil codec":   {func() error { return buildOne("f", str, flow.WithCodec(nil)) }, flowgraph.ErrOption, `flow "f": codec: bad option: codec is nil`},
		"codec":       {func() error { return buildOne("f", str, flow.WithCodec(rawCodec{})) }, flowgraph.ErrCodec, `flow "f": return: codecs do not fit: the result of node "n" is json, the flow's is raw`},
		"deadline":    {func() error { return buildOne("f", str, flow.Deadline(-1)) }, flowgraph.ErrOption, `flow "f": deadline: bad option: -1ms is negative`},
		"description": {func() error { return buildOne("f", str, flow.Describe(strings.Repeat("x", 4097))) }, flowgraph.ErrLimit, `flow "f": description: limit exceeded: 4097 bytes, the limit is 4096`},
		"UTF-8":       {func() error { return buildOne("f", str, flow.Describe("\xff")) }, flowgraph.ErrOption, `flow "f": description: bad option: not valid UTF-8`},
		"tag":         {func() error { return buildOne("f", str, flow.Tag("a..b", "")) }, flowgraph.ErrTag, ""},
		"no return": {func() error {
			f := flow.New[string, string]("f")
			flow.Node(f, "n", str, f.Input())
			_, err := f.Build()
			return err
		}, flowgraph.ErrNoReturn, `flow "f": return: flow returns nothing, but has a result type: string; call flow.Return`},
		"two returns": {func() error {
			f := flow.New[string, string]("f")
			n := flow.Node(f, "n", str, f.Input())
			flow.Return(f, n)
			flow.Return(f, n)
			_, err := f.Build()
			return err
		}, flowgraph.ErrReturn, `flow "f": return: bad return: Return is called twice`},
		"input returned": {func() error {
			f := flow.New[string, string]("f")
			flow.Node(f, "n", str, f.Input())
			flow.Return(f, f.Input())
			_, err := f.Build()
			return err
		}, flowgraph.ErrReturn, `flow "f": return: bad return: the flow's input is not a result`},
		"foreign return": {func() error {
			f, g := flow.New[string, string]("f"), flow.New[string, string]("g")
			flow.Node(f, "n", str, f.Input())
			flow.Return(f, flow.Node(g, "n", str, g.Input()))
			_, err := f.Build()
			return err
		}, flowgraph.ErrForeignRef, `flow "f": return: reference does not belong to this flow: it belongs to another builder, of flow "g"`},
		"nil builder": {func() error {
			var f *flow.Builder[string, string]
			n := flow.Node(f, "n", str, f.Input())
			flow.Return(f, n)
			_, err := f.Build()
			return err
		}, flowgraph.ErrEmptyFlow, ""},
		"zero builder": {func() error {
			f := new(flow.Builder[string, string])
			flow.Return(f, flow.Node(f, "n", str, f.Input()))
			_, err := f.Build()
			return err
		}, flowgraph.ErrEmptyFlow, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.build()
			if !errors.Is(err, tc.kind) || tc.want != "" && !strings.Contains("\n"+withoutPlaces(err)+"\n", "\n"+tc.want+"\n") {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

func buildOne(name string, a *activity.Activity[string, string], opts ...flow.Option) error {
	f := flow.New[string, string](name, opts...)
	flow.Return(f, flow.Node(f, "n", a, flow.Const("x")))
	_, err := f.Build()
	return err
}

// A fault is reported once, and one fault does not hide another.
func TestFaultsAreCompleteAndSingle(t *testing.T) {
	t.Parallel()
	f := flow.New[string, string]("f", flow.Deadline(-time.Second))
	broken := flow.Node(f, "broken", ident[string]("", activity.Priority(-1)), flow.Ref[string]{}, activity.Lane(""))
	flow.Node(f, "broken", ident[string]("str"), broken, flow.Tag("x", ""))
	flow.Node[string, string](f, "nil", nil, nil)
	_, err := f.Build()
	got := make(map[string]int)
	for _, fault := range flow.Faults(err) {
		got[fmt.Sprintf("%s %s: %v", fault.Node, fault.Path, fault.Kind)]++
	}
	want := []string{
		" deadline: bad option",
		"broken : activity is not usable",
		"broken input: reference does not belong to this flow",
		"broken : bad option",
		"broken name: name is used twice",
		"broken tags: bad tag",
		"nil : activity is nil",
		"nil input: input binding is nil",
		" return: flow returns nothing, but has a result type",
	}
	for _, key := range want {
		if got[key] != 1 {
			t.Errorf("%q is reported %d times", key, got[key])
		}
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("more faults: %v", got)
	}
}

func TestFaultsOfOtherErrors(t *testing.T) {
	t.Parallel()
	fault := &flow.Fault{Flow: "f", Kind: flowgraph.ErrCycle}
	for _, tc := range []struct {
		err  error
		want int
	}{{nil, 0}, {errors.New("x"), 0}, {fault, 1}, {fmt.Errorf("x: %w", fault), 1}, {errors.Join(errors.New("x"), fault, fmt.Errorf("%w", errors.Join(fault))), 2}} {
		if got := flow.Faults(tc.err); len(got) != tc.want {
			t.Errorf("%v has %d faults", tc.err, len(got))
		}
	}
}
