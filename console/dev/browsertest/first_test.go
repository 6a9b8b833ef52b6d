package browsertest

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/server"
)

// A first visit asks for a token, and calls none invalid before one was typed.
func TestFirstVisit(t *testing.T) {
	p := newPlace(t, "embedded", func(c *server.Config) { c.Tokens, c.AdminToken = true, "secret-of-the-admin" })
	w := open(t, p.url)
	w.tolerate()
	w.goTo("runs")
	w.see(`[name=token]`)
	w.shows("This server asks who you are.")
	require.NotContains(t, w.text(), "not valid")
	w.fill("token", "another")
	w.press("Sign in")
	w.shows("The token is not valid, or not any more.")
}

// Addresses that lead nowhere say so in words.
func TestNowhere(t *testing.T) {
	p := newPlace(t, "embedded")
	p.settled(t, "CLM-1")
	w := open(t, p.url)
	w.tolerate() // the browser notes status 404
	for _, path := range []string{"nope", "nope/deeper/still"} {
		w.goTo(path)
		w.shows("There is no such page.")
		w.await(`document.title.includes("Not found")`)
	}
	w.press("Go to the runs")
	w.see(`tr[data-run="CLM-1"]`)
	w.goTo("flows/unheard-of")
	w.shows("There is no flow unheard-of. No flow of this name is published, and no run of it is kept.")
	w.goTo("flows/claims.assess.price-parts")
	w.shows("claims.assess.price-parts has runs, but it is not published. It may be a sub-flow")
	w.press("Show the graph of its latest run")
	w.see(`[data-graph], tr[data-node], .empty`)
}

// Times are in the zone of the reader, with its name.
func TestLocalTime(t *testing.T) {
	p := newPlace(t, "embedded")
	p.settled(t, "CLM-1")
	w := open(t, p.url)
	_, err := chromedp.Call(w.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"})
	require.NoError(t, err)
	w.goTo("runs/claims.assess/CLM-1")
	w.await(`document.querySelector("main .why")?.textContent.includes("GMT+5:30")`)
	local := evaluate[string](w, `document.querySelector(".runhead time").textContent`)
	w.press("UTC")
	w.await(`document.querySelector("main .why").textContent.includes(" UTC")`)
	require.NotEqual(t, local, evaluate[string](w, `document.querySelector(".runhead time").textContent`))
	date := time.Now().AddDate(1, 0, 0).Format(time.DateOnly)
	start := func(zone string) string {
		w.goTo("flows/claims.assess/start")
		w.see(`[name=start_at]`)
		w.shows("Start at (" + zone + "; at once if empty)")
		w.fill("/claim", "later")
		w.fill("/amount", "1")
		w.fill("/pages", "1")
		w.fill("/parts", "1")
		w.fill("start_at", date+"T10:00")
		w.press("Start the run")
		w.see(".runhead")
		w.key("6")
		w.await(`document.querySelectorAll("dl.kv time").length > 1`)
		return evaluate[string](w, `document.querySelectorAll("dl.kv time")[1].dateTime`)
	}
	require.Contains(t, start("UTC"), date+"T10:00:00")
	w.press("GMT+5:30")
	require.Contains(t, start("GMT+5:30"), date+"T04:30:00")
	w.do(chromedp.EmulateViewport(390, 844))
	w.click(`.top .phone`)
	w.await(`document.querySelector(".top .phone").textContent === "UTC"`)
}
