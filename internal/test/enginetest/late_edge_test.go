package enginetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// TestLateEdge adds an edge to a run: the completion of its upstream resolves it together with the edges of the graph.
func TestLateEdge(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.whole([]string{"a", "b", "c", "d"}, [2]string{"a", "b"}, [2]string{"b", "d"}, [2]string{"c", "d"})
		b.Check(t, invariant.AnyTime)

		g.stage("a", "d")
		assert.Equal(t, "3", g.apply("a", "d", "a"))
		g.claim()
		g.end("a", "success")
		g.claim()
		assert.Equal(t, "active", g.state("b"))
		g.end("c", "success")
		assert.Equal(t, "waiting_children", g.state("d"))
		g.end("b", "success")
		assert.Equal(t, "waiting", g.state("d"))
		g.end("d", "success")
		assert.Equal(t, "success", g.result().Outcome)
		b.Check(t, invariant.AnyTime)
	})
}

// TestRenewalOfAPlainNode: the renewal times of a plain node exist from its first renewal until the end of its lease.
func TestRenewalOfAPlainNode(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.whole([]string{"a"})
		g.claim()
		assert.Empty(t, g.core("a")["lease_renewal_deadline"])
		x := g.leases["a"]
		_, err := g.e.RenewLease(g.ctx, enginerpc.RenewLeaseCall{
			ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
			AttemptIndex: x.AttemptIndex, LeaseTTL: time.Hour,
		})
		require.NoError(t, err)
		assert.NotEmpty(t, g.core("a")["lease_renewal_deadline"])
		g.end("a", "success")
		for _, field := range []string{"lease_renewal_deadline", "lease_last_renewed_at", "current_lease_id"} {
			assert.Empty(t, g.core("a")[field])
		}
		b.Check(t, invariant.AnyTime)
	})
}
