package flow

import (
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
)

// Option changes a flow: Deadline, Retention, Budget, Describe, Tag, Priority, FairBy and WithCodec.
type Option interface {
	applyFlow(*builder)
}

// NodeOption changes a node: After, AfterAll, OnFailure, Always, AfterAny, AfterQuorum, CancelRemaining, LetRun, Retry,
// StartToClose, HeartbeatTimeout, ScheduleToStart, Lane, Priority, Requires, KeepFrames, Limit and Tag. The activity's
// options apply where the node sets none.
type NodeOption interface {
	applyNode(*builder, *nodeSettings)
}

// nodeSettings is a node under declaration.
type nodeSettings struct {
	spec  *NodeSpec
	order []orderedRef
	joins []joinDraft
	// remaining reports that an option sets the effect on the remaining upstreams of a join.
	remaining bool
}

// orderedRef is an upstream that is waited for without taking its result.
type orderedRef struct {
	kind  EdgeKind
	ref   Upstream
	index int // among those of its kind
}

type flowOption func(*builder)

func (o flowOption) applyFlow(b *builder) { o(b) }

type nodeOption func(*builder, *nodeSettings)

func (o nodeOption) applyNode(b *builder, n *nodeSettings) { o(b, n) }

// Deadline limits a run, from its start to its end. After it, unfinished nodes and the run expire. The default is 0, no
// limit. This and all other options round fractions of a millisecond up.
func Deadline(limit time.Duration) Option {
	return flowOption(func(b *builder) { b.graph.Deadline = activity.Milliseconds(limit) })
}

// Describe sets a description of the flow, of at most MaxDescription bytes. It does not change the hash.
func Describe(text string) Option {
	return flowOption(func(b *builder) { b.graph.Description = text })
}

// WithCodec replaces JSON as the encoding of the flow's input and result. A node that takes the flow's input as it is,
// and the node whose result the flow returns, must be of activities with the same codec.
func WithCodec(c activity.Codec) Option {
	return flowOption(func(b *builder) {
		if c == nil {
			b.faults.add("", "codec", ErrOption, "codec is nil")
			return
		}
		b.codec, b.graph.Codec = c, c.Name()
	})
}

// TagOption is the result of Tag, an option of flows and of nodes.
type TagOption struct{ key, value string }

// Tag attaches a text to a flow or a node, for searching. The key is a lower-case letter, then a-z, 0-9 and '_', then
// '.', then at least one more character, the first of which is not '.': "team.name". Key and value have at most
// MaxTagKey and MaxTagValue bytes of UTF-8 without control characters, a flow or a node at most MaxTags tags. Of two
// tags with one key the later applies. Tags of the flow are not tags of its nodes.
func Tag(key, value string) TagOption { return TagOption{key: key, value: value} }

func (t TagOption) applyFlow(b *builder) { b.graph.Tags = withTag(b.graph.Tags, t) }

func (t TagOption) applyNode(_ *builder, n *nodeSettings) { n.spec.Tags = withTag(n.spec.Tags, t) }

func withTag(tags map[string]string, t TagOption) map[string]string {
	if tags == nil {
		tags = make(map[string]string)
	}
	tags[t.key] = t.value
	return tags
}

// OrderOption creates edges without data. After, AfterAll, OnFailure and Always return it; it is an option of nodes and
// of waitpoints.
type OrderOption struct {
	kind EdgeKind
	refs []Upstream
}

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

// After lets the node start only when the given nodes have succeeded, without using their results. Nodes whose results
// are bound are upstreams anyway.
func After(refs ...Upstream) OrderOption { return OrderOption{SuccessOnly, refs} }

// AfterAll is like After for a slice of references of one type.
func AfterAll[T any](refs []Ref[T]) OrderOption { return OrderOption{SuccessOnly, upstreams(refs)} }

// OnFailure lets the node start only when each of the given nodes has failed, expired or been cancelled; it is skipped
// when one of them succeeds or is skipped. Use it for compensation. The run still counts as failed.
func OnFailure(refs ...Upstream) OrderOption { return OrderOption{OnFailureOnly, refs} }

