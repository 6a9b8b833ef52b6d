package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// decide answers the review of a claim.
func (p *place) decide(t *testing.T, id, reason string) {
	t.Helper()
	run := p.start(t, id)
	await(t, run.RunRef, "review", "suspended")
	_, err := run.SignalWait(t.Context(), runtime.WaitName{Node: "review"}, runtime.Signal{Name: "answer", Payload: verdict{Amount: 18420, Reason: reason}})
	require.NoError(t, err)
	await(t, run.RunRef, "archive", "success")
}

// The page of a failed run says which code ran, offers the rerun where it names the failure, and compares the run with the
// last one that succeeded by one click, with the differences inside values.
func TestFailedRunIsUnderstood(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		close(p.bank)
		close(p.handed)
		p.decide(t, "CLM-1", "all good")
		p.decide(t, "CLM-2", "fail")
		w := open(t, p.url)
		w.goTo("runs/claims.assess/CLM-2?node=settle")
		w.see(`[data-node="settle"][data-state="failed"]`)
		w.see(`.panel [data-build]`)
		w.shows("Error: payment")
		require.Contains(t, evaluate[string](w, `document.querySelector("[data-build]").textContent`), "console/dev")
		w.see(`.panel details[data-attempt="1"][open]`)
		hash := evaluate[string](w, `document.querySelector("[data-hash]").textContent`)
		w.goTo("runs/claims.assess/CLM-2?tab=compare")
		w.press("Last success of this flow")
		w.see(`[data-other="CLM-1"]`)
		w.shows("the latest that succeeded")
		w.shows("/claim")
		w.await(`document.querySelectorAll("pre .removed[data-mark=changed]").length > 0 && document.querySelectorAll("pre .added[data-mark=changed]").length > 0`)
		w.click(`[data-differs="review"]`)
		w.await(`document.querySelector("tr.detail")?.textContent.includes('"all good"')`)
		w.press("Rerun failed…")
		w.see("dialog[open]")
		w.press("Rerun failed")
		w.gone("dialog")
		w.await(`[...document.querySelectorAll(".toast a")].some((a) => a.textContent === "Before and after")`)
		w.goTo("runs/claims.assess/CLM-2?node=settle")
		w.await(`document.querySelector("[data-generations]")?.dataset.generations === "2"`)
		w.shows("Attempts of rerun 1")
		require.Equal(t, 2, evaluate[int](w, `document.querySelectorAll(".panel details[data-attempt='1']").length`))
		w.click("[data-hash]")
		w.see(`[data-version="` + hash + `"][aria-current=true] [data-runs-of]`)
	})
}

// The button that saves a schedule is in view, however high its form is.
func TestSaveIsInView(t *testing.T) {
	p := newPlace(t, "embedded")
	p.furnish(t)
	w := open(t, p.url)
	w.do(chromedp.EmulateViewport(1200, 560))
	w.goTo("schedules/nightly")
	w.press("Edit…")
	w.see(`dialog[open] [data-field="/pages"]`)
	require.True(t, evaluate[bool](w, `(() => {
		const b = [...document.querySelectorAll("dialog[open] button")].find((b) => b.textContent === "Save schedule"), r = b.getBoundingClientRect();
		const top = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
		return r.bottom <= innerHeight && r.top >= 0 && b.contains(top);
	})()`))
}
