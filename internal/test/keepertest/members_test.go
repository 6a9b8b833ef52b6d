package keepertest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The member counts of a run that is too large for one call are repaired page by page, unless the run changes in
// between.
func TestCountsOfLargeRuns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		nodes := 300
		if os.Getenv("FLOWFABRIC_SOAK") != "" {
			nodes = 2050 // more than the task processes at once
		}
		idle := activity.New("idle", func(_ context.Context, n int) (int, error) { return n, nil })
		f := flow.New[int, int]("wide")
		first := flow.Node(f, "n0", idle, f.Input())
		for i := 1; i < nodes; i++ {
			flow.Node(f, fmt.Sprint("n", i), idle, f.Input())
		}
		flow.Return(f, first)
		def, err := f.Build()
		require.NoError(t, err)
		place := b.Locate(t, def.Name(), "wide")
		_, err = runtime.Start(d.ctx, b.Client, def, 1, runtime.WithID("wide"))
		require.NoError(t, err)
		client := d.core.Client()
		open := func() int {
			t.Helper()
			n, err := rowread.Open(d.ctx, client, d.keys, place.Partition, place.FlowID)
			require.NoError(t, err)
			return n
		}
		setOpen := func(n int) {
			t.Helper()
			require.NoError(t, rowread.SetOpen(d.ctx, client, d.keys, place.Partition, place.FlowID, n))
		}
		for more := true; more; { // the roots that the first call has left
			reply, err := d.core.Tick(d.ctx, enginerpc.TickCall{Partition: place.Partition, Limit: 1000})
			require.NoError(t, err)
			more = reply.More
		}
		require.Zero(t, d.run("member_reconciliation").Done)

		setOpen(77)
		require.NoError(t, rowread.SetFlow(d.ctx, client, d.keys, place.Partition, place.FlowID, map[string]string{"nodes_failed": "5"}))
		lane := d.keys.LaneEligible(place.Partition, "default")
		d.do("ZREM", lane, string(b.Node(t, place, "n7")))
		require.Equal(t, map[string]int64{"flow_counts": 2, "lane:eligible": 1}, d.countMembers(place, func() {}))
		require.Equal(t, nodes, open())

		setOpen(77)
		pages := 0
		require.Empty(t, d.countMembers(place, func() {
			if pages++; pages == 2 {
				_, err := d.CancelExecution(d.ctx, b.Node(t, place, "n9"), "enough")
				require.NoError(t, err)
			}
		}))
		require.Equal(t, 3, pages, "it gives up")
		require.Equal(t, 76, open())
		if nodes > 2000 {
			require.Positive(t, d.run("member_reconciliation").Done)
		} else {
			d.countMembers(place, func() {})
		}
		require.NotEqual(t, 76, open())
		b.Check(t, invariant.AnyTime)
	})
}

// countMembers checks runs of more than 100 members, calls back after each page, and returns the repairs.
func (d *fixture) countMembers(place enginetest.RunPlace, paged func()) map[string]int64 {
	d.t.Helper()
	repaired := make(map[string]int64)
	for cursor, next := "", true; next; next = cursor != "" {
		reply, err := d.core.CountMembers(d.ctx, enginerpc.CountMembersCall{Partition: place.Partition, Limit: 64, MoreThan: 100, Cursor: cursor})
		require.NoError(d.t, err)
		require.Less(d.t, reply.Checked, int64(300))
		for _, m := range reply.Repaired {
			repaired[m.Index] += m.Entries
		}
		cursor = reply.NextCursor
		paged()
	}
	return repaired
}
