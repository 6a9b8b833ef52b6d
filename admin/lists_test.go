package admin_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// executions lists by pages, and lets something happen between them.
func (d *desk) executions(q admin.ExecutionQuery, limit int, meanwhile func()) map[enginecore.ExecutionID]admin.Execution {
	d.t.Helper()
	found := make(map[enginecore.ExecutionID]admin.Execution)
	for cursor := ""; ; {
		page, err := d.ListExecutions(d.ctx, q, cursor, limit)
		require.NoError(d.t, err)
		for _, e := range page.Items {
			found[e.ID] = e
		}
		if cursor = page.Next; cursor == "" {
			return found
		}
		meanwhile()
	}
}

func TestListsSelectByQuery(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		flow, _, err := d.CreateFlow(d.ctx, admin.FlowSpec{Kind: "build"})
		require.NoError(t, err)
		var all, members, delayed, tagged []enginecore.ExecutionID
		for i := range 40 {
			n := admin.ExecutionSpec{Flow: flow, Kind: fmt.Sprint("kind-", i)}
			if i%2 == 0 {
				n.Flow, n.Lane = "", enginecore.LaneID(fmt.Sprint("lane-", i%6))
			}
			if i%5 == 0 {
				n.Tags = map[string]string{"team.name": "x", "n.n": fmt.Sprint(i)}
			}
			if i%4 == 3 {
				now, err := d.core.Now(d.ctx)
				require.NoError(t, err)
				n.DelayUntil = now.AddDate(0, 0, 1)
			}
			id := d.create(n)
			all = append(all, id)
			if n.Flow != "" {
				_, _, err := d.AddExecution(d.ctx, flow, id)
				require.NoError(t, err)
				members = append(members, id)
			}
			if !n.DelayUntil.IsZero() {
				delayed = append(delayed, id)
			}
			if n.Tags != nil {
				tagged = append(tagged, id)
			}
		}
		ids := func(q admin.ExecutionQuery) []enginecore.ExecutionID {
			var ids []enginecore.ExecutionID
			for id := range d.executions(q, 7, func() {}) {
				ids = append(ids, id)
			}
			return ids
		}
		require.ElementsMatch(t, all, ids(admin.ExecutionQuery{}))
		require.ElementsMatch(t, members, ids(admin.ExecutionQuery{Flow: flow}))
		require.ElementsMatch(t, delayed, ids(admin.ExecutionQuery{States: []fabrictype.NodeState{fabrictype.NodeDelayed}}))
		require.ElementsMatch(t, delayed, ids(admin.ExecutionQuery{Lane: lane, Index: "delayed"}))
		require.ElementsMatch(t, tagged, ids(admin.ExecutionQuery{Tags: map[string]string{"team.name": "x"}}))
		require.Equal(t, all[5:6], ids(admin.ExecutionQuery{Tags: map[string]string{"n.n": "5"}, Lane: lane}))
		require.Len(t, ids(admin.ExecutionQuery{Lane: "lane-2"}), 7)
		require.Len(t, ids(admin.ExecutionQuery{Lane: "lane-2", Index: "eligible"}), 7)
		require.Empty(t, ids(admin.ExecutionQuery{Lane: "lane-2", Index: "active"}))
		for e, err := range d.Executions(d.ctx, admin.ExecutionQuery{Lane: "lane-2", WithTags: true}) {
			require.NoError(t, err)
			require.EqualValues(t, "lane-2", e.Lane)
			break // a loop may end early
		}
		for _, q := range []admin.FlowQuery{{}, {Kind: "build"}, {States: []string{recordstate.FlowOpen}}} {
			page, err := d.ListFlows(d.ctx, q, "", 0)
			require.NoError(t, err)
			require.Len(t, page.Items, 1, "%+v", q)
			require.Equal(t, len(members), page.Items[0].Members)
		}
		for range d.Flows(d.ctx, admin.FlowQuery{Kind: "other"}) {
			t.Error("no flow has this kind")
		}
		for _, err := range d.Members(d.ctx, enginecore.FlowID(uuid.NewString())) {
			require.NoError(t, err)
		}
	})
}

// Flows of other tools and runs are listed together, whatever the size of the pages.
func TestListsOfFlowsContainRuns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newDesk(t, b)
		f := flow.New[int, int]("shop")
		flow.Return(f, flow.Node(f, "charge", activity.New("charge", func(_ context.Context, n int) (int, error) {
			return n, nil
		}), f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		var want []string
		for i := range 20 {
			run, err := runtime.Start(d.ctx, b.Client, def, i)
			require.NoError(t, err)
			described, err := run.Describe(d.ctx)
			require.NoError(t, err)
			want = append(want, string(described.FlowID))
			id, _, err := d.CreateFlow(d.ctx, admin.FlowSpec{Kind: "build"})
			require.NoError(t, err)
			want = append(want, string(id))
		}
		for _, limit := range []int{0, 1, 7} {
			var found []string
			for cursor := ""; ; {
				page, err := d.ListFlows(d.ctx, admin.FlowQuery{}, cursor, limit)
				require.NoError(t, err)
				for _, f := range page.Items {
					found = append(found, string(f.ID))
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			require.ElementsMatch(t, want, found, "pages of %d", limit)
		}
	})
}

// Whatever is there all the while is listed, while others are made, cancelled and claimed.
func TestListsHaveNoGaps(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		random := rand.New(rand.NewPCG(3, 4))
		var staying []enginecore.ExecutionID
		var passing []enginecore.ExecutionID
		for i := range 150 {
			id := d.create(admin.ExecutionSpec{})
			if i%2 == 0 {
				staying = append(staying, id)
			} else {
				passing = append(passing, id)
			}
		}
		for _, q := range []admin.ExecutionQuery{
			{}, {States: []fabrictype.NodeState{fabrictype.NodeWaiting}}, {Lane: lane, Index: "eligible"},
		} {
			found := d.executions(q, 10, func() {
				for range 3 {
					d.create(admin.ExecutionSpec{})
				}
				i := random.IntN(len(passing))
				_, _ = d.CancelExecution(d.ctx, passing[i], "enough") // it may be over already
				_, err := d.ChangePriority(d.ctx, staying[random.IntN(len(staying))], random.IntN(10))
				require.NoError(t, err)
			})
			for _, id := range staying {
				require.Contains(t, found, id, "%+v", q)
			}
		}
	})
}

// A list that is gone through while the server restarts, which then keeps its sets in another order, leaves nothing
// out.
func TestListsOverARestart(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix(), runtime.OpenConfig{Partitions: 1})
		d := newDesk(t, b)
		const executions = 800 // more than fit in a set that is stored in one piece
		var all []enginecore.ExecutionID
		for range executions {
			all = append(all, d.create(admin.ExecutionSpec{}))
		}
		for _, q := range []admin.ExecutionQuery{{}, {Index: "eligible", Lane: lane}} {
			pages := 0
			found := d.executions(q, 100, func() {
				if pages++; pages == 3 {
					server.Restart()
				}
			})
			require.Greater(t, pages, 3)
			require.ElementsMatch(t, all, slices.Collect(maps.Keys(found)), "%+v", q)
		}
	})
}
