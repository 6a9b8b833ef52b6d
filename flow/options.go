package flow

import (
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Option configures a flow: Deadline, Retention, Budget, Describe, Tag, Priority, FairBy and WithCodec.
type Option interface {
	applyFlow(*builder)
}

// NodeOption configures a node: After, AfterEach, OnFailure, OnAnyFailure, Always, Finally, AfterAny, AfterQuorum,
// LetRun and Tag; conditions made by When, and the cases of a Switch; the options of maps; and every
// activity.ExecutionOption, such as activity.Retry or activity.Lane, which replaces the activity's.
type NodeOption interface {
	// NodeOption marks the options of nodes. Only this package and package activity have such options.
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
}

// orderedRef is an upstream that is waited for without taking its result.
type orderedRef struct {
	kind  flowgraph.EdgeKind
	ref   Upstream
	index int // among the options of its kind
	// branch is the case of a condition, of kind WhenCase.
	branch string
}

type flowOption func(*builder)

func (o flowOption) applyFlow(b *builder) { o(b) }

type nodeOption func(*builder, *nodeSettings)

func (o nodeOption) applyNode(b *builder, n *nodeSettings) { o(b, n) }

// NodeOption marks an option of nodes.
func (nodeOption) NodeOption(activityspec.Mark) {}

// Deadline limits a run, from its start to its end. After it, unfinished nodes and the run expire. The default is 0, no
// limit. This and all other options round fractions of a millisecond up.
func Deadline(limit time.Duration) Option {
	return flowOption(func(b *builder) { b.graph.Deadline = activityspec.Milliseconds(limit) })
}

// Describe sets a description of the flow, of at most 4,096 bytes. It does not change the hash.
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

// TagOption is the result of Tag, an option of flows and of nodes.
type TagOption struct{ key, value string }

// Tag attaches a text to a flow or a node, for searching. The key is a lower-case letter, then a-z, 0-9 and '_', then
// '.', then at least one more character, the first of which is not '.': "team.name". Key and value have at most 128 and
// 1,024 bytes of UTF-8 without control characters, a flow or a node at most 64 tags. Of two tags with one key the later
// applies. Tags of the flow are not tags of its nodes.
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

// OrderOption creates edges without data. After, AfterEach, OnFailure and Always return it; it is an option of nodes
// and of waitpoints.
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
		n.order = append(n.order, orderedRef{kind: o.kind, ref: ref, index: index + i})
	}
}

// After lets the node start only when the given nodes have succeeded, without using their results. Nodes whose results
// are bound are upstreams anyway.
func After(refs ...Upstream) OrderOption { return OrderOption{flowgraph.SuccessOnly, refs} }

// AfterEach is like After for a slice of references of one type.
func AfterEach[T any](refs []Ref[T]) OrderOption {
	return OrderOption{flowgraph.SuccessOnly, upstreams(refs)}
}

// OnFailure lets the node start only when each of the given nodes has failed, expired or been cancelled; it is skipped
// when one of them succeeds or is skipped. Use it for compensation. The run still counts as failed.
func OnFailure(refs ...Upstream) OrderOption { return OrderOption{flowgraph.OnFailureOnly, refs} }

// Always lets the node start when the given nodes have ended in any way, including skipped. Use it for cleanup. In a
// run that was cancelled or exceeded its deadline nothing starts, except nodes with Finally.
func Always(refs ...Upstream) OrderOption { return OrderOption{flowgraph.AnyOutcome, refs} }

func upstreams[T any](refs []Ref[T]) []Upstream {
	list := make([]Upstream, len(refs))
	for i, ref := range refs {
		list[i] = ref
	}
	return list
}

// Priority replaces the activities' priority for all nodes of the flow without a priority (activity.Priority), 0 to
// 9,000, higher first. It orders the eligible nodes of a lane. SetPriority of package runtime changes
// the priority of a run.
func Priority(p int) Option {
	return flowOption(func(b *builder) { b.priority = &p })
}

// FairBy makes runs share a lane fairly by a value of their input: FairBy("tenant", "id") is the field id of the field
// tenant. While nodes of several values wait in a lane, the values take turns, one claim each, in every partition,
// however many nodes each of them has; priorities count among the nodes of one value. Nodes of flows without FairBy
// take turns as if they had one value in common. The input must be JSON and the value a string, a number or a boolean
// of at most 256 bytes: Build checks the type of the input, and the start of a run checks the value.
func FairBy(path ...string) Option {
	return flowOption(func(b *builder) {
		if len(path) == 0 {
			b.faults.Add("", "fair_by", flowgraph.ErrOption, "it names no field")
		}
		b.graph.FairBy = slices.Clone(path)
	})
}
