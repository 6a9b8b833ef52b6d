package flowgraph

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// CompactJSON removes white space from data, which must be one JSON value, and does not change it otherwise: the
// caller may have signed its bytes.
func CompactJSON(data []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// ParseGraph parses the output of MarshalJSON and validates it. Its error matches ErrSyntax for invalid JSON and
// unknown fields, and ErrVersion if another version of this package wrote the graph; otherwise it is the error of
// Validate.
func ParseGraph(data []byte) (*Graph, error) {
	g, err := readGraph(data)
	if err != nil {
		return nil, err
	}
	if err := g.Validate(); err != nil {
		return nil, err
	}
	return g, nil
}

// Parsed is a graph that Graphs has parsed, with the places of its nodes by their names, from 0 on. Readers share it,
// so it must not be changed.
type Parsed struct {
	Graph  *Graph
	Places map[string]int
}

// Node returns the node with a name, or nil.
func (p *Parsed) Node(name string) *Node {
	if place, known := p.Places[name]; known {
		return &p.Graph.Nodes[place]
	}
	return nil
}

// Graphs keeps the graphs that were parsed last, so that those who read runs of the same graph parse it once. The zero
// value is empty. It is safe for concurrent use.
type Graphs struct {
	mu    sync.Mutex
	last  []keptGraph // the one that was asked for last comes last
	bytes int         // of all of them, as they are stored
}

type keptGraph struct {
	sum   [sha256.Size]byte
	bytes int
	parse func() (*Parsed, error)
}

// Bounds of Graphs. One graph is kept however large it is.
const (
	keptGraphs     = 64
	keptGraphBytes = 8 << 20
)

// Parse parses a graph as ParseGraph does, unless it is there.
func (s *Graphs) Parse(data []byte) (*Parsed, error) {
	return s.kept(data).parse()
}

// kept returns the graph of the data, as the last one of those that are kept.
func (s *Graphs) kept(data []byte) keptGraph {
	g := keptGraph{sum: sha256.Sum256(data), bytes: len(data)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.IndexFunc(s.last, func(k keptGraph) bool { return k.sum == g.sum }); at >= 0 {
		g = s.last[at]
		s.last = append(slices.Delete(s.last, at, at+1), g)
		return g
	}
	g.parse = sync.OnceValues(func() (*Parsed, error) { return parseGraph(data) })
	s.last, s.bytes = append(s.last, g), s.bytes+g.bytes
	for len(s.last) > keptGraphs || s.bytes > keptGraphBytes && len(s.last) > 1 {
		s.bytes -= s.last[0].bytes
		s.last = slices.Delete(s.last, 0, 1)
	}
	return g
}

func parseGraph(data []byte) (*Parsed, error) {
	graph, err := ParseGraph(data)
	if err != nil {
		return nil, err
	}
	p := &Parsed{graph, make(map[string]int, len(graph.Nodes))}
	for i := range graph.Nodes {
		p.Places[graph.Nodes[i].Name] = i
	}
	return p, nil
}

// UnmarshalJSON implements json.Unmarshaler by ParseGraph.
func (g *Graph) UnmarshalJSON(data []byte) error {
	parsed, err := ParseGraph(data)
	if err != nil {
		return err
	}
	*g = *parsed
	return nil
}

// The stored form. Names and meaning of the fields belong to graphVersion.
type storedGraph struct {
	Version     int               `json:"version"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	InputType   string            `json:"input_type"`
	OutputType  string            `json:"output_type"`
	Codec       string            `json:"codec"`
	DeadlineMS  int64             `json:"deadline_ms"`
	KeepMS      *storedKeep       `json:"keep_ms"`
	FairBy      []string          `json:"fair_by"`
	Budgets     []storedBudget    `json:"budgets"`
	Tags        map[string]string `json:"tags"`
	Depth       int               `json:"depth"`
	DepthLimit  int               `json:"depth_limit"`
	Return      string            `json:"return"`
	Nodes       []storedNode      `json:"nodes"`
}

type storedNode struct {
	Name               string            `json:"name"`
	Activity           string            `json:"activity"`
	Codec              string            `json:"codec"`
	Lane               string            `json:"lane"`
	Priority           int               `json:"priority"`
	Capabilities       []string          `json:"capabilities"`
	StartToCloseMS     int64             `json:"start_to_close_ms"`
	HeartbeatTimeoutMS int64             `json:"heartbeat_timeout_ms"`
	ScheduleToStartMS  int64             `json:"schedule_to_start_ms"`
	KeepFrames         int               `json:"keep_frames"`
	LostWorkers        int               `json:"lost_workers"`
	Limits             []storedLimit     `json:"limits"`
	Retry              *storedPlan       `json:"retry"`
	RetryRules         *storedRules      `json:"retry_rules"`
	Tags               map[string]string `json:"tags"`
	Input              *storedExpr       `json:"input"`
	After              []string          `json:"after"`
	OnFailure          []string          `json:"on_failure"`
	Always             []string          `json:"always"`
	Wait               *storedWait       `json:"wait"`
	Map                *storedMap        `json:"map"`
	Sub                *storedGraph      `json:"sub"`
	Condition          *storedCondition  `json:"condition"`
	When               []storedBranch    `json:"when"`
	Finally            *storedFinally    `json:"finally"`
	SubOf              string            `json:"sub_of"`
	Loop               *storedLoop       `json:"loop"`
	Expand             *storedExpand     `json:"expand"`
	Join               *storedJoin       `json:"join"`
}

type storedLimit struct {
	Name    string   `json:"name"`
	AtMost  int      `json:"at_most"`
	PerMS   int64    `json:"per_ms"`
	AtOnce  int      `json:"at_once"`
	KeyFrom []string `json:"key_from"`
}

type storedWait struct {
	Count     int      `json:"count"`
	Type      string   `json:"type"`
	Signals   []string `json:"signals"`
	All       bool     `json:"all"`
	Distinct  bool     `json:"distinct"`
	Decisive  []string `json:"decisive"`
	Collect   bool     `json:"collect"`
	Approval  bool     `json:"approval"`
	TimeoutMS int64    `json:"timeout_ms"`
	OnTimeout string   `json:"on_timeout"`

	Timer *storedTimer `json:"timer"`

	Title        string   `json:"title"`
	Question     string   `json:"question"`
	Audience     []string `json:"audience"`
	AnswerSchema string   `json:"answer_schema"`
	// PayloadSchema is the schema of the type of the payload, for programs without that type.
	PayloadSchema string `json:"payload_schema"`
}

type storedPlan struct {
	Attempts       int     `json:"attempts"`
	FirstMS        int64   `json:"first_ms"`
	MaxMS          int64   `json:"max_ms"`
	Factor         float64 `json:"factor"`
	JitterPermille int     `json:"jitter_permille"`
}

type storedRules struct {
	Only     []string `json:"only"`
	Except   []string `json:"except"`
	WithinMS int64    `json:"within_ms"`
}

// storedExpr has exactly one of its fields.
type storedExpr struct {
	Input  bool                   `json:"input"`
	Const  json.RawMessage        `json:"const"`
	Data   *[]byte                `json:"data"`
	Node   *string                `json:"node"`
	List   *[]storedExpr          `json:"list"`
	Struct *map[string]storedExpr `json:"struct"`
	First  *[]string              `json:"first"`
	Some   *[]string              `json:"some"`
	Failed *[]string              `json:"failure"`
	OrElse *storedOrElse          `json:"or_else"`
}

func readGraph(data []byte) (*Graph, error) {
	var stored storedGraph
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(&stored)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("data after the graph")
		}
	}
	if err != nil {
		// Unknown fields may be fields of another version: then the version is the fault.
		var head struct{ Version int }
		if json.Unmarshal(data, &head) != nil || head.Version == graphVersion {
			return nil, &Fault{Flow: stored.Name, Kind: ErrSyntax, Cause: err}
		}
		stored.Version = head.Version
	}
	if stored.Version != graphVersion {
		return nil, &Fault{
			Flow: stored.Name, Kind: ErrVersion,
			Detail: fmt.Sprintf("%d; this program reads %d", stored.Version, graphVersion),
		}
	}
	r := reader{faults: FaultList{Flow: stored.Name}}
	g := r.graph(&stored)
	if err := r.faults.Err(); err != nil {
		return nil, err
	}
	return g, nil
}

// reader turns the stored form into a Graph.
type reader struct {
	faults FaultList
	node   string
}

func (r *reader) graph(s *storedGraph) *Graph {
	g := &Graph{
		Name: s.Name, Description: s.Description, InputType: s.InputType, OutputType: s.OutputType,
		Codec: orElse(s.Codec, StoredCodec), Deadline: r.duration("deadline_ms", s.DeadlineMS), Tags: noEmpty(s.Tags),
		Return: s.Return, Depth: s.Depth, DepthLimit: s.DepthLimit,
		Keep: r.keep(s.KeepMS), FairBy: s.FairBy, Budgets: r.budgets(s.Budgets), Nodes: make([]Node, len(s.Nodes)),
	}
	for i := range s.Nodes {
		r.spec(&g.Nodes[i], &s.Nodes[i])
	}
	g.SettleFinally()
	r.shareSubs(g, s.Nodes)
	return g
}

func (r *reader) spec(n *Node, s *storedNode) {
	r.node = s.Name
	*n = Node{
		Name: s.Name, Activity: s.Activity, Codec: orElse(s.Codec, StoredCodec), Tags: noEmpty(s.Tags),
		Options: activityspec.Options{
			Retry:            r.retry(s.Retry),
			RetryRules:       r.retryRules(s.RetryRules),
			StartToClose:     r.duration("start_to_close_ms", s.StartToCloseMS),
			HeartbeatTimeout: r.duration("heartbeat_timeout_ms", s.HeartbeatTimeoutMS),
			ScheduleToStart:  r.duration("schedule_to_start_ms", s.ScheduleToStartMS),
			Lane:             orElse(s.Lane, storedLane),
			Priority:         s.Priority,
			KeepFrames:       s.KeepFrames,
			LostWorkers:      s.LostWorkers,
		},
	}
	if len(s.Capabilities) > 0 {
		n.Capabilities = s.Capabilities
	}
	for _, l := range s.Limits {
		n.Limits = append(n.Limits, activityspec.Limit{
			Name: l.Name, AtMost: l.AtMost, Per: r.duration("limits.per_ms", l.PerMS), AtOnce: l.AtOnce,
			KeyFrom: l.KeyFrom,
		})
	}
	n.Wait, n.Map = r.wait(s.Wait), s.Map.spec()
	n.Loop, n.Expand = s.Loop.spec(), s.Expand.spec()
	r.sub(n, s.Sub)
	switch {
	case s.Input != nil && !n.HasInput():
		r.faults.Add(r.node, "input", ErrSyntax, "a waitpoint has none")
	case s.Input != nil:
		n.Input = r.expr(s.Input, &Position{Name: "input"}, n.Codec)
	case n.HasInput():
		n.Input = r.expr(&storedExpr{}, &Position{Name: "input"}, n.Codec)
	}
	n.Upstreams = DataEdges(n.Input)
	for i, names := range [][]string{s.After, s.OnFailure, s.Always} {
		for _, name := range names {
			n.Upstreams = append(n.Upstreams, Edge{Node: name, Kind: OrderKinds[i]})
		}
	}
	n.Upstreams = append(n.Upstreams, branchEdges(s.When)...)
	n.Condition = s.Condition.condition()
	n.Join = s.Join.join()
	n.Finally = r.finally(s.Finally)
	if n.Finally != nil && (len(n.Upstreams) > 0 || s.Join != nil) {
		r.faults.Add(r.node, "finally", ErrSyntax, "the node has no edges and no join of its own")
	}
}

// sub reads the flow that a node runs. How deep flows are nested is checked by Validate.
func (r *reader) sub(n *Node, s *storedGraph) {
	if s == nil {
		return
	}
	if s.Version != graphVersion {
		r.faults.Add(r.node, "sub", ErrVersion, "%d; this program reads %d", s.Version, graphVersion)
		return
	}
	inner := reader{faults: FaultList{Flow: s.Name}}
	n.Sub = inner.graph(s)
	if err := inner.faults.Err(); err != nil {
		r.faults.Cause(r.node, "sub", ErrSyntax, err)
	}
}

func (r *reader) wait(s *storedWait) *WaitSpec {
	if s == nil {
		return nil
	}
	text := activityspec.WaitText{Title: s.Title, Question: s.Question, Audience: s.Audience}
	if s.AnswerSchema != "" {
		text.AnswerSchema = json.RawMessage(s.AnswerSchema)
	}
	if s.PayloadSchema != "" {
		text.PayloadSchema = json.RawMessage(s.PayloadSchema)
	}
	return &WaitSpec{
		Wait: activityspec.Wait{
			WaitText: text,
			Signals:  s.Signals, All: s.All, Count: s.Count, Distinct: s.Distinct, Decisive: s.Decisive,
			Timeout: r.duration("wait.timeout_ms", s.TimeoutMS), OnTimeout: activityspec.TimeoutBehavior(s.OnTimeout),
		},
		Collect: s.Collect, Approval: s.Approval, Type: s.Type, Timer: s.Timer.spec(),
	}
}

func (r *reader) retry(s *storedPlan) activityspec.RetryPlan {
	if s == nil {
		return storedRetry()
	}
	return activityspec.RetryPlan{
		Attempts: s.Attempts, Factor: s.Factor, JitterPermille: s.JitterPermille,
		First: r.duration("retry.first_ms", s.FirstMS), Max: r.duration("retry.max_ms", s.MaxMS),
	}
}

func (r *reader) retryRules(s *storedRules) activityspec.RetryRules {
	if s == nil {
		return activityspec.RetryRules{}
	}
	return activityspec.RetryRules{
		Only: s.Only, Except: s.Except, Within: r.duration("retry_rules.within_ms", s.WithinMS),
	}
}

func (r *reader) expr(s *storedExpr, at *Position, codec string) Expr {
	if s.forms() != 1 {
		r.faults.Add(r.node, at.String(), ErrSyntax,
			"wants exactly one of input, const, data, node, list, struct, first, some, failure and or_else")
		return Expr{}
	}
	switch {
	case s.Input:
		return Expr{Kind: ExprInput}
	case s.Node != nil:
		return Expr{Kind: ExprNode, Node: *s.Node}
	case s.First != nil:
		return sourcesOf(ExprFirst, *s.First)
	case s.Some != nil:
		return sourcesOf(ExprSome, *s.Some)
	case s.Failed != nil:
		return Expr{Kind: ExprFailure, Nodes: *s.Failed}
	case s.OrElse != nil:
		return r.orElse(s.OrElse, at)
	case s.List != nil:
		items := make([]Expr, len(*s.List))
		for i := range *s.List {
			items[i] = r.expr(&(*s.List)[i], at.Item(i), codec)
		}
		return Expr{Kind: ExprList, Items: items}
	case s.Struct != nil:
		fields := make([]ExprField, 0, len(*s.Struct))
		for name, inner := range *s.Struct {
			fields = append(fields, ExprField{Name: name, Value: r.expr(&inner, at.Field(name), codec)})
		}
		slices.SortFunc(fields, func(a, b ExprField) int { return strings.Compare(a.Name, b.Name) })
		return Expr{Kind: ExprStruct, Fields: fields}
	default:
		return Expr{Kind: ExprConst, Value: r.constant(s, at, codec)}
	}
}

// storedOrElse is the stored form of an ExprOrElse.
type storedOrElse struct {
	Node  string          `json:"node"`
	Const json.RawMessage `json:"const"`
}

func (r *reader) orElse(s *storedOrElse, at *Position) Expr {
	value, err := CompactJSON(s.Const)
	if err != nil {
		r.faults.Cause(r.node, at.String(), ErrConst, err)
	}
	return Expr{Kind: ExprOrElse, Node: s.Node, Value: value}
}

// constant returns the value of "const", which is for the codec JSON, or "data", which is for all others.
func (r *reader) constant(s *storedExpr, at *Position, codec string) []byte {
	if (s.Data == nil) != (codec == StoredCodec) {
		r.faults.Add(r.node, at.String(), ErrSyntax, "const is for the codec json, data for all others; this one is %s",
			codec)
		return nil
	}
	if s.Data != nil {
		return *s.Data
	}
	value, err := CompactJSON(s.Const)
	if err != nil {
		r.faults.Cause(r.node, at.String(), ErrConst, err)
	}
	return value
}

func (s *storedExpr) forms() int {
	count := 0
	for _, given := range []bool{s.Input, s.Const != nil, s.Data != nil, s.Node != nil, s.List != nil, s.Struct != nil,
		s.First != nil, s.Some != nil, s.Failed != nil, s.OrElse != nil} {
		if given {
			count++
		}
	}
	return count
}

func (r *reader) duration(path string, ms int64) time.Duration {
	const limit = math.MaxInt64 / int64(time.Millisecond)
	if ms > limit || ms < -limit {
		r.faults.Add(r.node, path, ErrOption, "%d ms is too long to count", ms)
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

func orElse(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

func noEmpty(tags map[string]string) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	return tags
}
