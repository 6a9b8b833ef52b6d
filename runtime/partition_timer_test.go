package runtime

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/keeper"
)

// What is due by the engine's clock is looked at in time, however wrong this machine's wall clock is.
func TestPartitionTimerFollowsTheEnginesClock(t *testing.T) {
	t.Parallel()
	p := enginecore.Partition{Family: enginecore.FlowFamily}
	for _, ahead := range []time.Duration{-time.Minute, 0, time.Minute} {
		a := keeper.NewPartitionTimer([]enginecore.Partition{p}, 9*time.Second)
		now := time.Now()
		engine := time.UnixMilli(now.Add(ahead).UnixMilli())
		due, _ := a.Due(now)
		require.Len(t, due, 1)
		a.NoteClock(p, engine, now, now)
		a.NoteDue(p, engine.Add(500*time.Millisecond))
		due, wait := a.Due(now)
		require.Empty(t, due, "engine %s ahead", ahead)
		require.LessOrEqual(t, wait, 500*time.Millisecond)
		require.Greater(t, wait, 100*time.Millisecond)
	}
}

// Before the engine's time is known, a message is heeded at once.
func TestPartitionTimerWithoutTheEnginesClock(t *testing.T) {
	t.Parallel()
	p := enginecore.Partition{Family: enginecore.FlowFamily}
	a := keeper.NewPartitionTimer([]enginecore.Partition{p}, 9*time.Second)
	a.Due(time.Now())
	a.NoteDue(p, time.Now().Add(time.Hour))
	due, _ := a.Due(time.Now())
	require.Len(t, due, 1)
}

// What a keeper does after the engine's answer, however long it takes, does not make it late for what it hears
// meanwhile or for what the answer told it.
func TestPartitionTimerCountsFromTheAnswer(t *testing.T) {
	t.Parallel()
	p := enginecore.Partition{Family: enginecore.FlowFamily}
	k := testKeeper(t)
	const work = time.Minute
	engine_ := time.UnixMilli(1_800_000_000_000)
	r := &keeper.MaintenanceLoop{Every: time.Hour, Timer: keeper.NewPartitionTimer([]enginecore.Partition{p}, time.Hour)}
	for _, next := range []time.Duration{time.Second, 2 * work} {
		r.Step = func(context.Context, []enginecore.Partition, engine.TaskID) []keeper.StepResult {
			return []keeper.StepResult{{Now: engine_, Heard: time.Now().Add(-work), Next: next}}
		}
		r.Timer.Due(time.Now())
		k.keeper.Step(t.Context(), r, []enginecore.Partition{p})
		if next > work { // the message that came meanwhile is due before
			due, _ := r.Timer.Due(time.Now())
			require.Empty(t, due)
			r.Timer.NoteDue(p, engine_.Add(20*time.Millisecond))
		}
		due, _ := r.Timer.Due(time.Now())
		require.Len(t, due, 1)
	}
}

// Answers that arrive together have been given one after the other: what is due in each partition is due at the same
// local time, whichever answered first.
func TestPartitionTimerSeparatesAnswers(t *testing.T) {
	t.Parallel()
	const partitions, perCall = 64, time.Millisecond
	k := testKeeper(t)
	var list []enginecore.Partition
	for i := range partitions {
		list = append(list, enginecore.Partition{Family: enginecore.FlowFamily, Index: uint16(i)})
	}
	heard := time.Now()
	last := time.UnixMilli(1_800_000_000_000)
	l := &keeper.MaintenanceLoop{Every: time.Hour, Timer: keeper.NewPartitionTimer(list, time.Hour)}
	l.Step = func(_ context.Context, asked []enginecore.Partition, _ engine.TaskID) []keeper.StepResult {
		results := make([]keeper.StepResult, len(asked))
		for i := range asked {
			results[i] = keeper.StepResult{Now: last.Add(-time.Duration(partitions-1-i) * perCall), Heard: heard}
		}
		return results
	}
	asked, _ := l.Timer.Due(heard)
	k.keeper.Step(t.Context(), l, asked)
	for _, p := range list {
		l.Timer.NoteDue(p, last.Add(time.Second))
	}
	due, _ := l.Timer.Due(heard.Add(time.Second - 1))
	require.Empty(t, due)
	due, _ = l.Timer.Due(heard.Add(time.Second))
	require.Len(t, due, partitions)
}
