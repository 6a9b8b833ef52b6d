package flow_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

type animal string

const (
	cat animal = "cat"
	dog animal = "dog"
)

func isLong(s string) bool { return len(s) > 3 }

func animalOf(s string) animal { return animal(s) }

// branches declares a flow with every form of conditions and of compensation, in two orders.
func branches(t *testing.T, reverse bool) *flow.Definition[string, string] {
	t.Helper()
	str := ident[string]("str", activity.Lane("texts"), activity.Priority(3))
	f := flow.New[string, string]("branches")
	first := flow.Node(f, "first", str, f.Input())
	long := flow.When(first, "long", isLong)
	pet := flow.Switch(f.Input(), "pet", animalOf, cat, dog)
	declare := []func(){
		func() { flow.Node(f, "purr", str, first, long, pet.Case(cat)) },
		func() { flow.Node(f, "bark", str, first, pet.Case(dog), long.Not()) },
		func() { flow.Waitpoint[string](f, "ask", pet.Default()) },
	}
	if reverse {
		declare[0], declare[2] = declare[2], declare[0]
	}
	for _, d := range declare {
		d()
	}
	second := flow.Node(f, "second", str, first)
	undo := ident[flow.Failure]("undo")
	flow.Node(f, "undo", undo, flow.FailureOf(first, second), flow.OnAnyFailure(first, second))
	flow.Node(f, "clean", sink[failed]("clean"), flow.Struct[failed](flow.Field("why", flow.FailureOf(second))), flow.Always(second))
	flow.Node(f, "tidy", undo, flow.FailureOf(second), flow.Finally(time.Minute))
	flow.Return(f, second)
	d, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type failed struct {
	Why flow.Failure `json:"why"`
}

func TestConditionsAreStoredAndDrawn(t *testing.T) {
	t.Parallel()
	d := branches(t, false)
	g := flowgraph.Of(d.Internal())
	data, err := g.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "condition.json", string(data)+"\n")
	goldenViews(t, "condition", d)
	parsed, err := flowgraph.ParseGraph(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := parsed.MarshalJSON()
	if err != nil || string(again) != string(data) {
		t.Errorf("%v: read and written, it is\n%s", err, again)
	}
	if other := branches(t, true); other.Hash() != d.Hash() || parsed.Hash() != d.Hash() {
		t.Errorf("the hash is %s, in another order %s, read back %s", d.Hash(), other.Hash(), parsed.Hash())
	}
	if got := g.Node("long"); got.Lane != "texts" || got.Priority != 3 || got.Activity != "branches.long" {
		t.Errorf("the condition has not the lane and the priority of its upstream: %+v", got)
	}
	if got := g.Node("pet"); got.Lane != "texts" || got.Priority != 0 {
		t.Errorf("the condition on the input has not the lane of the first activity: %+v", got)
	}
	var names []string
	for _, h := range d.Handlers() {
		names = append(names, h.Name())
	}
	if got := strings.Join(names, " "); got != "str branches.long branches.pet undo clean" {
		t.Errorf("the handlers are %s", got)
	}
}

// Every change that affects the behaviour of a run changes the hash.
func TestHashKnowsConditions(t *testing.T) {
	t.Parallel()
	str := ident[string]("str")
	build := func(option func(*flow.Builder[string, none], flow.Condition, flow.Choice[animal]) flow.NodeOption) string {
		f := flow.New[string, none]("f")
		c := flow.When(f.Input(), "c", isLong)
		s := flow.Switch(f.Input(), "s", animalOf, cat, dog)
		flow.Node(f, "keep", str, f.Input(), c, s.Case(cat))
		flow.Node(f, "both", str, f.Input(), c.Not(), s.Case(dog))
		flow.Node(f, "n", str, f.Input(), option(f, c, s))
		d, err := f.Build()
		if err != nil {
			t.Fatal(err)
		}
		return d.Hash()
	}
	type choose = func(*flow.Builder[string, none], flow.Condition, flow.Choice[animal]) flow.NodeOption
	hashes := make(map[string]int)
	for i, option := range []choose{
		func(_ *flow.Builder[string, none], c flow.Condition, _ flow.Choice[animal]) flow.NodeOption { return c },
		func(_ *flow.Builder[string, none], c flow.Condition, _ flow.Choice[animal]) flow.NodeOption {
			return c.Not()
		},
		func(_ *flow.Builder[string, none], _ flow.Condition, s flow.Choice[animal]) flow.NodeOption {
			return s.Case(cat)
		},
		func(_ *flow.Builder[string, none], _ flow.Condition, s flow.Choice[animal]) flow.NodeOption {
			return s.Case(dog)
		},
		func(_ *flow.Builder[string, none], _ flow.Condition, s flow.Choice[animal]) flow.NodeOption {
			return s.Default()
		},
		func(*flow.Builder[string, none], flow.Condition, flow.Choice[animal]) flow.NodeOption {
			return flow.Tag("a.b", "")
		},
	} {
		hash := build(option)
		if before, same := hashes[hash]; same {
			t.Errorf("options %d and %d have one hash", before, i)
		}
		hashes[hash] = i
	}
}

// conditionFaults are declarations with a fault each, by the error of Build.
var conditionFaults = map[string]func(*flow.Builder[string, none]){
	`node "c": condition: bad condition: no node has it`: func(f *flow.Builder[string, none]) {
		flow.When(f.Input(), "c", isLong)
	},
	`node "c": condition: bad condition: its function is nil`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.When[string](f.Input(), "c", nil))
	},
	`node "s": condition: bad condition: no node has its case "dog"`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.Switch(f.Input(), "s", animalOf, cat, dog).Case(cat))
	},
	`node "n": when: bad condition: condition "s" has no case "cow"; it has cat`: func(f *flow.Builder[string, none]) {
		s := flow.Switch(f.Input(), "s", animalOf, cat)
		flow.Node(f, "m", ident[string]("a"), f.Input(), s.Case(cat))
		flow.Node(f, "n", ident[string]("a"), f.Input(), s.Case("cow"))
	},
	`node "s": condition: bad condition: case "cat" is there twice`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.Switch(f.Input(), "s", animalOf, cat, cat).Case(cat))
	},
	`node "s": condition: bad condition: a case cannot have the name "default"`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.Switch(f.Input(), "s", animalOf, "default").Case("default"))
	},
	`node "s": condition: bad name: name "a b" has the character ' '`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.Switch(f.Input(), "s", animalOf, "a b").Case("a b"))
	},
	`node "s": condition: limit exceeded: 32 cases, it must have 1 to 31`: func(f *flow.Builder[string, none]) {
		var cases []animal
		for i := range 32 {
			cases = append(cases, animal(strings.Repeat("x", i+1)))
		}
		s := flow.Switch(f.Input(), "s", animalOf, cases...)
		for i, c := range cases {
			flow.Node(f, "n"+strings.Repeat("n", i), ident[string]("a"), f.Input(), s.Case(c))
		}
	},
	`node "n": when[1]: bad edge: node "c" is waited for as when true already`: func(f *flow.Builder[string, none]) {
		c := flow.When(f.Input(), "c", isLong)
		flow.Node(f, "n", ident[string]("a"), f.Input(), c, c.Not())
	},
	`node "c": name: name is used twice`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.When(f.Input(), "c", isLong), flow.When(f.Input(), "c", isLong))
	},
	`node "c": input: codecs do not fit: the result of node "raw" is raw`: func(f *flow.Builder[string, none]) {
		raw := flow.Node(f, "raw", ident[string]("raw", activity.WithCodec(rawCodec{})), flow.Const("x"))
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.When(raw, "c", isLong))
	},
	`node "n": when[0]: reference does not belong to this flow: it belongs to another builder, of flow "other"`: func(f *flow.Builder[string, none]) {
		other := flow.New[string, none]("other")
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.When(other.Input(), "c", isLong))
	},
	`node "n": when[0]: reference does not belong to this flow: it is the zero Ref`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.When(flow.Ref[string]{}, "c", isLong))
	},
	`node "n": join: bad join: "c" besides the join`: func(f *flow.Builder[string, none]) {
		m := flow.Node(f, "m", ident[string]("a"), f.Input())
		flow.Node(f, "n", ident[string]("a"), flow.AnyOf(m), flow.When(m, "c", isLong))
	},
	`node "n": join: bad join: any failure of no nodes`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.OnAnyFailure())
	},
	`node "n": join: bad join: "m" besides OnAnyFailure`: func(f *flow.Builder[string, none]) {
		m := flow.Node(f, "m", ident[string]("a"), f.Input())
		o := flow.Node(f, "o", ident[string]("a"), f.Input())
		flow.Node(f, "n", ident[string]("a"), m, flow.OnAnyFailure(o))
	},
	`node "n": input[0]: bad edge: the node does not wait for a failure of "m"`: func(f *flow.Builder[string, none]) {
		m := flow.Node(f, "m", ident[string]("a"), f.Input())
		flow.Node(f, "n", sink[flow.Failure]("b"), flow.FailureOf(m), flow.After(m))
	},
	`node "n": input: bad input binding: a failure of no nodes`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "n", sink[flow.Failure]("b"), flow.FailureOf())
	},
	`node "n": finally: bad edge: it runs when all others have ended; it waits for no others`: func(f *flow.Builder[string, none]) {
		m := flow.Node(f, "m", ident[string]("a"), f.Input())
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.Finally(0), flow.After(m))
	},
	`node "n": input: bad edge: it takes the result of "m", which may not be there`: func(f *flow.Builder[string, none]) {
		m := flow.Node(f, "m", ident[string]("a"), f.Input())
		flow.Node(f, "n", ident[string]("a"), m, flow.Finally(0))
	},
	`node "n": finally: bad edge: the flow has no other nodes`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.Finally(0))
	},
	`node "n": finally: bad option: -1s is negative`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "m", ident[string]("a"), f.Input())
		flow.Node(f, "n", ident[string]("a"), f.Input(), flow.Finally(-time.Second))
	},
	`node "n": finally: bad option: only a node that runs an activity`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "m", ident[string]("a"), f.Input())
		flow.Map(f, "n", ident[string]("a"), flow.Const([]string{"x"}), flow.Finally(0))
	},
	`node "m": upstreams: bad edge: "n" runs when all others have ended`: func(f *flow.Builder[string, none]) {
		n := flow.Node(f, "n", ident[string]("a"), f.Input(), flow.Finally(0))
		flow.Node(f, "m", ident[string]("a"), f.Input(), flow.After(n))
	},
	`node "n": input[0]: bad edge: the flow's input cannot fail`: func(f *flow.Builder[string, none]) {
		flow.Node(f, "n", sink[flow.Failure]("b"), flow.FailureOf(f.Input()))
	},
}

