package flowgraph

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// MarshalJSON returns the stored form of the graph, which ParseGraph reads. Fields with default values are omitted.
func (g Graph) MarshalJSON() ([]byte, error) {
	w := writer{buf: make([]byte, 0, g.sizeHint())}
	w.graph(&g)
	return w.buf, nil
}

// Hash returns the hex SHA-256 of everything that affects the behaviour of a run: graphs with equal hashes behave
// alike. The order of nodes, of After and of tags, the description and the names of Go types do not affect it. It is
// the same in every process and is meant for valid graphs.
func (g *Graph) Hash() string {
	w := writer{canonical: true, buf: make([]byte, 0, g.sizeHint())}
	w.graph(g)
	sum := sha256.Sum256(w.buf)
	return hex.EncodeToString(sum[:])
}

func (g *Graph) sizeHint() int { return 256 + 128*len(g.Nodes) }

// The defaults of the stored form. They belong to graphVersion and stay when the defaults of package activity change.
const (
	StoredCodec = "json"
	storedLane  = "default"
)

func storedRetry() activityspec.RetryPlan {
	return activityspec.RetryPlan{Attempts: 5, First: time.Second, Max: time.Minute, Factor: 2, JitterPermille: 100}
}

// writer appends JSON. It is written by hand because it runs for each Build and because the hash depends on its bytes.
type writer struct {
	buf       []byte
	canonical bool // for the hash
}

func (w *writer) graph(g *Graph) {
	w.raw(`{"version":` + strconv.Itoa(graphVersion))
	w.text("name", g.Name)
	if !w.canonical {
		w.optional("description", g.Description, "")
		w.optional("input_type", g.InputType, "")
		w.optional("output_type", g.OutputType, "")
	}
	w.optional("codec", g.Codec, StoredCodec)
	w.duration("deadline_ms", g.Deadline)
	w.keep(g.Keep)
	w.list("fair_by", g.FairBy)
	w.budgets(g.Budgets)
	w.tags(g.Tags)
	w.number("depth", int64(g.Depth))
	w.number("depth_limit", int64(g.DepthLimit))
	w.optional("return", g.Return, "")
	w.raw(`,"nodes":[`)
	for i, node := range w.nodes(g) {
		if i > 0 {
			w.raw(",")
		}
		w.node(node)
	}
	w.raw("]}")
}

// nodes returns the nodes as they are declared, and by name for the hash.
func (w *writer) nodes(g *Graph) []*Node {
	nodes := make([]*Node, len(g.Nodes))
	for i := range g.Nodes {
		nodes[i] = &g.Nodes[i]
	}
	if w.canonical {
		slices.SortStableFunc(nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	}
	return nodes
}

func (w *writer) node(n *Node) {
	w.raw("{")
	w.key("name")
	w.quoted(n.Name)
	switch {
	case n.Wait != nil:
		w.wait(n.Wait)
	case n.Sub == nil, n.Loop != nil:
		w.text("activity", n.Activity)
	}
	w.mapping(n.Map)
	w.sub(n)
	w.growth(n)
	w.condition(n.Condition)
	w.finally(n.Finally)
	w.optional("codec", n.Codec, StoredCodec)
	w.optional("lane", n.Lane, storedLane)
	w.number("priority", int64(n.Priority))
	w.list("capabilities", n.Capabilities)
	w.duration("start_to_close_ms", n.StartToClose)
	w.duration("heartbeat_timeout_ms", n.HeartbeatTimeout)
	w.duration("schedule_to_start_ms", n.ScheduleToStart)
	w.number("keep_frames", int64(n.KeepFrames))
	w.number("lost_workers", int64(n.LostWorkers))
	w.limits(n.Limits)
	w.retry(n.Retry)
	w.retryRules(n.RetryRules)
	w.tags(n.Tags)
	if n.HasInput() {
		w.raw(`,"input":`)
		w.expr(n.Input, n.Codec)
	}
	for _, kind := range OrderKinds {
		if kind != WhenCase && n.Finally == nil {
			w.list(OrderField(kind), w.order(n, kind))
		}
	}
	w.branches(n)
	if n.Finally == nil {
		w.join(n.Join)
	}
	w.raw("}")
}

func (w *writer) wait(s *WaitSpec) {
	w.raw(`,"wait":{`)
	w.key("count")
	w.buf = strconv.AppendInt(w.buf, int64(s.Count), 10)
	names, decisive := s.Signals, s.Decisive
	if w.canonical {
		names, decisive = slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(decisive))
	} else {
		w.optional("type", s.Type, "")
		w.optional("title", s.Title, "")
		w.optional("question", s.Question, "")
		w.list("audience", s.Audience)
		w.optional("answer_schema", string(s.AnswerSchema), "")
		w.optional("payload_schema", string(s.PayloadSchema), "")
	}
	w.list("signals", names)
	w.flag("all", s.All)
	w.flag("distinct", s.Distinct)
	w.list("decisive", decisive)
	w.flag("collect", s.Collect)
	w.flag("approval", s.Approval)
	w.duration("timeout_ms", s.Timeout)
	w.optional("on_timeout", string(s.OnTimeout), "")
	w.timer(s.Timer)
	w.raw("}")
}

