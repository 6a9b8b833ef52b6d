package browsertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/approvals"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The page of a signed link has the style of the console: light, dark and on a phone. It has no finding of axe-core,
// works under a prefix, and shows the answer afterwards.
func TestApprovalLink(t *testing.T) {
	p := newPlace(t, "embedded")
	f := flow.New[string, activity.Decision]("release.approve")
	flow.Return(f, flow.Waitpoint[activity.Decision](f, "review", activity.Signals("approve", "reject")))
	def, err := f.Build()
	require.NoError(t, err)
	run, err := runtime.Start(t.Context(), p.client, def, "x", runtime.WithID("v2"))
	require.NoError(t, err)
	await(t, run.RunRef, "review", "suspended")
	waits, err := run.Waitpoints(t.Context())
	require.NoError(t, err)
	links, err := approvals.New(p.client, approvals.Config{
		Title: "Releases",
		Question: func(*http.Request, activity.Token) string {
			return "Version 2 is on the test machines since yesterday. May it go live?"
		},
	})
	require.NoError(t, err)
	site := httptest.NewServer(http.StripPrefix("/a/b", links))
	t.Cleanup(func() { site.CloseClientConnections(); site.Close() })
	base := site.URL + "/a/b"
	w := open(t, base)
	link := approvals.Path(waits[0].Token)
	for _, form := range []struct {
		name, theme   string
		width, height int64
	}{{"light", "light", 1440, 900}, {"dark", "dark", 1440, 900}, {"phone", "dark", 390, 844}} {
		w.do(chromedp.EmulateViewport(form.width, form.height))
		w.theme(form.theme)
		w.goTo(link)
		w.see(`button[name=choice][value=reject]`)
		require.Zero(t, evaluate[int](w, `document.querySelectorAll(":checked, [type=radio]").length`), "nothing is chosen")
		require.True(t, evaluate[bool](w, `document.documentElement.scrollWidth <= innerWidth`), "nothing is wider than the window")
		w.audit("approval in " + form.name)
		w.shoot("approval-" + form.name)
	}
	w.fill("who", "R. Castellanos")
	w.do(chromedp.SendKeys(chromedp.CSS("#who"), "\r")) // the Enter key sends no answer, since it names none
	w.see(`button[name=choice]`)
	still, err := run.Waitpoints(t.Context())
	require.NoError(t, err)
	require.Equal(t, "open", string(still[0].State))
	w.do(chromedp.Click(chromedp.CSS(`button[value=approve]`)))
	w.see(".over")
	w.audit("answered approval")
	w.shoot("approval-answered-phone")
	d, err := run.Result(t.Context())
	require.NoError(t, err)
	require.Equal(t, "R. Castellanos", d.By)
}

// theme makes the page see a preference of the system.
func (w *window) theme(name string) {
	w.t.Helper()
	w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	}))
}

// shoot writes a picture if a folder for these is set.
func (w *window) shoot(name string) {
	w.t.Helper()
	dir := os.Getenv("FLOWFABRIC_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, name+".png"), indexed(w.t, picture), 0o644))
}

// release is a flow that two people approve.
func release(t *testing.T) *flow.Definition[string, []activity.Signal[activity.Decision]] {
	t.Helper()
	f := flow.New[string, []activity.Signal[activity.Decision]]("release.two")
	flow.Return(f, flow.Approval(f, "go-live", activity.Approvers(2), activity.Title("Go live?"), activity.Audience("managers")))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// Nothing is chosen before a person presses the button of a decision. On a server without logins, a person answers in
// several names; the page names the decision and the missing answers, and refuses an answer that does not count.
func TestTwoPeopleApprove(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		def := release(t)
		run, err := runtime.Start(t.Context(), p.client, def, "x", runtime.WithID("v2"))
		require.NoError(t, err)
		no, err := runtime.Start(t.Context(), p.client, def, "x", runtime.WithID("v3"))
		require.NoError(t, err)
		for _, r := range []*runtime.RunRef{run.RunRef, no.RunRef} {
			await(t, r, "go-live", "suspended")
		}
		w := open(t, p.url)
		w.tolerate() // the browser notes the refusal of an answer that does not count
		w.goTo("inbox")
		w.click(`[data-ask="v2"]`)
		w.see(`[data-choice="approve"].primary`)
		w.see(`[data-choice="reject"].destroy`)
		require.Zero(t, evaluate[int](w, `document.querySelectorAll(".answer input:checked, .answer [type=radio]").length`), "nothing is chosen")
		require.Equal(t, []string{"/by", "/comment"}, evaluate[[]string](w, `[...document.querySelectorAll(".answer [data-field]")].map((f) => f.dataset.field)`))
		w.audit("decision")
		w.shows("2 different people have to answer.")
		w.fill("answer-as", "ann")
		w.fill("/comment", "fine")
		w.click(`[data-choice="approve"]`)
		w.shows("You approved. One more approval is needed.")
		w.shows("1 of 2")

		second := open(t, p.url)
		second.tolerate()
		second.goTo("inbox")
		second.click(`[data-ask="v2"]`)
		second.shows("1 more person has to answer.")
		second.await(`document.querySelector("[name=answer-as]")?.value === "" || true`)
		second.fill("answer-as", "ann")
		second.click(`[data-choice="approve"]`)
		second.shows(`Your answer does not count: "ann" has answered before`)
		second.fill("answer-as", "bob")
		second.click(`[data-choice="approve"]`)
		second.shows("You approved. The run continues.")
		second.shows("2 of 2")
		second.gone(`[data-missing]`)
		second.gone(`[data-ask="v2"]`)
		approvals, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Len(t, approvals, 2)
		require.Equal(t, [2]string{"ann", "bob"}, [2]string{approvals[0].Source, approvals[1].Source})
		require.Equal(t, activity.Decision{Choice: "approve", Comment: "fine"}, approvals[0].Payload)

		second.click(`[data-ask="v3"]`)
		second.shows("2 different people have to answer.")
		second.click(`[data-choice="reject"]`)
		second.shows("You rejected. The run failed.")
		_, err = no.Result(t.Context())
		require.ErrorContains(t, err, "rejected by bob")
	})
}

// The dialog of a run's page has the same buttons.
func TestApprovalOnTheRunsPage(t *testing.T) {
	p := newPlace(t, "embedded")
	run, err := runtime.Start(t.Context(), p.client, release(t), "x", runtime.WithID("v2"))
	require.NoError(t, err)
	await(t, run.RunRef, "go-live", "suspended")
	w := open(t, p.url)
	w.goTo("runs/release.two/v2")
	w.see(`[data-node="go-live"][data-state="person"]`)
	w.click("#actions")
	w.press("Signal…")
	w.see(`dialog[open] [data-choice="reject"]`)
	w.click(`dialog[open] [data-choice="reject"]`)
	w.gone("dialog")
	w.shows("You rejected. The run failed.")
}
