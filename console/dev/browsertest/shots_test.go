package browsertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/server"
)

// pages are all pages of a console, with the content that shows once they are loaded.
func pages() []struct{ name, path, seen string } {
	return []struct{ name, path, seen string }{
		{"health", "health", `[data-finding]`},
		{"runs", "runs", `tr[data-run="CLM-20931"]`},
		{"run", "runs/claims.assess/CLM-20931?node=review", `[data-node="review"][data-state="person"]`},
		{"run-timeline", "runs/claims.assess/CLM-20931?tab=timeline", `[data-bar="review"]`},
		{"run-table", "runs/claims.assess/CLM-20931?tab=table", `tr[data-node="review"]`},
		{"run-events", "runs/claims.assess/CLM-20931?tab=events", `tr[data-event="suspended"]`},
		{"run-logs", "runs/claims.assess/CLM-20931?tab=logs&node=extract", `.log`},
		{"run-data", "runs/claims.assess/CLM-20931?tab=data", `.json`},
		{"run-compare", "runs/claims.assess/CLM-20931?tab=compare&with=CLM-20944", `main table`},
		{"inbox", "inbox?ask=claims.assess", `[data-ask="CLM-20931"]`},
		{"start", "flows/claims.assess/start", `[data-field="/claim"]`},
		{"flows", "flows", `tr[data-flow="claims.assess"]`},
		{"flow", "flows/claims.assess", `[data-node="review"]`},
		{"schedules", "schedules", `tr[data-schedule="nightly"]`},
		{"schedule", "schedules/nightly", `.ev li`},
		{"lanes", "lanes", `tr[data-lane="default"]`},
		{"lane", "lanes/models", `tr[data-place="7"]`},
		{"limits", "limits", `tr[data-limit="parts-api"]`},
		{"limit", "limits/parts-api", `tr[data-use=waiter]`},
		{"budgets", "budgets", `[data-spender]`},
		{"workers", "workers", `tr[data-worker="adjuster"]`},
		{"keepers", "keepers", `[data-keepers]`},
		{"bulk", "bulk", `main h1`},
		{"audit", "audit", `tr[data-action]`},
		{"settings", "settings", `main .card`},
	}
}

// The screenshots of the documentation, written on demand.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("FLOWFABRIC_SCREENSHOTS")
	if dir == "" {
		t.Skip("FLOWFABRIC_SCREENSHOTS names no folder")
	}
	p := newPlace(t, "embedded", func(c *server.Config) { c.SampleEvery = 100 * time.Millisecond })
	p.furnish(t)
	p.sampled(t, "lanes/models/history", 8)
	w := open(t, p.url)
	for _, form := range []struct {
		name, theme   string
		width, height int64
	}{{"light", "light", 1440, 900}, {"dark", "dark", 1440, 900}, {"phone", "light", 390, 844}, {"phone-dark", "dark", 390, 844}} {
		w.do(chromedp.EmulateViewport(form.width, form.height))
		w.goTo("settings")
		w.see("main .card")
		evaluate[any](w, `localStorage.setItem("flowfabric.prefs", JSON.stringify({theme: "`+form.theme+`"}))`)
		for _, page := range pages() {
			path := page.path
			if page.name == "inbox" {
				path = "inbox"
			}
			w.goTo(path)
			if form.width < 640 {
				w.see("main")
				w.await("document.querySelector('" + strings.ReplaceAll(page.seen, "[data-state=\"person\"]", "") + "') !== null")
			} else {
				w.see(page.seen)
			}
			w.settle()
			picture, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, page.name+"-"+form.name+".png"), indexed(t, picture), 0o644))
		}
	}
}

// settle waits until nothing is loading and the page has been drawn.
func (w *window) settle() {
	w.t.Helper()
	w.await(`document.querySelector(".loading") === null && document.querySelector("[data-live=open]") !== null &&
		(document.querySelector(".strip") === null || document.querySelector("[data-bar]") !== null)`)
	evaluate[any](w, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))`)
}
