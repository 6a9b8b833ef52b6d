package propertytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// seed is the input of a run.
type seed struct {
	N   int    `json:"n"`
	Who string `json:"who"`
}

// busyRun is a run that has a node in every state, with a run of another flow that has failed. Its keyspace is static: no
// keeper runs, and the only worker has no free slot.
type busyRun struct {
	*enginetest.Bench
	ctx           context.Context
	gate          chan struct{}
	begin         *activity.Activity[seed, int]
	add, hold     *activity.Activity[int, int]
	retry, paused *activity.Activity[int, int]
	worker        *enginetest.Running
	run           *runtime.Run[[]int]
	plan, done    *submit.RunPlan
	holder        string
}

// busyLane has a worker from the beginning, the others when the run is to end.
const busyLane = "busy"

func (x *busyRun) define(t *testing.T) *flow.Definition[seed, []int] {
	f := flow.New[seed, []int]("fixture", flow.Deadline(time.Hour), flow.FairBy("who"), flow.Tag("test.of", "mending"))
	first := flow.Node(f, "first", x.begin, f.Input(), activity.Lane(busyLane))
	active := flow.Node(f, "active", x.hold, first, activity.Lane(busyLane), activity.StartToClose(time.Hour))
	delayed := flow.Node(f, "delayed", x.retry, first, activity.Lane(busyLane))
	held := flow.Node(f, "held", x.paused, first, activity.Lane(busyLane))
	routed := flow.Node(f, "routed", x.add, first, activity.Lane(busyLane), activity.Capabilities("gpu"))
	eligible := flow.Node(f, "eligible", x.add, first, activity.Priority(3), activity.ScheduleToStart(time.Hour))
	answer := flow.Waitpoint[int](f, "answer", flow.After(first), activity.Signals("answer"), activity.Timeout(time.Hour, activity.Escalate))
	joined := flow.Node(f, "joined", x.add, flow.AnyOf(active, eligible), flow.LetRun())
	blocked := flow.Node(f, "blocked", x.add, active, flow.After(eligible))
	flow.Return(f, flow.Node(f, "all", activity.New("all", func(_ context.Context, in []int) ([]int, error) { return in, nil }),
		flow.List(delayed, held, routed, answer, joined, blocked)))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func newBusyRun(t *testing.T, b *enginetest.Bench) *busyRun {
	x := &busyRun{Bench: b, ctx: enginetest.Context(t), gate: make(chan struct{})}
	x.add = activity.New("add", func(_ context.Context, n int) (int, error) {
		if n < 0 {
			return 0, activity.NonRetryable(errors.New("too little"))
		}
		return n + 1, nil
	})
	x.begin = activity.New("begin", func(_ context.Context, d seed) (int, error) { return d.N + 1, nil })
	x.hold = activity.New("hold", func(ctx context.Context, n int) (int, error) {
		select {
		case <-x.gate:
			return n + 1, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	x.retry = activity.New("retry", func(ctx context.Context, n int) (int, error) {
		if info, _ := activity.Info(ctx); info.Attempt == 1 {
			return 0, errors.New("not yet")
		}
		return n + 1, nil
	}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 3}))
	x.paused = activity.New("paused", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	over := fixture.Single(t, x.add, activity.Lane(busyLane))
	require.NoError(t, b.Client.Activity("paused").Pause(x.ctx, "for the test"))
	others := slices.DeleteFunc(x.handlers(), func(h activity.Handler) bool { return h == x.hold })
	setUp := b.Worker(t, others, runtime.WorkerConfig{Lanes: []string{busyLane}})

	// Both in one partition.
	def := x.define(t)
	for i := 0; ; i++ {
		plan, err := fixture.NewPlan(b.Client, def, seed{1, "ann"}, fmt.Sprint("open", i))
		require.NoError(t, err)
		if plan.Partition.Index == 0 {
			x.plan = plan
			x.run, err = runtime.Start(x.ctx, b.Client, def, seed{1, "ann"}, runtime.WithID(plan.Run))
			require.NoError(t, err)
			break
		}
	}
	for i := 0; ; i++ {
		plan, err := fixture.NewPlan(b.Client, over, -1, fmt.Sprint("over", i))
		require.NoError(t, err)
		if plan.Partition.Index == 0 {
			x.done = plan
			run, err := runtime.Start(x.ctx, b.Client, over, -1, runtime.WithID(plan.Run))
			require.NoError(t, err)
			_, err = run.Result(x.ctx)
			fixture.Failure(t, err)
			break
		}
	}
	x.awaitStates(t, map[string]fabrictype.NodeState{
		"active": "rate_limited", "delayed": "delayed", "held": "rate_limited", "routed": "rate_limited", "eligible": "waiting",
		"answer": "suspended", "joined": "waiting_children", "blocked": "waiting_children",
	})
	require.NoError(t, setUp.Stop())
	x.worker = b.MessageWorker(t, x.handlers(), runtime.WorkerConfig{Lanes: []string{busyLane}, Concurrency: 1})
	x.awaitStates(t, map[string]fabrictype.NodeState{"active": "active"})
	fields, err := fixture.NodeFields(x.ctx, engine.ConnOf(b.Engine.Internal()), x.plan.ExecutionID("active"), "current_worker_instance_id")
	require.NoError(t, err)
	x.holder = fields["current_worker_instance_id"]
	return x
}

// awaitStates waits until nodes of the run are in states.
func (x *busyRun) awaitStates(t *testing.T, want map[string]fabrictype.NodeState) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		d, err := x.run.Describe(x.ctx)
		require.NoError(t, err)
		for _, n := range d.Nodes {
			if state, ok := want[n.Name]; ok && n.State != state {
				return fmt.Sprintf("%s is %s, not %s", n.Name, n.State, state)
			}
		}
		return ""
	})
}

