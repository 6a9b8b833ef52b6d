package enginetest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// deliver is the contract's own delivery to an open waitpoint.
func (l *waitFixture) deliver(w enginerpc.ListedWaitpoint, name, payload string) string {
	l.t.Helper()
	reply, err := l.e.DeliverSignal(l.ctx, enginerpc.DeliverSignalCall{LaneID: l.lane, Signal: enginerpc.Signal{
		WaitpointToken: w.WaitpointToken,
		SignalID:       enginecore.SignalID(uuid.NewString()), ExecutionID: w.ExecutionID, WaitpointID: w.WaitpointID, SignalName: name,
		SignalCategory: "external", SourceType: "test", SourceIdentity: "ann", Payload: []byte(payload),
	}})
	require.NoError(l.t, err)
	return reply.Effect
}

// TestContractEndsWaits ends waits of managed flows with the contract's own functions.
func TestContractEndsWaits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ends := map[string]func(l *waitFixture, node string, w enginerpc.ListedWaitpoint){
			"deliver": func(l *waitFixture, _ string, w enginerpc.ListedWaitpoint) {
				assert.Equal(t, "resume_condition_satisfied", l.deliver(w, "yes", `"paid"`))
			},
			"resume": func(l *waitFixture, node string, w enginerpc.ListedWaitpoint) {
				_, err := l.e.ResumeExecution(l.ctx, enginerpc.ResumeExecutionCall{ExecutionID: l.node(node), WaitpointID: w.WaitpointID, LaneID: l.lane})
				require.NoError(t, err)
			},
			"cancel": func(l *waitFixture, node string, _ enginerpc.ListedWaitpoint) { l.graph.cancel(node) },
		}
		want := map[string][3]string{
			"deliver": {"completed", `"paid"`, `v"paid"`}, "resume": {"completed", "null", "vnull"}, "cancel": {"cancelled", "", ""},
		}
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				l := newWaitFixture(t, b)
				l.submit([]string{"task", "after"}, map[string]waitSpec{"gate": {names: []string{"yes"}}}, link{"gate", "after", "always"})
				l.suspend(l.take("task"), "ask", waitSpec{names: []string{"yes"}})
				b.Check(t, invariant.AnyTime)
				for _, node := range []string{"gate", "task"} {
					end(l, node, l.at(node))
					b.Check(t, invariant.AnyTime)
				}
				assert.Equal(t, want[name][0], l.state("gate"))
				assert.Equal(t, want[name][1], l.result("gate"))
				assert.Equal(t, want[name][2], l.journal("task")["await:ask"])
				assert.Equal(t, "waiting", l.state("after"))
				if name != "cancel" {
					l.end("task", "success")
				}
				l.end("after", "success")
			})
		}
		b.Check(t, invariant.Quiescent)
	})
}

// TestContractSuspendsMember suspends a member of a managed flow with the contract's function and claims it with
// another.
func TestContractSuspendsMember(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, nil)
		x := l.take("task")
		suspended, err := l.e.SuspendExecution(l.ctx, enginerpc.SuspendExecutionCall{
			ExecutionID: x.ExecutionID, WorkerInstanceID: "w1", LaneID: l.lane, AttemptIndex: x.AttemptIndex, AttemptID: x.AttemptID,
			LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, SuspensionID: keyspace.SuspensionID(uuid.NewString()),
			WaitpointID: enginecore.WaitpointID(uuid.NewString()), WaitpointKey: "key", ReasonCode: "waiting_for_approval",
			RequestedBy: "worker", ResumeConditionJSON: waitSpec{}.condition(), ResumePolicyJSON: []byte("{}"),
		})
		require.NoError(t, err)
		w := l.at("task")
		assert.Equal(t, suspended.WaitpointID, w.WaitpointID)
		assert.Equal(t, suspended.WaitpointToken, w.WaitpointToken)
		assert.Equal(t, "resumed", l.signal(l.signalling(w, "x", "ann", "1")).Outcome)
		assert.Empty(t, l.journal("task"))
		_, err = l.e.IssueClaimGrant(l.ctx, enginerpc.IssueClaimGrantCall{Grant: enginerpc.Grant{
			ExecutionID: x.ExecutionID, WorkerID: "w", WorkerInstanceID: "w1", LaneID: l.lane, GrantTTL: time.Minute,
		}})
		require.NoError(t, err)
		claimed, err := l.e.ClaimResumedExecution(l.ctx, enginerpc.ClaimResumedExecutionCall{
			AttemptIndex: x.AttemptIndex, ExecutionID: x.ExecutionID, WorkerID: "w", WorkerInstanceID: "w1", LaneID: l.lane,
			LeaseID: enginecore.LeaseID(uuid.NewString()), LeaseTTL: time.Hour,
		})
		require.NoError(t, err)
		assert.Equal(t, x.AttemptID, claimed.AttemptID)
		b.Check(t, invariant.AnyTime)
		x.LeaseID, x.LeaseEpoch = claimed.LeaseID, claimed.LeaseEpoch
		l.leases["task"] = x
		l.end("task", "success")
		b.Check(t, invariant.Quiescent)
	})
}

