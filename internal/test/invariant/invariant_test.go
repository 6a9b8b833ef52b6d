package invariant_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}

// stage is a keyspace with one finished run and one in the middle: a has succeeded, b is active, c is eligible and d
// waits for both.
type stage struct {
	*enginetest.Bench
	done, open enginetest.RunPlace
	instance   string
	finish     func()
}

func diamond(t *testing.T, pass, hold *activity.Activity[int, int]) *flow.Definition[int, int] {
	f := flow.New[int, int]("diamond", flow.Deadline(time.Hour))
	a := flow.Node(f, "a", pass, f.Input())
	b := flow.Node(f, "b", hold, a, activity.Priority(1), activity.StartToClose(time.Hour), activity.ScheduleToStart(time.Hour))
	c := flow.Node(f, "c", hold, a)
	d := flow.Node(f, "d", pass, b, flow.After(c))
	flow.Return(f, d)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func newStage(t *testing.T) *stage {
	t.Helper()
	bench := enginetest.New(t, testserver.Embedded, runtime.OpenConfig{Partitions: 1})
	ctx := enginetest.Context(t)
	begun, gate := make(chan struct{}, 1), make(chan struct{})
	pass := activity.New("pass", func(_ context.Context, n int) (int, error) { return n, nil })
	hold := activity.New("hold", func(_ context.Context, n int) (int, error) {
		if n == 2 {
			begun <- struct{}{}
			<-gate
		}
		return n, nil
	})
	w := enginetest.NewWorker(t, bench.Engine, runtime.WorkerConfig{Concurrency: 1, Lease: time.Hour, NoKeeper: true})
	require.NoError(t, w.Register(pass, hold))
	running, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(running) }()
	s := &stage{Bench: bench, instance: string(w.Instance()), finish: func() { close(gate) }}
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	def := diamond(t, pass, hold)
	run, err := runtime.Start(ctx, bench.Client, def, 1, runtime.WithID("done"))
	require.NoError(t, err)
	_, err = run.Result(ctx)
	require.NoError(t, err)
	s.done = bench.Locate(t, def.Name(), "done")
	_, err = runtime.Start(ctx, bench.Client, def, 2, runtime.WithID("open"))
	require.NoError(t, err)
	s.open = bench.Locate(t, def.Name(), "open")
	<-begun
	return s
}

