package workertest

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// An execution that a program of the contract has blocked continues when its budget, its quota or a capable worker is
// there, and not before.
func TestUnblocking(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		core := engine.ConnOf(b.Engine.Internal())
		keys, client := core.Keys(), core.Client()
		do := func(words ...string) {
			require.NoError(t, client.Do(ctx, client.B().Arbitrary(words...).Build()).Error(), words)
		}
		p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}
		budget, quota := enginecore.BudgetID("00000000-0000-0000-0000-00000000000b"), enginecore.QuotaPolicyID("00000000-0000-0000-0000-00000000000a")
		atBudget, err := core.Partitioning().BudgetPartition(budget)
		require.NoError(t, err)
		atQuota, err := core.Partitioning().QuotaPartition(quota)
		require.NoError(t, err)
		blocked := func(reason, field, value string) enginecore.ExecutionID {
			id := keyspace.NewExecutionID(p)
			_, err := core.CreateExecution(ctx, enginerpc.CreateExecutionCall{
				ExecutionID: id, Namespace: "default", LaneID: "default", ExecutionKind: "of another program", CreatorIdentity: "test",
				PartitionID: strconv.Itoa(int(p.Index)),
			})
			require.NoError(t, err)
			do("HSET", keys.ExecCore(id), field, value)
			now, err := core.Now(ctx)
			require.NoError(t, err)
			_, err = core.BlockExecutionForAdmission(ctx, enginerpc.BlockExecutionForAdmissionCall{
				LaneID: "default", ExecutionID: id, BlockingReason: reason, Now: now,
			})
			require.NoError(t, err)
			return id
		}
		eligible := func(id enginecore.ExecutionID) bool {
			state, err := client.Do(ctx, client.B().Hget().Key(keys.ExecCore(id)).Field("eligibility_state").Build()).ToString()
			require.NoError(t, err)
			return state == "eligible_now"
		}
		do("HSET", keys.BudgetLimits(atBudget, budget), "hard:tokens", "10")
		do("HSET", keys.BudgetUsage(atBudget, budget), "tokens", "10")
		do("HSET", keys.QuotaRecord(atQuota, quota), "active_concurrency_cap", "1")
		do("SET", keys.QuotaConcurrency(atQuota, quota), "1")
		waits := []struct {
			id   enginecore.ExecutionID
			free func()
		}{
			{blocked("waiting_for_budget", "budget_ids", string(budget)), func() { do("HSET", keys.BudgetUsage(atBudget, budget), "tokens", "9") }},
			{blocked("waiting_for_quota", "quota_policy_id", string(quota)), func() { do("SET", keys.QuotaConcurrency(atQuota, quota), "0") }},
			{blocked("waiting_for_capable_worker", "required_capabilities", "gpu"), func() {
				do("SET", keys.WorkerCapabilities("w1"), "cpu,gpu")
				do("SADD", keys.Workers(), "w1")
			}},
			{blocked("paused_by_operator", "budget_ids", ""), nil},
		}
		report, err := b.RunKeeperTask(ctx, "unblocking")
		require.NoError(t, err)
		require.Zero(t, report.Done)
		for _, w := range waits {
			require.False(t, eligible(w.id))
			if w.free == nil {
				continue
			}
			w.free()
			report, err := b.RunKeeperTask(ctx, "unblocking")
			require.NoError(t, err)
			require.EqualValues(t, 1, report.Done)
			require.True(t, eligible(w.id))
		}
		// If the state of the budget cannot be read, the execution stays blocked, and the fault is returned.
		id := blocked("waiting_for_budget", "budget_ids", string(budget))
		do("SET", keys.BudgetLimits(atBudget, budget), "no hash")
		report, err = b.RunKeeperTask(ctx, "unblocking")
		require.Error(t, err)
		require.Equal(t, 1, report.Remaining)
		require.False(t, eligible(id))
	})
}