// TestEndWait lets an operator end waits.
func TestEndWait(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task", "early"}, map[string]waitSpec{"gate": {collect: true}, "other": {}})
		l.suspend(l.take("task"), "ask", waitSpec{})
		pending, _ := l.open(l.take("early"), "ask")
		end := func(node string, w enginecore.WaitpointID, resume bool, result string) (enginerpc.EndWaitReply, error) {
			return l.e.EndWait(l.ctx, enginerpc.EndWaitCall{
				Partition: l.p, ExecutionID: l.node(node), WaitpointID: w, Resume: resume, Result: []byte(result), Reason: "test", Actor: "ann",
			})
		}
		l.unchanged(func() {
			_, err := end("early", pending, true, "")
			assert.ErrorIs(t, err, errorcode.ExecutionNotSuspended)
			_, err = end("gate", pending, true, "")
			assert.ErrorIs(t, err, enginecore.ErrWaitpointNotFound)
			_, err = end("nobody", pending, true, "")
			assert.ErrorIs(t, err, enginecore.ErrExecutionNotFound)
		})
		ask := l.at("task").WaitpointID
		for _, c := range []struct {
			node   string
			w      enginecore.WaitpointID
			resume bool
			result string
			state  fabrictype.NodeState
		}{
			{"task", ask, true, `"fine"`, "waiting"}, {"gate", l.waitpoint("gate"), true, "", "completed"},
			{"other", l.waitpoint("other"), false, "", "cancelled"}, {"early", pending, false, "", "active"},
		} {
			reply, err := end(c.node, c.w, c.resume, c.result)
			require.NoError(t, err)
			assert.Equal(t, c.state, reply.PublicState, c.node)
			b.Check(t, invariant.AnyTime)
			l.unchanged(func() {
				reply, err = end(c.node, c.w, c.resume, c.result)
				require.NoError(t, err)
				assert.Equal(t, enginerpc.StatusAlreadySatisfied, reply.Status)
			})
		}
		assert.Empty(t, l.list(false))
		assert.Equal(t, `v"fine"`, l.journal("task")["await:ask"])
		assert.Equal(t, "[]", l.result("gate"))
		l.end("task", "success")
		l.end("early", "success")
		assert.Equal(t, "cancelled", l.graph.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}

// TestReplayedWaitpoint runs a waitpoint node again: it has another waitpoint, and the first one's token is of no use.
func TestReplayedWaitpoint(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, map[string]waitSpec{"gate": {}}, link{"gate", "task", "success_only"})
		first := l.at("gate")
		l.graph.cancel("gate")
		assert.Equal(t, "cancelled", l.graph.result().Outcome)
		l.replay("gate")
		l.replay("task")
		b.Check(t, invariant.AnyTime)
		second := l.at("gate")
		assert.NotEqual(t, first.WaitpointID, second.WaitpointID)
		assert.Equal(t, "closed", l.signal(l.signalling(first, "x", "ann", "1")).Outcome)
		assert.Equal(t, "resumed", l.signal(l.signalling(second, "x", "ann", "2")).Outcome)
		assert.Equal(t, "2", l.result("gate"))
		assert.Len(t, l.list(true), 2)
		l.end("task", "success")
		assert.Equal(t, "success", l.graph.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}

// TestDelayedWaitpoint opens a waitpoint after a delay.
func TestDelayedWaitpoint(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		run := l.call([]string{"task"}, map[string]waitSpec{"gate": {}, "later": {}}, link{"gate", "task", "success_only"})
		run.Nodes[run.Ordinal("later")-1].Delay = 20 * time.Millisecond
		l.graph.submit(run)
		assert.Equal(t, "suspended", l.state("gate"))
		assert.Equal(t, "delayed", l.state("later"))
		b.Check(t, invariant.AnyTime)
		l.unchanged(func() {
			existed, err := run.Submit(l.ctx, l.e)
			require.NoError(t, err)
			assert.True(t, existed)
		})
		enginetest.Eventually(t, func() string {
			l.drain(100)
			if l.state("later") == "suspended" {
				return ""
			}
			return "the delayed waitpoint"
		})
		l.send("later", "x", "ann", "")
		l.send("gate", "x", "ann", "")
		l.end("task", "success")
		b.Check(t, invariant.Quiescent)
	})
}

