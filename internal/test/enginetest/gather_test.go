package enginetest_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// TestClaimThatEndsWhatItLeased lets one claim give up an abandoned node, which makes a join impossible and so cancels
// the very nodes that the claim has leased before: none of them may stay in an index of leases.
func TestClaimThatEndsWhatItLeased(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.managed("", map[string]joinPolicy{"all": {"quorum", 3, "cancel_remaining"}},
			[2]string{"a", "all"}, [2]string{"b", "all"}, [2]string{"c", "all"})
		client, keys := g.e.Client(), g.e.Keys()
		claim := func(count int64) []enginerpc.ClaimedExecution {
			call := g.completions().ClaimRequest
			call.ClaimID, call.Count = uuid.NewString(), count
			reply, err := g.e.Claim(g.ctx, enginerpc.ClaimCall{Partition: g.p, ClaimRequest: call})
			require.NoError(t, err)
			return reply.Executions
		}
		abandoned := claim(2)
		require.Len(t, abandoned, 2)
		for i, x := range abandoned {
			if i == 0 {
				policy := client.B().Set().Key(keys.ExecPolicy(x.ExecutionID)).Value(`{"max_reclaim_count":0}`).Build()
				require.NoError(t, client.Do(g.ctx, policy).Error())
			}
			_, err := g.e.RevokeLease(g.ctx, enginerpc.RevokeLeaseCall{ExecutionID: x.ExecutionID, WorkerInstanceID: "w1"})
			require.NoError(t, err)
		}

		claim(10)
		assert.Equal(t, "failed", g.state(abandoned[0].Node))
		for _, name := range []string{"a", "b", "c"} {
			assert.Equal(t, "terminal", g.core(name)["lifecycle_phase"], name)
		}
		assert.Empty(t, g.set(keys.IndexWorkerLeases(g.p, "w1")))
		assert.Equal(t, "failed", g.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}
