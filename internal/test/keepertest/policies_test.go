package keepertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// office is a quota of another program.
type office struct {
	*fixture
	id enginecore.QuotaPolicyID
	at keyspace.Partition
}

func (d *fixture) office(n admin.QuotaSpec) *office {
	d.t.Helper()
	id, _, err := d.CreateQuota(d.ctx, n)
	require.NoError(d.t, err)
	at, err := d.core.Partitioning().QuotaPartition(id)
	require.NoError(d.t, err)
	return &office{d, id, at}
}

// admit requests a permit, and returns the reply.
func (o *office) admit(id enginecore.ExecutionID) enginerpc.Status {
	o.t.Helper()
	now, err := o.core.Now(o.ctx)
	require.NoError(o.t, err)
	reply, err := o.core.CheckAdmissionAndRecord(o.ctx, enginerpc.CheckAdmissionAndRecordCall{
		Partition: o.at, QuotaPolicyID: o.id, ExecutionID: id, Now: now,
	})
	require.NoError(o.t, err)
	return reply.Status
}

func (o *office) running() int64 {
	o.t.Helper()
	q, err := o.Quota(o.ctx, o.id)
	require.NoError(o.t, err)
	return q.Running
}

// Permits of executions that have ended, were removed, or were admitted and never started, are released. Running
// executions keep theirs however long they run, and starts count for their window.
func TestQuotaReconciliation(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		o := d.office(admin.QuotaSpec{Window: time.Hour, MaxStarts: 100, MaxConcurrent: 5})
		var ids []enginecore.ExecutionID
		for range 5 {
			ids = append(ids, d.create(admin.ExecutionSpec{}))
		}
		ended, running, waiting, forgotten, next := ids[0], ids[1], ids[2], ids[3], ids[4]
		gone := keyspace.NewExecutionID(keyspace.Partition{Family: keyspace.FlowFamily})
		for _, id := range []enginecore.ExecutionID{ended, running, waiting, forgotten, gone} {
			require.Equal(t, enginerpc.StatusAdmitted, o.admit(id))
		}
		require.Equal(t, enginerpc.StatusConcurrencyExceeded, o.admit(next))
		d.Complete(d.Claim(ended, 0), "done")
		d.Claim(running, 0)
		for _, id := range []enginecore.ExecutionID{running, forgotten} {
			d.do("DEL", d.keys.QuotaAdmitted(o.at, o.id, id)) // its time is over
		}
		require.EqualValues(t, 3, d.run("quota_reconciliation").Done, "ended, forgotten and gone")
		require.EqualValues(t, 2, o.running())
		for _, id := range []enginecore.ExecutionID{running, waiting} {
			require.EqualValues(t, 1, d.count("SISMEMBER", d.keys.QuotaAdmittedSet(o.at, o.id), string(id)))
		}
		require.Empty(t, d.keysLike(":admitted:"+string(ended)))
		require.EqualValues(t, 5, d.count("ZCARD", d.keys.QuotaWindow(o.at, o.id)), "they have started")
		require.Zero(t, d.run("quota_reconciliation").Done)
		require.Equal(t, enginerpc.StatusAdmitted, o.admit(next))
		require.Equal(t, enginerpc.StatusAdmitted, o.admit(ended), "it is to run again")
		require.EqualValues(t, 4, o.running())

		// The task corrects counts that deviate.
		d.do("SET", d.keys.QuotaConcurrency(o.at, o.id), "77")
		d.do("ZADD", d.keys.QuotaWindow(o.at, o.id), "5", string(gone))
		d.do("SADD", d.keys.QuotaAdmittedSet(o.at, o.id), "no execution")
		d.do("SADD", d.keys.IndexQuotaPolicies(o.at), "00000000-0000-0000-0000-000000000000")
		require.EqualValues(t, 4, d.run("quota_reconciliation").Done)
		require.EqualValues(t, 3, o.running())
		require.EqualValues(t, 1, d.count("SCARD", d.keys.IndexQuotaPolicies(o.at)))
		require.EqualValues(t, 5, d.count("ZCARD", d.keys.QuotaWindow(o.at, o.id)))
		b.Check(t, invariant.AnyTime)
	})
}