func (x *busyRun) handlers() []activity.Handler {
	all := activity.New("all", func(_ context.Context, in []int) ([]int, error) { return in, nil })
	return []activity.Handler{x.begin, x.add, x.hold, x.retry, x.paused, all}
}

// do sends a command, with names in it: $idx:x and $ffx:x are keys of the partition, $id:x is the execution of a node,
// $exec:x:part a key of it ($first in it is the edge from the first node), $flow, $flow:part, $over, $over:part,
// $overid and $holder are the flows, ids and worker of these names. FIELD <flow> <name> <value> sets a field of a flow's
// record, OPEN <flow> <number> the number of its open nodes, and NAME <list> <text> the text after the time and the id in
// the first entry of a list of runs.
func (x *busyRun) do(t *testing.T, command string) {
	t.Helper()
	tag := x.plan.Partition.Tag()
	words := strings.Fields(command)
	for i, word := range words {
		name, rest, _ := strings.Cut(word, ":")
		switch name {
		case "$idx", "$ffx":
			words[i] = x.Prefix + ":" + name[1:] + ":" + tag + ":" + strings.ReplaceAll(rest, "$holder", x.holder)
		case "$id":
			words[i] = string(x.plan.ExecutionID(rest))
		case "$exec":
			node, part, _ := strings.Cut(rest, ":")
			words[i] = x.Prefix + ":exec:" + tag + ":" + string(x.plan.ExecutionID(node)) + ":" +
				strings.ReplaceAll(part, "$first", string(keyspace.EdgeIDFor(x.plan.FlowID, "first", node)))
		case "$flow":
			words[i] = string(x.plan.FlowID)
			if rest != "" {
				words[i] = x.Prefix + ":flow:" + tag + ":" + string(x.plan.FlowID) + ":" + strings.ReplaceAll(rest, "$joined", string(x.plan.ExecutionID("joined")))
			}
		case "$over":
			words[i] = string(x.done.FlowID)
			if rest != "" {
				words[i] = x.Prefix + ":flow:" + tag + ":" + words[i] + ":" + rest
			}
		case "$overid":
			words[i] = string(x.done.ExecutionID("only"))
		case "$edge":
			from, to, _ := strings.Cut(rest, ">")
			words[i] = string(keyspace.EdgeIDFor(x.plan.FlowID, from, to))
		}
	}
	conn := engine.ConnOf(x.Engine.Internal())
	client, p := conn.Client(), x.plan.Partition
	switch words[0] {
	case "FIELD":
		require.NoError(t, rowread.SetFlow(x.ctx, client, conn.Keys(), p, enginecore.FlowID(words[1]), map[string]string{words[2]: words[3]}))
		return
	case "OPEN":
		open, err := strconv.Atoi(words[2])
		require.NoError(t, err)
		require.NoError(t, rowread.SetOpen(x.ctx, client, conn.Keys(), p, enginecore.FlowID(words[1]), open))
		return
	case "NAME":
		first, err := client.Do(x.ctx, client.B().Lindex().Key(words[1]).Index(0).Build()).ToString()
		require.NoError(t, err)
		at, id, _, _ := rowread.ReadListEntry(first)
		changed := client.B().Lset().Key(words[1]).Index(0).Element(rowread.ListEntry(at, id) + words[2]).Build()
		require.NoError(t, client.Do(x.ctx, changed).Error())
		return
	case "LPOP":
		require.NoError(t, client.Do(x.ctx, client.B().Arbitrary(words...).Build()).Error())
		return
	}
	n, err := client.Do(x.ctx, client.B().Arbitrary(words...).Build()).ToInt64()
	require.NoError(t, err, command)
	if words[0] != "ZADD" && words[0] != "HSET" {
		require.Positive(t, n, "%s changes nothing: %v", command, words)
	}
}

