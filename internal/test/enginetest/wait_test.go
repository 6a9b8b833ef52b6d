package enginetest_test

import (
	"errors"
	"fmt"
	"regexp"
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

// TestEdgeKinds ends an upstream in each way and checks the state of a node downstream of an edge of each kind.
func TestEdgeKinds(t *testing.T) {
	t.Parallel()
	table := map[string]map[string]string{
		"success_only": {"success": "waiting", "failed": "skipped", "cancelled": "skipped", "expired": "skipped", "skipped": "skipped"},
		"on_failure":   {"success": "skipped", "failed": "waiting", "cancelled": "waiting", "expired": "waiting", "skipped": "skipped"},
		"unless_failed": {
			"success": "waiting", "failed": "skipped", "cancelled": "skipped", "expired": "skipped", "skipped": "skipped",
		},
		"always": {"success": "waiting", "failed": "waiting", "cancelled": "waiting", "expired": "waiting", "skipped": "waiting"},
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for kind, row := range table {
			for outcome, want := range row {
				t.Run(kind+"/"+outcome, func(t *testing.T) {
					l := newWaitFixture(t, b)
					waits := map[string]waitSpec{"gate": {}}
					l.submit([]string{"first", "up", "down"}, waits, link{"first", "up", "success_only"}, link{"up", "down", kind},
						link{"up", "gate", kind})
					if outcome == "skipped" {
						l.end("first", "failed")
					} else {
						l.end("first", "success")
						l.end("up", outcome)
					}
					assert.Equal(t, want, l.state("down"))
					if want == "waiting" {
						assert.Equal(t, "suspended", l.state("gate"))
						l.send("gate", "go", "test", "1")
						l.end("down", "success")
					} else {
						assert.Equal(t, "skipped", l.state("gate"))
					}
					flow := "success"
					if outcome != "success" && outcome != "skipped" {
						flow = outcome
					}
					if outcome == "skipped" || outcome == "expired" {
						flow = "failed"
					}
					assert.Equal(t, flow, l.graph.result().Outcome)
					b.Check(t, invariant.AnyTime)
				})
			}
		}
		b.Check(t, invariant.Quiescent)
	})
}

// TestEdgeKindsAfterCancel cancels a flow: nothing of it starts, whatever the kind of edge.
func TestEdgeKindsAfterCancel(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"up", "undo", "clean"}, map[string]waitSpec{"gate": {}, "late": {}}, link{"up", "undo", "on_failure"},
			link{"up", "clean", "always"}, link{"gate", "late", "always"})
		_, err := l.e.CancelFlow(l.ctx, enginerpc.CancelFlowCall{Partition: l.p, FlowID: l.id, Reason: "test", Actor: "test"})
		require.NoError(t, err)
		for _, name := range []string{"up", "undo", "clean", "gate", "late"} {
			assert.Equal(t, "cancelled", l.state(name), name)
		}
		assert.Empty(t, l.list(false))
		b.Check(t, invariant.Quiescent)
	})
}

// TestWaitpointNode lets a waitpoint node wait for one signal.
func TestWaitpointNode(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"first", "last"}, map[string]waitSpec{"gate": {names: []string{"yes", "no"}, timeout: time.Hour, then: "fail"}},
			link{"first", "gate", "success_only"}, link{"gate", "last", "success_only"})
		assert.Empty(t, l.list(true))
		l.end("first", "success")
		assert.Equal(t, "suspended", l.state("gate"))
		b.Check(t, invariant.AnyTime)
		w := l.at("gate")
		assert.Equal(t, []string{"yes", "no"}, w.Signals)
		assert.Equal(t, "any", w.MatchMode)
		assert.Equal(t, "fail", w.TimeoutBehavior)
		assert.EqualValues(t, 1, w.Needed)
		assert.Equal(t, l.waitpoint("gate"), w.WaitpointID)
		assert.WithinDuration(t, time.Now().Add(time.Hour), w.TimeoutAt, 30*time.Minute)

		other := l.signal(l.signalling(w, "other", "ann", `"x"`))
		assert.Equal(t, "accepted", other.Outcome)
		assert.False(t, other.Matched)
		yes := l.signalling(w, "yes", "ann", `{"by":"ann"}`)
		yes.IdempotencyKey = "click"
		assert.Equal(t, "resumed", l.signal(yes).Outcome)
		assert.Equal(t, "completed", l.state("gate"))
		assert.Equal(t, `{"by":"ann"}`, l.result("gate"))
		assert.Equal(t, "waiting", l.state("last"))
		l.unchanged(func() {
			again := yes
			again.SignalID = enginecore.SignalID(uuid.NewString())
			for _, c := range []enginerpc.SignalCall{yes, again} {
				reply := l.signal(c)
				assert.Equal(t, "duplicate", reply.Outcome)
				assert.Equal(t, "resumed", reply.FirstOutcome)
				assert.Equal(t, yes.SignalID, reply.SignalID)
			}
			assert.Equal(t, "closed", l.signal(l.signalling(w, "yes", "ann", "")).Outcome)
		})
		l.end("last", "success")
		assert.Equal(t, "success", l.graph.result().Outcome)
		assert.Equal(t, []string{"flow_submitted ", "started first", "success first", "suspended gate", "signalled gate", "signalled gate",
			"success gate", "started last", "success last", "flow_success "}, l.events())
		b.Check(t, invariant.Quiescent)
	})
}

