package flow_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/flow"
)

// line is the place of the call, some lines below.
func line(below int) string {
	_, _, at, _ := runtime.Caller(1)
	return fmt.Sprintf("place_test.go:%d", at+below)
}

// A fault names the file and the line where its node was declared, and a name that is used twice both lines.
func TestFaultsHavePlaces(t *testing.T) {
	t.Parallel()
	str := ident[string]("str")
	begun := line(1)
	f := flow.New[string, string]("f")
	first := line(1)
	a := flow.Node(f, "a", str, f.Input())
	second := line(1)
	flow.Node(f, "a", str, a)
	third := line(1)
	flow.Waitpoint[string](f, "w", nil)
	_, err := f.Build()
	places := map[string]string{}
	for _, fault := range flow.Faults(err) {
		places[fault.Node+" "+fault.Path] = fault.Place
	}
	require.Equal(t, map[string]string{
		"a name": first + ", " + second, "w ": third, " return": begun,
	}, places)
	require.ErrorContains(t, err, `flow "f": node "a": name: name is used twice: by nodes 1 and 2 (`+first+", "+second+")")
}

// A node that needs both branches of a condition is a fault, by its edges or by the edges of its upstreams.
func TestNodesThatNeverRun(t *testing.T) {
	t.Parallel()
	str, list := ident[string]("str"), ident[[]string]("list")
	type builder = *flow.Builder[string, none]
	for name, tc := range map[string]struct {
		declare func(f builder, long flow.Condition)
		want    []string
	}{
		"results of both branches": {func(f builder, long flow.Condition) {
			a, b := flow.Node(f, "a", str, f.Input(), long), flow.Node(f, "b", str, f.Input(), long.Not())
			both := flow.Node(f, "both", list, flow.List(a, b))
			flow.Node(f, "later", list, both)
		}, []string{`flow "f": node "both": upstreams: bad edge: the node never runs: it needs node "a", which runs only when ` +
			`condition "long" is true, and it needs node "b", which runs only when condition "long" is false; flow.AnyOf takes the result of the branch that runs, flow.OrElse a constant without it`}},
		"far from the condition": {func(f builder, long flow.Condition) {
			a, b := flow.Node(f, "a", str, f.Input(), long), flow.Node(f, "b", str, f.Input(), long.Not())
			for i := range 3 {
				a, b = flow.Node(f, fmt.Sprint("a", i), str, a), flow.Node(f, fmt.Sprint("b", i), str, b)
			}
			flow.Node(f, "both", str, f.Input(), flow.After(a, b))
		}, []string{`flow "f": node "both": upstreams: bad edge: the node never runs: it needs node "a2", which runs only when ` +
			`condition "long" is true, and it needs node "b2", which runs only when condition "long" is false; flow.AnyOf takes the result of the branch that runs, flow.OrElse a constant without it`}},
		"a case and an upstream of the other": {func(f builder, long flow.Condition) {
			b := flow.Node(f, "b", str, f.Input(), long.Not())
			flow.Node(f, "both", str, b, long)
		}, []string{`flow "f": node "both": upstreams: bad edge: the node never runs: it needs node "b", which runs only when condition "long" is false, ` +
			`and its condition "long" must be true; flow.AnyOf takes the result of the branch that runs, flow.OrElse a constant without it`}},
		"cases of a switch": {func(f builder, long flow.Condition) {
			flow.Node(f, "a", str, f.Input(), long)
			kind := flow.Switch(f.Input(), "kind", func(s string) string { return s }, "image", "video")
			image := flow.Node(f, "image", str, f.Input(), kind.Case("image"))
			video := flow.Node(f, "video", str, f.Input(), kind.Case("video"))
			flow.Node(f, "film", list, flow.Quorum(2, image, video))
		}, []string{`flow "f": node "film": upstreams: bad edge: the node never runs: it needs node "image", which runs only when ` +
			`condition "kind" is "image", and it needs node "video", which runs only when condition "kind" is "video"; flow.AnyOf takes the result of the branch that runs, flow.OrElse a constant without it`}},
		"any of the branches": {func(f builder, long flow.Condition) {
			a, b := flow.Node(f, "a", str, f.Input(), long), flow.Node(f, "b", str, f.Input(), long.Not())
			either := flow.Node(f, "either", str, flow.AnyOf(a, b))
			flow.Node(f, "with", str, f.Input(), flow.After(either, a))
			flow.Node(f, "clean", str, f.Input(), flow.Always(a, b))
			flow.Node(f, "one", list, flow.Quorum(1, a, b))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := flow.New[string, none]("f")
			tc.declare(f, flow.When(f.Input(), "long", func(s string) bool { return len(s) > 3 }))
			_, err := f.Build()
			var found []string
			for _, fault := range flow.Faults(err) {
				fault.Place = ""
				found = append(found, fault.Error())
			}
			require.Equal(t, tc.want, found)
		})
	}
}

type private struct{ size int }

// Types whose values JSON would lose are faults of the flow.
func TestTypesOfFlows(t *testing.T) {
	t.Parallel()
	f := flow.New[private, func()]("f")
	flow.Return(f, flow.Waitpoint[func()](f, "w"))
	_, err := f.Build()
	require.ErrorContains(t, err, `flow "f": node "w": payload: bad type: type func() has no JSON form (place_test.go:`)
	require.ErrorContains(t, err, `flow "f": input: bad type: type flow_test.private has no JSON field, all of it would be lost: export its fields (place_test.go:`)
	require.ErrorContains(t, err, `flow "f": result: bad type: type func() has no JSON form (place_test.go:`)
	_ = private{}.size
}