// A permit that was granted again since the check is not returned.
func TestQuotaReconciliation_KeepsRegrantedPermit(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		o := d.office(admin.QuotaSpec{Window: time.Hour, MaxConcurrent: 5})
		id := d.create(admin.ExecutionSpec{})
		require.Equal(t, enginerpc.StatusAdmitted, o.admit(id))
		d.do("DEL", d.keys.QuotaAdmitted(o.at, o.id, id))
		looked, err := d.core.ReconcileQuotas(d.ctx, enginerpc.ReconcileQuotasCall{Partition: o.at, Limit: 100})
		require.NoError(t, err)
		require.Len(t, looked.Admitted, 1)
		require.Equal(t, enginerpc.StatusAdmitted, o.admit(id))
		a := looked.Admitted[0]
		drop := enginerpc.DropAdmissionsCall{Partition: o.at, Admissions: []enginerpc.DropAdmissionsAdmission{
			{QuotaPolicyID: a.QuotaPolicyID, Execution: a.Execution, AdmittedAt: a.AdmittedAt, Guarded: a.Guarded},
		}}
		reply, err := d.core.DropAdmissions(d.ctx, drop)
		require.NoError(t, err)
		require.Zero(t, reply.Dropped)
		require.EqualValues(t, 1, d.count("SCARD", d.keys.QuotaAdmittedSet(o.at, o.id)))
	})
}

// An execution that has ended is replayed and admitted again after the task has listed its permit, and before the task
// releases it. Whether the admission comes before or after the removal of its guard, the execution has a permit while
// it runs.
func TestPermitOfReplayedExecution(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for _, asksFirst := range []bool{true, false} {
			d := newFixture(t, b)
			o := d.office(admin.QuotaSpec{Window: time.Hour, MaxConcurrent: 1})
			id := d.create(admin.ExecutionSpec{})
			require.Equal(t, enginerpc.StatusAdmitted, o.admit(id))
			d.Complete(d.Claim(id, 0), "done")
			looked, err := d.core.ReconcileQuotas(d.ctx, enginerpc.ReconcileQuotasCall{Partition: o.at, Limit: 100})
			require.NoError(t, err)
			require.Len(t, looked.Admitted, 1)
			drop := func(a enginerpc.Admitted) enginerpc.DropAdmissionsReply {
				reply, err := d.core.DropAdmissions(d.ctx, enginerpc.DropAdmissionsCall{
					Partition: o.at, Admissions: []enginerpc.DropAdmissionsAdmission{enginerpc.DropAdmissionsAdmission(a)},
				})
				require.NoError(t, err)
				return reply
			}
			_, err = d.core.ReplayExecution(d.ctx, enginerpc.ReplayExecutionCall{LaneID: "default", ExecutionID: id})
			require.NoError(t, err)
			if asksFirst {
				require.Equal(t, enginerpc.StatusAlreadyAdmitted, o.admit(id))
			}
			first := drop(looked.Admitted[0])
			require.Zero(t, first.Dropped)
			require.Len(t, first.Again, 1)
			if asksFirst {
				d.Claim(id, 1)
				require.Zero(t, d.run("quota_reconciliation").Done, "it runs")
			} else {
				require.Equal(t, enginerpc.StatusAdmitted, o.admit(id), "it keeps the place that it had")
				require.Zero(t, drop(first.Again[0]).Dropped)
				d.Claim(id, 1)
				require.Zero(t, d.run("quota_reconciliation").Done, "it runs")
			}
			require.EqualValues(t, 1, o.running())
			other := d.create(admin.ExecutionSpec{})
			require.Equal(t, enginerpc.StatusConcurrencyExceeded, o.admit(other))
			b.Wipe(t)
		}
	})
}