func TestFaultsOfConditions(t *testing.T) {
	t.Parallel()
	for says, declare := range conditionFaults {
		f := flow.New[string, none]("f")
		declare(f)
		_, err := f.Build()
		if err == nil || !errors.Is(err, flow.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("Build says\n%v\nmust say\n%s", err, says)
		}
	}
}

// Names of flow and condition make the name of an activity, which must not be too long.
func TestNameOfConditionIsTooLong(t *testing.T) {
	t.Parallel()
	f := flow.New[string, none](strings.Repeat("f", activityspec.MaxName/2))
	flow.Node(f, "n", ident[string]("a"), f.Input(), flow.When(f.Input(), strings.Repeat("c", activityspec.MaxName/2), isLong))
	if _, err := f.Build(); err == nil || !strings.Contains(err.Error(), "is 129 bytes long, the limit is 128") {
		t.Errorf("Build says %v", err)
	}
}

func TestFaultyGraphsWithConditions(t *testing.T) {
	t.Parallel()
	for says, change := range map[string][2]string{
		`"first" is not a condition`:           {`{"node":"long","case":"true"}`, `{"node":"first","case":"true"}`},
		`condition "long" has no default`:      {`{"node":"long","case":"true"}`, `{"node":"long","case":"default"}`},
		`must have 1 to 31`:                    {`"cases":["true","false"]`, `"cases":[]`},
		`kind "when" with case ""`:             {`{"node":"long","case":"true"}`, `{"node":"long","case":""}`},
		`no node has its case "mouse"`:         {`"cases":["cat","dog"]`, `"cases":["cat","dog","mouse"]`},
		`unknown policy "some_failure"`:        {`"policy":"any_failure"`, `"policy":"some_failure"`},
		`lets its upstreams run`:               {`"policy":"any_failure","let_run":true`, `"policy":"any_failure"`},
		`"second": no such node: "nowhere"`:    {`"failure":["second"]`, `"failure":["nowhere"]`},
		`waitpoints and nodes with child runs`: {`"wait":{"count":1`, `"condition":{"cases":["x"]},"wait":{"count":1`},
		`wants exactly one of input, const,`:   {`{"failure":["second"]}`, `{"failure":["second"],"input":true}`},
	} {
		data, err := flowgraph.Of(branches(t, false).Internal()).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(data), change[0], change[1], 1)
		if changed == string(data) {
			t.Errorf("%s is not in %s", change[0], data)
		}
		_, err = flowgraph.ParseGraph([]byte(changed))
		if says, err2 := strings.TrimPrefix(says, `"second": `), err; err2 == nil || !strings.Contains(err2.Error(), says) {
			t.Errorf("ParseGraph says\n%v\nmust say\n%s", err, says)
		}
	}
}
