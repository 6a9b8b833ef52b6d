package browsertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

type opener = func(...func(*server.Config)) *place

// The list finds runs: by an id, by words, by tags and by states, and all of that is in the address.
func TestRunsAreFound(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		p.settled(t, "CLM-2", runtime.WithTag("claims.tenant", "atlas"))
		require.NoError(t, p.client.Run("claims.assess", "CLM-2").Cancel(t.Context(), "duplicate"))
		w := open(t, p.url)
		w.goTo("")
		w.see(`tr[data-run="CLM-1"]`)
		w.shows("review needs an answer from senior adjusters")
		w.await(`document.querySelector('[data-state=cancelled] b').textContent === "1"`)

		w.click(`[data-state=cancelled]`)
		w.await(`location.search.includes("state=cancelled")`)
		w.gone(`tr[data-run="CLM-1"]`)
		w.do(chromedp.Reload())
		w.see(`tr[data-run="CLM-2"]`)

		w.goTo("runs")
		w.see(`tr[data-run="CLM-2"]`)
		w.search("claims.tenant:borealis")
		w.await(`location.search.includes("q=claims.tenant%3Aborealis")`)
		w.gone(`tr[data-run="CLM-2"]`)
		w.click(`[aria-label="Remove the filter “claims.tenant:borealis”"]`)
		w.see(`tr[data-run="CLM-2"]`)

		w.search("key:nobody-has-it is:queued")
		w.await(`location.search.includes("q=key%3Anobody-has-it")`)
		w.gone(`tr[data-run="CLM-2"]`)
		w.search("cancelled today")
		w.see(`tr[data-run="CLM-2"]`)
		w.gone(`tr[data-run="CLM-1"]`)

		w.search("CLM-2")
		w.see(`.runhead`)
		require.Contains(t, evaluate[string](w, `location.pathname`), "/a/b/runs/claims.assess/CLM-2")
		w.goTo("runs?q=nothing-has-this")
		w.shows("No run matches.")
		w.tolerate() // the browser notes status 422
		w.goTo("runs?q=foo:bar")
		w.shows("foo: must be one of state, flow, run")
	})
}

func (w *window) search(text string) {
	w.t.Helper()
	w.see("input[data-search]")
	w.fill("q", text)
	w.await(`(document.querySelector("form.search").requestSubmit(), true)`)
}

// Changes of a run appear in its row. New runs wait above the list until the reader requests them.
func TestRunsAreLive(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		w := open(t, p.url)
		w.goTo("runs")
		w.see(`[data-live=open]`)
		w.see(`tr[data-run="CLM-1"]`)
		p.settled(t, "CLM-2")
		w.shows("1 new")
		require.Equal(t, 1, evaluate[int](w, `document.querySelectorAll("tr[data-run]").length`), "rows do not move")
		require.NoError(t, p.client.Run("claims.assess", "CLM-1").Cancel(t.Context(), "not ours"))
		w.await(`document.querySelector('tr[data-run="CLM-1"] .st').textContent === "Cancelled"`)
		w.key("n")
		w.see(`tr[data-run="CLM-2"]`)
		w.gone(`.newpill`)
	})
}

// Two people with the list and the run see each other's actions.
func TestWindowsShareRunList(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		one, two := open(t, p.url), open(t, p.url)
		one.goTo("runs/claims.assess/CLM-1")
		two.goTo("runs/claims.assess/CLM-1")
		two.see(`[data-node="review"][data-state="person"]`)
		one.see(`#actions`)
		one.act("Pause…", "Pause run")
		two.await(`document.querySelector(".runhead .st").textContent === "Paused"`)
		two.act("Resume…", "Resume run")
		one.await(`document.querySelector(".runhead .st").textContent !== "Paused"`)
		one.act("Cancel run…", "Cancel run")
		two.await(`document.querySelector(".runhead .st").textContent === "Cancelled"`)
	})
}

// act chooses an action of a run and confirms it.
func (w *window) act(item, verb string) {
	w.t.Helper()
	w.see(`#actions`)
	w.click(`#actions`)
	w.press(item)
	w.see(`dialog[open]`)
	w.press(verb)
	w.gone(`dialog`)
}

// All runs that match are one bulk job, which previews its effect.
func TestBulkJob(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		for i := range 3 {
			p.settled(t, fmt.Sprintf("CLM-%d", i))
		}
		w := open(t, p.url)
		w.goTo("runs?flow=claims.assess")
		w.see(`tr[data-run="CLM-0"]`)
		w.click(`tr[data-run="CLM-0"] input`)
		w.press("Select all 3 that match")
		w.press("Cancel…")
		w.see(`[data-preview]`)
		w.shows("3 runs: 3 running")
		w.fill("reason", "spring clean")
		w.press("Cancel runs")
		w.see(`[data-job-state=completed]`)
		w.shows("Done 3")
		w.shows("spring clean")

		w.goTo("runs?flow=claims.assess")
		w.see(`tr[data-run="CLM-1"]`)
		w.click(`tr[data-run="CLM-1"] input`)
		w.press("Rerun failed…")
		w.press("Rerun failed")
		w.await(`document.querySelector('tr[data-run="CLM-1"] .st').textContent !== "Cancelled"`)
		w.goTo("audit")
		w.see(`tr[data-action]`)
	})
}

