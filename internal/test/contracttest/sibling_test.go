package contracttest

import (
	"maps"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// dispatched performs a keeper's work until nothing is left, and counts the dispositions of upstreams that no join
// needs.
func (b *bench) dispatched(call enginerpc.KeepCall) map[string]int64 {
	b.tb.Helper()
	call.Partition, call.Limit = partition, 64
	counts := make(map[string]int64)
	for {
		reply := must(b, call)
		for _, n := range reply.Siblings {
			counts[n.Disposition] += n.Count
		}
		if !reply.More {
			return counts
		}
	}
}

// TestSiblingDispositions: the dispatcher counts the upstreams of decided joins by their dispositions.
func TestSiblingDispositions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		for disposition, prepare := range map[string]func(d decided){
			"cancelled":        func(decided) {},
			"already_terminal": func(d decided) { b.cancel(d.siblings[0]) },
			"not_found":        func(d decided) { b.do("DEL", b.keys.ExecCore(d.siblings[0])) },
			"needed": func(d decided) {
				other := b.create()
				must(b, enginerpc.AddExecutionToFlowCall{FlowID: d.flow, ExecutionID: other})
				d.stage(b, d.siblings[0], other)
			},
		} {
			d := anyOf(b)
			d.decide()
			prepare(d)
			got := b.dispatched(enginerpc.KeepCall{})
			if want := map[string]int64{disposition: 1}; !maps.Equal(got, want) {
				t.Errorf("siblings are %v, want %v", got, want)
			}
		}
	})
}

// The dispatcher leaves joins alone whose execution is not of its namespace or does not have its tag, and does not come
// back for them at once.
func TestSiblingFilter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		d := anyOf(b, func(c *enginerpc.CreateExecutionCall) {
			c.Namespace, c.TagsJSON = "mine", []byte(`{"instance":"one"}`)
		})
		d.decide()
		for _, call := range []enginerpc.KeepCall{
			{SiblingNamespace: "other"},
			{SiblingTag: "instance", SiblingTagValue: "two"},
			{SiblingTag: "missing", SiblingTagValue: "one"},
			{SiblingNamespace: "mine", SiblingTag: "instance", SiblingTagValue: "two"},
			{SiblingNamespace: "other", SiblingTag: "instance", SiblingTagValue: "one"},
		} {
			if got := b.dispatched(call); len(got) > 0 {
				t.Errorf("%+v: siblings are %v", call, got)
			}
		}
		want(t, "sibling", b.core(d.siblings[0], "lifecycle_phase"), "runnable")
		got := b.dispatched(enginerpc.KeepCall{SiblingNamespace: "mine", SiblingTag: "instance", SiblingTagValue: "one"})
		if want := map[string]int64{"cancelled": 1}; !maps.Equal(got, want) {
			t.Errorf("siblings are %v, want %v", got, want)
		}
		want(t, "sibling", b.core(d.siblings[0], "terminal_outcome"), "cancelled")
	})
}
