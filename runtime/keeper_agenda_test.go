package runtime

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// What is due by the engine's clock is looked at in time, however wrong this machine's wall clock is.
func TestAgendaFollowsTheEnginesClock(t *testing.T) {
	p := enginecore.Partition{Family: enginecore.FlowFamily}
	for _, ahead := range []time.Duration{-time.Minute, 0, time.Minute} {
		a := newAgenda([]enginecore.Partition{p}, 9*time.Second)
		engine := time.UnixMilli(time.Now().Add(ahead).UnixMilli())
		due, _ := a.due(time.Now())
		require.Len(t, due, 1)
		a.learn(p, engine, time.Now(), time.Now())
		a.note(p, engine.Add(500*time.Millisecond))
		due, wait := a.due(time.Now())
		require.Empty(t, due, "engine %s ahead", ahead)
		require.LessOrEqual(t, wait, 500*time.Millisecond)
		require.Greater(t, wait, 100*time.Millisecond)
	}
}

// Before the engine's time is known, a message is heeded at once.
func TestAgendaWithoutTheEnginesClock(t *testing.T) {
	p := enginecore.Partition{Family: enginecore.FlowFamily}
	a := newAgenda([]enginecore.Partition{p}, 9*time.Second)
	a.due(time.Now())
	a.note(p, time.Now().Add(time.Hour))
	due, _ := a.due(time.Now())
	require.Len(t, due, 1)
}

// What a keeper does after the engine's answer, however long it takes, does not make it late for what it hears meanwhile or for
// what the answer told it.
func TestAgendaCountsFromTheAnswer(t *testing.T) {
	p := enginecore.Partition{Family: enginecore.FlowFamily}
	k := testKeeper(t)
	const work = time.Minute
	engine := time.UnixMilli(1_800_000_000_000)
	r := &round{every: time.Hour, agenda: newAgenda([]enginecore.Partition{p}, time.Hour)}
	for _, next := range []time.Duration{time.Second, 2 * work} {
		r.step = func(context.Context, []enginecore.Partition, Duty) []outcome {
			return []outcome{{now: engine, heard: time.Now().Add(-work), next: next}}
		}
		r.agenda.due(time.Now())
		k.visit(t.Context(), r, []enginecore.Partition{p})
		if next > work { // the message that came meanwhile is due before
			due, _ := r.agenda.due(time.Now())
			require.Empty(t, due)
			r.agenda.note(p, engine.Add(20*time.Millisecond))
		}
		due, _ := r.agenda.due(time.Now())
		require.Len(t, due, 1)
	}
}
