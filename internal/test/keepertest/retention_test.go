package keepertest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// age moves the end of an execution into the past.
func (d *fixture) age(id enginecore.ExecutionID, by time.Duration) {
	d.t.Helper()
	now, err := d.core.Now(d.ctx)
	require.NoError(d.t, err)
	p, err := keyspace.PartitionOf(id)
	require.NoError(d.t, err)
	at := fmt.Sprint(now.Add(-by).UnixMilli())
	require.EqualValues(d.t, 0, d.count("HSET", d.keys.ExecCore(id), "completed_at", at))
	require.EqualValues(d.t, 0, d.count("ZADD", d.keys.LaneTerminal(p, enginetest.ProgramLane), at, string(id)))
}

// lived returns an execution with all possible data: two attempts with streams, a wait with a signal, and a waitpoint
// without one.
func (d *fixture) lived() enginecore.ExecutionID {
	d.t.Helper()
	id := d.create(admin.ExecutionSpec{Payload: []byte("in"), Tags: map[string]string{"team": "x"}, Policy: json.RawMessage(`{"retry_policy":{"max_retries":1}}`)})
	x := d.Claim(id, 0)
	d.Append(x, "first")
	d.OpenAhead(x)
	suspended := d.Suspend(x, time.Time{})
	_, err := d.DeliverSignal(d.ctx, admin.Signal{
		Execution: id, Waitpoint: suspended.WaitpointID, Token: suspended.WaitpointToken, Name: "yes", Payload: []byte("go on"), IdempotencyKey: "once",
	})
	require.NoError(d.t, err)
	_, err = d.CancelExecution(d.ctx, id, "enough")
	require.NoError(d.t, err)
	_, err = d.ReplayExecution(d.ctx, id)
	require.NoError(d.t, err)
	x = d.Claim(id, 1)
	d.Append(x, "second")
	d.Complete(x, "done")
	return id
}

// Executions outside managed flows go when they have been kept long enough, with everything that belongs to them,
// whatever lane they are on; others stay, and runs are left to their own retention.
func TestExecutionRetention(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		worker := b.Worker(t, []activity.Handler{double})
		f := flow.New[int, int]("kept")
		flow.Return(f, flow.Node(f, "only", double, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(d.ctx, b.Client, def, 4)
		require.NoError(t, err)
		_, err = run.Result(d.ctx)
		require.NoError(t, err)
		require.NoError(t, worker.Stop()) // it would discard the next executions

		_, err = d.RotateSecret(d.ctx, enginecore.WaitpointSecret{KID: "k1", Hex: "00112233445566778899aabbccddeeff"}, time.Hour)
		require.NoError(t, err)
		old, young, open := d.lived(), d.lived(), d.create(admin.ExecutionSpec{})
		elsewhere := d.create(admin.ExecutionSpec{Lane: "nobody-knows-it"})
		_, err = d.CancelExecution(d.ctx, elsewhere, "enough")
		require.NoError(t, err)
		short := d.create(admin.ExecutionSpec{Policy: json.RawMessage(`{"stream_policy":{"retention_ttl_ms":60000}}`)})
		long := d.create(admin.ExecutionSpec{Policy: json.RawMessage(`{"stream_policy":{"retention_ttl_ms":172800000}}`)})
		for _, id := range []enginecore.ExecutionID{short, long} {
			d.Complete(d.Claim(id, 0), "done")
		}
		d.age(old, 24*time.Hour+time.Second)
		d.age(young, 24*time.Hour-time.Minute)
		d.age(short, 2*time.Minute)
		d.age(long, 47*time.Hour)
		require.NotEmpty(t, d.keysLike(string(old)))

		report := d.run("execution_retention")
		require.EqualValues(t, 2, report.Done)
		require.GreaterOrEqual(t, report.Lag, time.Minute, "the one with a policy of its own is a minute late")
		for _, id := range []enginecore.ExecutionID{old, short} {
			require.Empty(t, d.keysLike(string(id)))
			_, err := d.Execution(d.ctx, id)
			require.ErrorIs(t, err, enginecore.ErrExecutionNotFound)
		}
		for _, id := range []enginecore.ExecutionID{young, open, elsewhere, long} {
			_, err := d.Execution(d.ctx, id)
			require.NoError(t, err)
		}
		b.Check(t, invariant.AnyTime)

		require.Zero(t, d.run("execution_retention").Done)
		require.Zero(t, d.run("execution_retention", runtime.KeeperConfig{RetainExecutions: -1}).Done)
		require.EqualValues(t, 2, d.run("execution_retention", runtime.KeeperConfig{
			RetainExecutions: time.Nanosecond,
		}).Done, "young and elsewhere")
		require.Empty(t, d.keysLike("nobody-knows-it"))
		require.Empty(t, d.keysLike(":signal:"))
		require.Empty(t, d.keysLike(":wp:"))
		again, err := run.Result(d.ctx)
		require.NoError(t, err, "runs have a retention of their own")
		require.Equal(t, 8, again)
		b.Check(t, invariant.AnyTime)
	})
}

