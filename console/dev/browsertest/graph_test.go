package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// criticalNodes are the nodes of the critical path that the table marks.
const criticalNodes = `[...document.querySelectorAll("tr[data-node]")].filter((r) => r.textContent.includes("critical")).map((r) => r.dataset.node).join()`

// The timeline and the critical path come from the attempts: they are the same without the events of the run, and no page
// says in the meantime that nothing has started.
func TestTimelineWithoutEvents(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		behind, err := url.Parse(p.url)
		require.NoError(t, err)
		var hold atomic.Bool // whether requests for events get no answer, as of a proxy that buffers; or status 502
		proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = behind.Scheme, behind.Host
		}}
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/events") {
				proxy.ServeHTTP(w, r)
				return
			}
			if hold.Load() {
				<-r.Context().Done()
				return
			}
			w.WriteHeader(http.StatusBadGateway)
		}))
		t.Cleanup(func() { front.CloseClientConnections(); front.Close() })

		read := func(base string) (bars, critical string) {
			w := open(t, base)
			w.tolerate()
			w.goTo("runs/claims.assess/CLM-1?tab=timeline")
			w.see(`[data-bar="review"] .p-person`)
			w.see(`[data-bar="extract"] .p-failed`)
			w.see(`[data-bar="bank-check"] .p-delay`)
			require.NotContains(t, w.text(), "Nothing has started yet")
			if base != p.url {
				w.see(`[data-timeline=attempts]`)
			}
			bars = evaluate[string](w, `[...document.querySelectorAll("[data-bar]")].map((b) => b.dataset.bar).join()`)
			w.key("3")
			w.see(`tr[data-node="review"]`)
			return bars, evaluate[string](w, criticalNodes)
		}
		bars, critical := read(p.url)
		require.Equal(t, "split,policy,pages,extract,fraud-score,bank-check,parts,review,price-parts", sorted(bars, "split,policy,pages,extract,fraud-score,bank-check,parts,review,price-parts"))
		require.Contains(t, critical, "settle")
		for _, held := range []bool{true, false} {
			hold.Store(held)
			without, path := read(front.URL + "/a/b/")
			require.ElementsMatch(t, strings.Split(bars, ","), strings.Split(without, ","))
			require.Equal(t, critical, path)
		}
	})
}

// The records of the nodes have the times of a run whose log was trimmed.
func TestTimelineOfTrimmedLog(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		run := p.start(t, "CLM-1")
		await(t, run.RunRef, "review", "suspended")
		await(t, run.RunRef, "bank-check", "retry")
		conn := engine.ConnOf(p.engine.Internal())
		partition, err := conn.FlowPartition(run.FlowID())
		require.NoError(t, err)
		b := conn.Client().B
		for _, err := range []error{
			conn.Client().Do(t.Context(), b().Ltrim().Key(conn.Keys().FlowEvents(partition, run.FlowID())).Start(-1).Stop(-1).Build()).Error(),
			conn.Client().Do(t.Context(), b().Del().Key(conn.Keys().FlowEventsKept(partition, run.FlowID())).Build()).Error(),
		} {
			require.NoError(t, err)
		}
		d, err := run.Describe(t.Context(), runtime.DescribeOptions{Attempts: true})
		require.NoError(t, err)
		for _, n := range d.Nodes {
			require.True(t, n.Name != "extract" || len(n.History) == 0, "the log has no attempt")
		}
		w := open(t, p.url)
		w.goTo("runs/claims.assess/CLM-1?tab=timeline")
		w.see(`[data-bar="split"]`)
		for node, phase := range map[string]string{
			"split": "succeeded", "extract": "succeeded", "review": "person", "bank-check": "delay", "price-parts": "children",
		} {
			require.True(t, evaluate[bool](w, `document.querySelector('[data-bar="`+node+`"] .p-`+phase+`') !== null`), "%s: %s", node, w.text())
		}
		require.NotContains(t, w.text(), "Nothing has started yet")
		w.key("3")
		w.see(`tr[data-node="review"]`)
		critical := evaluate[string](w, criticalNodes)
		require.Contains(t, critical, "extract")
		require.Contains(t, critical, "settle")
	})
}

