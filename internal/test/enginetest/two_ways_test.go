package enginetest_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// TestPlainAndFieldwiseCompletionAgree takes two runs of one random graph through the same claims and completions.
// Calls process the rows of the first run as bytes, since it is plain; the second one is not, so they read and write
// its rows field by field. Both runs end with the same rows, results, events and replies. FLOWFABRIC_SEED repeats a
// graph.
func TestPlainAndFieldwiseCompletionAgree(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		if b.Kind == testserver.OnCluster {
			t.Skip("single servers show the same")
		}
		direct := 0
		for seed := range randseed.Trials(t, 25) {
			x := &twoWays{t: t, r: rand.New(rand.NewPCG(seed, 7)), plain: newGraph(t, b), other: newGraph(t, b)}
			t.Logf("FLOWFABRIC_SEED=%d", seed)
			x.submit()
			for x.step() {
				if x.plain.leftHeader() {
					direct++
				}
			}
			b.Check(t, invariant.Quiescent)
		}
		require.Positive(t, direct, "no call has taken rows as they are")
	})
}

// twoWays are two runs of one graph: one that is plain, and one that is not.
type twoWays struct {
	t            *testing.T
	r            *rand.Rand
	plain, other *graph
	names        []string
	count        int64 // the number of executions that a completion claims
	fails        bool  // attempts fail and are repeated
}

func (x *twoWays) sides() []*graph { return []*graph{x.plain, x.other} }

func (x *twoWays) submit() {
	x.other.p = x.plain.p
	for i := range 1 + x.r.IntN(14) {
		x.names = append(x.names, fmt.Sprintf("n%02d", i))
	}
	var edges [][2]string
	for i, down := range x.names {
		for _, up := range x.names[:i] {
			if x.r.IntN(3) == 0 {
				edges = append(edges, [2]string{up, down})
			}
		}
	}
	joins := make(map[string]string)
	if x.r.IntN(2) == 0 {
		joins = x.joins(&edges)
	}
	// A call that completes several nodes and claims fewer than become ready may get others.
	x.count = []int64{0, 100}[x.r.IntN(2)]
	carries, priorities, timeouts := x.r.Uint64(), x.r.IntN(2), x.r.IntN(2)
	x.fails = x.r.IntN(2) == 0
	input := []byte(strings.Repeat("i", []int{0, 1, 1024, 1025}[x.r.IntN(4)]))
	ofFlow := make(map[string]bool)
	for _, name := range x.names {
		ofFlow[name] = x.r.IntN(3) == 0
	}
	for _, g := range x.sides() {
		run := g.describe(x.names, edges...)
		run.Input = input
		for i := range run.Edges {
			run.Edges[i].Carries = carries>>(i%64)&1 == 1 && run.Edges[i].Down != cleanup
			if run.Edges[i].Down == cleanup {
				run.Edges[i].Kind = "always"
			}
			if !run.Edges[i].Carries {
				run.Nodes[run.Ordinal(run.Edges[i].Down)-1].InputCount--
			}
		}
		for i := range run.Nodes {
			n := &run.Nodes[i]
			n.UsesFlowInput, n.Join = ofFlow[n.Name], joins[n.Name]
			n.Priority = int64(priorities * i % 3)
			if timeouts == 1 {
				n.AttemptTimeout = time.Hour
			}
			if x.fails {
				n.Policy = []byte(retriedAtOnce)
			}
		}
		g.submit(run)
	}
	x.other.forgetPlain()
	x.compare()
	for _, g := range x.sides() {
		g.claim()
	}
	x.compare()
}

// retriedAtOnce allows two retries without a delay.
const retriedAtOnce = `{"retry_policy":{"max_retries":2,"backoff":{"type":"exponential","initial_delay_ms":0}}}`

// cleanup is the name of a node that runs after all others.
const cleanup = "z"

// joins makes some nodes joins, and usually adds a node that runs after all others.
func (x *twoWays) joins(edges *[][2]string) map[string]string {
	// Where a node runs after all others, a cancelled one first waits for its worker.
	cleans := x.r.IntN(4) > 1
	rest := "cancel_remaining"
	if cleans || x.r.IntN(3) == 0 {
		rest = "let_run"
	}
	upstreams, joins := make(map[string]int64), make(map[string]string)
	for _, edge := range *edges {
		upstreams[edge[1]]++
	}
	for _, name := range x.names {
		switch n := upstreams[name]; {
		case n > 0 && x.r.IntN(4) == 0:
			joins[name] = "any_of " + rest + " 0"
		case n > 0 && x.r.IntN(3) == 0:
			joins[name] = fmt.Sprintf("quorum %s %d", rest, 1+x.r.Int64N(n))
		}
	}
	if cleans {
		for _, name := range x.names {
			*edges = append(*edges, [2]string{name, cleanup})
		}
		x.names, joins[cleanup] = append(x.names, cleanup), fmt.Sprintf("finally cancel_remaining %d", 3600000*x.r.Int64N(2))
	}
	return joins
}