// TestWaitConditions delivers signals to waitpoints with each kind of condition.
func TestWaitConditions(t *testing.T) {
	t.Parallel()
	type sent struct{ name, source, outcome string }
	cases := map[string]struct {
		spec  waitSpec
		sends []sent
		want  string
	}{
		"any":      {waitSpec{}, []sent{{"x", "ann", "resumed"}}, `"x of ann"`},
		"all":      {waitSpec{names: []string{"a", "b"}, mode: "all"}, []sent{{"b", "ann", "accepted"}, {"b", "bob", "accepted"}, {"a", "ann", "resumed"}}, `"a of ann"`},
		"three":    {waitSpec{count: 3}, []sent{{"x", "ann", "accepted"}, {"y", "ann", "accepted"}, {"x", "ann", "resumed"}}, `"x of ann"`},
		"two of":   {waitSpec{names: []string{"a", "a", "b", "b"}, count: 2}, []sent{{"a", "ann", "accepted"}, {"c", "ann", "accepted"}, {"a", "ann", "resumed"}}, `"a of ann"`},
		"distinct": {waitSpec{count: 2, distinct: true}, []sent{{"x", "ann", "accepted"}, {"x", "ann", "accepted"}, {"x", "bob", "resumed"}}, `"x of bob"`},
		"collect": {waitSpec{names: []string{"a", "b"}, mode: "all", collect: true}, []sent{{"b", "ann", "accepted"}, {"c", "x", "accepted"}, {"a", "bob", "resumed"}},
			`[{"id":"","name":"b","category":"external","source_type":"test","source":"ann","correlation_id":"","payload":"b of ann","at":0},` +
				`{"id":"","name":"a","category":"external","source_type":"test","source":"bob","correlation_id":"","payload":"a of bob","at":0}]`},
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				l := newWaitFixture(t, b)
				l.submit([]string{"task"}, map[string]waitSpec{"gate": c.spec})
				x := l.take("task")
				l.suspend(x, "ask", c.spec)
				for i, s := range c.sends {
					for _, node := range []string{"gate", "task"} {
						assert.Equal(t, s.outcome, l.send(node, s.name, s.source, fmt.Sprintf("%q", s.name+" of "+s.source)), "signal %d to %s", i, node)
					}
					b.Check(t, invariant.AnyTime)
				}
				mark := "v"
				if c.spec.collect {
					mark = "l"
				}
				assert.Equal(t, c.want, withoutTimes(l.result("gate")))
				assert.Equal(t, mark+c.want, withoutTimes(l.journal("task")["await:ask"]))
				again := l.take("task")
				assert.Equal(t, "resumed", again.AttemptType)
				assert.Equal(t, x.AttemptID, again.AttemptID)
				assert.Equal(t, x.LeaseEpoch+1, again.LeaseEpoch)
				require.True(t, again.JournalComplete)
				require.Len(t, again.Journal, 1)
				assert.Equal(t, "await:ask", again.Journal[0].Name)
				l.end("task", "success")
				assert.Equal(t, "success", l.graph.result().Outcome)
			})
		}
		b.Check(t, invariant.Quiescent)
	})
}

// signalID is the random id of a signal in a list of signals.
var signalID = regexp.MustCompile(`"id":"[0-9a-f-]{36}",`)

// withoutTimes replaces the times of collected signals.
func withoutTimes(text string) string {
	text = signalID.ReplaceAllString(text, `"id":"",`)
	parts := strings.Split(text, `"at":`)
	for i := range parts[1:] {
		parts[i+1] = "0" + strings.TrimLeft(parts[i+1], "0123456789")
	}
	return strings.Join(parts, `"at":`)
}

