package contracttest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/internal/test/runsubmit"
)

// twins are two managed runs of one random graph. The nodes of the first run are rows. The nodes of the second are
// records, which calls of the contract have created and added to a run with a single node, the holder. The first run
// has the holder, too. Every call must have the same effect on both runs.
type twins struct {
	*bench
	t       *testing.T
	r       *rand.Rand
	graph   []twinNode
	rows    *twinSide
	records *twinSide
	// held are the latest leases of each node, ended ones included.
	held [][]held
	// waits are the waitpoints of each node: its calls name the last one.
	waits int
	// replayed reports whether a node was run again.
	replayed bool
	done     []string
}

// twinNode is a node and the edges that lead to it.
type twinNode struct {
	name string
	ups  []twinEdge
	join joinRule
	// policy, priority and delay are options of the node.
	policy   string
	priority int64
	delay    time.Duration
}

type twinEdge struct {
	up   int
	kind string
}

// joinRule is the policy of a join; a node without one has the variant "".
type joinRule struct {
	variant, then string
	k             int64
}

// twinSide is one of the two runs. words pairs its ids with neutral names, which replace them in replies.
type twinSide struct {
	flow  enginecore.FlowID
	lane  enginecore.LaneID
	ids   []enginecore.ExecutionID
	wait  []enginecore.WaitpointID
	words []string
}

func (s *twinSide) call(id, word string) { s.words = append(s.words, id, word) }

const holder = "holder"

// drawGraph returns a random graph of a few nodes. It has no nodes that run however the run ends, and none that wait for any
// failure: the contract has no such groups, so that no record can be one.
func drawGraph(r *rand.Rand) []twinNode {
	graph := make([]twinNode, 2+r.IntN(6))
	for i := range graph {
		n := twinNode{name: fmt.Sprintf("n%02d", i), policy: pick(r, "{}", "{}", twinRetries), priority: int64(pick(r, 0, 0, 0, 3))}
		for up := range i {
			if r.IntN(5) < 2 && !isSibling(graph, up) {
				n.ups = append(n.ups, twinEdge{up, pick(r, "success_only", "success_only", "success_only", "on_failure", "always", "unless_failed", "case_1", "case_2")})
			}
		}
		if len(n.ups) > 0 && r.IntN(3) == 0 {
			n.join = joinRule{"quorum", pick(r, cancelRemaining, "let_run"), 1 + r.Int64N(int64(len(n.ups)))}
			if hasCancelling(graph) || isNeeded(graph, n.ups) {
				n.join.then = "let_run"
			}
			if r.IntN(3) == 0 {
				n.join.variant, n.join.k = "any_of", 0
			}
		}
		if r.IntN(8) == 0 {
			n.delay = time.Hour
		}
		graph[i] = n
	}
	return graph
}

const cancelRemaining = "cancel_remaining"

// hasCancelling reports whether a join of the graph cancels unneeded upstreams. A graph has at most one such join: if
// one node resolved edges of two, the order of their cancels would be undefined.
func hasCancelling(graph []twinNode) bool {
	return slices.ContainsFunc(graph, func(n twinNode) bool { return n.join.then == cancelRemaining })
}

// isSibling reports whether a node is an upstream of a join that cancels unneeded upstreams.
func isSibling(graph []twinNode, up int) bool {
	return slices.ContainsFunc(graph, func(n twinNode) bool { return n.join.then == cancelRemaining && n.needs(up) })
}

// isNeeded reports whether an edge leads from one of the upstreams of a join to another node. Whether a join cancels
// such a sibling depends on the order in which the edges are resolved.
func isNeeded(graph []twinNode, siblings []twinEdge) bool {
	for _, s := range siblings {
		if slices.ContainsFunc(graph, func(n twinNode) bool { return n.needs(s.up) }) {
			return true
		}
	}
	return false
}

// inputs is the number of upstreams whose results are inputs.
func (n twinNode) inputs() int64 {
	count := 0
	for _, e := range n.ups {
		if !e.ofCase() {
			count++
		}
	}
	return int64(count)
}

// ofCase reports whether an edge is of a case of a condition; such edges pass no results.
func (e twinEdge) ofCase() bool { return strings.HasPrefix(e.kind, "case_") }

