package enginetest_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// chaos drives a random flow by random calls.
type chaos struct {
	*waitFixture
	r     *rand.Rand
	names []string
	waits map[string]waitSpec
	// done lists the calls, for a test that fails.
	done []string
}

func (x *chaos) spec() waitSpec {
	s := waitSpec{count: 1 + x.r.IntN(2), collect: x.r.IntN(3) == 0, distinct: x.r.IntN(4) == 0}
	if x.r.IntN(2) == 0 {
		s.timeout = time.Duration(1+x.r.IntN(4)) * time.Millisecond
		s.then = []string{"fail", "cancel", "expire", "auto_resume_with_timeout_signal", "escalate"}[x.r.IntN(5)]
	}
	return s
}

func newChaos(t *testing.T, b *enginetest.Bench, seed uint64) *chaos {
	x := &chaos{waitFixture: newWaitFixture(t, b), r: rand.New(rand.NewPCG(seed, seed)), waits: make(map[string]waitSpec)}
	kinds := []string{"success_only", "success_only", "on_failure", "always", "unless_failed"}
	var tasks []string
	var links []link
	for i := range 3 + x.r.IntN(10) {
		name := fmt.Sprintf("n%02d", i)
		if x.r.IntN(3) == 0 {
			x.waits[name] = x.spec()
		} else {
			tasks = append(tasks, name)
		}
		for _, up := range x.names {
			if x.r.IntN(3) == 0 {
				links = append(links, link{up, name, kinds[x.r.IntN(len(kinds))]})
			}
		}
		x.names = append(x.names, name)
	}
	x.submit(tasks, x.waits, links...)
	return x
}

func (x *chaos) note(format string, args ...any) {
	x.done = append(x.done, fmt.Sprintf(format, args...))
}

// leased picks a task that a worker has.
func (x *chaos) leased() (enginerpc.ClaimedExecution, bool) {
	x.claim()
	if len(x.leases) == 0 {
		return enginerpc.ClaimedExecution{}, false
	}
	names := slices.Sorted(maps.Keys(x.leases))
	return x.leases[names[x.r.IntN(len(names))]], true
}

