package keepertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// race is a flow in which the last member needs one of the others, of which the first has succeeded, so that it owes
// the rest their cancel.
type race struct {
	*fixture
	flow  enginecore.FlowID
	at    keyspace.Partition
	ups   []enginecore.ExecutionID
	last  enginecore.ExecutionID
	tuple string
}

func (d *fixture) race(upstreams int) *race {
	d.t.Helper()
	flow, _, err := d.CreateFlow(d.ctx, admin.FlowSpec{Kind: "test"})
	require.NoError(d.t, err)
	at, err := d.core.FlowPartition(flow)
	require.NoError(d.t, err)
	r := &race{fixture: d, flow: flow, at: at}
	for range upstreams + 1 {
		r.last = d.create(admin.ExecutionSpec{Flow: flow})
		r.ups = append(r.ups, r.last)
		_, _, err = d.AddExecution(d.ctx, flow, r.last)
		require.NoError(d.t, err)
	}
	r.ups = r.ups[:upstreams]
	r.tuple = string(flow) + "|" + string(r.last)
	_, err = d.core.SetEdgeGroupPolicy(d.ctx, enginerpc.SetEdgeGroupPolicyCall{
		FlowID: flow, DownstreamExecutionID: r.last, PolicyVariant: "any_of", OnSatisfied: "cancel_remaining",
	})
	require.NoError(d.t, err)
	for _, up := range r.ups {
		d.connect(flow, up, r.last)
	}
	d.Complete(d.Claim(r.ups[0], 0), "done")
	require.EqualValues(d.t, 1, d.run("dependency_reconciliation").Done)
	require.True(d.t, r.owes())
	return r
}

func (r *race) owes() bool {
	r.t.Helper()
	return r.count("SISMEMBER", r.keys.IndexPendingCancelGroups(r.at), r.tuple) == 1
}

// Groups are closed whose siblings have ended by themselves, and entries that mean nothing go; siblings that run are
// left to those who dispatch cancels, who end them.
func TestSiblingCancelReconciliation(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		r, other := d.race(3), d.race(2)
		reconcile := func() int64 { return d.run("sibling_cancel_reconciliation").Done }
		require.Zero(t, reconcile(), "the siblings run")
		d.Complete(d.Claim(r.ups[1], 0), "done")
		require.Zero(t, reconcile(), "one still does")
		require.Equal(t, string(r.ups[2]), d.text("HGET", d.keys.FlowEdgegroup(r.flow, r.last), "cancel_siblings_pending_members"))
		d.Complete(d.Claim(r.ups[2], 0), "done")
		require.EqualValues(t, 1, reconcile())
		require.False(t, r.owes())
		require.Empty(t, d.text("HGET", d.keys.FlowEdgegroup(r.flow, r.last), "cancel_siblings_pending_flag"))
		require.True(t, other.owes())

		for _, stale := range []string{"no tuple", string(r.flow) + "|" + string(r.ups[0]), r.tuple} {
			d.do("SADD", d.keys.IndexPendingCancelGroups(r.at), stale)
			require.EqualValues(t, 1, reconcile(), stale)
			require.Zero(t, reconcile())
		}
		require.True(t, other.owes())
		require.Positive(t, d.run("sibling_cancel_dispatch").Done)
		require.False(t, other.owes())
		state, err := d.ExecutionState(d.ctx, other.ups[1])
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeCancelled, state)
		s := func() string {
			d.run("flow_projection")
			s, err := d.FlowSummary(d.ctx, other.flow)
			require.NoError(t, err)
			return s.State
		}
		require.Equal(t, recordstate.FlowOpen, s())
		d.Complete(d.Claim(other.last, 0), "done")
		require.Equal(t, recordstate.FlowCompleted, s(), "no node needed the cancelled one")
		b.Check(t, invariant.AnyTime)
	})
}

// A cancel that is owed and listed nowhere is listed again, and dispatched.
func TestUnlistedSiblingCancelIsRepaired(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		r := d.race(2)
		d.do("SREM", d.keys.IndexPendingCancelGroups(r.at), r.tuple)
		require.EqualValues(t, map[string]int64{"pending_cancel_groups": 1}, d.run("index_reconciliation").Repaired)
		require.True(t, r.owes())
		require.Positive(t, d.run("sibling_cancel_dispatch").Done)
		state, err := d.ExecutionState(d.ctx, r.ups[1])
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeCancelled, state)
		require.Empty(t, d.run("index_reconciliation").Repaired)
	})
}
