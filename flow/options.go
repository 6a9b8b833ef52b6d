package flow

import (
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Option changes a flow: Deadline, Retention, Budget, Describe, Tag, Priority, FairBy and WithCodec.
type Option interface {
	applyFlow(*builder)
}

// NodeOption changes a node: After, AfterEach, OnFailure, Always, AfterAny, AfterQuorum, CancelRemaining, LetRun and Tag; those of
// maps; and every activity.ExecutionOption, such as activity.Retry or activity.Lane, which replaces what the activity says.
type NodeOption interface {
	// NodeOption marks the options of nodes, of this package and of package activity. There are no others.
	NodeOption(activityspec.Mark)
}

// nodeSetting is a NodeOption of this package.
type nodeSetting interface {
	applyNode(*builder, *nodeSettings)
}

// nodeSettings is a node under declaration.
type nodeSettings struct {
	spec  *flowgraph.Node
	order []orderedRef
	joins []joinDraft
	// remaining tells that an option says what becomes of the rest of a join.
	remaining bool
}

// orderedRef is an upstream that is waited for without taking its result.
type orderedRef struct {
	kind  flowgraph.EdgeKind
	ref   Upstream
	index int // among those of its kind
}

type flowOption func(*builder)

func (o flowOption) applyFlow(b *builder) { o(b) }

type nodeOption func(*builder, *nodeSettings)

func (o nodeOption) applyNode(b *builder, n *nodeSettings) { o(b, n) }

// NodeOption marks an option of nodes.
func (nodeOption) NodeOption(activityspec.Mark) {}

// Deadline limits a run, from its start to its end. When it passes, what is unfinished expires. The default is 0, no
// limit. Fractions of a millisecond count as a whole one, here and in all other options.
func Deadline(limit time.Duration) Option {
	return flowOption(func(b *builder) { b.graph.Deadline = activityspec.Milliseconds(limit) })
}

// Describe says in words what the flow does, in at most 4,096 bytes. It does not change the hash.
func Describe(text string) Option {
	return flowOption(func(b *builder) { b.graph.Description = text })
}

// WithCodec replaces JSON as the encoding of the flow's input and result. A node that takes the flow's input as it is,
// and the node whose result the flow returns, must be of activities with the same codec.
func WithCodec(c activity.Codec) Option {
	return flowOption(func(b *builder) {
		if c == nil {
			b.faults.Add("", "codec", flowgraph.ErrOption, "codec is nil")
			return
		}
		b.codec, b.graph.Codec = c, c.Name()
	})
}

// TagOption is what Tag returns: it is good for flows and for nodes.
type TagOption struct{ key, value string }

// Tag attaches a text to a flow or a node, for searching. The key is a lower-case letter, then a-z, 0-9 and '_', then
// '.', then at least one more character, the first of which is not '.': "team.name". Key and value have at most 128 and 1,024 bytes
// of UTF-8 without control characters, a flow or a node at most 64 tags. Of two tags with one key the later counts. Tags of the flow
// are not tags of its nodes.
func Tag(key, value string) TagOption { return TagOption{key: key, value: value} }

// NodeOption marks an option of nodes.
func (TagOption) NodeOption(activityspec.Mark) {}

// WaitpointOption marks an option of waitpoints.
func (TagOption) WaitpointOption(activityspec.Mark) {}

func (t TagOption) applyFlow(b *builder) { b.graph.Tags = withTag(b.graph.Tags, t) }

func (t TagOption) applyNode(_ *builder, n *nodeSettings) { n.spec.Tags = withTag(n.spec.Tags, t) }

func withTag(tags map[string]string, t TagOption) map[string]string {
	if tags == nil {
		tags = make(map[string]string)
	}
	tags[t.key] = t.value
	return tags
}

// OrderOption makes edges without data. After, AfterEach, OnFailure and Always return it; it is good for nodes and for
// waitpoints.
type OrderOption struct {
	kind flowgraph.EdgeKind
	refs []Upstream
}

// NodeOption marks an option of nodes.
func (OrderOption) NodeOption(activityspec.Mark) {}

// WaitpointOption marks an option of waitpoints.
func (OrderOption) WaitpointOption(activityspec.Mark) {}

func (o OrderOption) applyNode(_ *builder, n *nodeSettings) { n.addOrder(o) }

func (n *nodeSettings) addOrder(o OrderOption) {
	index := 0
	for _, before := range n.order {
		if before.kind == o.kind {
			index++
		}
	}
	for i, ref := range o.refs {
		n.order = append(n.order, orderedRef{o.kind, ref, index + i})
	}
}

// After lets the node start only when the given nodes have succeeded, without taking their results. Nodes whose
// results are bound are waited for anyway.
func After(refs ...Upstream) OrderOption { return OrderOption{flowgraph.SuccessOnly, refs} }

// AfterEach is After for a slice of references of one type.
func AfterEach[T any](refs []Ref[T]) OrderOption {
	return OrderOption{flowgraph.SuccessOnly, upstreams(refs)}
}

// OnFailure lets the node start only when each of the given nodes has failed, expired or been cancelled; it is skipped
// when one of them succeeds or is skipped. It is for compensation. The run counts as failed all the same.
func OnFailure(refs ...Upstream) OrderOption { return OrderOption{flowgraph.OnFailureOnly, refs} }

// Always lets the node start when the given nodes have ended, however: also when they were skipped. It is for cleanup.
// Nothing starts in a run that was cancelled or exceeded its deadline, cleanup neither.
func Always(refs ...Upstream) OrderOption { return OrderOption{flowgraph.AnyOutcome, refs} }

func upstreams[T any](refs []Ref[T]) []Upstream {
	list := make([]Upstream, len(refs))
	for i, ref := range refs {
		list[i] = ref
	}
	return list
}

// Priority is the priority of all nodes of the flow that have none of their own (activity.Priority), in place of their activities':
// 0 to activity.MaxPriority, higher first. It orders what waits in a lane. A run's can be changed with SetPriority of package
// runtime.
func Priority(p int) Option {
	return flowOption(func(b *builder) { b.priority = &p })
}

// FairBy makes runs share a lane fairly by a value of their input: FairBy("tenant", "id") is the field id of the field
// tenant. While nodes of several values wait in a lane, the values take turns, one claim each, in every partition, however
// many nodes each of them has; priorities count among the nodes of one value. Nodes of flows without FairBy take turns as if
// they had one value in common. The input must be JSON and the value a text, a number or a boolean of at most 256 bytes:
// Build checks what the type of the input says of it, the start of a run the rest.
func FairBy(path ...string) Option {
	return flowOption(func(b *builder) {
		if len(path) == 0 {
			b.faults.Add("", "fair_by", flowgraph.ErrOption, "it names no field")
		}
		b.graph.FairBy = slices.Clone(path)
	})
}