// In contract mode, the timeline and the critical path are there at once, too.
func TestTimelineInContractMode(t *testing.T) {
	b := enginetest.NewContract(t, testserver.Embedded)
	var failed atomic.Bool
	read := activity.New("contract.read", func(_ context.Context, n int) (int, error) {
		if !failed.Swap(true) {
			return 0, errors.New("no connection")
		}
		return n, nil
	}, activity.Retry(activity.RetryPolicy{Attempts: 3, First: time.Millisecond, Factor: 1}))
	held := activity.New("contract.held", func(ctx context.Context, n int) (int, error) {
		<-ctx.Done()
		return n, ctx.Err()
	})
	f := flow.New[int, int]("contract")
	first := flow.Node(f, "read", read, f.Input())
	flow.Return(f, flow.Node(f, "held", held, first))
	flow.Node(f, "other", read, f.Input())
	def, err := f.Build()
	require.NoError(t, err)
	run, err := runtime.Start(t.Context(), b.Client, def, 1, runtime.WithID("c-1"))
	require.NoError(t, err)
	b.Worker(t, def.Handlers(), runtime.WorkerConfig{Grace: -1})
	b.Keeper(t)
	await(t, run.RunRef, "held", "started")
	await(t, run.RunRef, "other", "success")
	p := &place{client: b.Client, engine: b.Engine}
	p.serve(t)
	w := open(t, p.url)
	w.tolerate()
	w.goTo("runs/contract/c-1?tab=timeline")
	w.see(`[data-bar]`)
	require.NotContains(t, w.text(), "Nothing has started yet")
	for node, phase := range map[string]string{"read": "succeeded", "held": "running", "other": "succeeded"} {
		require.True(t, evaluate[bool](w, `document.querySelector('[data-bar="`+node+`"] .p-`+phase+`') !== null`), "%s: %s", node, w.text())
	}
	w.key("3")
	w.see(`tr[data-node="held"]`)
	require.Equal(t, "read,held", evaluate[string](w, criticalNodes))
}

