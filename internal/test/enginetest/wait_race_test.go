package enginetest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// permutations are all orders of the letters.
func permutations(letters string) []string {
	if letters == "" {
		return []string{""}
	}
	var out []string
	for i := range letters {
		for _, rest := range permutations(letters[:i] + letters[i+1:]) {
			out = append(out, letters[i:i+1]+rest)
		}
	}
	return out
}

// race is one function that waits for one signal, with events that may interleave.
type race struct {
	*waitFixture
	lease      enginerpc.ClaimedExecution
	suspension enginerpc.SuspendCall
	signal     enginerpc.SignalCall
	outcome    string
	cancelled  bool
}

const answer = `"the answer"`

func newRace(t *testing.T, b *enginetest.Bench) *race {
	r := &race{waitFixture: newWaitFixture(t, b)}
	r.submit([]string{"task"}, nil)
	r.lease = r.take("task")
	id, token := r.open(r.lease, "ask")
	spec := waitSpec{names: []string{"yes"}, timeout: time.Millisecond, then: "auto_resume_with_timeout_signal"}
	r.suspension = r.waitFixture.suspension(r.lease, "ask", spec)
	r.signal = r.signalling(enginerpc.ListedWaitpoint{
		ExecutionID: r.lease.ExecutionID, WaitpointID: id, WaitpointToken: token,
	}, "yes", "ann", answer)
	return r
}

// step performs the step of a letter. It makes calls twice that a worker repeats after a lost reply.
func (r *race) step(letter rune) {
	r.t.Helper()
	switch letter {
	case 'S':
		r.suspendAgain()
		r.waitFixture.unchanged(r.suspendAgain)
	case 'G':
		reply := r.waitFixture.signal(r.signal)
		r.outcome = reply.Outcome
		r.waitFixture.unchanged(func() {
			again := r.waitFixture.signal(r.signal)
			if r.outcome == "accepted" || r.outcome == "resumed" {
				assert.Equal(r.t, "duplicate", again.Outcome)
				assert.Equal(r.t, r.outcome, again.FirstOutcome)
			} else {
				assert.Equal(r.t, r.outcome, again.Outcome)
			}
		})
	case 'T':
		r.letTimePass()
	case 'C':
		r.graph.cancel("task")
		r.cancelled = true
	case 'D':
		r.lose()
		r.claim()
	}
}

// letTimePass lets the timeout of a wait that has begun run out.
func (r *race) letTimePass() {
	enginetest.Pass(r.t, r.e, time.Millisecond)
	r.drain(100)
}

// lose takes the lease from its worker.
func (r *race) lose() {
	r.t.Helper()
	_, err := r.e.RevokeLease(r.ctx, enginerpc.RevokeLeaseCall{ExecutionID: r.lease.ExecutionID, WorkerInstanceID: "w1"})
	if !errors.Is(err, enginecore.ErrExecutionNotActive) {
		require.NoError(r.t, err)
	}
	delete(r.leases, "task")
}

// suspendAgain repeats the first worker's call, which may have lost its lease by then.
func (r *race) suspendAgain() {
	r.t.Helper()
	r.suspension.Repeated = true
	reply, err := r.e.Suspend(r.ctx, r.suspension)
	lost := []error{enginecore.ErrStaleLease, enginecore.ErrLeaseRevoked, enginecore.ErrExecutionNotActive}
	if err != nil {
		require.True(r.t, slices.ContainsFunc(lost, func(e error) bool { return errors.Is(err, e) }), "%v", err)
		return
	}
	if reply.Status == enginerpc.StatusAlreadySatisfied {
		assert.Equal(r.t, "v"+answer, string(reply.Result))
	}
}

// finish acts as workers until the function has ended; one of them loses its lease on the way.
func (r *race) finish() {
	r.t.Helper()
	spec := waitSpec{names: []string{"yes"}, timeout: time.Millisecond, then: "auto_resume_with_timeout_signal"}
	for range 20 {
		r.claim()
		x, leased := r.leases["task"]
		switch {
		case r.core("task")["lifecycle_phase"] == "terminal":
			return
		case !leased:
			r.letTimePass()
		case r.journal("task")["await:ask"] == "":
			r.suspend(x, "ask", spec)
			r.letTimePass()
		default:
			r.lose()
			require.True(r.t, slices.ContainsFunc(r.take("task").Journal, func(entry enginerpc.JournalEntry) bool {
				return entry.Name == "await:ask"
			}))
			r.end("task", "success")
		}
	}
	require.Fail(r.t, "the function does not end", "%v", r.core("task"))
}

