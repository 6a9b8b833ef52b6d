package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

func TestLimitsAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		id := d.create(admin.ExecutionSpec{Lane: lane})
		for _, limit := range []int{-1, 1001} {
			_, err := d.ReadStream(d.ctx, id, 0, "", "", limit)
			require.ErrorIs(t, err, admin.ErrInvalid)
			_, err = d.TailStream(d.ctx, id, 0, "", time.Millisecond, limit)
			require.ErrorIs(t, err, admin.ErrInvalid)
		}
		budget, _, err := d.CreateBudget(d.ctx, admin.BudgetSpec{Dimensions: map[string]admin.Limits{"tokens": {Hard: 10}}})
		require.NoError(t, err)
		_, err = d.ReportUsage(d.ctx, budget, map[string]int64{"tokens": -1}, "")
		require.ErrorIs(t, err, admin.ErrInvalid)
	})
}

// An index is listed in the order in which workers claim.
func TestListInOrder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		first := d.create(admin.ExecutionSpec{Lane: lane, Priority: 1})
		p, err := first.Partition()
		require.NoError(t, err)
		at := int(p.Index)
		q := admin.ExecutionQuery{Lane: lane, Index: admin.IndexEligible, InOrder: true}
		require.ErrorIs(t, q.Check(), admin.ErrInvalid, "of one partition only")
		q.Partition = &at
		var ids []enginecore.ExecutionID
		for e, err := range d.Executions(d.ctx, q) {
			require.NoError(t, err)
			ids = append(ids, e.ID)
		}
		require.Equal(t, []enginecore.ExecutionID{first}, ids)
		elsewhere := (at + 1) % 4
		q.Partition = &elsewhere
		page, err := d.ListExecutions(d.ctx, q, "", 0)
		require.NoError(t, err)
		require.Empty(t, page.Executions)
		wrong := -1
		q.Partition = &wrong
		_, err = d.ListExecutions(d.ctx, q, "", 0)
		require.ErrorIs(t, err, admin.ErrInvalid)
	})
}

func TestCancelWithLease(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		id := d.create(admin.ExecutionSpec{Lane: lane})
		_, err := d.CancelExecutionWith(d.ctx, id, admin.ExecutionCancel{Reason: "r", Lease: "only the id"})
		require.ErrorIs(t, err, admin.ErrInvalid)
		phase, err := d.CancelExecutionWith(d.ctx, id, admin.ExecutionCancel{Reason: "r", Source: "scheduler"})
		require.NoError(t, err)
		require.Equal(t, enginecore.PhaseRunnable, phase)
		require.Equal(t, enginecore.PublicCancelled, d.state(id))
	})
}
