package budgettest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// A GrantIssuer grants nothing of runs with a blocking budget, also if reservations exhaust it, and continues once
// there is room.
func TestGrantUnderClosedBudget(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := fan(t, "granted", idle("idle"), 2, flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}, OnExceeded: flow.BlockNodes}))
		run := start(ctx, t, b, def, "x")
		x := newBrittle(ctx, t, b, run)
		held := x.use("reserve", 4)
		require.Equal(t, "ok", held.Uses[0].State)
		require.True(t, x.use("reserve", 4).Uses[0].Waits)
		x.tell()
		s := b.Engine
		request := enginecore.GrantRequest{Lane: activity.DefaultLane, WorkerID: "w", Instance: "w-1", TTL: time.Minute}
		_, err := s.ClaimForWorker(ctx, request)
		require.ErrorIs(t, err, enginecore.ErrNoGrant)
		x.awaitBlocked(2)
		b.Check(t, invariant.AnyTime)

		_, err = x.core.ResetBudget(ctx, resetOf(x))
		require.NoError(t, err)
		x.tell()
		_, err = s.ClaimForWorker(ctx, request)
		require.NoError(t, err)
	})
}

func resetOf(x *brittle) enginerpc.ResetBudgetCall {
	return enginerpc.ResetBudgetCall{Partition: x.budget, BudgetID: x.call.BudgetID, Now: time.Now()}
}

// Publishes the gate of the budget to the partition of the run.
func (x *brittle) tell() {
	s := x.state()
	_, err := x.core.SetBudgetGates(x.ctx, enginerpc.SetBudgetGatesCall{Partition: x.part, Gates: []enginerpc.SetBudgetGatesGate{
		{BudgetID: s.BudgetID, Gate: s.Gate, Closed: s.Closed},
	}})
	require.NoError(x.t, err)
}