// expand replaces the names of a command by keys and ids: $core:a, $id:a and so on mean the open run, $core:done.a the
// finished one.
func (s *stage) expand(word string) string {
	keys := enginerpc.ConnOf(s.Engine).Keys()
	name, node, _ := strings.Cut(strings.TrimPrefix(word, "$"), ":")
	if !strings.HasPrefix(word, "$") {
		return word
	}
	place := s.open
	if rest, found := strings.CutPrefix(node, "done."); found {
		place, node = s.done, rest
	}
	if node == "done" {
		place = s.done
	}
	p, id := place.Partition, place.ExecutionID(node)
	lane := enginecore.LaneID("default")
	edge := enginecore.EdgeIDFor(place.FlowID, "b", "d")
	switch name {
	case "id":
		return string(id)
	case "flowid":
		return string(place.FlowID)
	case "edgeid":
		return string(edge)
	case "core":
		return keys.ExecCore(id)
	case "result":
		return keys.ExecResult(id)
	case "lease":
		return keys.ExecLeaseCurrent(id)
	case "attempts":
		return keys.ExecAttempts(id)
	case "attempt":
		return keys.AttemptRecord(id, 0)
	case "attempt1":
		return keys.AttemptRecord(id, 1)
	case "usage1":
		return keys.AttemptUsage(id, 1)
	case "meta":
		return keys.ExecDepsMeta(id)
	case "unresolved":
		return keys.ExecDepsUnresolved(id)
	case "alledges":
		return keys.ExecDepsAllEdges(id)
	case "dep":
		return keys.ExecDep(id, edge)
	case "eligible":
		return keys.LaneEligible(p, lane)
	case "active":
		return keys.LaneActive(p, lane)
	case "delayed":
		return keys.LaneDelayed(p, lane)
	case "terminal":
		return keys.LaneTerminal(p, lane)
	case "blocked":
		return keys.LaneBlockedDependencies(p, lane)
	case "expiry":
		return keys.IndexLeaseExpiry(p)
	case "worker":
		return keys.IndexWorkerLeases(p, enginecore.WorkerInstanceID(s.instance))
	case "all":
		return keys.IndexAllExecutions(p)
	case "timeout":
		return keys.IndexAttemptTimeout(p)
	case "reclaimable":
		return keys.FfxReclaimable(p, lane)
	case "queue":
		return keys.FfxQueue(p, lane, "a")
	case "turns":
		return keys.FfxTurns(p, lane)
	case "startdeadlines":
		return keys.FfxStartDeadlines(p)
	case "flowdeadlines":
		return keys.FfxFlowDeadlines(p)
	case "closedflows":
		return keys.FfxClosedFlows(p)
	case "flowindex":
		return keys.IndexFlowIndex(p)
	case "runs":
		return keys.FfxRuns(p, "diamond")
	case "backlog":
		return keys.FfxBacklog(p)
	case "waiting":
		return keys.FfxUnresolvedEdges(id)
	case "cancelbacklog":
		return keys.IndexCancelBacklog(p)
	case "flow":
		return keys.FlowCore(p, place.FlowID)
	case "members":
		return keys.FlowMembers(p, place.FlowID)
	case "held":
		return keys.FlowHeld(p, place.FlowID)
	case "pending":
		return keys.FlowPendingCancels(p, place.FlowID)
	case "edge":
		return keys.FlowEdge(p, place.FlowID, edge)
	case "out":
		return keys.FlowOut(place.FlowID, id)
	case "events":
		return keys.FlowEvents(p, place.FlowID)
	case "prefix":
		return s.Prefix + ":" + node
	}
	panic("unknown name " + word)
}

func (s *stage) do(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	for i := range words {
		words[i] = strings.ReplaceAll(s.expand(words[i]), "␣", " ")
	}
	client := enginerpc.ConnOf(s.Engine).Client()
	require.NoError(t, client.Do(context.Background(), client.B().Arbitrary(words...).Build()).Error(), command)
}

const kept = "kept:"

// keep copies all keys aside; restore puts them back as they were.
func (s *stage) keep(t *testing.T) {
	t.Helper()
	for _, key := range s.keys(t, s.Prefix) {
		s.do(t, "COPY "+key+" "+kept+key)
	}
}

func (s *stage) restore(t *testing.T) {
	t.Helper()
	s.do(t, "DEL "+strings.Join(s.keys(t, s.Prefix), " "))
	for _, key := range s.keys(t, kept) {
		s.do(t, "COPY "+key+" "+strings.TrimPrefix(key, kept))
	}
}

func (s *stage) keys(t *testing.T, prefix string) []string {
	t.Helper()
	client := enginerpc.ConnOf(s.Engine).Client()
	keys, err := client.Do(context.Background(), client.B().Keys().Pattern(prefix+"*").Build()).AsStrSlice()
	require.NoError(t, err)
	return keys
}

func TestGoodKeyspace(t *testing.T) {
	s := newStage(t)
	report, err := invariant.Check(context.Background(), enginerpc.ConnOf(s.Engine).Client(), s.Prefix, invariant.AnyTime)
	require.NoError(t, err)
	require.NoError(t, report.Err())
	require.Equal(t, 8, report.Executions)
	require.Equal(t, 2, report.Flows)

	report, err = invariant.Check(context.Background(), enginerpc.ConnOf(s.Engine).Client(), s.Prefix, invariant.Quiescent)
	require.NoError(t, err)
	require.ErrorContains(t, report.Err(), "is not closed")
	s.finish()
	s.Settle(t)
}

