package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// misfits lists texts of a page that do not fit: a page, or a part of it, that scrolls to the side, heads of a table that
// overlap, and headings, names, states, times and numbers that are cut off. Graphs, JSON and the list of tabs may scroll.
const misfits = `(() => {
	const found = [], shown = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
	const free = ".json, .canvas, .tabs, .minimap, textarea, .sr, thead";
	const root = document.documentElement;
	if (root.scrollWidth > innerWidth) found.push("the page is " + root.scrollWidth + " wide");
	for (const e of document.querySelectorAll("main *")) {
		const by = getComputedStyle(e).overflowX;
		if ((by === "auto" || by === "scroll") && e.scrollWidth > e.clientWidth + 1 && shown(e) && !e.closest(free))
			found.push(e.tagName + "." + e.className + " scrolls to the side: " + e.scrollWidth + " in " + e.clientWidth);
	}
	const heads = [...document.querySelectorAll("th")].filter((h) => shown(h) && h.getBoundingClientRect().width > 2);
	const boxOf = (e) => { const r = document.createRange(); r.selectNodeContents(e); return r.getBoundingClientRect(); };
	heads.forEach((a, i) => heads.slice(i + 1).forEach((b) => {
		const x = boxOf(a), y = boxOf(b);
		if (x.width && y.width && x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 1 && y.top < x.bottom - 1)
			found.push("heads overlap: " + a.textContent + ", " + b.textContent);
	}));
	for (const e of document.querySelectorAll("h1, h2, h3, th, .strong, .st, time, td.num, .now, .crumb b, .tag")) {
		if (!shown(e) || !e.textContent.trim() || e.closest(free)) continue;
		const text = boxOf(e);
		if (text.width < 2) continue;
		for (let p = e; p && p.tagName !== "MAIN"; p = p.parentElement) {
			const by = getComputedStyle(p), box = p.getBoundingClientRect();
			if (by.overflowX === "visible" || p.matches(free)) continue;
			if (text.right > box.right + 1 || text.left < box.left - 1) {
				found.push(e.tagName + "." + e.className + " is cut off: " + e.textContent.trim().slice(0, 60) + " by " + p.className);
				break;
			}
		}
		if (text.right > innerWidth + 1) found.push(e.tagName + " is outside: " + e.textContent.trim().slice(0, 60));
	}
	return [...new Set(found)].slice(0, 12).join("\n");
})()`

// Every page fits a phone: nothing scrolls to the side or is cut off, and axe-core finds nothing.
func TestPhone(t *testing.T) {
	p := newPlace(t, "embedded")
	p.furnish(t)
	w := open(t, p.url)
	w.do(chromedp.EmulateViewport(390, 844))
	for _, page := range append(pages(), struct{ name, path, seen string }{
		"run of a person", "runs/claims.assess/CLM-20931", `tr[data-node="review"]`,
	}) {
		w.goTo(page.path)
		w.await(`document.querySelector('` + page.seen + `') !== null || document.querySelector(".panel") !== null`)
		w.settle()
		require.Empty(t, evaluate[string](w, misfits), "page %s", page.name)
		w.audit(page.name)
	}
}

// fits checks the page that is open as TestAccessibility and TestPhone check all pages: in a wide window, and on a phone.
func (w *window) fits(name string) {
	w.t.Helper()
	w.audit(name)
	w.do(chromedp.EmulateViewport(390, 844))
	w.settle()
	require.Empty(w.t, evaluate[string](w, misfits), "page %s", name)
	w.audit(name + " on a phone")
	w.do(chromedp.EmulateViewport(1440, 900))
}
