package enginetest_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/internal/test/runsubmit"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// opMix runs a random mix of operations of workers, keepers and clients on one flow. Each call may be repeated later,
// as after a lost reply.
type opMix struct {
	*graph
	r     *rand.Rand
	names []string
	// taken are all leases that were ever given, including those that have ended.
	taken []held
	// sent are the latest calls, to be sent again.
	sent []sending
	done []string
}

// held is a lease and the worker that was given it.
type held struct {
	enginerpc.ClaimedExecution
	worker enginecore.WorkerInstanceID
}

// sending is a call that can be sent again.
type sending struct {
	name string
	call func(repeated bool) error
}

const (
	rememberedCalls = 12
	mixWorkers      = 3
	// A flow with more members than a cancel ends in one call.
	wideFlow = 70
)

func newOpMix(t *testing.T, b *enginetest.Bench, seed uint64) *opMix {
	x := &opMix{graph: newWaitFixture(t, b).graph, r: rand.New(rand.NewPCG(seed, 21))}
	x.run = &runsubmit.Run{
		Partition: x.p, FlowID: x.id, FlowName: "random-operations", RunID: string(x.id), Namespace: "n", GraphHash: "g", InputHash: "i",
		Definition: []byte("{}"),
	}
	if x.r.IntN(5) == 0 {
		parent := keyspace.ExecutionIDFor(x.p, x.id, "parent")
		x.run.Parents = []enginerpc.SubmitParent{{ExecutionID: string(parent), FailFast: x.r.IntN(2) == 0}}
	}
	nodes := 2 + x.r.IntN(6)
	if x.r.IntN(12) == 0 {
		nodes = wideFlow
	}
	for i := range nodes {
		x.add(fmt.Sprintf("n%02d", i))
	}
	return x
}

// add draws a node with the edges that lead to it.
func (x *opMix) add(name string) {
	var upstreams, edges int64 // edges with results, and all
	for _, up := range x.names[:min(len(x.names), 8)] {
		if x.r.IntN(3) == 0 {
			kind := []string{"success_only", "success_only", "on_failure", "always", "unless_failed", "case_1", "case_2"}[x.r.IntN(7)]
			if !strings.HasPrefix(kind, "case_") {
				upstreams++
			}
			edges++
			x.run.Edges = append(x.run.Edges, runsubmit.Edge{
				Up: up, Down: name, Kind: kind, Carries: true,
			})
		}
	}
	node := enginerpc.PutGraphNode{
		Name: name, Kind: groupKind, LaneID: x.lane, InputCount: upstreams,
		Policy: []byte(`{"retry_policy":{"max_retries":2,"backoff":{"type":"fixed","delay_ms":1}}}`), Tags: []byte("{}"),
	}
	switch {
	case edges > 0 && x.r.IntN(3) == 0:
		node.Join = fmt.Sprintf("quorum %s %d", []string{cancelRemaining, letRun}[x.r.IntN(2)], 1+x.r.Int64N(edges))
	case edges > 0 && x.r.IntN(8) == 0:
		node.Join = "any_failure let_run 0"
	}
	x.run.Nodes = append(x.run.Nodes, node)
	x.names = append(x.names, name)
}

// result returns a condition's result.
func (x *opMix) result() []byte {
	return fmt.Appendf(nil, `{"case":"c","number":%d}`, 1+x.r.IntN(3))
}

// begin submits the run.
func (x *opMix) begin() {
	x.send("submit", func(bool) error { _, err := x.run.Submit(x.ctx, x.e); return err })
}

// send makes a call and remembers it. A refusal is not a fault if earlier calls explain it.
func (x *opMix) send(name string, call func(repeated bool) error) {
	x.t.Helper()
	x.sent = append(x.sent, sending{name, call})
	x.sent = x.sent[max(0, len(x.sent)-rememberedCalls):]
	x.carry(name, call(false))
}

func (x *opMix) carry(name string, err error) {
	x.t.Helper()
	if err != nil {
		name += ": " + err.Error()
	}
	x.done = append(x.done, name)
	var code enginecore.Code
	require.True(x.t, err == nil || errors.As(err, &code) && code != errorcode.InvalidInput, "%s", name)
}

// step makes one call, or one of the latest again.
func (x *opMix) step() {
	x.t.Helper()
	switch k := x.r.IntN(40); {
	case k < 8:
		s := x.sent[x.r.IntN(len(x.sent))]
		x.carry("again "+s.name, s.call(true))
	case k < 13:
		x.claimSome()
	case k < 22:
		x.endOne()
	case k < 25:
		x.keepLease()
	case k < 30:
		x.keeperTask()
	case k < 34:
		x.stopSome()
	default:
		x.runAgain()
	}
}