// Members of a flow that was submitted call by call are removed with their edges. A member that another one still waits
// for stays. The flow is removed when it has lost all members and has not changed for the retention time.
func TestRetentionOfMembers(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		id, members := d.chain(3)
		d.Complete(d.Claim(members[0], 0), "done")
		trim := func() int64 {
			return d.run("execution_retention", runtime.KeeperConfig{RetainExecutions: time.Hour}).Done
		}
		// The second edge has not been resolved yet.
		d.age(members[0], 2*time.Hour)
		require.Zero(t, trim())
		require.EqualValues(t, 1, d.run("dependency_reconciliation").Done)
		require.EqualValues(t, 1, trim())
		require.Empty(t, d.keysLike(string(members[0])))
		d.run("propagation") // removes deleted executions from the backlog
		b.Check(t, invariant.AnyTime)

		for i, id := range members[1:] {
			d.Complete(d.Claim(id, 0), "done")
			require.EqualValues(t, 1-i, d.run("dependency_reconciliation").Done)
			d.age(id, 2*time.Hour)
		}
		require.EqualValues(t, 2, trim())
		_, err := d.Flow(d.ctx, id)
		require.NoError(t, err, "its last change is young")
		p, err := d.core.FlowPartition(id)
		require.NoError(t, err)
		d.do("HINCRBY", d.keys.FlowCore(p, id), "last_mutation_at", "-7200000")
		require.EqualValues(t, 1, trim())
		require.Empty(t, d.keysLike(string(id)))
		// A flow that never had members waits for them.
		empty, _, err := d.CreateFlow(d.ctx, admin.FlowSpec{Kind: "test"})
		require.NoError(t, err)
		p, err = d.core.FlowPartition(empty)
		require.NoError(t, err)
		d.do("HINCRBY", d.keys.FlowCore(p, empty), "last_mutation_at", "-7200000")
		require.Zero(t, trim())
		_, err = d.Flow(d.ctx, empty)
		require.NoError(t, err)
		d.run("propagation")
		b.Check(t, invariant.AnyTime)
	})
}

// Data beyond the limit of one call is removed by several calls, and keepers find runs to remove by themselves.
func TestRetentionInSteps(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		id := d.create(admin.ExecutionSpec{})
		x := d.Claim(id, 0)
		d.Complete(x, "done")
		// As many attempts as the keys of several calls.
		const attempts = 700
		d.do("HSET", d.keys.ExecCore(id), "total_attempt_count", fmt.Sprint(attempts))
		p, err := keyspace.PartitionOf(id)
		require.NoError(t, err)
		d.do("SET", d.keys.StreamFrames(id, attempts-1), "frames")
		reply, err := d.core.Trim(d.ctx, enginerpc.TrimCall{Partition: p, Limit: 100})
		require.NoError(t, err)
		require.Zero(t, reply.Trimmed)
		require.NotEmpty(t, reply.NextCursor)
		_, err = d.Execution(d.ctx, id)
		require.NoError(t, err, "the record goes last")
		b.Keeper(t, runtime.KeeperConfig{RetainExecutions: 10 * time.Millisecond})
		enginetest.Eventually(t, func() string {
			if _, err := d.Execution(d.ctx, id); err == nil {
				return "the execution is still there"
			}
			return ""
		})
		require.Empty(t, d.keysLike(string(id)))
	})
}

// A lane that nothing but executions outside managed flows uses becomes known to keepers, and is forgotten with them.
func TestKeepersLearnLanesOfExecutions(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		now, err := d.core.Now(d.ctx)
		require.NoError(t, err)
		at := now.Add(200 * time.Millisecond)
		id := d.create(admin.ExecutionSpec{Lane: "elsewhere", DelayUntil: at})
		report := d.run("index_reconciliation")
		require.Empty(t, report.Repaired, "nothing was wrong")
		enginetest.Eventually(t, func() string {
			if now, err := d.core.Now(d.ctx); err != nil || now.Before(at) {
				return "it is not due yet"
			}
			return ""
		})
		require.EqualValues(t, 1, d.run("delayed_promotion").Done)
		_, err = d.CancelExecution(d.ctx, id, "enough")
		require.NoError(t, err)
		// The engine's clock has milliseconds: in the one in which the execution ended, it is kept.
		enginetest.Pass(t, d.core, time.Millisecond)
		require.EqualValues(t, 1, d.run("execution_retention", runtime.KeeperConfig{RetainExecutions: time.Nanosecond}).Done)
		require.Empty(t, d.keysLike(":lanes"))
	})
}
