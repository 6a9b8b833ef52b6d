package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Many windows show runs at the same time. A browser keeps six connections to a server without HTTP/2, and the windows
// share their streams, so another page still loads, and all of them are live.
func TestManyWindows(t *testing.T) {
	p := newPlace(t, "embedded")
	close(p.handed)
	const count = 8
	for i := range count {
		p.settled(t, fmt.Sprintf("CLM-%d", i))
	}
	w := open(t, p.url)
	w.goTo("runs/claims.assess/CLM-0")
	w.see(`[data-bar="review"]`)
	var others []*window
	for i := 1; i < count; i++ {
		ctx, stop := chromedp.NewContext(w.ctx)
		t.Cleanup(stop)
		require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(1440, 900)))
		o := &window{t: t, ctx: ctx, base: p.url}
		o.goTo(fmt.Sprintf("runs/claims.assess/CLM-%d", i))
		o.see(`[data-bar="review"]`)
		require.False(t, evaluate[bool](o, `document.hidden`))
		others = append(others, o)
	}
	for _, o := range others {
		o.await(`document.querySelector("[data-live=open]") !== null`)
	}
	ctx, stop := chromedp.NewContext(w.ctx)
	t.Cleanup(stop)
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(1440, 900))) // as in the others: a tab without it is never drawn
	ninth := &window{t: t, ctx: ctx, base: p.url}
	ninth.goTo("runs")
	ninth.see(`tr[data-run="CLM-3"]`)
	last := others[len(others)-1]
	require.NoError(t, p.client.Run("claims.assess", fmt.Sprintf("CLM-%d", count-1)).Cancel(t.Context(), ""))
	last.await(`document.querySelector(".runhead .st").textContent === "Cancelled"`)
	last.key("4")
	last.see(`tr[data-event="flow_cancelled"], tr[data-event="cancelled"]`)
	workers := 0
	infos, err := chromedp.CallBrowser(w.ctx, target.GetTargets, target.GetTargetsParams{})
	require.NoError(t, err)
	for _, info := range infos.TargetInfos {
		if info.Type == "shared_worker" && info.URL == p.url+"assets/stream.js" {
			workers++
		}
	}
	require.LessOrEqual(t, workers, 1)
}
