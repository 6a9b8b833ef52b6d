package keeper_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/keeper"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// testKeeper returns a keeper of an engine in this process with four partitions.
func testKeeper(t *testing.T) *runtime.Keeper {
	e, err := runtime.Open(t.Context(), "embedded:", runtime.OpenConfig{Partitions: 4, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	k, err := runtime.NewKeeper(e, runtime.KeeperConfig{})
	require.NoError(t, err)
	return k
}

// A step that panics is counted and tried again; it keeps no other partition and no other task from its turn.
func TestKeeperPanicIsContained(t *testing.T) {
	t.Parallel()
	k := testKeeper(t)
	r := keeper.Of(k.Internal()).Loops[0]
	step, bad := r.Step, keyspace.Partition{Family: keyspace.FlowFamily, Index: 2}
	var panics atomic.Int64
	served := make([]atomic.Int64, 4)
	r.Step = func(ctx context.Context, partitions []keyspace.Partition, only engine.TaskID) []keeper.StepResult {
		for _, p := range partitions {
			if p == bad && panics.Add(1) <= 2 {
				panic("a fault in a task")
			}
		}
		for _, p := range partitions {
			served[p.Index].Add(1)
		}
		return step(ctx, partitions, only)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	require.Eventually(t, func() bool {
		for i := range served {
			if served[i].Load() == 0 {
				return false
			}
		}
		return true
	}, 5*time.Minute, 5*time.Millisecond)
	stop()
	require.NoError(t, <-done)
	require.GreaterOrEqual(t, panics.Load(), int64(3))
	tasks := k.Stats().Tasks
	require.EqualValues(t, 2, tasks["lease_expiry"].Panics)
	require.GreaterOrEqual(t, tasks["lease_expiry"].Errors, int64(2))
	require.Zero(t, tasks["quota"].Panics)
	report, err := keeper.Of(k.Internal()).RunTask(t.Context(), "lease_expiry")
	require.NoError(t, err)
	require.Equal(t, 4, report.Partitions)
}

// A failure in one partition is reported, and the task runs in the other partitions.
func TestRunTask_ContinuesAfterAFault(t *testing.T) {
	t.Parallel()
	k := testKeeper(t)
	client := keeper.Of(k.Internal()).Session.Client
	p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}
	// An index of the wrong type: nothing can be done in this partition.
	require.NoError(t, client.Do(t.Context(), client.B().Set().Key(keeper.Of(k.Internal()).Session.Core.Keys().IndexLeaseExpiry(p)).Value("x").Build()).Error())
	report, err := keeper.Of(k.Internal()).RunTask(t.Context(), "lease_expiry")
	require.ErrorContains(t, err, "lease_expiry in partition {fp:1}")
	require.Equal(t, 1, report.Remaining)
	require.Equal(t, 4, report.Steps)
}

// Keepers agree on the owner of each partition, and one that goes moves only its own.
func TestOwnership(t *testing.T) {
	t.Parallel()
	ids := []string{"a", "b", "c", "d"}
	members := make(map[string]*keeper.Membership)
	now := time.Now()
	for _, id := range ids {
		members[id] = keeper.NewMembership(id, time.Second)
		for _, other := range ids {
			members[id].Handle("here "+other+" 1000", now)
		}
	}
	owners := func() map[uint16]string {
		out := make(map[uint16]string)
		for index := range uint16(64) {
			for id, f := range members {
				if f.Owns(keyspace.Partition{Family: keyspace.FlowFamily, Index: index}) {
					require.Empty(t, out[index], "partition %d has two owners", index)
					out[index] = id
				}
			}
			require.NotEmpty(t, out[index], "partition %d has no owner", index)
		}
		return out
	}
	before, count := owners(), make(map[string]int)
	for _, id := range before {
		count[id]++
	}
	for _, id := range ids {
		require.InDelta(t, 16, count[id], 10, "%v", count)
	}
	delete(members, "b")
	for id, f := range members {
		require.False(t, f.ForgetSilent(now.Add(keeper.SilentBeats*time.Second)))
		for _, other := range []string{"a", "c", "d"} {
			f.Handle("here "+other+" 1000", now.Add(2*time.Second))
		}
		require.True(t, f.ForgetSilent(now.Add(keeper.SilentBeats*time.Second+1)), "%s forgets who is silent", id)
		require.Equal(t, 3, f.Size())
	}
	for index, id := range owners() {
		if before[index] != "b" {
			require.Equal(t, before[index], id)
		}
	}
}

// A keeper whose step hangs, or whose steps all fail, does not say that it is there.
func TestMembership_IsUnhealthyWhenStepsHangOrFail(t *testing.T) {
	t.Parallel()
	f, now := keeper.NewMembership("a", time.Second), time.Now()
	end := f.Begin(now)
	require.True(t, f.Healthy(now.Add(keeper.StuckAfter)))
	require.False(t, f.Healthy(now.Add(keeper.StuckAfter+1)))
	end([]keeper.StepResult{{Err: engine.ErrStepPanicked}, {}})
	require.True(t, f.Healthy(now.Add(time.Hour)))
	f.Begin(now)([]keeper.StepResult{{Err: engine.ErrStepPanicked}})
	require.False(t, f.Healthy(now))
	f.Begin(now)([]keeper.StepResult{{}})
	require.True(t, f.Healthy(now))
}

// The pause of a failing partition becomes longer with each failure, and its step runs alone; a partition whose engine
// is unavailable is tried again soon.
func TestPartitionTimerOfFailures(t *testing.T) {
	t.Parallel()
	p := func(i uint16) keyspace.Partition {
		return keyspace.Partition{Family: keyspace.FlowFamily, Index: i}
	}
	a, now := keeper.NewPartitionTimer([]keyspace.Partition{p(0), p(1)}, keeper.ShortSweep), time.Now()
	due, _ := a.Due(now)
	require.Len(t, due, 2)
	a.Failed(p(0), now, enginecore.ErrUnavailable)
	a.Failed(p(1), now, errors.New("a fault"))
	due, _ = a.Due(now.Add(keeper.MinPause))
	require.Equal(t, []keyspace.Partition{p(0)}, due)
	due, _ = a.Due(now.Add(keeper.MinPause))
	require.Equal(t, []keyspace.Partition{p(1)}, due)
	a.Failed(p(1), now, errors.New("a fault"))
	a.NoteDue(p(1), now)
	due, wait := a.Due(now.Add(keeper.MinPause))
	require.Empty(t, due)
	require.Equal(t, keeper.MinPause, wait)
	for range 10 {
		a.Failed(p(1), now, errors.New("a fault"))
	}
	_, wait = a.Due(now)
	require.Equal(t, keeper.ShortSweep, wait)
	due, _ = a.Due(now.Add(keeper.MaxPause))
	require.Contains(t, due, p(0))
	a.Stepped(p(1), now)
	due, _ = a.Due(now)
	require.Equal(t, []keyspace.Partition{p(1)}, due)
}

// A keeper whose steps fail in all of its partitions is not ready, long before it counts as silent. One that fails in
// some does its work in the others.
func TestKeeperWhoseStepsFailIsNotReady(t *testing.T) {
	t.Parallel()
	k := testKeeper(t)
	r := keeper.Of(k.Internal()).Loops[0]
	step := r.Step
	var failing, sound atomic.Bool
	r.Step = func(ctx context.Context, partitions []keyspace.Partition, only engine.TaskID) []keeper.StepResult {
		if !failing.Load() {
			return step(ctx, partitions, only)
		}
		results := step(ctx, partitions, only)
		for i, p := range partitions {
			if p.Index > 0 || !sound.Load() {
				results[i] = keeper.StepResult{Err: errors.New("the server is full")}
			}
		}
		return results
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
	}()
	becomes := func(ready bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			r.Timer.AllDue()
			return (k.Check(ctx) == nil) == ready
		}, 5*time.Minute, 5*time.Millisecond)
	}
	becomes(true)
	failing.Store(true)
	becomes(false)
	require.ErrorIs(t, k.Check(ctx), observe.ErrNotReady)
	require.ErrorContains(t, k.Check(ctx), "the server is full")
	sound.Store(true)
	becomes(true)
}