// finish lets the run end, and checks that it ends as it should.
func (x *busyRun) finish(t *testing.T) {
	t.Helper()
	keeper := x.Keeper(t)
	worker := x.Worker(t, x.handlers(), runtime.WorkerConfig{
		Lanes: []string{"default", busyLane}, Capabilities: []string{"gpu"},
	})
	close(x.gate)
	require.NoError(t, x.Client.Activity("paused").Resume(x.ctx))
	_, err := x.Client.Signal(x.ctx, fixture.OpenWaits(t, x.ctx, x.run, 1)[0].Token, runtime.Signal{Name: "answer", Payload: 40})
	require.NoError(t, err)
	out, err := x.run.Result(x.ctx)
	require.NoError(t, err)
	require.Equal(t, []int{3, 3, 3, 40, out[4], 4}, out)
	x.Settle(t)
	for _, running := range []*enginetest.Running{keeper, worker, x.worker} {
		require.NoError(t, running.Stop())
	}
	x.Wipe(t)
}

func (x *busyRun) faults(t *testing.T) error {
	t.Helper()
	s, err := invariant.ReadStill(x.ctx, engine.ConnOf(x.Engine.Internal()).Client(), x.Prefix)
	require.NoError(t, err)
	return s.Check(invariant.AnyTime).Err()
}

// damage is something that is not in order: commands that make it so, and the indexes in which it is repaired.
type damage struct {
	commands, index string
}

func (x *busyRun) spoil(t *testing.T, w damage) {
	t.Helper()
	for command := range strings.SplitSeq(w.commands, ";") {
		x.do(t, command)
	}
}

var nobody = "{fp:0}:00000000-0000-0000-0000-000000000000"