// order returns the upstreams of a kind whose results the node does not use; the other edges follow from its input.
func (w *writer) order(n *Node, kind EdgeKind) []string {
	var names []string
	for _, up := range n.Upstreams {
		if !up.Data && up.Kind == kind {
			names = append(names, up.Node)
		}
	}
	if w.canonical {
		slices.Sort(names)
	}
	return names
}

func (w *writer) limits(list []activityspec.Limit) {
	for i, s := range list {
		if i == 0 {
			w.raw(`,"limits":[{`)
		} else {
			w.raw(`,{`)
		}
		w.key("name")
		w.quoted(s.Name)
		w.number("at_most", int64(s.AtMost))
		w.duration("per_ms", s.Per)
		w.number("at_once", int64(s.AtOnce))
		w.list("key_from", s.KeyFrom)
		w.raw("}")
	}
	if len(list) > 0 {
		w.raw("]")
	}
}

func (w *writer) retry(p activityspec.RetryPlan) {
	if p == storedRetry() {
		return
	}
	w.raw(`,"retry":{"attempts":` + strconv.Itoa(p.Attempts))
	w.duration("first_ms", p.First)
	w.duration("max_ms", p.Max)
	if p.Factor != 0 {
		w.raw(`,"factor":`)
		w.buf = strconv.AppendFloat(w.buf, p.Factor, 'g', -1, 64)
	}
	w.number("jitter_permille", int64(p.JitterPermille))
	w.raw("}")
}

func (w *writer) retryRules(r activityspec.RetryRules) {
	if r.IsZero() {
		return
	}
	w.raw(`,"retry_rules":{"within_ms":` + strconv.FormatInt(r.Within.Milliseconds(), 10))
	w.list("only", r.Only)
	w.list("except", r.Except)
	w.raw("}")
}

func (w *writer) expr(e Expr, codec string) {
	switch e.Kind {
	case ExprInput:
		w.raw(`{"input":true}`)
	case ExprConst:
		w.constant(e.Value, codec)
	case ExprNode:
		w.raw(`{"node":`)
		w.quoted(e.Node)
		w.raw("}")
	case ExprList:
		w.raw(`{"list":[`)
		for i, item := range e.Items {
			if i > 0 {
				w.raw(",")
			}
			w.expr(item, codec)
		}
		w.raw("]}")
	case ExprFirst, ExprSome:
		w.sources(e.Kind, e.Items)
	case ExprFailure:
		w.failures(e)
	case ExprOrElse:
		w.orElse(e)
	case ExprStruct:
		w.raw(`{"struct":{`)
		for i, field := range e.Fields {
			if i > 0 {
				w.raw(",")
			}
			w.key(field.Name)
			w.expr(field.Value, codec)
		}
		w.raw("}}")
	default:
		w.raw("{}")
	}
}

func (w *writer) orElse(e Expr) {
	w.raw(`{"or_else":{`)
	w.key("node")
	w.quoted(e.Node)
	w.raw(`,"const":`)
	w.buf = append(w.buf, e.Value...)
	w.raw("}}")
}

func (w *writer) constant(value []byte, codec string) {
	if codec == StoredCodec {
		w.raw(`{"const":`)
		w.buf = append(w.buf, value...)
		w.raw("}")
		return
	}
	w.raw(`{"data":"`)
	w.buf = base64.StdEncoding.AppendEncode(w.buf, value)
	w.raw(`"}`)
}

