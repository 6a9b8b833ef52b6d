package layout_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/layout"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	if got != string(want) {
		t.Errorf("%s differs: compare both, and run the test with -update if the new one is right", path)
	}
}

// node returns a node that runs an activity after others.
func node(name string, ups ...string) layout.Node {
	n := layout.Node{Name: name, Kind: layout.Activity, Text: "claims." + name}
	for _, up := range ups {
		n.Upstreams = append(n.Upstreams, layout.Edge{Node: up, Kind: layout.OnSuccess, Data: true})
	}
	return n
}

// claims is a flow with most features of flows.
func claims() layout.Graph {
	page := layout.Graph{Name: "page", Nodes: []layout.Node{node("read"), node("classify", "read")}}
	pages, prices, review, rescan := node("pages"), node("price-parts", "extract"), node("review", "fraud-score"), node("re-scan", "pages")
	pages.Kind, pages.Text, pages.Inner, pages.Count = layout.Map, "flow page for each item", &page, 2
	prices.Kind, prices.Text = layout.Map, "claims.price for each item"
	review.Kind, review.Text = layout.Waitpoint, "waits for 2 of approve or reject"
	rescan.Upstreams[0] = layout.Edge{Node: "pages", Kind: layout.OnFailure}
	rollback := node("roll-back", "settle")
	rollback.Upstreams[0] = layout.Edge{Node: "settle", Kind: layout.OnFailure}
	archive := node("archive", "settle")
	archive.Upstreams[0], archive.Finally = layout.Edge{Node: "settle", Kind: layout.Always}, true
	return layout.Graph{
		Name: "claims.assess", Description: "Assesses a claim.", Input: "Claim", Result: "Settlement", Return: "settle",
		Nodes: []layout.Node{
			rescan, pages, node("policy"), node("extract", "pages", "policy"), node("fraud-score", "extract"), prices,
			node("bank-check", "extract"), review, node("settle", "review", "price-parts", "bank-check"), rollback,
			node("notify", "settle"), archive,
		},
	}
}

// claimStates is a run of it.
func claimStates() map[string]layout.NodeState {
	return map[string]layout.NodeState{
		"pages":       {State: layout.Succeeded, Text: "24 items · 41 s", Progress: layout.Progress{Succeeded: 24, Total: 24}},
		"policy":      {State: layout.Succeeded, Text: "0.2 s"},
		"re-scan":     {State: layout.Skipped, Text: "pages succeeded"},
		"extract":     {State: layout.Succeeded, Text: "after 3 attempts"},
		"fraud-score": {State: layout.Succeeded, Text: "0.91 · 6.3 s"},
		"price-parts": {
			State: layout.Running, Text: "187 of 240 items",
			Progress: layout.Progress{Succeeded: 180, Failed: 7, Running: 20, Total: 240},
		},
		"bank-check": {State: layout.Retrying, Text: "attempt 3 in 12 s"},
		"review":     {State: layout.WaitingForPerson, Text: "1 of 2 answers"},
	}
}

// fanOut is one node, n equal nodes after it, and one node after those.
func fanOut(n int) layout.Graph {
	g := layout.Graph{Name: "census", Input: "Source", Nodes: []layout.Node{node("scan")}}
	sum := node("sum")
	for i := range n {
		count := node(fmt.Sprintf("count-%d", i), "scan")
		count.Text = "census.count"
		g.Nodes = append(g.Nodes, count)
		sum.Upstreams = append(sum.Upstreams, layout.Edge{Node: count.Name, Kind: layout.OnSuccess, Data: true})
	}
	g.Nodes = append(g.Nodes, sum)
	return g
}

func lay(t testing.TB, g layout.Graph, opts ...layout.Option) *layout.Layout {
	t.Helper()
	l, err := layout.New(g, opts...)
	require.NoError(t, err)
	return l
}

func TestGolden(t *testing.T) {
	t.Parallel()
	allStates := make(map[string]layout.NodeState)
	var each layout.Graph
	for _, state := range []layout.State{
		layout.NotStarted, layout.Queued, layout.Running, layout.WaitingForPerson, layout.Delayed, layout.Retrying, layout.Blocked,
		layout.Paused, layout.NoWorker, layout.Succeeded, layout.Failed, layout.Cancelled, layout.Skipped, layout.Expired,
	} {
		each.Nodes = append(each.Nodes, node(string(state)))
		allStates[string(state)] = layout.NodeState{State: state}
	}
	folded := map[string]layout.NodeState{"scan": {State: layout.Succeeded}, "count-0": {State: layout.Failed}}
	for i := 1; i < 12; i++ {
		folded[fmt.Sprintf("count-%d", i)] = layout.NodeState{State: layout.Succeeded}
	}
	folded["count-12"] = layout.NodeState{State: layout.Running}
	for name, svg := range map[string]string{
		"claims.svg":      lay(t, claims()).SVG(nil),
		"claims-run.svg":  lay(t, claims()).SVG(claimStates()),
		"claims-down.svg": lay(t, claims(), layout.TopDown()).SVG(claimStates()),
		"claims-open.svg": lay(t, claims(), layout.Open("pages")).SVG(claimStates()),
		"down-open.svg":   lay(t, claims(), layout.TopDown(), layout.Open("pages"), layout.FitText()).SVG(nil),
		"folded.svg":      lay(t, fanOut(20)).SVG(nil),
		"folded-run.svg":  lay(t, fanOut(20)).SVG(folded),
		"unfolded.svg":    lay(t, fanOut(20), layout.Open("count-3")).SVG(folded),
		"states.svg":      lay(t, each, layout.FoldBeyond(0)).SVG(allStates),
	} {
		requireXML(t, svg)
		golden(t, name, svg)
	}
}

// requireXML checks that a document is well-formed.
func requireXML(t testing.TB, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}