// step completes some nodes of both runs. It reports whether there were any.
func (x *twoWays) step() bool {
	active := slices.Sorted(maps.Keys(x.plain.leases))
	require.Equal(x.t, active, slices.Sorted(maps.Keys(x.other.leases)), "the leased execution")
	if len(active) == 0 {
		require.Equal(x.t, x.plain.result().Outcome, x.other.result().Outcome)
		require.Equal(x.t, "success", x.plain.result().Outcome)
		return false
	}
	x.r.Shuffle(len(active), func(i, j int) { active[i], active[j] = active[j], active[i] })
	if x.fails && x.plain.leases[active[0]].RetryCount < 2 && x.r.IntN(3) == 0 {
		x.fail(active[0])
		return true
	}
	ended := active[:1+x.r.IntN(min(3, len(active)))]
	result := []byte(strings.Repeat("r", []int{0, 1, 1024, 1025}[x.r.IntN(4)]))
	var replies []string
	for _, g := range x.sides() {
		call := g.completions(ended...)
		call.Count = x.count
		for i := range call.Completions {
			call.Completions[i].Result = result
		}
		for _, name := range ended {
			delete(g.leases, name)
		}
		outcomes, nodes := g.completeMany(call)
		replies = append(replies, fmt.Sprint(outcomes)+describe(nodes))
	}
	require.Equal(x.t, replies[0], replies[1], "replies to the end of %v", ended)
	x.compare()
	for _, g := range x.sides() {
		_, rows := g.rows()
		for n, r := range rows {
			if r.Phase == "terminal" {
				delete(g.leases, x.names[n]) // a join has cancelled it
			}
		}
	}
	if len(x.plain.leases) == 0 {
		for _, g := range x.sides() {
			g.claim()
		}
		x.compare()
	}
	return true
}

// fail fails an attempt of a node in both runs, with a repeated call, and leases the next one.
func (x *twoWays) fail(name string) {
	var replies []string
	for _, g := range x.sides() {
		lease := g.leases[name]
		delete(g.leases, name)
		call := enginerpc.FailCall{
			Partition: g.p, ExecutionID: lease.ExecutionID, LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch,
			AttemptID: lease.AttemptID, AttemptIndex: lease.AttemptIndex, Reason: "no\nluck", Category: "a test", Retryable: true,
		}
		for range 2 {
			reply, err := g.e.Fail(g.ctx, call)
			require.NoError(x.t, err)
			require.Equal(x.t, "retry_scheduled", reply.Outcome)
		}
	}
	x.compare()
	for _, g := range x.sides() {
		g.drain(100)
	}
	x.compare()
	for _, g := range x.sides() {
		g.claim()
		lease := g.leases[name]
		replies = append(replies, fmt.Sprint(lease.AttemptIndex, lease.AttemptType, lease.LeaseEpoch, lease.RetryCount,
			lease.JournalComplete, len(lease.AttemptID))+describe(g.leases))
	}
	require.Equal(x.t, replies[0], replies[1], "the leases after a failure of %s", name)
	x.compare()
}

// attempts are the records of the attempts of a node, without values that differ in each run.
func (g *graph) attempts(name string) string {
	var b strings.Builder
	for index := range enginecore.AttemptIndex(3) {
		attempt := g.hash(g.e.Keys().AttemptRecord(g.node(name), index))
		for field := range attempt {
			if strings.HasSuffix(field, "_id") || strings.HasSuffix(field, "_at") {
				attempt[field] = "set"
			}
		}
		fmt.Fprintf(&b, "attempt %d of %s: %v\n", index, name, attempt)
	}
	core := g.core(name)
	for _, field := range []string{
		"failure_reason", "failure_category", "pending_retry_reason", "cancellation_reason", "cancelled_by", "absorbed",
		"current_lease_id", "current_worker_id", "blocking_detail",
	} {
		if core[field] != "" && !strings.HasSuffix(field, "_id") && field != "blocking_detail" {
			fmt.Fprintf(&b, "%s %q\n", field, core[field])
		}
		fmt.Fprintf(&b, "%s is set: %t\n", field, core[field] != "")
	}
	return b.String()
}