// TestManyTimeouts lets many waits run out at once: every call does a bounded part.
func TestManyTimeouts(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		many := 1000
		if os.Getenv("FLOWFABRIC_SOAK") != "" {
			many = 10_000
		}
		l := newWaitFixture(t, b)
		then := []string{"fail", "cancel", "expire", "auto_resume_with_timeout_signal"}
		waits := make(map[string]waitSpec, many)
		for i := range many {
			waits[fmt.Sprintf("gate-%05d", i)] = waitSpec{timeout: time.Millisecond, then: then[i%len(then)]}
		}
		start := time.Now()
		l.submit(nil, waits)
		var ticks, done int64
		var slowest time.Duration
		for done < int64(many) && ticks < int64(many) {
			begun := time.Now()
			reply, err := l.e.Tick(l.ctx, enginerpc.TickCall{Partition: l.p, Limit: 256})
			require.NoError(t, err)
			slowest = max(slowest, time.Since(begun))
			assert.LessOrEqual(t, reply.SuspensionsExpired, int64(64))
			done += reply.SuspensionsExpired
			ticks++
			if !reply.More {
				enginetest.Pass(t, l.e, time.Millisecond)
			}
		}
		assert.EqualValues(t, many, done)
		assert.LessOrEqual(t, ticks, int64(many/60+many/64+10))
		t.Logf("%d timeouts in %d calls: %s, the slowest %s", done, ticks, time.Since(start), slowest)
		assert.Equal(t, "failed", l.graph.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}

// TestSignalCommands counts the commands of a signal that ends a wait.
func TestSignalCommands(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		if b.Kind == "embedded" {
			t.Skip("it does not count commands")
		}
		if b.Kind == testserver.OnCluster {
			t.Skip("commands are counted on one server; a cluster executes the same")
		}
		l := newWaitFixture(t, b)
		l.submit([]string{"task"}, map[string]waitSpec{"gate": {}})
		l.suspend(l.take("task"), "ask", waitSpec{})
		for _, node := range []string{"gate", "task"} {
			c := l.signalling(l.at(node), "x", "ann", `{"by":"ann"}`)
			before := l.commands()
			l.signal(c)
			after := l.commands()
			var list []string
			total := 0
			for name, n := range after {
				if n -= before[name]; n > 0 && name != "info" && name != "fcall" {
					total += n
					list = append(list, fmt.Sprintf("%d %s", n, name))
				}
			}
			t.Logf("%s: %d commands: %s", node, total, strings.Join(list, ", "))
			assert.LessOrEqual(t, total, 40)
		}
	})
}

// commands returns the server's counts of commands by name.
func (l *waitFixture) commands() map[string]int {
	l.t.Helper()
	client := l.e.Client()
	text, err := client.Do(l.ctx, client.B().Info().Section("commandstats").Build()).ToString()
	require.NoError(l.t, err)
	out := make(map[string]int)
	for line := range strings.Lines(text) {
		name, rest, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if found {
			var n int
			_, err := fmt.Sscanf(rest, "%d", &n)
			require.NoError(l.t, err)
			out[name] = n
		}
	}
	return out
}

// A payload that only resembles JSON does not corrupt the list of the other payloads.
func TestCollectedPayloadsAreJSON(t *testing.T) {
	payloads := []string{
		`1`, `-0.5e+10`, `0`, `-0`, `10.25`, `1E3`, `"a\"b\\"`, `"\\"`, `"é, nan"`, `[]`, `{}`, `{"a":[1,{"b":null}],"c":true}`, ` [ 1 , false ] `,
		`007`, `nan`, `NaN`, `-inf`, `Infinity`, `0x10`, `1.`, `.5`, `+1`, `[01]`, `{"a":nan}`, "\"a\nb\"", "[\"a\x01\"]", `{"a":"b`, `text`, `1 2`,
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		l := newWaitFixture(t, b)
		l.submit(nil, map[string]waitSpec{"w": {count: len(payloads), collect: true}})
		for i, payload := range payloads {
			l.send("w", "name", string(rune('a'+i)), payload)
		}
		var list []struct {
			Payload json.RawMessage `json:"payload"`
		}
		require.NoError(t, json.Unmarshal([]byte(l.result("w")), &list), l.result("w"))
		require.Len(t, list, len(payloads))
		for i, payload := range payloads {
			if json.Valid([]byte(payload)) {
				require.JSONEq(t, payload, string(list[i].Payload))
				continue
			}
			var text string
			require.NoError(t, json.Unmarshal(list[i].Payload, &text), payload)
			require.Equal(t, payload, text)
		}
	})
}
