package browsertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// Work that no worker takes is red in the console: in the navigation, the list of runs, the lanes, the
// lane, the workers and the health page, all with the same number.
func TestStuckWorkIsRedEverywhere(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.queue(t) // seven nodes wait on lane "models"
		w := open(t, p.url)
		w.goTo("runs")
		w.await(`document.querySelector('[data-stuck="unserved"] b')?.textContent === "7"`)
		w.await(`document.querySelector('[data-stuck="stuck"] b')?.textContent === "7"`)
		w.await(`document.querySelector('.nav a[href$="/health"] .n.bad')?.textContent.startsWith("1")`)
		w.goTo("lanes")
		w.see(`tr[data-lane="models"] .c-lost`)
		w.shows("7 nodes wait, and no worker serves the lane")
		w.goTo("lanes/models")
		w.see(`[data-health="unserved"]`)
		w.await(`[...document.querySelectorAll(".stats > div")].some((d) => d.textContent === "No worker7")`)
		w.goTo("workers")
		w.see(`[data-unserved="models"]`)
		w.shows("No worker takes 7 nodes")
		w.goTo("health")
		w.see(`[data-finding="worker.none"] .c-bad`)
		w.shows("7 nodes wait, and no worker serves the lane")
		w.press("Show the lane")
		w.see(`[data-health="unserved"]`)
		w.goTo("keepers")
		w.see(`[data-keepers=ok]`)
		w.shows("Keepers work: no task is late.")
		require.Zero(t, evaluate[int](w, `[...document.querySelectorAll("tr[data-task]")].filter((r) => r.checkVisibility()).length`))
		w.click(`details summary`)
		w.see(`tr[data-task]`)
		w.fits("keepers with their tasks")
	})
}

// A paused lane in which runs of the list wait is named above the list, and counted in the navigation.
func TestPausedLaneIsSaid(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		require.NoError(t, p.client.As("r.castellanos").Lane("default").Pause(t.Context(), "the bank is away"))
		w := open(t, p.url)
		w.goTo("runs")
		w.gone(`[data-paused-lane]`)
		p.start(t, "CLM-1")
		p.start(t, "CLM-2")
		w.goTo("runs")
		w.see(`[data-paused-lane="default"]`)
		w.shows("Lane default is paused by r.castellanos")
		w.shows("2 runs of this list wait until it is resumed.")
		w.await(`document.querySelector('.nav a[href$="/health"] .n.bad')?.textContent.startsWith("1")`)
		w.fits("runs of a paused lane")
		w.click(`[data-paused-lane] a`)
		w.see(`[data-health="paused"]`)
		require.NoError(t, p.client.Lane("default").Resume(t.Context()))
		w.goTo("runs")
		w.see(`tr[data-run="CLM-1"]`)
		w.gone(`[data-paused-lane]`)
	})
}

// A page reports within seconds that the engine hangs although the server answers, and that it answers again.
func TestEngineHangs(t *testing.T) {
	engine := testserver.Start(t, testserver.Options{Kind: testserver.Valkey})
	p := newPlaceAt(t, engine.URL())
	w := open(t, p.url)
	w.goTo("runs")
	w.see(`[data-live=open]`)
	w.tolerate()
	require.NoError(t, engine.Freeze())
	w.see(`[data-live=stalled]`)
	w.shows("The engine has not answered for")
	require.NoError(t, engine.Thaw())
	w.see(`[data-live=open]`)
}

// No time is wider than its box, on any page, on the day of the runs, the next day and a year later, on a desk and on a
// phone.
func TestTimesFit(t *testing.T) {
	p := newPlace(t, "embedded")
	p.furnish(t)
	p.settled(t, "CLM-20800")
	require.NoError(t, p.client.Run("claims.assess", "CLM-20800").Cancel(t.Context(), ""))
	for _, ahead := range []time.Duration{24 * time.Hour, 366 * 24 * time.Hour} {
		w := open(t, p.url)
		w.later(ahead)
		for _, width := range []int{1440, 390} {
			w.do(chromedp.EmulateViewport(int64(width), 900))
			for _, one := range pages() {
				if width < 400 && strings.HasPrefix(one.seen, "[data-") { // a phone shows no graph at first
					continue
				}
				w.goTo(one.path)
				w.await(fmt.Sprintf("!!document.querySelector(%q)", one.seen))
				bad := evaluate[[]string](w, `[...document.querySelectorAll("main time")].filter((e) => e.getClientRects().length)
					.filter((e) => {
						const box = e.closest("td, li, dd, p, div"), r = e.getBoundingClientRect(), b = box.getBoundingClientRect();
						return r.right > b.right + 1 || r.left < b.left - 1 || box.matches("td") && box.scrollWidth > box.clientWidth;
					}).map((e) => e.textContent + " in " + e.parentElement.outerHTML.slice(0, 120))`)
				require.Empty(t, bad, "page %s, %d px, %s ahead", one.name, width, ahead)
			}
		}
	}
}

// later makes the pages of a window believe that it is later.
func (w *window) later(ahead time.Duration) {
	w.t.Helper()
	_, err := chromedp.Call(w.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: fmt.Sprintf(`{ const Now = Date, ahead = %d;
			Date = class extends Now { constructor(...a) { a.length ? super(...a) : super(Now.now() + ahead); } static now() { return Now.now() + ahead; } }; }`,
			ahead.Milliseconds()),
	})
	require.NoError(w.t, err)
}