func (w *writer) tags(tags map[string]string) {
	if len(tags) == 0 {
		return
	}
	w.raw(`,"tags":{`)
	for i, key := range slices.Sorted(maps.Keys(tags)) {
		if i > 0 {
			w.raw(",")
		}
		w.key(key)
		w.quoted(tags[key])
	}
	w.raw("}")
}

func (w *writer) list(key string, values []string) {
	if len(values) == 0 {
		return
	}
	w.raw(",")
	w.key(key)
	w.raw("[")
	for i, v := range values {
		if i > 0 {
			w.raw(",")
		}
		w.quoted(v)
	}
	w.raw("]")
}

func (w *writer) duration(key string, d time.Duration) { w.number(key, d.Milliseconds()) }

func (w *writer) number(key string, n int64) {
	if n == 0 {
		return
	}
	w.raw(",")
	w.key(key)
	w.buf = strconv.AppendInt(w.buf, n, 10)
}

func (w *writer) flag(key string, set bool) {
	if set {
		w.raw(",")
		w.key(key)
		w.raw("true")
	}
}

func (w *writer) optional(key, value, missing string) {
	if value != missing {
		w.text(key, value)
	}
}

func (w *writer) text(key, value string) {
	w.raw(",")
	w.key(key)
	w.quoted(value)
}

func (w *writer) key(key string) {
	w.quoted(key)
	w.raw(":")
}

func (w *writer) quoted(s string) { w.buf = AppendQuoted(w.buf, s) }

func (w *writer) raw(s string) { w.buf = append(w.buf, s...) }

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// AppendQuoted appends s as a JSON string, without the escaping of <, > and &.
func AppendQuoted(dst []byte, s string) []byte {
	if !strings.ContainsFunc(s, needsEscape) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	quoted, _ := activity.JSON{}.Encode(s) // a string always has a JSON form
	return append(dst, quoted...)
}

func needsEscape(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r > '~' }

// EncodeInput returns the stored form of a node's input, as in the JSON form of a Graph. A worker decodes it with
// DecodeInput.
func (n *Node) EncodeInput() json.RawMessage {
	w := writer{}
	w.expr(n.Input, n.Codec)
	return w.buf
}

// DecodeInput decodes the output of EncodeInput for a node with the given codec. Its error matches ErrSyntax or
// ErrConst.
func DecodeInput(data []byte, codec string) (Expr, error) {
	var stored storedExpr
	if err := json.Unmarshal(data, &stored); err != nil {
		return Expr{}, fmt.Errorf("stored input: %w: %w", ErrSyntax, err)
	}
	r := reader{}
	e := r.expr(&stored, &Position{Name: "input"}, codec)
	if err := r.faults.Err(); err != nil {
		return Expr{}, fmt.Errorf("stored input: %w", err)
	}
	return e, nil
}

// StructureHash is the hash of the structure of a graph, which determines the result of a run: its nodes with their
// activities, waits, maps and sub-flows, their edges and joins, their inputs, and codecs. The rest are options: how
// often, how long, when, where and in which order the nodes run, and how long the run is stored. Graphs that differ
// only in options have the same structure.
//
// Everything that withoutOptions does not remove is structure, so new kinds of nodes and edges are.
func (g *Graph) StructureHash() string { return g.Clone().withoutOptions().Hash() }

// withoutOptions sets the options of g to their defaults and returns g.
func (g *Graph) withoutOptions() *Graph {
	g.Description, g.Tags, g.Deadline, g.FairBy, g.Keep, g.Budgets = "", nil, 0, nil, Keep{}, nil
	for i := range g.Nodes {
		n := &g.Nodes[i]
		n.Options, n.Tags = activityspec.DefaultOptions(), nil
		if n.Wait != nil {
			n.Wait.Timeout, n.Wait.OnTimeout, n.Wait.WaitText = 0, "", activityspec.WaitText{}
		}
		if n.Map != nil {
			n.Map.MaxItems, n.Map.AtOnce = 0, 0
		}
		if n.Sub != nil {
			n.Sub.withoutOptions()
		}
	}
	return g
}
