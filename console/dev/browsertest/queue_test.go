package browsertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The page of a lane shows the next executions, and the rule of their order.
func TestLanePageShowsOrder(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.queue(t)
		w := open(t, p.url)
		w.goTo("lanes/models")
		w.see(`tr[data-place="7"]`)
		w.see(`[data-turn="atlas"]`)
		w.shows("Fair turn of borealis")
		require.Equal(t, "turn", evaluate[string](w, `document.querySelector('tr[data-place="1"]').dataset.rule`))
		w.shows("one order for the whole lane")
		require.NoError(t, p.client.Lane("models").Pause(t.Context(), "too dear"))
		w.shows("The lane is paused: nothing is claimed until it is resumed.")
		w.press("brief-3")
		w.see(`.runhead`)
	})
}

// A limit is raised before the storm: one that a published flow declares is listed before a node has used it, and any
// other is set by its name and key.
func TestUnusedLimitIsSet(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		w := open(t, p.url)
		w.tolerate() // the browser notes status 404
		w.goTo("limits")
		w.shows("No limits yet.")
		require.NoError(t, p.client.Publish(t.Context(), runtime.Publication{Flow: p.parts}))
		w.goTo("limits")
		w.see(`tr[data-limit="parts-api"]`)
		w.shows("0 of 2 at once")
		w.fits("limits")
		w.press("parts-api")
		w.shows("Nobody holds a place.")
		w.press("Change…")
		w.see("dialog[open]")
		w.fill("at_once", "9")
		w.press("Set limit")
		w.gone("dialog")
		w.shows("0 of 9 at once")
		w.shows("Set by an operator")
		l, err := p.client.Limit("parts-api", "").Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, 9, l.AtOnce)

		w.press("Limits")
		w.press("Set a limit…")
		w.see("dialog[open]")
		w.fill("limit", "imports")
		w.fill("key", "acme")
		w.press("Continue")
		w.shows("No node has used this limit yet.")
		w.fits("limit without use")
		w.press("Set…")
		w.see("dialog[open]")
		w.fill("at_most", "50")
		w.fill("per", "1m0s")
		w.press("Set limit")
		w.gone("dialog")
		w.shows("0 of 50 per 1m0s")
	})
}

// The page of a limit lists the holders of its permits and the executions that wait for one. Two people who change it
// do not overwrite each other.
func TestLimitPageListsHoldersAndWaiting(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		require.NoError(t, p.client.Limit("parts-api", "").Set(t.Context(), activity.LimitConfig{AtOnce: 2}))
		p.queue(t)
		w := open(t, p.url)
		w.goTo("limits")
		w.see(`tr[data-limit="parts-api"]`)
		w.shows("2 of 2 at once")
		w.press("parts-api")
		w.await(`document.querySelectorAll("tr[data-use=waiter]").length === 2`)
		w.press("Change…")
		w.see("dialog[open]")
		require.NoError(t, p.client.Limit("parts-api", "").Set(t.Context(), activity.LimitConfig{AtOnce: 3}))
		w.fill("at_once", "4")
		w.tolerate() // the browser notes the refusal
		w.press("Set limit")
		w.shows("Somebody has changed it to 3 of 3 at once meanwhile.")
		w.press("Set limit")
		w.gone("dialog")
		w.shows("4 of 4 at once")
		w.shows("Nobody waits.")
		w.confirm("Reset…", "Reset limit")
		w.shows("Set by the flow")
	})
}

// The page of a flow's budgets lists the runs with the highest usage, and the page of a shared budget draws its
// remaining amount. Two people who change a budget do not overwrite each other.
func TestBudgetPageListsSpending(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		ctx := t.Context()
		p.settled(t, "CLM-1")
		shared := fabrictype.BudgetName{Name: "shared"}
		require.NoError(t, p.client.Budget(shared).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"tokens": 1_000_000}, ResetEvery: time.Hour}))
		w := open(t, p.url)
		w.goTo("budgets")
		w.see(`tr[data-spender="CLM-1"]`)
		w.shows("4,500 of 10 k tokens")
		w.see(`[data-budget="shared"] svg.burn`)
		w.shows("Too early to tell how long it lasts.")
		w.press("Change…")
		w.see("dialog[open]")
		require.NoError(t, p.client.Budget(shared).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"tokens": 3_000_000}}))
		w.tolerate() // the browser notes the refusal
		w.fill("hard-tokens", "2000000")
		w.press("Set budget")
		w.shows("Somebody has set it to 3,000,000 tokens meanwhile.")
		w.fill("reset_every", "2h")
		w.fill("effect", "block")
		w.press("Set budget")
		w.gone("dialog")
		w.shows("of 2,000,000 spent")
		now, err := p.client.Budget(shared).Describe(ctx)
		require.NoError(t, err)
		require.EqualValues(t, flow.BlockNodes, now.Effect)
		require.Equal(t, 2*time.Hour, now.ResetEvery.Duration)
		w.press("CLM-1")
		w.see(`.runhead`)
	})
}

// Of a shared budget, those are listed that have reserved a part of it or wait for it, and of one with keys, which key
// spends most.
func TestBudgetPageListsReservations(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.spend(t, 300, 150, 80)
		w := open(t, p.url)
		w.goTo("budgets")
		w.await(`[...document.querySelectorAll("[data-use-of=words] tr[data-holder]")].map((e) => e.dataset.holder).join() === "answer-0,answer-1"`)
		w.shows("300 words")
		w.shows("1 node waits until it has room:")
		w.see(`[data-waits="answer-2"]`)
		w.shows("Of what is spent, the engine keeps how much, not by whom.")
		w.see(`tr.sel[data-key="atlas"]`)
		w.shows("6 of 20 calls")
		w.click(`tr[data-key="borealis"] button`)
		w.see(`tr.sel[data-key="borealis"]`)
		w.shows("key borealis")
		close(p.handed)
		w.shows("Nobody has reserved a part of it at present.")
		w.gone(`[data-waits]`)
		w.goTo("runs/models.answer/answer-2")
		w.see(".runhead")
		w.await(`document.querySelector(".runhead .st").textContent === "Succeeded"`)
	})
}