// describe returns a text for leases of nodes, without values that differ in each run.
func describe(nodes map[string]enginerpc.ClaimedExecution) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[name]
		fmt.Fprintf(&b, " %s: input %d, complete %t", name, len(n.FlowInput), n.InputsComplete)
		// Their order depends on the order of the ends.
		slices.SortFunc(n.Inputs, func(a, b enginerpc.NodeInput) int { return strings.Compare(a.Name, b.Name) })
		for _, in := range n.Inputs {
			fmt.Fprintf(&b, ", %s %d", in.Name, len(in.Result))
		}
	}
	return b.String()
}

func (x *twoWays) compare() {
	x.t.Helper()
	states := make([]string, 2)
	for i, g := range x.sides() {
		head, rows := g.rows()
		states[i] = fmt.Sprintf("open %d of %d\n", head.Open, head.Nodes)
		for n, r := range rows {
			// The direct way counts a success that ends the run at the joins after it, the other one does not.
			if head.Open == 0 {
				r.Flags &^= rowread.NodeRowUntold
			}
			states[i] += fmt.Sprintf("%s: %+v\n", x.names[n], withoutIDs(r))
		}
		for n, name := range x.names {
			result, err := rowread.ResultOf(g.ctx, g.e.Client(), g.e.Keys(), g.p, g.id, n+1)
			require.NoError(x.t, err)
			states[i] += fmt.Sprintf("%s gives %d bytes\n", name, len(result))
			states[i] += g.attempts(name)
			group := g.group(name)
			delete(group, "created_at")
			delete(group, "satisfied_at")
			if name == cleanup {
				delete(group, "cancel_siblings_reason")
			}
			if head.Open > 0 {
				states[i] += fmt.Sprintf("join of %s: %v, %q\n", name, group, g.letters(name))
			}
		}
		states[i] += strings.Join(g.events(), "\n")
	}
	require.Equal(x.t, states[0], states[1])
}

// letters are the states of the edges to a join.
func (g *graph) letters(name string) string {
	g.t.Helper()
	client := g.e.Client()
	text, err := client.Do(g.ctx, client.B().Get().Key(g.e.Keys().FlowJoin(g.id, g.node(name))).Build()).ToString()
	if !rueidis.IsRedisNil(err) {
		require.NoError(g.t, err)
	}
	return text
}

// withoutIDs removes values from a row that differ in each run. Of times and the lease it keeps whether they are set.
func withoutIDs(r rowread.Row) rowread.Row {
	for _, at := range []*int64{&r.Expires, &r.Acquired, &r.Started, &r.Ended, &r.Changed} {
		*at = min(*at, 1)
	}
	if r.Lease != "" {
		r.Lease = "lease"
	}
	return r
}

// bytes is the string that has the rows of the run.
func (g *graph) bytes() string {
	g.t.Helper()
	client := g.e.Client()
	text, err := client.Do(g.ctx, client.B().Get().Key(g.e.Keys().FlowNodes(g.p, g.id)).Build()).ToString()
	require.NoError(g.t, err)
	return text
}

// events are the events of the run without their times.
func (g *graph) events() []string {
	g.t.Helper()
	reply, err := g.e.ReadEvents(g.ctx, enginerpc.ReadEventsCall{Partition: g.p, FlowID: g.id, Limit: 500})
	require.NoError(g.t, err)
	var lines []string
	for _, e := range reply.Events {
		lines = append(lines, strings.Join([]string{e.Event, e.Node, e.Attempt, e.Detail}, " "))
	}
	slices.Sort(lines) // calls log the events of several ends in another order
	return lines
}

// forgetPlain takes from the run the mark that nothing has happened in it but successes.
func (g *graph) forgetPlain() {
	g.t.Helper()
	at := rowread.RunHeadColumns["flags"][0]
	flags := string([]byte{g.bytes()[at] &^ rowread.RunHeadPlain})
	client := g.e.Client()
	set := client.B().Setrange().Key(g.e.Keys().FlowNodes(g.p, g.id)).Offset(int64(at)).Value(flags).Build()
	require.NoError(g.t, client.Do(g.ctx, set).Error())
}

// leftHeader reports whether calls have ended nodes without a write of the header, as those do that take rows as they
// are.
func (g *graph) leftHeader() bool {
	stored := g.bytes()
	head, _, err := rowread.Parse(stored)
	require.NoError(g.t, err)
	at := rowread.RunHeadColumns["open"]
	return int(binary.LittleEndian.Uint32([]byte(stored[at[0]:]))) != head.Open
}
