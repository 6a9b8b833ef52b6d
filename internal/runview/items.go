package runview

import (
	"context"
	"fmt"
	"iter"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Items yields the items of a map node in the order of the list, beginning at the index from. An error is yielded last.
func (r *Reader) Items(ctx context.Context, node string, from int) iter.Seq2[fabrictype.MapItem, error] {
	return func(yield func(fabrictype.MapItem, error) bool) {
		fail := func(err error) { yield(fabrictype.MapItem{}, r.Run.Errorf("items of node "+node+" of", err)) }
		child, err := r.childOf(ctx, node)
		if err != nil {
			fail(err)
			return
		}
		for next := max(0, from); child != nil && next < child.Total; {
			page, err := r.readItems(ctx, child, next)
			if err != nil {
				fail(err)
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
			next += len(page)
		}
	}
}

// childOf finds the run of a map; nil when its list was empty.
func (r *Reader) childOf(ctx context.Context, node string) (*fabrictype.ChildRun, error) {
	d, err := r.Describe(ctx, Request{})
	if err != nil {
		return nil, err
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Name != node {
			continue
		}
		spec := d.Node(node)
		switch {
		case spec == nil || spec.Map == nil:
			return nil, fmt.Errorf("%w: the node is not a map", engine.ErrNoItems)
		case n.Child != nil:
			return n.Child, nil
		case n.State == fabrictype.NodeSucceeded:
			return nil, nil
		}
		return nil, fmt.Errorf("%w: the node is %s", engine.ErrNoItems, n.State)
	}
	return nil, engine.ErrUnknownNode
}

func (r *Reader) readItems(ctx context.Context, child *fabrictype.ChildRun, next int) ([]fabrictype.MapItem, error) {
	p, err := r.Session.Core.FlowPartition(enginecore.FlowID(child.FlowID))
	if err != nil {
		return nil, err
	}
	core, err := r.Session.Library("maps")
	if err != nil {
		return nil, err
	}
	reply, err := core.ReadResults(ctx, enginerpc.ReadResultsCall{
		Partition: p,
		Executions: submit.ItemIDs(
			p, enginecore.FlowID(child.FlowID), next, min(child.Total, next+submit.ResultsPerCall),
		),
	})
	if err != nil {
		return nil, err
	}
	items := make([]fabrictype.MapItem, len(reply.Executions))
	for i, e := range reply.Executions {
		items[i] = fabrictype.MapItem{
			Index: next + i, Name: flowgraph.ItemName(next + i), State: fabrictype.NodeState(e.State),
			Attempts: int(e.Attempts),
		}
		items[i].Reason, items[i].Category = engine.PlainFailure(e.Reason, e.Category)
		if e.Outcome == "success" {
			items[i].Result = describe.Value(describe.JSONCodec, len(e.Result), e.Result)
		}
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("the engine returned none of the items %d to %d", next, child.Total-1)
	}
	return items, nil
}