// damages are in groups. The damages of a group are repaired together, and also one by one.
func damages() [][]damage {
	return [][]damage{
		{
			{"ZREM $idx:lane:default:eligible $id:eligible", "lane:eligible"},
			{"ZREM $idx:lane:busy:delayed $id:delayed", "lane:delayed"},
			{"ZREM $idx:lane:default:suspended $id:answer", "lane:suspended"},
			{"ZREM $idx:lane:busy:blocked:operator $id:held", "lane:blocked_operator"},
			{"ZREM $idx:lane:busy:blocked:route $id:routed", "lane:blocked_route"},
			{"ZREM $ffx:held $id:held", "held"},
			{"DEL $ffx:lanes", "lanes"},
			{"ZREM $idx:lane:default:eligible paused", "pauses"},
		},
		{
			{"ZADD $idx:lane:default:eligible 5 $id:eligible", "lane:eligible"},
			{"ZADD $idx:lane:busy:delayed 5 $id:delayed", "lane:delayed"},
			{"ZADD $idx:lane:busy:terminal 5 $id:first", "lane:terminal"},
			{"ZADD $idx:lane:default:suspended 5 $id:answer", "lane:suspended"},
			{"ZADD $idx:lane:default:blocked:dependencies 5 $id:blocked", "lane:blocked_dependencies"},
			{"ZADD $idx:lane:default:delayed 5 $id:blocked", "lane:delayed"},
			{"ZADD $idx:lane:busy:eligible 5 $id:eligible", "lane:eligible"},
			{"ZADD $idx:lane:default:eligible 5 " + nobody, "lane:eligible"},
			{"ZADD $idx:lane:default:blocked:quota 5 $id:first", "lane:blocked_quota"},
			{"ZADD $ffx:held 9999999999999 " + nobody, "held"},
			{"ZADD $ffx:unadmitted 9999999999999 " + nobody, "unadmitted"},
			{"ZADD $ffx:lane:busy:reclaimable 5 $id:active", "reclaimable"},
			{"ZREM $ffx:lane:default:queue:ann $id:eligible", "queue"},
			{"ZADD $ffx:lane:default:queue:ann 5 " + nobody, "queue"},
			{"ZREM $ffx:lane:default:turns ann", "turns"},
			{"ZADD $ffx:lane:default:turns 5 eve", "turns"},
		},
		{
			{"ZREM $idx:lease_expiry $id:active", "lease_expiry"},
			{"ZREM $idx:attempt_timeout $id:active", "attempt_timeout"},
			{"ZREM $idx:suspension_timeout $id:answer", "suspension_timeout"},
			{"ZREM $ffx:start_deadlines $id:eligible", "start_deadlines"},
			{"ZREM $ffx:open_waits $id:answer", "open_waits"},
			{"NAME $ffx:all_runs other", "runs"},
			{"NAME $ffx:runs:fixture other", "runs"},
			{"DEL $ffx:runs:fixture", "runs"},
			{"LPOP $ffx:all_runs", "runs"},
			{"ZREM $ffx:tagged_runs:test.of:mending $flow", "runs"},
			{"ZREM $ffx:tagged_runs:outcome:failed $over", "runs"},
			{"ZREM $ffx:flow_deadlines $flow", "flow_deadlines"},
			{"DEL $ffx:closed_flows", "closed_flows"},
			{"ZREM $ffx:purge_due $over", "purge_due"},
		},
		{
			{"ZADD $idx:lease_expiry 9999999999999 $id:first", "lease_expiry"},
			{"SADD $idx:worker:$holder:leases $id:first", "worker_leases"},
			{"ZADD $idx:attempt_timeout 9999999999999 $overid", "attempt_timeout"},
			{"ZADD $idx:execution_deadline 9999999999999 $overid", "execution_deadline"},
			{"ZADD $idx:suspension_timeout 7 $id:answer", "suspension_timeout"},
			{"ZADD $idx:suspension_timeout 9999999999999 $id:blocked", "suspension_timeout"},
			{"ZADD $ffx:start_deadlines 9999999999999 $id:active", "start_deadlines"},
			{"ZADD $ffx:open_waits 5 $id:active", "open_waits"},
			{"ZADD $idx:pending_waitpoint_expiry 9999999999999 nothing", "pending_waitpoint_expiry"},
			{"SADD $idx:all_executions " + nobody, "all_executions"},
			{"SADD $flow:members " + nobody, "members"},
			{"SADD $idx:flow_index nothing", "flow_index"},
			{"RPUSH $ffx:all_runs x", "runs"},
			{"SADD $idx:flow_index $flow", "flow_index"},
			{"ZADD $ffx:flow_deadlines 9999999999999 $over", "flow_deadlines"},
			{"RPUSH $ffx:closed_flows x", "closed_flows"},
			{"ZADD $ffx:purge_due 9999999999999 $flow", "purge_due"},
			{"ZADD $ffx:purge_due 5 $over", "purge_due"},
			{"ZADD $idx:cancel_backlog 9999999999999 $flow", "cancel_backlog"},
			{"SADD $idx:pending_cancel_groups $flow|nothing", "pending_cancel_groups"},
		},
		{
			{"HSET $flow:edgegroup:$joined failed 1", "edge_groups"},
			{"OPEN $flow 77", "flow_counts"},
			{"FIELD $flow nodes_failed 1", "flow_counts"},
			{"OPEN $over 77;FIELD $over nodes_cancelled 1", "flow_counts"},
		},
	}
}

// Whatever index does not fit the records is repaired, and the run ends as if nothing had been. Each damage is made and
// repaired alone; then all of a group together.
func TestIndexReconciliation(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for _, group := range damages() {
			x := newBusyRun(t, b)
			require.NoError(t, x.faults(t))
			for _, w := range group {
				x.spoil(t, w)
				require.Error(t, x.faults(t), w.commands)
				report, err := b.RunKeeperTask(x.ctx, "index_reconciliation")
				require.NoError(t, err)
				require.NoError(t, x.faults(t), w.commands)
				require.Positive(t, report.Repaired[w.index], "%s: %v", w.commands, report.Repaired)
				require.Positive(t, report.Done)
			}
			report, err := b.RunKeeperTask(x.ctx, "index_reconciliation")
			require.NoError(t, err)
			require.Empty(t, report.Repaired, "correct indexes are left alone")
			for _, w := range group {
				x.spoil(t, w)
			}
			_, err = b.RunKeeperTask(x.ctx, "index_reconciliation")
			require.NoError(t, err)
			require.NoError(t, x.faults(t))
			x.finish(t)
		}
	}, runtime.OpenConfig{Partitions: 1})
}