// sorted returns the names of a list in the order of another one.
func sorted(list, order string) string {
	var out []string
	for _, name := range strings.Split(order, ",") {
		if strings.Contains(","+list+",", ","+name+",") {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}

// unreadable lists texts of a graph that are smaller than 11 pixels, and labels that lie on a line.
const unreadable = `(() => {
	const svg = document.querySelector("svg.graph"), found = [];
	const k = new DOMMatrix(getComputedStyle(svg.querySelector("g")).transform).a || svg.querySelector("g").getCTM().a;
	for (const text of svg.querySelectorAll("text"))
		if (parseFloat(getComputedStyle(text).fontSize) * k < 11) found.push(text.textContent + " is too small: " + k);
	const boxes = [...svg.querySelectorAll("text.case")].map((e) => [e.textContent, e.getBoundingClientRect()]);
	for (const path of svg.querySelectorAll(".edge path:first-child")) {
		const m = path.getScreenCTM();
		for (let at = 0, end = path.getTotalLength(); at <= end; at += 1) {
			const p = path.getPointAtLength(at).matrixTransform(m);
			for (const [name, r] of boxes)
				if (p.x > r.left + 1 && p.x < r.right - 1 && p.y > r.top + 2 && p.y < r.bottom - 1) found.push(name + " lies on a line");
		}
	}
	for (const node of svg.querySelectorAll(".gnode")) {
		const right = node.querySelector(".box").getBoundingClientRect().right;
		for (const text of node.querySelectorAll(".name, .status"))
			if (text.getBoundingClientRect().right > right) found.push(text.textContent + " is wider than its node");
	}
	return [...new Set(found)].join("\n");
})()`

// Graphs are drawn in a size that can be read: wide ones continue in another row, and labels lie on no line. A graph
// without a run has no buttons about runs.
func TestGraphsAreReadable(t *testing.T) {
	p := newPlace(t, "embedded")
	step := activity.New("wide.step", func(_ context.Context, n int) (int, error) { return n, nil })
	f := flow.New[int, int]("wide", flow.Describe("Goes on for long, and decides in the middle."))
	at := flow.Node(f, "a-long-way-to-begin-with", step, f.Input())
	for i := range 9 {
		at = flow.Node(f, fmt.Sprintf("step-%d-of-the-long-way", i), step, at)
	}
	large := flow.When(at, "is-it-large", func(n int) bool { return n > 3 })
	yes := flow.Node(f, "ask-a-person", step, at, large)
	flow.Node(f, "do-it-at-once", step, at, large.Not())
	flow.Return(f, flow.Node(f, "end", step, yes))
	def, err := f.Build()
	require.NoError(t, err)
	require.NoError(t, p.client.Publish(t.Context(), runtime.Publication{Flow: def}))
	_, err = runtime.Start(t.Context(), p.client, def, 7, runtime.WithID("one"))
	require.NoError(t, err)
	p.settled(t, "CLM-1")
	w := open(t, p.url)
	for _, path := range []string{"flows/wide", "flows/claims.assess", "runs/wide/one", "runs/claims.assess/CLM-1?node=review"} {
		w.goTo(path)
		w.see(`svg.graph .gnode`)
		require.Empty(t, evaluate[string](w, unreadable), path)
	}
	require.Positive(t, evaluate[int](w, `document.querySelectorAll(".tools .seg button").length`))
	w.press("Critical path")
	w.goTo("flows/wide")
	w.see(`svg.graph .gnode`)
	require.NotContains(t, w.text(), "Critical path")
	require.Equal(t, 14, evaluate[int](w, `document.querySelectorAll("svg.graph .gnode").length`))
	w.gone(`.folds, .tools [aria-label="What the graph shows"]`)
	w.await(`[...document.querySelectorAll("svg.graph .gnode")].every((n) => n.getBoundingClientRect().right <= document.querySelector(".canvas").getBoundingClientRect().right)`)
}

// A graph of 2,000 nodes opens folded: alike nodes are one, with their number and states. A fold lists its nodes.
func TestFoldedGraph(t *testing.T) {
	p := newPlace(t, "embedded")
	const parts = 1000
	step := activity.New("claims.scan", func(_ context.Context, n int) (int, error) { return n, nil }) // the worker has it
	f := flow.New[int, int]("folds")
	first := flow.Node(f, "begin", step, f.Input())
	var ends []flow.Ref[int]
	for i := range parts {
		made := flow.Node(f, fmt.Sprintf("make-%d", i+1), step, first)
		ends = append(ends, flow.Node(f, fmt.Sprintf("check-%d", i+1), step, made))
	}
	flow.Return(f, flow.Node(f, "end", step, first, flow.AfterEach(ends)))
	def, err := f.Build()
	require.NoError(t, err)
	_, err = runtime.Start(t.Context(), p.client, def, 1, runtime.WithID("later"))
	require.NoError(t, err)

	w := open(t, p.url)
	w.goTo("runs/folds/later")
	w.see(`[data-graph=svg] .gnode`)
	w.await(`document.querySelectorAll("svg.graph .gnode").length === 4`)
	w.shows("2,002 nodes: those that are alike are drawn as one.")
	w.await(`[...document.querySelectorAll(".gnode text")].filter((e) => e.textContent === "×1,000").length === 2`)
	require.Empty(t, evaluate[string](w, unreadable))
	w.await(`document.querySelectorAll('.strip [data-bar][data-count="1000"]').length === 2`)
	w.await(`[...document.querySelectorAll(".gnode .status")].filter((e) => e.textContent === "all succeeded").length === 2`)
	w.click(`.gnode[data-node^="make-1"]`)
	w.shows("1,000 of 2,002 nodes")
	w.await(`document.querySelectorAll("tr[data-node^=make-]").length === 200`)
	require.Zero(t, evaluate[int](w, `document.querySelectorAll("tr[data-node^=check-]").length`))
	w.key("1")
	w.press("Draw every node")
	w.see(`[data-graph=canvas]`)
	w.press("Draw alike nodes as one")
	w.see(`[data-graph=svg]`)

	chain := flow.New[int, int]("chain") // in which no nodes are alike
	at := chain.Input()
	for i := range 210 {
		at = flow.Node(chain, fmt.Sprintf("step-%d", i+1), step, at)
	}
	flow.Return(chain, at)
	def, err = chain.Build()
	require.NoError(t, err)
	_, err = runtime.Start(t.Context(), p.client, def, 1, runtime.WithID("long"))
	require.NoError(t, err)
	w.goTo("runs/chain/long")
	w.await(`document.querySelectorAll("svg.graph .gnode").length === 210`)
	w.gone(`.folds`)
}

// The table of the nodes is sorted by its columns and filtered by words and states, and says which worker ran a node.
func TestNodesAreFoundInTheTable(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		w := open(t, p.url)
		w.goTo("runs/claims.assess/CLM-1?tab=table")
		w.see(`tr[data-node="review"]`)
		names := `[...document.querySelectorAll("tr[data-node]")].map((r) => r.dataset.node).join()`
		w.shows("14 nodes")
		require.Equal(t, "adjuster", evaluate[string](w, `document.querySelector('tr[data-node="extract"] td:last-child').textContent`))
		w.fill("nodes", "503")
		w.await(names + ` === "bank-check"`)
		w.shows("1 of 14 nodes")
		w.fill("nodes", "")
		w.fill("node_state", "person")
		w.await(names + ` === "review"`)
		w.fill("node_state", "succeeded")
		w.await(names + `.split(",").length === 6`)
		w.fill("node_state", "")
		w.press("Attempts")
		w.await(names + `.startsWith("extract,")`)
		w.press("State")
		w.await(names + `.startsWith("review,")`)
		w.press("Node")
		w.await(names + `.startsWith("split,")`)
		w.fill("nodes", "nowhere")
		w.shows("No node matches.")
		w.press("Show all nodes")
		w.shows("14 nodes")
	})
}
