package keeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keeper"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// A partition is read in time for work that is due by the engine's clock, however wrong this machine's wall clock is.
func TestPartitionTimerFollowsTheEnginesClock(t *testing.T) {
	t.Parallel()
	p := keyspace.Partition{Family: keyspace.FlowFamily}
	for _, ahead := range []time.Duration{-time.Minute, 0, time.Minute} {
		a := keeper.NewPartitionTimer([]keyspace.Partition{p}, 9*time.Second)
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

// Of several readings of the engine's clock, the one counts that arrived soonest and with the least of a millisecond
// cut off, until a fresh one contradicts it or it is a minute old.
func TestPartitionTimerTakesTheBestReading(t *testing.T) {
	t.Parallel()
	const ms, us = time.Millisecond, time.Microsecond
	p := keyspace.Partition{Family: keyspace.FlowFamily}
	begin, engineBegin := time.Now(), time.UnixMilli(1_800_000_000_000)
	due := engineBegin.Add(2 * time.Minute)
	exact := begin.Add(2 * time.Minute) // both clocks begin together and run alike
	a := keeper.NewPartitionTimer([]keyspace.Partition{p}, time.Minute)
	// read reads the clock on the server at a time after the beginning, with an answer that takes a while.
	read := func(at, answer time.Duration) (late time.Duration) {
		back := a.NoteClock(p, engineBegin.Add(at.Truncate(ms)), begin.Add(at-100*us), begin.Add(at+answer))
		require.Less(t, back, ms, "the engine cuts off so much")
		local, known := a.ToLocal(p, due)
		require.True(t, known)
		return local.Sub(exact)
	}
	require.Equal(t, 900*us+300*us, read(10*ms+900*us, 300*us))
	require.Equal(t, 100*us+200*us, read(20*ms+100*us, 200*us))
	require.Equal(t, 100*us+200*us, read(30*ms+800*us, 5*ms))
	require.Equal(t, 700*us+400*us, read(2*time.Minute+700*us, 400*us))
	// The clock of the server runs ahead by a second, then is set back by two.
	engineBegin = engineBegin.Add(time.Second)
	exact = exact.Add(-time.Second)
	require.Equal(t, 500*us+200*us, read(2*time.Minute+40*ms+500*us, 200*us))
	engineBegin = engineBegin.Add(-2 * time.Second)
	at := 2*time.Minute + 80*ms
	require.Positive(t, a.NoteClock(p, engineBegin.Add(at), begin.Add(at-100*us), begin.Add(at+100*us)))
	local, _ := a.ToLocal(p, due)
	require.Equal(t, 100*us, local.Sub(exact.Add(2*time.Second)))
	// A reading with microseconds shows that the clocks have drifted apart by a fraction of a millisecond.
	at += 20*ms + 300*us
	a.NoteClock(p, engineBegin.Add(at-200*us), begin.Add(at), begin.Add(at+50*us))
	local, _ = a.ToLocal(p, due)
	require.Equal(t, 200*us+50*us, local.Sub(exact.Add(2*time.Second)))
}

// Before the engine's time is known, a message is heeded at once.
func TestPartitionTimerWithoutTheEnginesClock(t *testing.T) {
	t.Parallel()
	p := keyspace.Partition{Family: keyspace.FlowFamily}
	a := keeper.NewPartitionTimer([]keyspace.Partition{p}, 9*time.Second)
	a.Due(time.Now())
	a.NoteDue(p, time.Now().Add(time.Hour))
	due, _ := a.Due(time.Now())
	require.Len(t, due, 1)
}

// The work of a keeper after the engine's answer, however long it takes, does not make it late for messages that arrive
// in the meantime or for the times in the answer.
func TestPartitionTimerCountsFromTheAnswer(t *testing.T) {
	t.Parallel()
	p := keyspace.Partition{Family: keyspace.FlowFamily}
	k := testKeeper(t)
	const work = time.Minute
	engine_ := time.UnixMilli(1_800_000_000_000)
	r := &keeper.MaintenanceLoop{Every: time.Hour, Timer: keeper.NewPartitionTimer([]keyspace.Partition{p}, time.Hour)}
	for _, next := range []time.Duration{time.Second, 2 * work} {
		r.Step = func(context.Context, []keyspace.Partition, engine.TaskID) []keeper.StepResult {
			return []keeper.StepResult{{Now: engine_, ReceivedAt: time.Now().Add(-work), Next: next}}
		}
		r.Timer.Due(time.Now())
		keeper.Of(k.Internal()).Step(t.Context(), r, []keyspace.Partition{p})
		if next > work { // the message that came during the work is due before
			due, _ := r.Timer.Due(time.Now())
			require.Empty(t, due)
			r.Timer.NoteDue(p, engine_.Add(20*time.Millisecond))
		}
		due, _ := r.Timer.Due(time.Now())
		require.Len(t, due, 1)
	}
}

// Answers that arrive together were given one after the other: work that is due in each partition at the same time of
// the engine is due at the same local time, whichever partition answered first.
func TestPartitionTimerSeparatesAnswers(t *testing.T) {
	t.Parallel()
	const partitions, perCall = 64, time.Millisecond
	k := testKeeper(t)
	var list []keyspace.Partition
	for i := range partitions {
		list = append(list, keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(i)})
	}
	heard := time.Now()
	last := time.UnixMilli(1_800_000_000_000)
	l := &keeper.MaintenanceLoop{Every: time.Hour, Timer: keeper.NewPartitionTimer(list, time.Hour)}
	l.Step = func(_ context.Context, asked []keyspace.Partition, _ engine.TaskID) []keeper.StepResult {
		results := make([]keeper.StepResult, len(asked))
		for i := range asked {
			results[i] = keeper.StepResult{Now: last.Add(-time.Duration(partitions-1-i) * perCall), ReceivedAt: heard}
		}
		return results
	}
	asked, _ := l.Timer.Due(heard)
	keeper.Of(k.Internal()).Step(t.Context(), l, asked)
	for _, p := range list {
		l.Timer.NoteDue(p, last.Add(time.Second))
	}
	due, _ := l.Timer.Due(heard.Add(time.Second - 1))
	require.Empty(t, due)
	due, _ = l.Timer.Due(heard.Add(time.Second))
	require.Len(t, due, partitions)
}
