package browsertest

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The page of a run shows its nodes as they are: in the graph, in time, in a table, and by its events.
func TestRunIsShown(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM/1") // a slash in an id stays in one part of the address
		w := open(t, p.url)
		w.goTo("runs/claims.assess/CLM%2F1")
		for node, state := range map[string]string{
			"review": "person", "settle": "none", "re-scan": "skipped", "extract": "succeeded", "bank-check": "retry",
			"price-parts": "children",
		} {
			w.see(`[data-node="` + node + `"][data-state="` + state + `"]`)
		}
		w.shows("A person has to answer. review needs an answer from senior adjusters")
		w.click(`[data-node="extract"]`)
		w.see(`.panel`)
		w.shows("the scanner timed out after 2 s")
		require.Contains(t, evaluate[string](w, `location.search`), "node=extract")

		w.key("2")
		w.see(`[data-bar="review"] .p-person`)
		w.see(`[data-bar="extract"] .p-failed`)
		w.key("3")
		w.see(`tr[data-node="bank-check"]`)
		w.shows("503 from bank-api")
		w.key("4")
		w.see(`tr[data-event="retry"]`)
		w.key("5")
		w.see(`.log`)
		w.shows("reading the pages")
		w.press("Stream")
		w.shows("The photos show a dented door. No other damage.")
		w.key("6")
		w.shows(`"claim": "CLM/1"`)
		w.shows("claims.tenant:borealis")
		w.see(`[data-run-budget="models"] svg.burn`)
		w.shows("4,500 of 10,000 spent")
		w.await(`document.querySelector(".runhead").textContent.includes("borealis")`)
		w.do(chromedp.NavigateBack())
	})
}

// The scrubber shows the run as it was at a moment.
func TestScrubberShowsEarlierState(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		w := open(t, p.url)
		w.goTo("runs/claims.assess/CLM-1")
		w.see(`[data-node="extract"][data-state="succeeded"]`)
		w.fill("moment", "1")
		w.see(`[data-node="extract"][data-state="none"]`)
		w.shows("As of")
		w.press("Back to now")
		w.see(`[data-node="extract"][data-state="succeeded"]`)
	})
}

// A failed run is rerun from a node: the page first lists the affected nodes.
func TestRerunFromANode(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		close(p.bank)
		close(p.handed)
		run := p.start(t, "CLM-1")
		await(t, run.RunRef, "review", "suspended")
		w := open(t, p.url)
		w.goTo("inbox")
		w.answer("fail")
		w.goTo("runs/claims.assess/CLM-1")
		w.see(`[data-node="settle"][data-state="failed"]`)
		w.shows("card_declined")
		w.see(`[data-node="roll-back"][data-state="succeeded"]`)
		w.await(`document.querySelector(".runhead .st").textContent === "Failed"`)
		w.click(`[data-node="review"]`)
		w.press("Rerun from here…")
		w.see(`[data-rerun="5"]`)
		w.shows("5 nodes run again: review, settle, notify, archive and roll-back. 9 keep their results.")
		w.press("Rerun from here")
		w.gone(`dialog`)
		w.see(`[data-node="review"][data-state="person"]`)
		w.goTo("inbox")
		w.answer("all good")
		w.goTo("runs/claims.assess/CLM-1?tab=data")
		w.shows("paid 18420")
	})
}

// answer fills the form of the ask in and sends it.
func (w *window) answer(reason string) {
	w.t.Helper()
	w.see(`[data-field="/amount"]`)
	w.fill("/amount", "18420")
	w.fill("/reason", reason)
	w.press("Send answer")
	w.see(`[data-answered]`)
}

// The items of a map are listed page by page, and lead to their child run.
func TestMapItems(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		w := open(t, p.url)
		w.goTo("runs/claims.assess/CLM-1?node=price-parts")
		w.await(`document.querySelectorAll(".cell").length === 12`)
		w.await(`document.querySelectorAll(".cell.c-ok").length === 8`)
		w.click(`.cell`)
		w.shows("Item 0: succeeded")
		w.shows("Items Open the child run 12 items: 8 succeeded, 0 failed, 4 open")
		close(p.handed)
		w.await(`document.querySelectorAll(".cell.c-ok").length === 12`)
		w.press("Open the child run")
		w.see(`tr[data-node], [data-graph]`)
	})
}

// A map has items. A sub-flow and a loop have child runs, with nodes: the panel, the table and the graph name them so.
func TestChildRunsAreNamed(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		inner := flow.New[int, int]("orders.pay")
		flow.Return(inner, flow.Waitpoint[int](inner, "paid"))
		pay, err := inner.Build()
		require.NoError(t, err)
		done := activity.New("orders.done", func(context.Context, int) (bool, error) { return true, nil })
		f := flow.New[int, int]("orders")
		flow.Loop(f, "remind", pay, done, f.Input(), 3)
		flow.Return(f, flow.Sub(f, "pay", pay, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		p.work(t, def.Handlers()...)
		_, err = runtime.Start(t.Context(), p.client, def, 1, runtime.WithID("o-1"))
		require.NoError(t, err)

		w := open(t, p.url)
		w.goTo("runs/orders/o-1?node=pay")
		w.see(`[data-children=sub_flow] h3`)
		w.shows("Child run Open the child run 1 node: 0 succeeded, 0 failed, 1 open")
		w.await(`document.querySelector('.gnode[data-node=pay] .status').textContent === "0 of 1 node"`)
		require.NotContains(t, w.text(), "item")
		w.fits("panel of a sub-flow")
		w.click(`.gnode[data-node=remind]`)
		w.see(`[data-children=loop] [data-turn="1"]`)
		w.shows("Turn 1, 1 node: 0 succeeded, 0 failed, 1 open")
		w.key("3")
		w.await(`document.querySelector("tr[data-node=pay]").textContent.includes("child run: 0 of 1 node. ")`)
		w.await(`document.querySelector("tr[data-node=remind]").textContent.includes("turn 1: 0 of 1 node. ")`)
		require.NotContains(t, w.text(), "item")
		w.click(`[data-turn="1"] a`)
		w.see(`.gnode[data-node=paid]`)
	})
}
