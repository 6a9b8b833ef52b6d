package keepertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// Waits of other programs end, waitpoints that they opened ahead are closed, and their budgets are reset when it is
// time, with and without composite calls.
func TestDueTimesOfContractPrograms(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		_, err := d.RotateSecret(d.ctx, enginecore.WaitpointSecret{KID: "k1", Hex: "00112233445566778899aabbccddeeff"}, time.Hour)
		require.NoError(t, err)
		id := d.create(admin.ExecutionSpec{})
		p, err := keyspace.PartitionOf(id)
		require.NoError(t, err)
		x := d.Claim(id, 0)
		ahead := d.OpenAhead(x)
		d.Suspend(x, time.Now().Add(time.Hour))
		budget, _, err := d.CreateBudget(d.ctx, admin.BudgetSpec{
			ScopeType: "team", ScopeID: "x", ResetInterval: time.Hour, Dimensions: map[string]admin.Limits{"tokens": {Hard: 10}},
		})
		require.NoError(t, err)
		_, err = d.ReportUsage(d.ctx, budget, map[string]int64{"tokens": 9}, "")
		require.NoError(t, err)
		at, err := d.core.Partitioning().BudgetPartition(budget)
		require.NoError(t, err)

		tasks := []string{"suspension_timeout", "pending_waitpoint_expiry", "budget"}
		for _, task := range tasks {
			require.Zero(t, d.run(task).Done, task)
		}
		// Everything is due at once.
		d.do("HSET", d.keys.ExecSuspension(id), "timeout_at", "5")
		d.do("ZADD", d.keys.IndexSuspensionTimeout(p), "5", string(id))
		d.do("HSET", d.keys.WaitpointRecord(p, ahead.WaitpointID), "expires_at", "5")
		d.do("ZADD", d.keys.IndexPendingWaitpointExpiry(p), "5", string(ahead.WaitpointID))
		d.do("ZADD", d.keys.IndexBudgetResets(at), "5", string(budget))
		for _, task := range tasks {
			require.EqualValues(t, 1, d.run(task).Done, task)
			require.Zero(t, d.run(task).Done, task)
		}
		state, err := d.ExecutionState(d.ctx, id)
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeFailed, state)
		require.Equal(t, "closed", d.text("HGET", d.keys.WaitpointRecord(p, ahead.WaitpointID), "state"))
		after, err := d.Budget(d.ctx, budget)
		require.NoError(t, err)
		require.Zero(t, after.Usage["tokens"])
	})
}
