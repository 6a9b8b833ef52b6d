package enginetest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/internal/test/runsubmit"
)

// waitSpec is the wait condition of a waitpoint node or of a function.
type waitSpec struct {
	names    []string
	mode     string
	count    int
	distinct bool
	timeout  time.Duration
	then     string
	collect  bool
}

func (s waitSpec) condition() []byte {
	spec := map[string]any{
		"condition_type": "signal_set", "signal_match_mode": "any", "minimum_signal_count": max(1, s.count),
		"distinct_sources": s.distinct,
	}
	if s.mode != "" {
		spec["signal_match_mode"] = s.mode
	}
	if len(s.names) > 0 {
		spec["required_signal_names"] = s.names
	}
	data, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return data
}

func (s waitSpec) node() []byte {
	data, err := json.Marshal(map[string]any{
		"condition": json.RawMessage(s.condition()), "timeout": s.timeout.Milliseconds(), "timeout_behavior": s.then,
		"collect": s.collect,
	})
	if err != nil {
		panic(err)
	}
	return data
}

// link is an edge of a kind.
type link struct{ up, down, kind string }

// waitFixture is a flow with waits whose nodes a test ends one by one.
type waitFixture struct {
	*graph
}

func newWaitFixture(t *testing.T, b *enginetest.Bench) *waitFixture {
	t.Helper()
	l := &waitFixture{graph: newGraph(t, b)}
	_, err := l.e.RotateWaitpointHMACSecret(l.ctx, enginerpc.RotateWaitpointHMACSecretCall{
		Partition: l.p, NewKID: "k1", NewSecretHex: strings.Repeat("ab", 32), Grace: 0,
	})
	require.NoError(t, err)
	return l
}