// expected reports whether earlier calls can cause an error.
func expected(err error) bool {
	for _, code := range []enginecore.Code{
		enginecore.ErrStaleLease, enginecore.ErrLeaseRevoked, enginecore.ErrExecutionNotActive, errorcode.ExecutionNotSuspended,
		enginecore.ErrFlowAlreadyTerminal, enginecore.ErrWaitpointNotFound,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return err == nil
}

// step makes one random call.
func (x *chaos) step() {
	x.t.Helper()
	switch k := x.r.IntN(20); {
	case k < 8:
		x.work()
	case k < 14:
		x.answer(x.r.IntN(3) > 0)
	case k < 16:
		enginetest.Pass(x.t, x.e, 0)
		x.drain(1 + x.r.Int64N(50))
	case k < 17:
		x.lose()
	case k < 18:
		x.cancelOne()
	case k == 18 && x.r.IntN(6) == 0:
		x.note("cancel flow")
		_, err := x.e.CancelFlow(x.ctx, enginerpc.CancelFlowCall{Partition: x.p, FlowID: x.id, Reason: "test", Actor: "test"})
		require.True(x.t, expected(err), "%v", err)
	}
}

// work lets a worker end a task, record a step of it, or wait in it.
func (x *chaos) work() {
	x.t.Helper()
	lease, ok := x.leased()
	if !ok {
		return
	}
	switch x.r.IntN(5) {
	case 0:
		x.note("record %s", lease.Node)
		_, err := x.record(lease, fmt.Sprint(x.r.IntN(3)), "value")
		require.True(x.t, expected(err), "%v", err)
	case 1:
		x.note("open %s", lease.Node)
		_, err := x.e.OpenWaitpoint(x.ctx, enginerpc.OpenWaitpointCall{
			Partition: x.p, ExecutionID: lease.ExecutionID, LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch,
			AttemptID: lease.AttemptID, Step: "ask", WaitpointID: enginecore.WaitpointID(randomUUID(x.r)), WaitpointKey: "ask",
		})
		require.True(x.t, expected(err), "%v", err)
	case 2:
		x.note("suspend %s", lease.Node)
		c := x.suspension(lease, []string{"ask", "more"}[x.r.IntN(2)], x.spec())
		reply, err := x.e.Suspend(x.ctx, c)
		require.True(x.t, expected(err), "%v", err)
		if reply.Status == enginerpc.StatusOK || err != nil {
			delete(x.leases, lease.Node)
		}
	default:
		outcome := []string{"success", "success", "failed"}[x.r.IntN(3)]
		if x.core(lease.Node)["current_lease_id"] != string(lease.LeaseID) {
			delete(x.leases, lease.Node)
			return
		}
		x.note("%s %s", outcome, lease.Node)
		x.end(lease.Node, outcome)
	}
}

// answer sends a signal to an open waitpoint, or lets an operator end it.
func (x *chaos) answer(bySignal bool) {
	x.t.Helper()
	open := x.list(false)
	if len(open) == 0 {
		return
	}
	w := open[x.r.IntN(len(open))]
	if !bySignal {
		x.note("end wait of %s", w.Node)
		_, err := x.e.EndWait(x.ctx, enginerpc.EndWaitCall{
			Partition: x.p, ExecutionID: w.ExecutionID, WaitpointID: w.WaitpointID, Resume: x.r.IntN(3) > 0, Result: []byte("[]"),
			Reason: "test", Actor: "test",
		})
		require.True(x.t, expected(err), "%v", err)
		return
	}
	x.note("signal %s", w.Node)
	c := x.signalling(w, "x", fmt.Sprint("source ", x.r.IntN(3)), `{"a":1}`)
	first := x.signal(c)
	again := x.signal(c)
	if first.Outcome == "accepted" || first.Outcome == "resumed" {
		assert.Equal(x.t, "duplicate", again.Outcome)
		assert.Equal(x.t, first.Outcome, again.FirstOutcome)
	}
}

func (x *chaos) lose() {
	lease, ok := x.leased()
	if !ok {
		return
	}
	x.note("lose %s", lease.Node)
	_, err := x.e.RevokeLease(x.ctx, enginerpc.RevokeLeaseCall{ExecutionID: lease.ExecutionID, WorkerInstanceID: "w1"})
	require.True(x.t, expected(err), "%v", err)
	delete(x.leases, lease.Node)
}

func (x *chaos) cancelOne() {
	name := x.names[x.r.IntN(len(x.names))]
	x.note("cancel %s", name)
	_, err := x.e.CancelExecution(x.ctx, enginerpc.CancelExecutionCall{
		ExecutionID: x.node(name), LaneID: x.lane, Reason: "test", Source: "operator_override",
	})
	require.True(x.t, expected(err), "%v", err)
	delete(x.leases, name)
}

// finish leads the flow to its end.
func (x *chaos) finish() {
	x.t.Helper()
	for range 300 {
		x.drain(100)
		if !x.graph.result().ClosedAt.IsZero() {
			return
		}
		for i, w := range x.list(false) {
			if w.State == "active" {
				x.signal(x.signalling(w, "x", fmt.Sprint("late ", i, " ", x.r.IntN(1000)), "1"))
			}
		}
		x.claim()
		for _, name := range slices.Sorted(maps.Keys(x.leases)) {
			if x.core(name)["current_lease_id"] == string(x.leases[name].LeaseID) {
				x.end(name, "success")
			}
			delete(x.leases, name)
		}
	}
	require.Fail(x.t, "the flow does not end", "%v", x.events())
}

func randomUUID(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48))
}

// TestRandomWaits drives random graphs with waits, kinds of edges, signals, losses and cancels to their end. Everything
// is in order on the way, and nothing is left over.
func TestRandomWaits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		flows := 60
		if testing.Short() {
			flows = 15
		}
		for range flows {
			seed := uint64(time.Now().UnixNano())
			b.Wipe(t)
			x := newChaos(t, b, seed)
			for range 10 + x.r.IntN(40) {
				x.step()
				if x.r.IntN(4) == 0 {
					b.Check(t, invariant.AnyTime)
				}
			}
			x.finish()
			b.Check(t, invariant.Quiescent)
			if t.Failed() {
				t.Fatalf("seed %d: %v\nevents: %v", seed, x.done, x.events())
			}
		}
	})
}