func TestEveryRuleFires(t *testing.T) {
	s := newStage(t)
	defer s.finish()
	s.keep(t)
	for _, tt := range []struct {
		rule     invariant.Rule
		commands string
		says     string
	}{
		{invariant.RuleKeys, "SET $prefix:whatever 1", "no such key"},
		{invariant.RuleKeys, "SET $prefix:ffx:{fp:0}:odd 1", "no such key"},
		{invariant.RuleKeys, "DEL $core:c", "not its core"},
		{invariant.RuleKeys, "DEL $flow:", "not its core"},
		{invariant.RuleKeys, "SREM $all: $id:c", "does not hold"},
		{invariant.RuleKeys, "SADD $all: nobody", "does not exist"},
		{invariant.RuleKeys, "HSET $usage1:b x 1", "without its record"},
		{invariant.RuleKeys, "DEL $all:; SET $all: x", "must be a set"},
		{invariant.RuleState, "HSET $core:b public_state waiting", "public_state"},
		{invariant.RuleState, "HSET $core:b attempt_state pending_first_attempt", "attempt_state"},
		{invariant.RuleState, "HSET $core:c current_lease_id x", "nobody holds"},
		{invariant.RuleState, "HDEL $core:done.a completed_at", "completed_at"},
		{invariant.RuleLaneIndex, "ZREM $eligible: $id:c", "not in eligible"},
		{invariant.RuleLaneIndex, "ZADD $delayed: 1 $id:c", "belongs into eligible"},
		{invariant.RuleLaneIndex, "ZADD $active: 1 $id:done.a", "belongs into terminal"},
		{invariant.RuleLaneIndex, "ZADD $blocked: 1 nobody", "does not exist"},
		{invariant.RuleLaneIndex, "ZREM $terminal: $id:done.d", "not in terminal"},
		{invariant.RuleScore, "ZADD $eligible: 5 $id:c", "has score 5"},
		{invariant.RuleScore, "ZADD $terminal: 5 $id:done.d", "has score 5"},
		{invariant.RuleLease, "ZREM $expiry: $id:b", "which is active"},
		{invariant.RuleLease, "ZADD $expiry: 7 $id:b", "has score 7"},
		{invariant.RuleLease, "ZADD $expiry: 7 $id:done.b", "which is terminal"},
		{invariant.RuleLease, "SREM $worker: $id:b", "which the worker has"},
		{invariant.RuleLease, "SADD $worker: $id:c", "does not have"},
		{invariant.RuleLease, "HSET $lease:b lease_epoch 9", "lease_epoch"},
		{invariant.RuleLease, "HSET $lease:c lease_epoch 9", "but the execution is runnable"},
		{invariant.RuleLease, "ZADD $reclaimable: 1 $id:b", "nobody has lost"},
		{invariant.RuleFairness, "ZADD $queue: 1 $id:b", "is not in the line"},
		{invariant.RuleFairness, "ZADD $queue: 1 $id:b; ZADD $turns: 1 a", "is not eligible"},
		{invariant.RuleFairness, "ZADD $queue: 1 $id:c; ZADD $turns: 1 a", "has score 1, must have"},
		{invariant.RuleFairness, "ZADD $turns: 1 a", "of which nothing waits"},
		{invariant.RuleFairness, "HSET $core:c fair_key a", "which is in no queue"},
		{invariant.RuleTimers, "ZADD $timeout: 9999999999999 $id:done.b", "which is terminal"},
		{invariant.RuleTimers, "ZADD $startdeadlines: 9999999999999 $id:b", "which is active"},
		{invariant.RuleTimers, "ZREM $flowdeadlines: $flowid:", "does not hold"},
		{invariant.RuleTimers, "ZADD $flowdeadlines: 9999999999999 $flowid:done", "which is closed"},
		{invariant.RuleAttempts, "ZREM $attempts:done.b 0", "not in the index"},
		{invariant.RuleAttempts, "ZADD $attempts:done.b 1 1", "has no record"},
		{invariant.RuleAttempts, "HSET $attempt:done.b attempt_state started; HDEL $attempt:done.b ended_at", "1 attempts are started"},
		{invariant.RuleAttempts, "HSET $attempt:done.b attempt_state ended_failure", "0 attempts succeeded"},
		{invariant.RuleAttempts, "HSET $core:done.b simple started", "standing in the core alone"},
		{invariant.RuleAttempts, "HSET $core:done.a terminal_outcome failed", "the only attempt has no record"},
		{invariant.RuleState, "HDEL $core:done.a attached", "without the field attached"},
		{invariant.RuleAttempts, "HDEL $core:done.a simple", "total_attempt_count is 1, the index holds 0"},
		{invariant.RuleAttempts, "HSET $attempt:b attempt_id x", "the core says"},
		{invariant.RuleAttempts, "HSET $core:b total_attempt_count 2", "total_attempt_count"},
		{invariant.RuleAttempts, "HDEL $attempt:done.b ended_at", "ended_at"},
		{invariant.RuleAttempts, "COPY $attempt:b $attempt1:b", "2 attempts are started"},
		{invariant.RuleDeps, "HSET $meta:d unsatisfied_required_count 5", "unsatisfied_required_count"},
		{invariant.RuleDeps, "HSET $meta:d impossible_required_count 5", "impossible_required_count"},
		{invariant.RuleDeps, "SREM $unresolved:d $edgeid:", "deps:unresolved: false"},
		{invariant.RuleDeps, "SREM $alledges:d $edgeid:", "not in deps:all_edges"},
		{invariant.RuleDeps, "DEL $dep:d", "has no record"},
		{invariant.RuleDeps, "HSET $dep:d state satisfied", "upstream's outcome is none"},
		{invariant.RuleDeps, "HSET $dep:done.d state impossible", "but 1 edges are impossible"},
		{invariant.RuleDeps, "HSET $core:d lifecycle_phase runnable eligibility_state eligible_now", "unresolved edges"},
		{invariant.RuleFlow, "HSET $flow: node_count 9", "node_count"},
		{invariant.RuleFlow, "HSET $flow: edge_count 9", "edge_count"},
		{invariant.RuleFlow, "HSET $flow: graph_revision 1", "graph_revision"},
		{invariant.RuleFlow, "HSET $flow: open_nodes 9", "open_nodes"},
		{invariant.RuleFlow, "HSET $flow:done nodes_failed 1", "nodes_failed"},
		{invariant.RuleFlow, "SREM $members: $id:c", "no member"},
		{invariant.RuleFlow, "SADD $members: nobody", "does not exist"},
		{invariant.RuleFlow, "HDEL $core:c managed", "not managed"},
		{invariant.RuleFlow, "SREM $out:b $edgeid:", "not in both"},
		{invariant.RuleFlow, "SADD $out:b x", "holds edge x"},
		{invariant.RuleFlow, "SREM $flowindex: $flowid:", "index of flows"},
		{invariant.RuleFlow, "ZREM $runs: $flowid:", "list of runs"},
		{invariant.RuleFlow, "ZREM $prefix:ffx:{fp:0}:all_runs $flowid:", "list of runs"},
		{invariant.RuleFlow, "ZADD $runs: 7 $flowid:", "at 7"},
		{invariant.RuleFlow, "ZADD $prefix:ffx:{fp:0}:tagged_runs:a.b:c 7 $flowid:", "does not belong there"},
		{invariant.RuleFlow, "SADD $pending: $id:c", "owed their end"},
		{invariant.RuleFlow, "ZADD $cancelbacklog: 1 $flowid:", "owed their end"},
		{invariant.RuleUnknownFlow, "ZADD $runs: 1 nobody", "does not exist"},
		{invariant.RuleUnknownFlow, "HSET $core:c flow_id x", "does not exist"},
		{invariant.RuleClosed, "HDEL $flow:done closed_at", "closed_at"},
		{invariant.RuleClosed, "HSET $flow: closed_at 1", "closed_at"},
		{invariant.RuleClosed, "HSET $flow:done outcome failed public_flow_state failed", "outcome is failed"},
		{invariant.RuleClosed, "HSET $flow:done public_flow_state failed", "state is"},
		{invariant.RuleClosed, "ZREM $closedflows: $flowid:done", "does not hold"},
		{invariant.RuleClosed, "ZADD $closedflows: 9 $flowid:", "which is not closed"},
		{invariant.RuleHeld, "HSET $flow: held 1", "not submitted yet"},
		{invariant.RuleHeld, "SADD $held: $id:a", "has held roots"},
		{invariant.RuleStuck, "DEL $unresolved:d; HSET $meta:d unsatisfied_required_count 0; HSET $dep:d state satisfied", "none is unresolved"},
		{invariant.RuleStuck, "HSET $flow: public_flow_state cancelled", "not owed its end"},
		{invariant.RuleStuck, "SADD $waiting:a x", "does not name"},
		{invariant.RuleEvents, "DEL $events:", "no event log"},
		{invariant.RuleEvents, "XADD $events:done * event success node a attempt 0", "already"},
		{invariant.RuleEvents, "XADD $events: * event started node b attempt 0", "begins again"},
		{invariant.RuleEvents, "XADD $events: * event success node b attempt 0", "has not ended"},
		{invariant.RuleEvents, "XADD $events: * signalled b␣0␣go success b␣0", "has not ended"},
		{invariant.RuleEvents, "XADD $events: * started b␣0␣somebody", "begins again"},
		{invariant.RuleEvents, "XADD $events:done * event flow_success", "came before"},
		{invariant.RuleEvents, "XADD $events: * event started node nobody attempt 0", "no member"},
		{invariant.RuleOrder, "XADD $events: * event started node d attempt 0", "had not ended as it must"},
		{invariant.RuleOrder, "XADD $events: * event flow_cancel_requested; XADD $events: * event started node c attempt 0", "after flow_cancel_requested"},
		{invariant.RuleOrder, "HSET $flow: cancelled_at 1", "was cancelled at"},
		{invariant.RuleResult, "DEL $result:done.a", "no result"},
		{invariant.RuleResult, "SET $result:b x", "there is a result"},
		{invariant.RuleWaits, "HSET $core:b journal 5", "its entries take 0"},
		{invariant.RuleWaits, "HSET $core:b current_waitpoint_id x", "names waitpoint"},
		{invariant.RuleStuck, "HSET $core:b lifecycle_phase suspended", "without an open suspension"},
		{invariant.RuleBudgets, "HSET $prefix:budget:{b:0}:x budget_id x gate 1; HSET $prefix:ffx:{b:0}:budget:x:reserved tokens 5", "reservations are 0"},
		{invariant.RuleBudgets, "HSET $prefix:budget:{b:0}:x budget_id x gate 1; HSET $prefix:ffx:{b:0}:budget:x:reservations e/1/1 5_tokens", "5_tokens"},
		{invariant.RuleBudgets, "HSET $prefix:budget:{b:0}:x budget_id x gate 1; HSET $prefix:ffx:{b:0}:budget:x:reservations e/1/1 0_tokens", "nobody looks"},
		{invariant.RuleBudgets, "HSET $flow: budgets 1", "do not agree"},
		{invariant.RuleStuck, "HSET $flow: budget_ids x; HSET $core:b lifecycle_phase runnable eligibility_state blocked_by_budget", "waits for none"},
		{invariant.RuleQuiescent, "RPUSH $backlog: $id:b", "has not ended"},
	} {
		t.Run(string(tt.rule)+"/"+tt.says, func(t *testing.T) {
			defer s.restore(t)
			for command := range strings.SplitSeq(tt.commands, ";") {
				s.do(t, command)
			}
			report, err := invariant.Check(context.Background(), enginerpc.ConnOf(s.Engine).Client(), s.Prefix, invariant.AnyTime)
			require.NoError(t, err)
			for _, v := range report.Violations {
				if v.Rule == tt.rule && strings.Contains(v.Detail, tt.says) {
					return
				}
			}
			t.Fatalf("rule %s did not fire with %q:\n%v", tt.rule, tt.says, report.Err())
		})
	}
}
