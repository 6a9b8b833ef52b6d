package browsertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// largeNodes is the largest graph there is.
const largeNodes = 10_000

// took is how long a request took whose address has a part, in milliseconds.
func took(part string) string {
	return `Math.round(performance.getEntriesByType("resource").find((e) => e.name.includes("` + part + `")).duration)`
}

// A run of 10,000 nodes opens and can be moved.
func TestLargeRun(t *testing.T) {
	p := newPlace(t, "embedded")
	step := activity.New("large.step", func(_ context.Context, n int) (int, error) { return n, nil })
	f := flow.New[int, int]("large")
	layer := []flow.Ref[int]{flow.Node(f, "start", step, f.Input())}
	for made := 1; made < largeNodes-1; {
		var next []flow.Ref[int]
		for i := 0; i < 100 && made < largeNodes-1; i++ {
			next = append(next, flow.Node(f, fmt.Sprintf("n-%d", made), step, layer[i%len(layer)]))
			made++
		}
		layer = next
	}
	flow.Return(f, flow.Node(f, "end", step, layer[0], flow.AfterEach(layer[1:])))
	def, err := f.Build()
	require.NoError(t, err)
	_, err = runtime.Start(t.Context(), p.client, def, 1, runtime.WithID("one"), runtime.StartAt(time.Now().Add(time.Hour)))
	require.NoError(t, err)

	w := open(t, p.url)
	w.goTo("settings")
	w.see("main .card")
	begun := time.Now()
	w.goTo("runs/large/one")
	w.see(`[data-graph=canvas] canvas`)
	judge(t, "opening 10,000 nodes", time.Since(begun), time.Second)
	w.shows("10,000 nodes: those that are alike are drawn as one.")
	t.Logf("of that, the server took %v ms for the layout and %v ms for the first page of nodes",
		evaluate[float64](w, took("layout")), evaluate[float64](w, took("one?")))
	w.press("Draw every node")
	w.shows("Draw alike nodes as one")
	w.see(`[data-graph=canvas] canvas`)
	longest := evaluate[float64](w, `new Promise((done) => {
		const canvas = document.querySelector("canvas");
		let last = performance.now(), longest = 0, n = 0;
		const frame = () => {
			const now = performance.now();
			if (n > 1) longest = Math.max(longest, now - last);
			last = now;
			if (++n > 40) return done(longest);
			canvas.parentElement.dispatchEvent(new WheelEvent("wheel", { deltaX: 20, deltaY: 5, cancelable: true }));
			requestAnimationFrame(frame);
		};
		requestAnimationFrame(frame);
	})`)
	judge(t, "the longest of 40 frames while it moved", time.Duration(longest)*time.Millisecond, 50*time.Millisecond)
	w.see(`[data-minimap] canvas`)
	require.True(t, evaluate[bool](w, `(() => {
		const map = document.querySelector("[data-minimap]"), r = map.getBoundingClientRect(), at = map.querySelector("i");
		const before = at.style.left;
		map.dispatchEvent(new PointerEvent("pointerdown", { clientX: r.right - 2, clientY: r.bottom - 2, buttons: 1, pointerId: 1, bubbles: true }));
		return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(before !== at.style.left || at.style.width === map.style.width))));
	})()`), "the map moves the view")
	w.key("3")
	w.see(`tr[data-node="start"]`)
	w.shows("Show 200 more of 10,000")
}
