package admin_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestLimitsAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		id := d.create(admin.ExecutionSpec{Lane: lane})
		for _, limit := range []int{-1, 10_001} {
			_, err := d.ReadStream(d.ctx, id, 0, "", "", limit)
			require.ErrorIs(t, err, admin.ErrInvalid)
			_, err = d.TailStream(d.ctx, id, 0, "", time.Millisecond, limit)
			require.ErrorIs(t, err, admin.ErrInvalid)
		}
		budget, _, err := d.CreateBudget(d.ctx, admin.BudgetSpec{Dimensions: map[string]admin.Limits{"tokens": {Hard: 10}}})
		require.NoError(t, err)
		for _, limit := range []int{1, 10_000} {
			_, err := d.ReadStream(d.ctx, id, 0, "", "", limit)
			require.NoError(t, err)
		}
		for _, amount := range []int64{-1, 1 << 53, math.MaxInt64} {
			_, err = d.ReportUsage(d.ctx, budget, map[string]int64{"tokens": amount}, "")
			require.ErrorIs(t, err, admin.ErrInvalid)
			_, _, err = d.CreateBudget(d.ctx, admin.BudgetSpec{Dimensions: map[string]admin.Limits{"tokens": {Hard: amount}}})
			require.ErrorIs(t, err, admin.ErrInvalid)
		}
	})
}

// An execution of a partition that the deployment does not have is refused: no worker and no keeper would look there.
func TestUnknownPartitionsAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		id := keyspace.NewExecutionID(keyspace.Partition{
			Family: keyspace.FlowFamily, Index: uint16(d.core.Partitioning().Flow),
		})
		refused := func(_ any, err error) {
			t.Helper()
			require.ErrorIs(t, err, admin.ErrInvalid)
			require.ErrorContains(t, err, "does not exist")
		}
		_, _, err := d.CreateExecution(d.ctx, admin.ExecutionSpec{ID: id, Lane: lane, Kind: "x"})
		refused(nil, err)
		refused(d.Execution(d.ctx, id))
		refused(d.ExecutionState(d.ctx, id))
		_, _, err = d.ExecutionResult(d.ctx, id)
		refused(nil, err)
		refused(d.CancelExecution(d.ctx, id, ""))
		refused(d.ReplayExecution(d.ctx, id))
		refused(d.ChangePriority(d.ctx, id, 1))
		refused(d.RevokeLease(d.ctx, id, "", ""))
		refused(d.Waitpoints(d.ctx, id))
		refused(d.DeliverSignal(d.ctx, admin.Signal{Execution: id, Name: "x"}))
		refused(d.ReadStream(d.ctx, id, 0, "", "", 1))
		refused(nil, d.TagExecution(d.ctx, id, map[string]string{"a.b": "c"}))
		refused(nil, d.CloseWaitpoint(d.ctx, id, "", ""))
	})
}

// An index is listed in the order in which workers claim.
func TestListInOrder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		var want []enginecore.ExecutionID
		for _, priority := range []int{0, 1, 3, 5, 9} { // the last one is claimed first
			want = append(want, d.create(admin.ExecutionSpec{Lane: lane, Priority: priority}))
		}
		slices.Reverse(want)
		p, err := keyspace.PartitionOf(want[0])
		require.NoError(t, err)
		at := int(p.Index)
		q := admin.ExecutionQuery{Lane: lane, Index: "eligible", InOrder: true}
		require.ErrorIs(t, q.Check(), admin.ErrInvalid, "of one partition only")
		q.Partition = &at
		var ids []enginecore.ExecutionID
		for e, err := range d.Executions(d.ctx, q) {
			require.NoError(t, err)
			ids = append(ids, e.ID)
		}
		require.Equal(t, want, ids)
		ids = nil
		for page := (&fabrictype.Page[admin.Execution]{}); ; {
			page, err = d.ListExecutions(d.ctx, q, page.Next, 2)
			require.NoError(t, err)
			for _, e := range page.Items {
				ids = append(ids, e.ID)
			}
			if page.Next == "" {
				break
			}
		}
		require.Equal(t, want, ids)
		_, err = d.ListExecutions(d.ctx, q, "rank.x", 2)
		require.ErrorIs(t, err, runtime.ErrCursor)
		elsewhere := (at + 1) % 4
		q.Partition = &elsewhere
		page, err := d.ListExecutions(d.ctx, q, "", 0)
		require.NoError(t, err)
		require.Empty(t, page.Items)
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
		require.Equal(t, recordstate.PhaseRunnable, phase)
		require.Equal(t, fabrictype.NodeCancelled, d.state(id))

		id = d.create(admin.ExecutionSpec{Lane: lane})
		x := d.Claim(id, 0)
		_, err = d.CancelExecutionWith(d.ctx, id, admin.ExecutionCancel{
			Reason: "r", Source: "scheduler", Lease: x.LeaseID, Epoch: x.LeaseEpoch + 1,
		})
		require.ErrorIs(t, err, enginecore.ErrStaleLease)
		require.Equal(t, fabrictype.NodeActive, d.state(id))
		phase, err = d.CancelExecutionWith(d.ctx, id, admin.ExecutionCancel{
			Reason: "r", Source: "scheduler", Lease: x.LeaseID, Epoch: x.LeaseEpoch,
		})
		require.NoError(t, err)
		require.Equal(t, recordstate.PhaseActive, phase)
		e, err := d.Execution(d.ctx, id)
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeCancelled, e.State)
		require.Equal(t, "scheduler", e.CancelledBy)
	})
}