// sampled waits until the server has samples.
func (p *place) sampled(t *testing.T, path string, most int) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		reply, err := http.Get(p.url + "api/v1/" + path)
		require.NoError(t, err)
		defer func() { _ = reply.Body.Close() }()
		require.Equal(t, http.StatusOK, reply.StatusCode)
		var past struct {
			Samples []json.RawMessage `json:"samples"`
		}
		require.NoError(t, json.NewDecoder(reply.Body).Decode(&past))
		if len(past.Samples) < most {
			return fmt.Sprintf("%d samples of %s", len(past.Samples), path)
		}
		return ""
	})
}

// A newly opened page shows the last hour: lanes, budgets and the lag of keepers.
func TestPagesShowTheLastHour(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start(func(c *server.Config) { c.SampleEvery = 200 * time.Millisecond })
		p.queue(t)
		require.NoError(t, p.client.Budget(fabrictype.BudgetName{Name: "calm"}).Create(t.Context(), flow.BudgetConfig{Hard: map[string]int64{"tokens": 100}}))
		p.sampled(t, "lanes/models/history", 2)
		p.sampled(t, "budgets/calm/history", 6)
		w := open(t, p.url)
		w.goTo("lanes/models")
		w.see("svg.stacked")
		w.shows("Starts per minute")
		w.shows("at most 7 waited")
		w.goTo("budgets")
		w.await(`document.querySelector("[data-budget=calm] [data-forecast]")?.textContent.startsWith("100 left. Nothing was spent in the last")`)
		w.goTo("keepers")
		w.see(`[data-keepers]`)
		w.click(`details summary`)
		w.see(`[data-behind="lease_expiry"]`)
	})
}

// tomorrow puts the clock of the page a day ahead.
func (w *window) tomorrow() {
	w.t.Helper()
	w.await(`(() => {
		const real = Date;
		window.Date = class extends real {
			constructor(...a) { a.length ? super(...a) : super(real.now() + 86400000); }
			static now() { return real.now() + 86400000; }
		};
		return true;
	})()`)
}

// The failed run of a customer is found by words, by the clock of the reader, and is run again; several selected runs
// are one job.
func TestFindTheFailedRunOfACustomer(t *testing.T) {
	p := newPlace(t, "embedded")
	close(p.bank)
	close(p.handed)
	failed := p.start(t, "CLM-2", runtime.WithTag("claims.customer", "4711"))
	await(t, failed.RunRef, "review", "suspended")
	w := open(t, p.url)
	w.goTo("inbox")
	w.answer("fail")
	_, err := failed.Result(t.Context())
	require.ErrorIs(t, err, runtime.ErrRunFailed)
	for i := range 2 {
		run := p.start(t, fmt.Sprintf("CLM-%d", i))
		await(t, run.RunRef, "review", "suspended")
	}
	w.goTo("runs")
	w.see(`tr[data-run="CLM-0"]`)
	w.fill("q", "claims.ten")
	w.await(`[...document.querySelectorAll("#search-words option")].some((o) => o.value === "claims.tenant:")`)
	w.tomorrow()
	w.search("running yesterday")
	w.await(`location.search.includes("yesterday")`)
	w.see(`tr[data-run="CLM-0"]`)
	w.search("expired yesterday")
	w.shows("No run matches.")
	w.search("running yesterday")
	w.see(`tr[data-run="CLM-0"]`)
	w.click(`tr[data-run="CLM-0"] input`)
	w.click(`tr[data-run="CLM-1"] input`)
	w.press("Cancel…")
	w.see(`[data-preview]`)
	w.shows("2 runs: 2 running")
	w.press("Cancel runs")
	w.see(`[data-job-state=completed]`)
	w.shows("Done 2")

	w.goTo("runs")
	w.tomorrow()
	w.search("run:CLM-")
	w.see(`tr[data-run="CLM-0"]`)
	w.search("failed yesterday 4711")
	w.see(`tr[data-run="CLM-2"]`)
	w.gone(`tr[data-run="CLM-0"]`)
	w.click(`tr[data-run="CLM-2"] a`)
	w.see(`[data-node="review"]`)
	w.click(`[data-node="review"]`)
	w.press("Rerun from here…")
	w.see(`[data-rerun="5"]`)
	w.press("Rerun from here")
	w.see(`[data-node="review"][data-state="person"]`)
}
