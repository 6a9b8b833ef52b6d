package flow_test

import (
	"errors"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

func TestRetentionIsStored(t *testing.T) {
	t.Parallel()
	str := ident[string]("str")
	build := func(opts ...flow.Option) (*flow.Definition[string, none], error) {
		f := flow.New[string, none]("f", opts...)
		flow.Node(f, "n", str, f.Input())
		return f.Build()
	}
	plain, err := build()
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[string]bool{plain.Hash(): true}
	for _, opts := range [][]flow.Option{
		{flow.Retention(time.Hour)},
		{flow.Retention(time.Hour, fabrictype.OutcomeFailed)},
		{flow.Retention(flow.KeepForever, fabrictype.OutcomeSucceeded, fabrictype.OutcomeExpired), flow.Retention(time.Microsecond, fabrictype.OutcomeCancelled)},
	} {
		d, err := build(opts...)
		if err != nil {
			t.Fatal(err)
		}
		data, err := flowgraph.Of(d.Internal()).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		read, err := flowgraph.ParseGraph(data)
		if err != nil {
			t.Fatal(err)
		}
		if read.Keep != flowgraph.Of(d.Internal()).Keep || read.Hash() != d.Hash() || hashes[d.Hash()] {
			t.Errorf("%s: read as %+v", data, read.Keep)
		}
		hashes[d.Hash()] = true
	}
	d, _ := build(flow.Retention(time.Hour), flow.Retention(time.Microsecond, fabrictype.OutcomeFailed))
	if keep := flowgraph.Of(d.Internal()).Keep; keep.For(fabrictype.OutcomeSucceeded) != time.Hour || keep.For(fabrictype.OutcomeFailed) != time.Millisecond || keep.For("odd") != 0 {
		t.Errorf("got %+v", keep)
	}
	for _, opt := range []flow.Option{flow.Retention(time.Hour, "odd"), flow.Retention(flowgraph.MaxKeep + time.Second)} {
		if _, err := build(opt); !errors.Is(err, flowgraph.ErrRetention) || !errors.Is(err, flowgraph.ErrOption) {
			t.Errorf("got %v", err)
		}
	}
	g := flowgraph.Of(plain.Internal())
	g.Keep.Failed = time.Microsecond
	if err := g.Validate(); !errors.Is(err, flowgraph.ErrRetention) {
		t.Errorf("got %v", err)
	}
}
