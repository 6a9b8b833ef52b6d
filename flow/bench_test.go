package flow_test

import (
	"fmt"
	"testing"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// BenchmarkBuild declares and builds the largest graph that there may be, 10,000 nodes with 50,000 edges, and
// ordinary ones.
func BenchmarkBuild(b *testing.B) {
	b.Run("census-10", func(b *testing.B) {
		for b.Loop() {
			if _, err := Census(10); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("10000-nodes-50000-edges", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := largest().Build(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkGraph(b *testing.B) {
	d, err := largest().Build()
	if err != nil {
		b.Fatal(err)
	}
	g := flowgraph.Of(d.Internal())
	data, err := g.MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("clone", func(b *testing.B) {
		for b.Loop() {
			flowgraph.Of(d.Internal())
		}
	})
	b.Run("hash", func(b *testing.B) {
		for b.Loop() {
			g.Hash()
		}
	})
	b.Run("marshal", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			_, _ = g.MarshalJSON()
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := flowgraph.ParseGraph(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// largest declares 4,990 nodes without and 5,010 with ten upstreams.
func largest() *flow.Builder[string, none] {
	f := flow.New[string, none]("largest")
	str := ident[string]("str")
	layers(f, str, 5000)
	for i := range 10_000 - 5010 {
		flow.Node(f, fmt.Sprint("lone", i), str, f.Input())
	}
	return f
}