// TestWaitRaces plays suspend, signal, timeout, cancel and the death of the worker in all orders. The wait returns an
// accepted signal exactly once, and a refused signal is stored nowhere.
func TestWaitRaces(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		orders := slices.Concat(permutations("SGTD"), permutations("SGT"))
		if !testing.Short() {
			orders = append(orders, permutations("SGTCD")...)
		}
		for _, order := range orders {
			b.Wipe(t)
			r := newRace(t, b)
			for _, letter := range order {
				r.step(letter)
				b.Check(t, invariant.AnyTime)
			}
			r.finish()
			b.Check(t, invariant.Quiescent)
			got := r.journal("task")["await:ask"]
			accepted := r.outcome == "accepted" || r.outcome == "resumed"
			switch {
			case r.cancelled:
				assert.Equal(t, "cancelled", r.state("task"), order)
				assert.Contains(t, []string{"accepted", "resumed", "closed", "expired"}, r.outcome, order)
			case accepted:
				assert.Equal(t, "v"+answer, got, "%s: %s", order, r.outcome)
			default:
				assert.Equal(t, "tnull", got, "%s: %s", order, r.outcome)
				assert.Equal(t, "expired", r.outcome, order)
			}
			if t.Failed() {
				t.Fatalf("in order %s: %v", order, r.events())
			}
		}
	})
}

// TestOldTokenAtNewWait sends a signal for a wait that is over while the function waits for another.
func TestOldTokenAtNewWait(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, nil)
		l.suspend(l.take("task"), "first", waitSpec{})
		first := l.at("task")
		assert.Equal(t, "resumed", l.signal(l.signalling(first, "x", "ann", "1")).Outcome)
		l.suspend(l.take("task"), "second", waitSpec{})
		second := l.at("task")
		l.unchanged(func() {
			assert.Equal(t, "closed", l.signal(l.signalling(first, "x", "ann", "2")).Outcome)
			mixed := l.signalling(first, "x", "ann", "2")
			mixed.WaitpointID = second.WaitpointID
			_, err := l.e.Signal(l.ctx, mixed)
			assert.ErrorIs(t, err, enginecore.ErrInvalidToken)
		})
		assert.Equal(t, "suspended", l.state("task"))
		assert.Equal(t, "resumed", l.signal(l.signalling(second, "x", "ann", "3")).Outcome)
		l.end("task", "success")
		assert.Equal(t, map[string]string{"await:first": "v1", "await:second": "v3"}, l.journal("task"))
		b.Check(t, invariant.Quiescent)
	})
}

// TestEarlySignals keeps signals that come before the wait, across attempts.
func TestEarlySignals(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, nil)
		x := l.take("task")
		id, token := l.open(x, "ask")
		l.unchanged(func() {
			again, same := l.open(x, "ask")
			assert.Equal(t, id, again)
			assert.Equal(t, token, same)
		})
		w := l.at("task")
		assert.Equal(t, "pending", w.State)
		assert.Equal(t, "ask", w.Step)
		assert.Equal(t, token, w.WaitpointToken)
		c := l.signalling(w, "x", "ann", "1")
		c.IdempotencyKey = "key"
		assert.Equal(t, "accepted", l.signal(c).Outcome)
		c.SignalID = enginecore.SignalID(uuid.NewString())
		assert.Equal(t, "duplicate", l.signal(c).Outcome)

		_, err := l.e.Fail(l.ctx, enginerpc.FailCall{
			Partition: l.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
			AttemptIndex: x.AttemptIndex, Reason: "broken", Category: "test", Retryable: false,
		})
		require.NoError(t, err)
		assert.Equal(t, "closed", l.signal(l.signalling(w, "x", "bob", "2")).Outcome)
		_, err = l.e.ReplayExecution(l.ctx, enginerpc.ReplayExecutionCall{ExecutionID: x.ExecutionID, LaneID: l.lane})
		require.NoError(t, err)
		delete(l.leases, "task")
		x = l.take("task")
		kept, _ := l.open(x, "ask")
		assert.Equal(t, id, kept)
		reply := l.suspend(x, "ask", waitSpec{count: 2, names: []string{"x", "x"}, collect: true})
		assert.Equal(t, enginerpc.StatusOK, reply.Status)
		assert.EqualValues(t, 1, l.at("task").Received)
		assert.Equal(t, "resumed", l.send("task", "x", "bob", "2"))
		assert.Equal(t, `l[{"id":"","name":"x","category":"external","source_type":"test","source":"ann","correlation_id":"","payload":1,"at":0},`+
			`{"id":"","name":"x","category":"external","source_type":"test","source":"bob","correlation_id":"","payload":2,"at":0}]`,
			withoutTimes(l.journal("task")["await:ask"]))
		l.end("task", "success")
		b.Check(t, invariant.Quiescent)
	})
}