// passes is the name of the input that an edge passes; empty if it passes none.
func (x *twins) passes(e twinEdge) string {
	if e.ofCase() {
		return ""
	}
	return x.graph[e.up].name
}

// decisions are results of conditions.
var decisions = []string{`{"case":"a","number":1}`, `{"case":"b","number":2}`, `{"case":"c","number":3}`}

func (n twinNode) needs(up int) bool {
	return slices.ContainsFunc(n.ups, func(e twinEdge) bool { return e.up == up })
}

const twinRetries = `{"max_reclaim_count":1,"retry_policy":{"max_retries":2,"backoff":{"type":"fixed","delay_ms":1}}}`

func newTwins(t *testing.T, b *bench, seed uint64) *twins {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	x := &twins{bench: b, t: t, r: r, graph: drawGraph(r)}
	x.held = make([][]held, len(x.graph))
	x.rows, x.records = x.submitRows(), x.createRecords()
	for _, s := range []*twinSide{x.rows, x.records} {
		s.wait = make([]enginecore.WaitpointID, len(s.ids))
		s.call(string(s.flow), "flow")
		s.call(string(s.lane), "lane")
		for i, id := range s.ids {
			s.call(string(id), x.graph[i].name)
			s.wait[i] = enginecore.WaitpointID(uuid.NewString())
			s.call(string(s.wait[i]), "first-"+x.graph[i].name)
		}
	}
	return x
}

// submitRows submits the graph as a run.
func (x *twins) submitRows() *twinSide {
	s := &twinSide{lane: enginecore.LaneID("rows-" + uuid.NewString())}
	var nodes []enginerpc.PutGraphNode
	var edges []runsubmit.Edge
	for _, n := range x.graph {
		node := enginerpc.PutGraphNode{
			Name: n.name, Kind: "kind", LaneID: s.lane, Priority: n.priority, Policy: []byte(n.policy), Tags: []byte("{}"),
			InputCount: n.inputs(), Delay: n.delay,
		}
		if n.join.variant != "" {
			node.Join = fmt.Sprintf("%s %s %d", n.join.variant, n.join.then, n.join.k)
		}
		nodes = append(nodes, node)
		for _, e := range n.ups {
			edges = append(edges, runsubmit.Edge{Up: x.graph[e.up].name, Down: n.name, Kind: e.kind, Carries: true})
		}
	}
	run := x.submitRun(append(nodes, holderNode()), edges...)
	s.flow = run.FlowID
	for _, n := range x.graph {
		s.ids = append(s.ids, run.ExecutionID(n.name))
	}
	s.call(string(run.ExecutionID(holder)), holder)
	return s
}

func holderNode() enginerpc.PutGraphNode {
	return enginerpc.PutGraphNode{Name: holder, Kind: "kind", LaneID: holder, Policy: []byte("{}"), Tags: []byte("{}")}
}

// createRecords builds the graph with the contract's calls, in a run that has the holder.
func (x *twins) createRecords() *twinSide {
	run := x.submitRun([]enginerpc.PutGraphNode{holderNode()})
	s := &twinSide{flow: run.FlowID, lane: enginecore.LaneID("recs-" + uuid.NewString())}
	s.call(string(run.ExecutionID(holder)), holder)
	for _, n := range x.graph {
		id := newExecutionID()
		create := enginerpc.CreateExecutionCall{
			ExecutionID: id, Namespace: "ns", LaneID: s.lane, ExecutionKind: "kind", CreatorIdentity: "test", PartitionID: "1",
			Priority: n.priority, PolicyJSON: []byte(n.policy),
		}
		if n.delay > 0 {
			create.DelayUntil = time.Now().Add(n.delay)
		}
		must(x.bench, create)
		must(x.bench, enginerpc.AddExecutionToFlowCall{FlowID: s.flow, ExecutionID: id})
		if n.join.variant != "" {
			must(x.bench, enginerpc.SetEdgeGroupPolicyCall{
				FlowID: s.flow, DownstreamExecutionID: id, PolicyVariant: n.join.variant, OnSatisfied: n.join.then, K: n.join.k,
				ExpectedEdges: int64(len(n.ups)),
			})
			x.do("HSET", x.keys.FlowCore(partition, s.flow), "joins", "1")
		}
		s.ids = append(s.ids, id)
	}
	for down, n := range x.graph {
		for _, e := range n.ups {
			must(x.bench, x.stageCall(s, e, down))
		}
	}
	for down, n := range x.graph {
		for _, e := range n.ups {
			must(x.bench, x.applyCall(s, e, down))
		}
	}
	return s
}

