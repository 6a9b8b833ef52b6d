package layout_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/layout"
)

// BenchmarkNew lays out graphs whose nodes are not alike. The aims are 20 ms for 1,000 nodes and 0.5 s for 10,000.
func BenchmarkNew(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		r := rand.New(rand.NewPCG(1, 2))
		near, far := randomGraph(r, n, 2*n, 50), randomGraph(r, n, 5*n, n)
		fan, chains := fanOut(n-2), chains(n)
		for _, x := range []struct {
			name string
			g    layout.Graph
			opts []layout.Option
		}{
			{"near", near, nil},
			{"far", far, nil},
			{"wide", fan, []layout.Option{layout.FoldBeyond(0)}},
			{"chains", chains, []layout.Option{layout.FoldBeyond(0)}},
			{"folded", fan, nil},
		} {
			b.Run(fmt.Sprintf("%s/nodes=%d", x.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					lay(b, x.g, x.opts...)
				}
			})
		}
	}
}

// BenchmarkSVG draws a graph that is laid out.
func BenchmarkSVG(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		l := lay(b, randomGraph(rand.New(rand.NewPCG(1, 2)), n, 2*n, 50))
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.SVG(nil)
			}
		})
	}
}

// chains is a graph of pipelines of ten nodes.
func chains(n int) layout.Graph {
	g := layout.Graph{Name: "chains", Input: "In"}
	for i := range n {
		var ups []string
		if i%10 > 0 {
			ups = []string{g.Nodes[i-1].Name}
		}
		g.Nodes = append(g.Nodes, node(fmt.Sprintf("n%d", i), ups...))
	}
	return g
}