// Many quotas with many admissions are gone through in steps, none of which leaves something out.
func TestQuotasInSteps(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		at := keyspace.Partition{Family: keyspace.QuotaFamily, Index: 0}
		want, quotas := 0, 0
		for i := 0; quotas < 5; i++ {
			id := enginecore.QuotaPolicyID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
			if p, err := d.core.Partitioning().QuotaPartition(id); err != nil || p != at {
				continue
			}
			o := d.office(admin.QuotaSpec{ID: id, Window: time.Hour, MaxConcurrent: 1000})
			words := []string{"SADD", d.keys.QuotaAdmittedSet(o.at, o.id)}
			for range 300 * quotas {
				words = append(words, string(keyspace.NewExecutionID(keyspace.Partition{Family: keyspace.FlowFamily, Index: 1})))
				want++
			}
			if len(words) > 2 {
				d.do(words...)
			}
			quotas++
		}
		seen := make(map[string]bool)
		steps := 0
		for cursor, next := "", true; next; next = cursor != "" {
			reply, err := d.core.ReconcileQuotas(d.ctx, enginerpc.ReconcileQuotasCall{Partition: at, Limit: 64, Cursor: cursor})
			require.NoError(t, err)
			for _, a := range reply.Admitted {
				seen[a.Execution] = true
			}
			require.Less(t, len(reply.Admitted), 1000)
			cursor, steps = reply.NextCursor, steps+1
			require.Less(t, steps, 1000)
		}
		require.Len(t, seen, want)
		require.GreaterOrEqual(t, d.run("quota_reconciliation").Done, int64(want))
		require.Empty(t, d.keysLike(":admitted_set"))
	})
}

// A budget records the time since which a limit is reached, with or without resets. Budgets with resets are found when
// a reset is due.
func TestBudgetReconciliation(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		for _, interval := range []time.Duration{0, time.Hour} {
			id, _, err := d.CreateBudget(d.ctx, admin.BudgetSpec{
				ScopeType: "team", ScopeID: "x", ResetInterval: interval,
				Dimensions: map[string]admin.Limits{"tokens": {Hard: 10}, "calls": {}},
			})
			require.NoError(t, err)
			at, err := d.core.Partitioning().BudgetPartition(id)
			require.NoError(t, err)
			breached := func() time.Time {
				t.Helper()
				budget, err := d.Budget(d.ctx, id)
				require.NoError(t, err)
				return budget.BreachedAt
			}
			_, err = d.ReportUsage(d.ctx, id, map[string]int64{"tokens": 9, "calls": 100}, "")
			require.NoError(t, err)
			require.Zero(t, d.run("budget_reconciliation").Done)
			require.Zero(t, breached())
			_, err = d.ReportUsage(d.ctx, id, map[string]int64{"tokens": 1}, "")
			require.NoError(t, err)
			require.EqualValues(t, 1, d.run("budget_reconciliation").Done)
			since := breached()
			require.NotZero(t, since)
			require.Zero(t, d.run("budget_reconciliation").Done)
			require.Equal(t, since, breached())

			if interval > 0 {
				due := d.text("ZSCORE", d.keys.IndexBudgetResets(at), string(id))
				d.do("ZREM", d.keys.IndexBudgetResets(at), string(id))
				require.EqualValues(t, 1, d.run("budget_reconciliation").Done)
				require.Equal(t, due, d.text("ZSCORE", d.keys.IndexBudgetResets(at), string(id)))
			}
			_, err = d.ResetBudget(d.ctx, id)
			require.NoError(t, err)
			require.EqualValues(t, 1, d.run("budget_reconciliation").Done)
			require.Zero(t, breached())
			d.do("SADD", d.keys.IndexBudgetPolicies(at), "00000000-0000-0000-0000-000000000000")
			require.EqualValues(t, 1, d.run("budget_reconciliation").Done)
			require.EqualValues(t, 0, d.count("SISMEMBER", d.keys.IndexBudgetPolicies(at), "00000000-0000-0000-0000-000000000000"))
		}
		b.Check(t, invariant.AnyTime)
	})
}
