package runtime

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// What is due by the engine's clock is looked at in time, however wrong this machine's wall clock is.
func TestPartitionTimerFollowsTheEnginesClock(t *testing.T) {
	p := enginecore.Partition{Family: enginecore.FlowFamily}
	for _, ahead := range []time.Duration{-time.Minute, 0, time.Minute} {
		a := newPartitionTimer([]enginecore.Partition{p}, 9*time.Second)
		engine := time.UnixMilli(time.Now().Add(ahead).UnixMilli())
		due, _ := a.due(time.Now())
		require.Len(t, due, 1)
		a.noteClock(p, engine, time.Now(), time.Now())
		a.noteDue(p, engine.Add(500*time.Millisecond))
		due, wait := a.due(time.Now())
		require.Empty(t, due, "engine %s ahead", ahead)
		require.LessOrEqual(t, wait, 500*time.Millisecond)
		require.Greater(t, wait, 100*time.Millisecond)
	}
}

// Before the engine's time is known, a message is heeded at once.
func TestPartitionTimerWithoutTheEnginesClock(t *testing.T) {
	p := enginecore.Partition{Family: enginecore.FlowFamily}
	a := newPartitionTimer([]enginecore.Partition{p}, 9*time.Second)
	a.due(time.Now())
	a.noteDue(p, time.Now().Add(time.Hour))
	due, _ := a.due(time.Now())
	require.Len(t, due, 1)
}

// What a keeper does after the engine's answer, however long it takes, does not make it late for what it hears meanwhile or for
// what the answer told it.
func TestPartitionTimerCountsFromTheAnswer(t *testing.T) {
	p := enginecore.Partition{Family: enginecore.FlowFamily}
	k := testKeeper(t)
	const work = time.Minute
	engine := time.UnixMilli(1_800_000_000_000)
	r := &maintenanceLoop{every: time.Hour, timer: newPartitionTimer([]enginecore.Partition{p}, time.Hour)}
	for _, next := range []time.Duration{time.Second, 2 * work} {
		r.step = func(context.Context, []enginecore.Partition, taskID) []stepResult {
			return []stepResult{{now: engine, heard: time.Now().Add(-work), next: next}}
		}
		r.timer.due(time.Now())
		k.keeper.step(t.Context(), r, []enginecore.Partition{p})
		if next > work { // the message that came meanwhile is due before
			due, _ := r.timer.due(time.Now())
			require.Empty(t, due)
			r.timer.noteDue(p, engine.Add(20*time.Millisecond))
		}
		due, _ := r.timer.due(time.Now())
		require.Len(t, due, 1)
	}
}