func (x *twins) edge(s *twinSide, e twinEdge, down int) enginecore.EdgeID {
	return keyspace.EdgeIDFor(s.flow, x.graph[e.up].name, x.graph[down].name)
}

func (x *twins) stageCall(s *twinSide, e twinEdge, down int) enginerpc.StageDependencyEdgeCall {
	return enginerpc.StageDependencyEdgeCall{
		FlowID: s.flow, EdgeID: x.edge(s, e, down), UpstreamExecutionID: s.ids[e.up], DownstreamExecutionID: s.ids[down],
		DependencyKind: e.kind, DataPassingRef: x.passes(e),
		ExpectedGraphRevision: atoi(x.flow(s)["graph_revision"]),
	}
}

func (x *twins) applyCall(s *twinSide, e twinEdge, down int) enginerpc.ApplyDependencyToChildCall {
	call := enginerpc.ApplyDependencyToChildCall{
		FlowID: s.flow, EdgeID: x.edge(s, e, down), UpstreamExecutionID: s.ids[e.up], DownstreamExecutionID: s.ids[down],
		LaneID: s.lane, DependencyKind: e.kind, DataPassingRef: x.passes(e),
	}
	if x.graph[down].join.variant != "" {
		call.GroupExecutionID = s.ids[down]
	}
	return call
}

// both makes a call on both sides, compares the replies, and returns the reply.
func (x *twins) both(name string, call func(s *twinSide) wire) string {
	x.t.Helper()
	rows := x.plain(x.rows, x.say(call(x.rows)))
	records := x.plain(x.records, x.say(call(x.records)))
	x.done = append(x.done, name+": "+rows)
	if rows != records {
		x.t.Errorf("%s: rows answer %s, records %s", name, rows, records)
	}
	return rows
}

// plain replaces ids by the names of nodes, and times and ids of stream entries by T: entries of one millisecond are
// numbered by the times of the calls.
func (x *twins) plain(s *twinSide, text string) string {
	if len(text) < len("1763806400000") {
		return text
	}
	text = strings.NewReplacer(s.words...).Replace(text)
	var out strings.Builder
	for at := 0; at < len(text); {
		end := at
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
		switch {
		case end-at == len("1763806400000"):
			out.WriteString("T")
			if end+1 < len(text) && text[end] == '-' && text[end+1] >= '0' && text[end+1] <= '9' {
				for end++; end < len(text) && text[end] >= '0' && text[end] <= '9'; end++ {
				}
			}
		case end > at:
			out.WriteString(text[at:end])
		default:
			end = at + 1
			out.WriteByte(text[at])
		}
		at = end
	}
	return out.String()
}

// TestRowsAndRecordsBehaveAlike makes random calls on runs of random graphs whose nodes are rows, and on runs of the same graphs whose
// nodes are records of the contract. Replies, nodes and runs must be equal on both sides. FLOWFABRIC_SEED repeats a
// pair, FLOWFABRIC_SOAK sets the test's duration on an engine.
func TestRowsAndRecordsBehaveAlike(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.secret()
		for seed := range randseed.Trials(t, 10) {
			compareTwins(t, b, seed)
		}
	})
}

func compareTwins(t *testing.T, b *bench, seed uint64) {
	t.Helper()
	x := newTwins(t, b, seed)
	x.compare()
	for range 10 + x.r.IntN(40) {
		if t.Failed() {
			break
		}
		x.step()
		x.compare()
	}
	if !t.Failed() {
		x.finish()
	}
	if t.Failed() {
		t.Errorf("FLOWFABRIC_SEED=%d: %+v\n%s", seed, x.graph, strings.Join(x.done, "\n"))
	}
}