// TestWaitTimeouts lets the time of waitpoint nodes and of waiting functions run out.
func TestWaitTimeouts(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for then, want := range map[string][3]string{
			"fail":                            {"failed", "failed", "wait_timed_out"},
			"cancel":                          {"cancelled", "cancelled", "wait_timed_out"},
			"expire":                          {"expired", "expired", "wait_timed_out"},
			"auto_resume_with_timeout_signal": {"completed", "waiting", "wait_timed_out"},
			"escalate":                        {"suspended", "suspended", "escalated"},
		} {
			t.Run(then, func(t *testing.T) {
				l := newWaitFixture(t, b)
				spec := waitSpec{timeout: 5 * time.Millisecond, then: then}
				many := spec
				many.collect = true
				l.submit([]string{"task"}, map[string]waitSpec{"gate": spec, "many": many})
				before := l.at("gate")
				l.suspend(l.take("task"), "ask", spec)
				enginetest.Eventually(t, func() string {
					l.drain(100)
					if n := len(l.hash(l.e.Keys().ExecSuspension(l.node("task")))); n == 0 || !contains(l.events(), want[2]+" task") {
						return "the timeout"
					}
					return ""
				})
				assert.Equal(t, want[0], l.state("gate"))
				assert.Equal(t, want[1], l.state("task"))
				assert.Contains(t, l.events(), want[2]+" gate")
				b.Check(t, invariant.AnyTime)
				switch then {
				case "fail":
					assert.Equal(t, "timeout", l.core("gate")["failure_category"])
					assert.Equal(t, "timeout", l.graph.result().FailureCategory)
				case "auto_resume_with_timeout_signal":
					assert.Equal(t, "null", l.result("gate"))
					assert.Equal(t, "[]", l.result("many"))
					assert.Equal(t, "tnull", l.journal("task")["await:ask"])
					l.end("task", "success")
				case "escalate":
					assert.True(t, l.at("gate").Escalated)
					for _, node := range []string{"gate", "many", "task"} {
						assert.Equal(t, "resumed", l.send(node, "x", "ann", "1"))
					}
					l.end("task", "success")
				}
				if then != "escalate" {
					assert.Equal(t, "expired", l.signal(l.signalling(before, "x", "ann", "")).Outcome)
				}
			})
		}
		b.Check(t, invariant.Quiescent)
	})
}

func contains(list []string, text string) bool {
	for _, x := range list {
		if x == text {
			return true
		}
	}
	return false
}

// TestSteps records steps, and looks for them after a resume, a retry and a loss of the worker.
func TestSteps(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, nil)
		x := l.take("task")
		value, err := l.record(x, "charge", "one\x00")
		require.NoError(t, err)
		assert.Equal(t, "one\x00", value)
		l.unchanged(func() {
			value, err = l.record(x, "charge", "two")
			require.NoError(t, err)
			assert.Equal(t, "one\x00", value)
		})
		_, err = l.e.RevokeLease(l.ctx, enginerpc.RevokeLeaseCall{ExecutionID: x.ExecutionID, WorkerInstanceID: "w1"})
		require.NoError(t, err)
		_, err = l.record(x, "more", "lost")
		assert.ErrorIs(t, err, enginecore.ErrLeaseRevoked)
		delete(l.leases, "task")
		again := l.take("task")
		assert.Equal(t, "reclaim", again.AttemptType)
		assert.Equal(t, []enginerpc.JournalEntry{{Name: "once:charge", Value: []byte("one\x00")}}, again.Journal)
		_, err = l.record(x, "more", "stale")
		assert.ErrorIs(t, err, enginecore.ErrStaleLease)

		l.unchanged(func() {
			_, err = l.record(again, strings.Repeat("x", 257), "")
			assert.ErrorIs(t, err, errorcode.InvalidInput)
			_, err = l.record(again, "big", strings.Repeat("x", 1<<20+1))
			assert.ErrorIs(t, err, errorcode.JournalFull)
			assert.ErrorContains(t, err, "1048576")
		})
		for i := range 255 {
			_, err = l.record(again, fmt.Sprint(i), "")
			require.NoError(t, err)
		}
		l.unchanged(func() {
			_, err = l.record(again, "too many", "")
			assert.ErrorIs(t, err, errorcode.JournalFull)
			_, err = l.e.Suspend(l.ctx, l.suspension(again, "too many", waitSpec{}))
			assert.ErrorIs(t, err, errorcode.JournalFull)
		})
		b.Check(t, invariant.AnyTime)
		l.end("task", "success")
		b.Check(t, invariant.Quiescent)
	})
}

