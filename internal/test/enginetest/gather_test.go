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

// TestClaimCancelsNodesItLeased: one claim ends an abandoned node, which makes a join impossible and so cancels the
// very nodes that the claim has leased before. None of them may stay in an index of leases.
func TestClaimCancelsNodesItLeased(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		run := g.describe([]string{"a", "b", "c", "all"}, [2]string{"a", "all"}, [2]string{"b", "all"}, [2]string{"c", "all"})
		run.Nodes[0].Policy, run.Nodes[3].Join = []byte(`{"max_reclaim_count":0}`), "quorum cancel_remaining 3"
		g.submit(run)
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
		for _, x := range abandoned {
			_, err := g.e.RevokeLease(g.ctx, enginerpc.RevokeLeaseCall{ExecutionID: x.ExecutionID, WorkerInstanceID: "w1"})
			require.NoError(t, err)
		}

		claim(10)
		assert.Equal(t, "failed", g.state("a"))
		for _, name := range []string{"a", "b", "c"} {
			assert.Equal(t, "terminal", g.core(name)["lifecycle_phase"], name)
		}
		leases, err := client.Do(g.ctx, client.B().Zcard().Key(keys.IndexLeaseExpiry(g.p)).Build()).AsInt64()
		require.NoError(t, err)
		assert.Zero(t, leases)
		assert.Equal(t, "failed", g.result().Outcome)
		b.Check(t, invariant.Quiescent)
	})
}