// TestWaitLimits exceeds the limits of signals and waits; a refusal changes nothing.
func TestWaitLimits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, map[string]waitSpec{"gate": {names: []string{"never"}}})
		x := l.take("task")
		l.open(x, "ask")
		refused := func(c enginerpc.SignalCall, code enginecore.Code, words string) {
			t.Helper()
			l.unchanged(func() {
				_, err := l.e.Signal(l.ctx, c)
				assert.ErrorIs(t, err, code)
				assert.ErrorContains(t, err, words)
			})
		}
		gate := l.at("gate")
		refused(l.signalling(gate, "x", "ann", strings.Repeat("x", 65537)), enginecore.ErrSignalTooLarge, "65536")
		refused(l.signalling(gate, strings.Repeat("x", 257), "ann", ""), errorcode.InvalidInput, "signal_name")
		refused(l.signalling(gate, "x", strings.Repeat("x", 257), ""), errorcode.InvalidInput, "source_identity")
		// The limit counts all signals of a wait: per signal 12 bytes, the payload, the name, the category and the
		// source.
		for range 16 {
			assert.Equal(t, "accepted", l.send("gate", "x", "ann", strings.Repeat("x", 65536-20)))
		}
		refused(l.signalling(gate, "x", "ann", strings.Repeat("x", 16*8-12+1)), enginecore.ErrSignalTooLarge, "1048577, 1048576")
		refused(l.signalling(gate, "x", strings.Repeat("b", 16*8-8), ""), enginecore.ErrSignalTooLarge, "1048576")
		assert.Equal(t, "accepted", l.send("gate", "x", "ann", strings.Repeat("x", 16*8-12)))
		refused(l.signalling(gate, "x", "", ""), enginecore.ErrSignalTooLarge, "1048576")
		early := l.at("task")
		for i := range 1024 {
			require.Equal(t, "accepted", l.signal(l.signalling(early, "x", "ann", "")).Outcome, i)
		}
		refused(l.signalling(early, "x", "ann", ""), enginecore.ErrSignalLimitExceeded, "1024")

		l.unchanged(func() {
			for name, change := range map[string]func(c *enginerpc.SuspendCall){
				"signals are needed": func(c *enginerpc.SuspendCall) {
					c.Condition = waitSpec{names: []string{"a"}, count: 2}.condition()
				},
				"malformed":   func(c *enginerpc.SuspendCall) { c.Condition = []byte("{") },
				"behaviour":   func(c *enginerpc.SuspendCall) { c.Timeout, c.TimeoutBehavior = time.Second, "explode" },
				"at most":     func(c *enginerpc.SuspendCall) { c.Timeout, c.TimeoutBehavior = 200*365*24*time.Hour, "fail" },
				"of a step":   func(c *enginerpc.SuspendCall) { c.Step = "" },
				"be a UUID":   func(c *enginerpc.SuspendCall) { c.SuspensionID = "x" },
				"too many si": func(c *enginerpc.SuspendCall) { c.Condition = waitSpec{count: 5000}.condition() },
			} {
				c := l.suspension(x, "ask", waitSpec{})
				change(&c)
				_, err := l.e.Suspend(l.ctx, c)
				assert.ErrorIs(t, err, errorcode.InvalidInput, name)
				assert.ErrorContains(t, err, name)
			}
		})
		other := newWaitFixture(t, b)
		for name, wait := range map[string]string{
			"no JSON object": "[", "condition": `{"timeout":1}`, "timeout": `{"condition":{},"timeout":"soon"}`,
		} {
			c := other.call([]string{"task"}, map[string]waitSpec{"gate": {}})
			c.Nodes[1].Wait = []byte(wait)
			other.unchanged(func() {
				_, err := c.Submit(other.ctx, other.e)
				assert.ErrorIs(t, err, errorcode.InvalidInput, name)
				assert.ErrorContains(t, err, name)
			})
		}
	})
}

// TestCallsWithoutSigningSecret makes calls that need a signing secret where there is none.
func TestCallsWithoutSigningSecret(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, nil)
		x := l.take("task")
		other := &waitFixture{graph: newGraph(t, b)}
		other.p = l.p
		client := l.e.Client()
		require.NoError(t, client.Do(l.ctx, client.B().Del().Key(l.e.Keys().WaitpointSecrets(l.p)).Build()).Error())
		l.unchanged(func() {
			_, err := l.e.Suspend(l.ctx, l.suspension(x, "ask", waitSpec{}))
			assert.ErrorIs(t, err, errorcode.HMACSecretNotInitialized)
			_, err = l.e.OpenWaitpoint(l.ctx, enginerpc.OpenWaitpointCall{
				Partition: l.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
				Step: "ask", WaitpointID: enginecore.WaitpointID(uuid.NewString()), WaitpointKey: "ask",
			})
			assert.ErrorIs(t, err, errorcode.HMACSecretNotInitialized)
		})
		submit := func() {
			_, err := other.call(nil, map[string]waitSpec{"gate": {}}).Submit(l.ctx, l.e)
			assert.ErrorIs(t, err, errorcode.HMACSecretNotInitialized)
		}
		submit() // stores the graph
		l.unchanged(submit)
	})
}