// finish completes the flow.
func (x *opMix) finish() {
	x.t.Helper()
	for round := range 300 {
		x.drain(100)
		if !x.graph.result().ClosedAt.IsZero() {
			enginetest.Pass(x.t, x.e, time.Millisecond) // the grace of a cancel
			x.drain(100)
			return
		}
		// An execution that was replayed without its upstreams waits until these are replayed.
		if round == 60 {
			_, err := x.e.CancelFlow(x.ctx, enginerpc.CancelFlowCall{Partition: x.p, FlowID: x.id, Reason: "test", Actor: "test"})
			require.NoError(x.t, err)
			continue
		}
		x.claim()
		for _, name := range slices.Sorted(maps.Keys(x.leases)) {
			x.take("w1", []enginerpc.ClaimedExecution{x.leases[name]})
			delete(x.leases, name)
		}
		for _, l := range x.taken {
			core := x.core(l.Node)
			if core["lifecycle_phase"] == "active" && core["current_lease_id"] == string(l.LeaseID) && core["ownership_state"] == "leased" {
				_, err := x.e.Complete(x.ctx, enginerpc.CompleteCall{
					Partition: x.p, ExecutionID: l.ExecutionID, LeaseID: l.LeaseID, LeaseEpoch: l.LeaseEpoch, AttemptID: l.AttemptID,
					Result: x.result(), ClaimRequest: enginerpc.ClaimRequest{LaneID: x.lane, WorkerID: "w", WorkerInstanceID: l.worker, LeaseTTL: time.Hour},
				})
				x.carry("complete "+l.Node, err)
			}
		}
		enginetest.Pass(x.t, x.e, 0)
	}
	require.Fail(x.t, "the flow does not end")
}

// compare compares the run's count of open nodes with its nodes.
func (x *opMix) compare() {
	x.t.Helper()
	open := 0
	for _, name := range x.names {
		if phase := x.core(name)["lifecycle_phase"]; phase != "" && phase != "terminal" {
			open++
		}
	}
	head, _ := x.rows()
	require.Equal(x.t, open, head.Open, "open nodes")
	x.compareLane()
}

// compareLane compares how many nodes the lane counts as active and as waiting for upstreams with those that are.
func (x *opMix) compareLane() {
	x.t.Helper()
	var want, counted [2]int64
	for _, name := range x.names {
		switch core := x.core(name); {
		case core["lifecycle_phase"] == "active":
			want[0]++
		case core["lifecycle_phase"] == "runnable" && core["eligibility_state"] == "blocked_by_dependencies":
			want[1]++
		}
	}
	reply, err := x.e.Lanes(x.ctx, enginerpc.LanesCall{Partition: x.p})
	require.NoError(x.t, err)
	for _, lane := range reply.Lanes {
		if lane.LaneID == x.lane {
			counted = [2]int64{lane.Active, lane.BlockedDependencies}
		}
	}
	require.Equal(x.t, want, counted, "active nodes of the lane, and those that wait for upstreams")
}

// check reads all that the engine has, and compares each key with the others.
func (x *opMix) check(mode invariant.Mode) {
	x.t.Helper()
	report, err := invariant.Check(x.ctx, x.e.Client(), x.b.Prefix, mode)
	require.NoError(x.t, err)
	require.NoError(x.t, report.Err())
}

// TestRandomOperations runs claims, ends, renewals, cancels, reruns, replays and keeper tasks in random order,
// with repeated calls. The keyspace is consistent after each of them and has no leftovers in the end. FLOWFABRIC_SEED
// repeats a flow, FLOWFABRIC_SOAK sets the duration.
func TestRandomOperations(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		if b.Kind == testserver.OnCluster {
			t.Skip("reads the keyspace after each call; single servers show the same")
		}
		for seed := range randseed.Trials(t, 20) {
			b.Wipe(t)
			mixed(t, b, seed)
		}
	})
}

func mixed(t *testing.T, b *enginetest.Bench, seed uint64) {
	t.Helper()
	x := newOpMix(t, b, seed)
	defer func() {
		if t.Failed() {
			t.Logf("FLOWFABRIC_SEED=%d: %q", seed, x.done)
		}
	}()
	x.begin()
	for range 10 + x.r.IntN(50) {
		x.step()
		x.compare()
		if x.r.IntN(16) == 0 {
			x.check(invariant.AnyTime)
		}
	}
	x.finish()
	if len(x.run.Parents) == 0 {
		x.check(invariant.Quiescent)
	}
}