// call describes a run of tasks and waitpoint nodes.
func (l *waitFixture) call(tasks []string, waits map[string]waitSpec, links ...link) *runsubmit.Run {
	l.run = &runsubmit.Run{
		Partition: l.p, FlowID: l.id, FlowName: "waits", RunID: string(l.id), Namespace: "n", GraphHash: "g", InputHash: "i",
		Definition: []byte("{}"),
	}
	for _, x := range links {
		l.run.Edges = append(l.run.Edges, runsubmit.Edge{Up: x.up, Down: x.down, Kind: x.kind})
	}
	add := func(name, kind string, wait []byte) {
		l.run.Nodes = append(l.run.Nodes, enginerpc.PutGraphNode{
			Name: name, Kind: kind, LaneID: l.lane, Policy: []byte("{}"), Tags: []byte("{}"), Wait: wait,
		})
	}
	for _, name := range tasks {
		add(name, groupKind, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		add(name, "", waits[name].node())
	}
	return l.run
}

func (l *waitFixture) submit(tasks []string, waits map[string]waitSpec, links ...link) {
	l.t.Helper()
	l.graph.submit(l.call(tasks, waits, links...))
}

// waitpoint is the id of the first waitpoint of a node.
func (l *waitFixture) waitpoint(node string) enginecore.WaitpointID {
	return keyspace.WaitpointIDFor(l.id, node)
}

// take leases a task.
func (l *waitFixture) take(name string) enginerpc.ClaimedExecution {
	l.t.Helper()
	l.claim()
	x, leased := l.leases[name]
	require.True(l.t, leased, "%s cannot be claimed: %v", name, l.core(name))
	return x
}

// suspension is the call by which a task waits at a step.
func (l *waitFixture) suspension(x enginerpc.ClaimedExecution, step string, s waitSpec) enginerpc.SuspendCall {
	return enginerpc.SuspendCall{
		Partition: l.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
		Step: step, SuspensionID: keyspace.SuspensionID(uuid.NewString()), WaitpointKey: step, Condition: s.condition(),
		Timeout: s.timeout, TimeoutBehavior: s.then, Collect: s.collect,
		ClaimRequest: enginerpc.ClaimRequest{LaneID: l.lane, WorkerID: "w", WorkerInstanceID: "w1", LeaseTTL: time.Hour},
	}
}

// suspend lets a task wait.
func (l *waitFixture) suspend(x enginerpc.ClaimedExecution, step string, s waitSpec) enginerpc.SuspendReply {
	l.t.Helper()
	reply, err := l.e.Suspend(l.ctx, l.suspension(x, step, s))
	require.NoError(l.t, err)
	if reply.Status == enginerpc.StatusOK {
		delete(l.leases, x.Node)
	}
	return reply
}

// open opens a waitpoint ahead and returns its id and token.
func (l *waitFixture) open(x enginerpc.ClaimedExecution, step string) (enginecore.WaitpointID, string) {
	l.t.Helper()
	reply, err := l.e.OpenWaitpoint(l.ctx, enginerpc.OpenWaitpointCall{
		Partition: l.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
		Step: step, WaitpointID: enginecore.WaitpointID(uuid.NewString()), WaitpointKey: step,
	})
	require.NoError(l.t, err)
	return reply.WaitpointID, reply.WaitpointToken
}

func (l *waitFixture) record(x enginerpc.ClaimedExecution, step, value string) (string, error) {
	reply, err := l.e.RecordStep(l.ctx, enginerpc.RecordStepCall{
		Partition: l.p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
		Step: step, Value: []byte(value),
	})
	return string(reply.Value), err
}

// list are the waitpoints of the flow.
func (l *waitFixture) list(all bool) []enginerpc.ListedWaitpoint {
	l.t.Helper()
	var out []enginerpc.ListedWaitpoint
	for cursor := ""; ; {
		reply, err := l.e.ListWaitpoints(l.ctx, enginerpc.ListWaitpointsCall{
			Partition: l.p, FlowID: l.id, All: all, Cursor: cursor,
		})
		require.NoError(l.t, err)
		out = append(out, reply.Waitpoints...)
		if cursor = reply.NextCursor; cursor == "" {
			return out
		}
	}
}

// at is the open waitpoint of a node.
func (l *waitFixture) at(name string) enginerpc.ListedWaitpoint {
	l.t.Helper()
	for _, w := range l.list(false) {
		if w.Node == name {
			return w
		}
	}
	require.Fail(l.t, "no open waitpoint", "of %s: %v", name, l.core(name))
	return enginerpc.ListedWaitpoint{}
}

// signalling is a signal to an open waitpoint.
func (l *waitFixture) signalling(w enginerpc.ListedWaitpoint, name, source, payload string) enginerpc.SignalCall {
	return enginerpc.SignalCall{
		Partition: l.p, ExecutionID: w.ExecutionID, WaitpointID: w.WaitpointID, WaitpointToken: w.WaitpointToken,
		OutgoingSignal: enginerpc.OutgoingSignal{
			SignalID: enginecore.SignalID(uuid.NewString()), SignalName: name, SourceType: "test",
			SourceIdentity: source, Payload: []byte(payload),
		},
	}
}

func (l *waitFixture) signal(c enginerpc.SignalCall) enginerpc.SignalReply {
	l.t.Helper()
	reply, err := l.e.Signal(l.ctx, c)
	require.NoError(l.t, err)
	return reply
}

func (l *waitFixture) send(node, name, source, payload string) string {
	l.t.Helper()
	return l.signal(l.signalling(l.at(node), name, source, payload)).Outcome
}

func (l *waitFixture) result(name string) string {
	l.t.Helper()
	result, err := rowread.ResultOf(l.ctx, l.e.Client(), l.e.Keys(), l.p, l.id, l.run.Ordinal(name))
	require.NoError(l.t, err)
	return string(enginerpc.Value([]byte(result)))
}

// journal returns the entries of the journal of a node, after the mark of each as the function gets it.
func (l *waitFixture) journal(name string) map[string]string {
	l.t.Helper()
	entries := l.hash(l.e.Keys().ExecJournal(l.node(name)))
	for entry, stored := range entries {
		if strings.HasPrefix(entry, "await:") {
			entries[entry] = stored[:1] + string(enginerpc.Value([]byte(stored[1:])))
		}
	}
	return entries
}

// events are the flow's log: event and node.
func (l *waitFixture) events() []string {
	l.t.Helper()
	reply, err := l.e.ReadEvents(l.ctx, enginerpc.ReadEventsCall{Partition: l.p, FlowID: l.id, Limit: 500})
	require.NoError(l.t, err)
	var out []string
	for _, event := range reply.Events {
		out = append(out, event.Event+" "+event.Node)
	}
	return out
}

// keyspace is everything that the engine holds.
func (l *waitFixture) keyspace() map[string]string {
	l.t.Helper()
	client := l.e.Client()
	keys, err := invariant.Keys(l.ctx, client, l.b.Prefix)
	require.NoError(l.t, err)
	types := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		types[i] = client.B().Type().Key(key).Build()
	}
	reads := make([]rueidis.Completed, len(keys))
	kinds := make([]string, len(keys))
	for i, result := range client.DoMulti(l.ctx, types...) {
		kind, err := result.ToString()
		require.NoError(l.t, err)
		kinds[i], reads[i] = kind, readAll(client, keys[i], kind)
	}
	out := make(map[string]string, len(keys))
	for i, result := range client.DoMulti(l.ctx, reads...) {
		value, err := result.ToAny()
		require.NoError(l.t, err)
		if members, ok := value.([]any); ok && kinds[i] == "set" {
			slices.SortFunc(members, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		out[keys[i]] = fmt.Sprint(value)
	}
	return out
}

// readAll is the command that reads everything of a key.
func readAll(client rueidis.Client, key, kind string) rueidis.Completed {
	switch kind {
	case "string":
		return client.B().Get().Key(key).Build()
	case "hash":
		return client.B().Hgetall().Key(key).Build()
	case "set":
		return client.B().Smembers().Key(key).Build()
	case "list":
		return client.B().Lrange().Key(key).Start(0).Stop(-1).Build()
	case "zset":
		return client.B().Zrange().Key(key).Min("0").Max("-1").Withscores().Build()
	default:
		return client.B().Xrange().Key(key).Start("-").End("+").Build()
	}
}

// unchanged makes a call that may not change anything.
func (l *waitFixture) unchanged(call func()) {
	l.t.Helper()
	before := l.keyspace()
	call()
	require.Equal(l.t, before, l.keyspace())
}