// Always lets the node start when the given nodes have ended in any way, including skipped. Use it for cleanup. In a
// run that was cancelled or exceeded its deadline nothing starts, including cleanup.
func Always(refs ...Upstream) OrderOption { return OrderOption{AnyOutcome, refs} }

func upstreams[T any](refs []Ref[T]) []Upstream {
	list := make([]Upstream, len(refs))
	for i, ref := range refs {
		list[i] = ref
	}
	return list
}

// Retry replaces the activity's retry policy for this node.
func Retry(policy activity.RetryPolicy) NodeOption {
	return nodeOption(func(b *builder, n *nodeSettings) {
		if policy == nil {
			b.faults.add(n.spec.Name, "retry", ErrOption, "retry policy is nil")
			return
		}
		n.spec.Retry = policy.Plan()
	})
}

// StartToClose replaces the activity's limit of one attempt for this node; 0 is no limit.
func StartToClose(limit time.Duration) NodeOption {
	return nodeOption(func(_ *builder, n *nodeSettings) { n.spec.StartToClose = activity.Milliseconds(limit) })
}

// HeartbeatTimeout replaces the activity's limit between two heartbeats for this node; 0 is no limit.
func HeartbeatTimeout(limit time.Duration) NodeOption {
	return nodeOption(func(_ *builder, n *nodeSettings) { n.spec.HeartbeatTimeout = activity.Milliseconds(limit) })
}

// ScheduleToStart replaces the activity's limit of waiting for a worker for this node; 0 is no limit. After it, the
// node fails without a retry.
func ScheduleToStart(limit time.Duration) NodeOption {
	return nodeOption(func(_ *builder, n *nodeSettings) { n.spec.ScheduleToStart = activity.Milliseconds(limit) })
}

// Lane replaces the activity's lane for this node.
func Lane(name string) NodeOption {
	return nodeOption(func(_ *builder, n *nodeSettings) { n.spec.Lane = name })
}

// PriorityOption is the result of Priority, an option of flows and of nodes.
type PriorityOption struct{ priority int }

// Priority replaces the activities' priority for a node, or for all nodes of a flow that have none of their own, 0 to
// activity.MaxPriority, higher first. It orders the eligible nodes of a lane. To prevent starvation, every eighth claim
// from a lane of a partition with waiting priorities takes the node that was created first. SetPriority of package
// runtime changes the priority of a run.
func Priority(p int) PriorityOption { return PriorityOption{priority: p} }

func (p PriorityOption) applyFlow(b *builder) { b.priority = &p.priority }

func (p PriorityOption) applyNode(_ *builder, n *nodeSettings) { n.spec.Priority = p.priority }

// FairBy makes runs share a lane fairly by a value of their input: FairBy("tenant", "id") is the field id of the field
// tenant. While nodes of several values wait in a lane, the values take turns, one claim each, in every partition,
// however many nodes each of them has; priorities count among the nodes of one value. Nodes of flows without FairBy
// take turns as if they had one value in common. The input must be JSON and the value a string, a number or a boolean
// of at most 256 bytes: Build checks the type of the input, and the start of a run checks the value.
func FairBy(path ...string) Option {
	return flowOption(func(b *builder) {
		if len(path) == 0 {
			b.faults.add("", "fair_by", ErrOption, "it names no field")
		}
		b.graph.FairBy = slices.Clone(path)
	})
}

// Requires adds to the capabilities that the activity asks of a worker.
func Requires(capabilities ...string) NodeOption {
	return nodeOption(func(_ *builder, n *nodeSettings) {
		n.spec.Capabilities = append(n.spec.Capabilities, capabilities...)
	})
}

// Limit adds a limit to those of the activity, which bounds how many executions that share it start within a time or
// run at a time; one with the same name and key replaces the activity's. See activity.Limit.
func Limit(name string, opts ...activity.LimitOption) NodeOption {
	return nodeOption(func(_ *builder, n *nodeSettings) { n.spec.SetLimit(activity.NewLimit(name, opts...)) })
}

// KeepFrames replaces the number of frames kept for each attempt; 0 is about 10,000.
func KeepFrames(n int) NodeOption {
	return nodeOption(func(_ *builder, s *nodeSettings) { s.spec.KeepFrames = n })
}
