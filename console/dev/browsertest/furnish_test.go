package browsertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// furnish gives every page something to show.
func (p *place) furnish(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, p.client.Limit("parts-api", "").Set(ctx, activity.LimitConfig{AtOnce: 2}))
	p.queue(t)
	p.spend(t, 300, 150, 80)
	p.settled(t, "CLM-20931")
	p.settled(t, "CLM-20944")
	p.settled(t, "CLM-20918", runtime.WithTag("claims.kind", "house"))
	require.NoError(t, p.client.As("r.castellanos").Run("claims.assess", "CLM-20918").Pause(ctx, "wrong policy version"))
	for _, id := range []string{"CLM-20902", "CLM-20861"} {
		p.start(t, id)
		require.NoError(t, p.client.As("a.marsh").Run("claims.assess", id).Cancel(ctx, "duplicate of CLM-20860"))
	}
	_, err := runtime.Start(ctx, p.client, p.media, claim{Claim: "mt-5590"}, runtime.WithID("mt-5590"))
	require.NoError(t, err)
	_, err = runtime.Schedule(ctx, p.client, "nightly", p.claims, claim{Claim: "nightly", Pages: 1},
		runtime.ScheduleConfig{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"})
	require.NoError(t, err)
	require.NoError(t, p.client.Budget(fabrictype.BudgetName{Name: "models"}).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"tokens": 1_000_000}, Soft: map[string]int64{"tokens": 800_000}, ResetEvery: time.Hour}))
}

// spend starts runs that reserve amounts of a shared budget of 500.
func (p *place) spend(t *testing.T, amounts ...int) {
	t.Helper()
	for i, amount := range amounts {
		id := fmt.Sprintf("answer-%d", i)
		run, err := runtime.Start(t.Context(), p.client, p.answer,
			claim{Claim: []string{"atlas", "borealis"}[i%2], Amount: float64(amount), Pages: 2 + i}, runtime.WithID(id))
		require.NoError(t, err)
		await(t, run.RunRef, "write", "started")
	}
}

// queue lets nodes wait: in a lane without workers, by turns of their tenants, and for permits of a limit.
func (p *place) queue(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for i, tenant := range []string{"atlas", "atlas", "atlas", "borealis", "cobalt", "atlas", "cobalt"} {
		_, err := runtime.Start(ctx, p.client, p.brief, claim{Claim: tenant},
			runtime.WithID(fmt.Sprintf("brief-%d", i)), runtime.WithPriority(i%3))
		require.NoError(t, err)
	}
	for i := range 4 {
		_, err := runtime.Start(ctx, p.client, p.parts, claim{Claim: "x"}, runtime.WithID(fmt.Sprintf("order-%d", i)))
		require.NoError(t, err)
	}
}