// Calls of TailStream that wait are counted, and one too many returns an error.
func TestTailsAreBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t, enginetest.New(t, testserver.Embedded))
	id := d.create(admin.ExecutionSpec{Lane: lane})
	d.Append(d.Claim(id, 0), "first")
	frames, err := d.ReadStream(d.ctx, id, 0, "", "", 0)
	require.NoError(t, err)
	after := frames.Frames[0].ID
	ctx, stop := context.WithCancel(d.ctx)
	var waiting sync.WaitGroup
	for range 256 {
		waiting.Go(func() {
			for ctx.Err() == nil { // a probe can take the place of a call, which is refused then
				_, _ = d.TailStream(ctx, id, 0, after, 30*time.Second, 1)
			}
		})
	}
	enginetest.Eventually(t, func() string {
		if _, err := d.TailStream(d.ctx, id, 0, after, time.Millisecond, 1); !errors.Is(err, runtime.ErrTooManyWatches) {
			return fmt.Sprint("one more call waits: ", err)
		}
		return ""
	})
	frames, err = d.TailStream(d.ctx, id, 0, "", 30*time.Second, 1)
	require.NoError(t, err, "existing frames are returned at once")
	require.Len(t, frames.Frames, 1)
	stop()
	waiting.Wait()
	_, err = d.TailStream(d.ctx, id, 0, after, time.Millisecond, 1)
	require.NoError(t, err)
}

func (d *desk) lags() map[string]time.Duration {
	d.t.Helper()
	all, err := d.KeeperLag(d.ctx)
	require.NoError(d.t, err)
	return all
}

// The lag of a task is the lag of its oldest due work in all partitions, until a keeper has done it.
func TestKeeperLag(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newDesk(t, b)
		for task, lag := range d.lags() {
			require.Zero(t, lag, task)
			_, err := d.RunKeeperTask(d.ctx, task, runtime.KeeperConfig{})
			require.NoError(t, err, "keepers have a task of this name")
		}
		client, p := d.core.Client(), keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}
		due := client.B().Zadd().Key(d.core.Keys().IndexAttemptTimeout(p)).ScoreMember().ScoreMember(1, "nothing").Build()
		require.NoError(t, client.Do(d.ctx, due).Error())
		require.Greater(t, d.lags()["attempt_timeout"], 365*24*time.Hour, "it was due in 1970")
		require.Zero(t, d.lags()["execution_deadline"])
		_, err := d.RunKeeperTask(d.ctx, "attempt_timeout", runtime.KeeperConfig{})
		require.NoError(t, err)
		require.Zero(t, d.lags()["attempt_timeout"])
	})
}

// Delays have an index in each lane. The lag counts from the end of the delay.
func TestKeeperLagOfDelays(t *testing.T) {
	t.Parallel()
	b, clock := enginetest.WithClock(t)
	d := newDesk(t, b)
	now, err := d.core.Now(d.ctx)
	require.NoError(t, err)
	d.create(admin.ExecutionSpec{Lane: lane, DelayUntil: now.Add(time.Minute)})
	require.Zero(t, d.lags()["delayed_promotion"])
	clock.Jump(3 * time.Minute)
	lag := d.lags()["delayed_promotion"]
	later, err := d.core.Now(d.ctx)
	require.NoError(t, err)
	require.GreaterOrEqual(t, lag, 2*time.Minute-time.Millisecond)
	require.LessOrEqual(t, lag, later.Sub(now)-time.Minute+time.Millisecond, "the clock moves between the calls as well")
	_, err = d.RunKeeperTask(d.ctx, "delayed_promotion", runtime.KeeperConfig{})
	require.NoError(t, err)
	require.Zero(t, d.lags()["delayed_promotion"])
}