// TestLargeJournal reads a journal that does not come with the claim.
func TestLargeJournal(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, nil)
		x := l.take("task")
		want := make(map[string]int)
		for i := range 40 {
			name := fmt.Sprint("part-", i)
			_, err := l.record(x, name, strings.Repeat("x", 400_000))
			require.NoError(t, err)
			want["once:"+name] = 400_000
		}
		for i := range 5 {
			_, err := l.record(x, fmt.Sprint("last-", i), strings.Repeat("x", 400_000))
			if err != nil {
				require.ErrorIs(t, err, errorcode.JournalFull)
				break
			}
			want["once:"+fmt.Sprint("last-", i)] = 400_000
		}
		l.suspend(x, "ask", waitSpec{})
		l.send("task", "x", "ann", "1")
		x = l.take("task")
		assert.False(t, x.JournalComplete)
		assert.Empty(t, x.Journal)
		want["await:ask"] = 2
		got := make(map[string]int)
		for cursor := ""; ; {
			reply, err := l.e.ReadJournal(l.ctx, enginerpc.ReadJournalCall{Partition: l.p, ExecutionID: x.ExecutionID, Cursor: cursor})
			require.NoError(t, err)
			for _, entry := range reply.Journal {
				got[entry.Name] = len(entry.Value)
			}
			if cursor = reply.NextCursor; cursor == "" {
				break
			}
		}
		assert.Equal(t, want, got)
		l.end("task", "success")
	})
}

// TestWrongTokensAreRefused tries tokens that do not belong to the waitpoint: the answer is one, and nothing changes.
func TestWrongTokensAreRefused(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit(nil, map[string]waitSpec{"one": {}, "two": {}})
		one, two := l.at("one"), l.at("two")
		flipped := []byte(one.WaitpointToken)
		flipped[len(flipped)-1] ^= 1
		changes := map[string]func(c *enginerpc.SignalCall){
			"empty":             func(c *enginerpc.SignalCall) { c.WaitpointToken = "" },
			"malformed":         func(c *enginerpc.SignalCall) { c.WaitpointToken = "k1:zz" },
			"flipped":           func(c *enginerpc.SignalCall) { c.WaitpointToken = string(flipped) },
			"upper case":        func(c *enginerpc.SignalCall) { c.WaitpointToken = strings.ToUpper(one.WaitpointToken) },
			"unknown secret":    func(c *enginerpc.SignalCall) { c.WaitpointToken = "k2" + one.WaitpointToken[2:] },
			"another waitpoint": func(c *enginerpc.SignalCall) { c.WaitpointID = two.WaitpointID },
			"another execution": func(c *enginerpc.SignalCall) { c.ExecutionID = two.ExecutionID },
			"unknown waitpoint": func(c *enginerpc.SignalCall) { c.WaitpointID = enginecore.WaitpointID(uuid.NewString()) },
			"unknown execution": func(c *enginerpc.SignalCall) { c.ExecutionID = l.node("nobody") },
		}
		l.unchanged(func() {
			for name, change := range changes {
				c := l.signalling(one, "x", "ann", "1")
				change(&c)
				_, err := l.e.Signal(l.ctx, c)
				assert.ErrorIs(t, err, enginecore.ErrInvalidToken, name)
				var refusal *enginecore.Error
				if errors.As(err, &refusal) {
					assert.Empty(t, refusal.Details, name)
				}
			}
		})
		_, err := l.e.RotateWaitpointHMACSecret(l.ctx, enginerpc.RotateWaitpointHMACSecretCall{
			Partition: l.p, NewKID: "k9", NewSecretHex: strings.Repeat("cd", 32), Grace: 0,
		})
		require.NoError(t, err)
		enginetest.Pass(t, l.e, 0)
		l.unchanged(func() {
			_, err = l.e.Signal(l.ctx, l.signalling(one, "x", "ann", "1"))
			assert.ErrorIs(t, err, enginecore.ErrInvalidToken, "a token whose secret has gone")
		})
		assert.Equal(t, "resumed", l.send("one", "x", "ann", "1"))
		assert.Equal(t, "resumed", l.send("two", "x", "ann", "1"))
		b.Check(t, invariant.Quiescent)
	})
}
