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
	f := flow.New[string, approvals.Decision]("release.approve")
	flow.Return(f, flow.Waitpoint[approvals.Decision](f, "review", activity.Signals("approve", "reject")))
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
	link := approvals.Path(waits[0].Token, "approve")
	for _, form := range []struct {
		name, theme   string
		width, height int64
	}{{"light", "light", 1440, 900}, {"dark", "dark", 1440, 900}, {"phone", "dark", 390, 844}} {
		w.do(chromedp.EmulateViewport(form.width, form.height))
		w.theme(form.theme)
		w.goTo(link)
		w.see(`input[name=choice]`)
		require.True(t, evaluate[bool](w, `document.documentElement.scrollWidth <= innerWidth`), "nothing is wider than the window")
		w.audit("approval in " + form.name)
		w.shoot("approval-" + form.name)
	}
	w.fill("who", "R. Castellanos")
	w.do(chromedp.Click(chromedp.CSS("button")))
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