// A run is removed when its record requires it, whatever the list of runs to remove contains.
func TestListedRunIsKept(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		x := newBusyRun(t, b)
		x.do(t, "ZADD $ffx:purge_due 5 $over")
		x.do(t, "ZADD $ffx:purge_due 5 $flow")
		report, err := b.RunKeeperTask(x.ctx, "retention")
		require.NoError(t, err)
		require.Zero(t, report.Done)
		require.NoError(t, x.faults(t))
		report, err = b.RunKeeperTask(x.ctx, "index_reconciliation")
		require.NoError(t, err)
		require.Empty(t, report.Repaired)
		x.do(t, "FIELD $over retention -1") // it is kept for ever
		x.do(t, "ZADD $ffx:purge_due 5 $over")
		report, err = b.RunKeeperTask(x.ctx, "retention")
		require.NoError(t, err)
		require.Zero(t, report.Done)
		x.do(t, "ZADD $ffx:purge_due 9999999999999 $over")
		report, err = b.RunKeeperTask(x.ctx, "index_reconciliation")
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"purge_due": 1}, report.Repaired)
		x.finish(t)
	})
}

// The keeper resolves unresolved edges whose upstream has ended, and the downstream node continues.
func TestDependencyReconciliation(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		x := newBusyRun(t, b)
		for _, command := range []string{
			"ZREM $idx:lane:default:eligible $id:eligible",
			"DEL $ffx:lane:default:queue:ann",
			"ZREM $ffx:lane:default:turns ann",
			"ZREM $ffx:start_deadlines $id:eligible",
		} {
			x.do(t, command)
		}
		for _, field := range []struct{ node, name, value string }{
			{"eligible", "eligibility_state", "blocked_by_dependencies"}, {"eligible", "blocking_reason", "waiting_for_children"},
			{"eligible", "public_state", "waiting_children"}, {"eligible", "open", "1"}, {"first", "told", "0"},
		} {
			x.set(t, field.node, field.name, field.value)
		}
		require.ErrorContains(t, x.faults(t), "has ended (success), but the edge is not resolved")
		report, err := b.RunKeeperTask(x.ctx, "index_reconciliation")
		require.NoError(t, err)
		require.Positive(t, report.Repaired["backlog"]+report.Repaired["unresolved"], report.Repaired)
		_, err = b.RunKeeperTask(x.ctx, "propagation")
		require.NoError(t, err)
		require.NoError(t, x.faults(t))
		report, err = b.RunKeeperTask(x.ctx, "index_reconciliation")
		require.NoError(t, err)
		require.Empty(t, report.Repaired)
		x.finish(t)
	})
}

// set writes a field of a node's row.
func (x *busyRun) set(t *testing.T, node, field, value string) {
	t.Helper()
	conn := engine.ConnOf(x.Engine.Internal())
	require.NoError(t, rowread.Set(x.ctx, conn.Client(), conn.Keys(), x.plan.ExecutionID(node), field, value))
}

// While everything runs, reconciling changes nothing: whatever it meets is in order.
func TestReconciliation_RepairsNothingInIntactData(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		lab := newLab()
		b.Worker(t, []activity.Handler{lab.common, lab.rare}, runtime.WorkerConfig{Lanes: []string{"default", "other"}})
		keeper := enginetest.NewKeeper(t, b.Engine, runtime.KeeperConfig{ReconcileEvery: 100 * time.Millisecond})
		b.Run(t, "keeper", keeper.Run)
		r := rand.New(rand.NewPCG(1, 2))
		var started []*runtime.Run[string]
		for i := range 6 {
			s, run := newSketch(r, 30), fmt.Sprint("run", i)
			lab.add(run, s)
			def, err := s.define("sketch"+run, lab.common, lab.rare)
			require.NoError(t, err)
			x, err := runtime.Start(ctx, b.Client, def, nil, runtime.WithID(run))
			require.NoError(t, err)
			started = append(started, x)
		}
		over := make(chan error, 1)
		go func() {
			for _, x := range started {
				if _, err := x.Result(ctx); err != nil && !errors.Is(err, runtime.ErrRunFailed) {
					over <- err
					return
				}
			}
			close(over)
		}()
		for going := true; going; {
			report, err := b.RunKeeperTask(ctx, "index_reconciliation")
			require.NoError(t, err)
			require.Empty(t, report.Repaired)
			select {
			case err := <-over:
				require.NoError(t, err)
				going = false
			case <-time.After(10 * time.Millisecond):
			}
		}
		b.Settle(t)
		for _, name := range []string{"index_reconciliation", "dependency_reconciliation"} {
			require.Zero(t, keeper.Stats().Tasks[name].Done, name)
		}
	})
}
